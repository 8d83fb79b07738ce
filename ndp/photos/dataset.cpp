#include "ndp/photos/dataset.h"

#include <algorithm>
#include <unordered_map>

#include "ndp/photos/decode.h"
#include "ndp/photos/photo_source.h"
#include "ndp/photos/upload_path.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kPage = 4096;

Result<std::vector<std::string>> directories_in(Fs& fs, const std::string& root) {
  const Result<std::vector<std::string>> names = fs.list(root);
  if (!names.ok()) return names.status();
  std::vector<std::string> directories;
  for (const std::string& name : *names) {
    if (name.starts_with('.')) continue;
    const Result<FileInfo> info = fs.info(join(root, name));
    // A link to nothing is no class.
    if (!info.ok() && info.status().code() != Code::kNotFound) return info.status();
    if (info.ok() && info->is_directory) directories.push_back(name);
  }
  return directories;
}

Status add_class(Fs& fs, const std::string& name, LabelledPhotos& photos) {
  DirectorySource source(fs, join(photos.root, name));
  const auto label = static_cast<int>(photos.classes.size());
  const size_t before = photos.items.size();
  const int64_t uploads = photos.uploads;
  int64_t skipped = 0;
  std::string cursor;
  do {
    const Result<PhotoPage> page = source.list(cursor, kPage);
    if (!page.ok()) return page.status();
    if (!page->problems.empty()) {
      return {Code::kIo,
              "class folder " + join(photos.root, name) + ": " + page->problems.front().message};
    }
    for (const PhotoRef& ref : page->photos) {
      const PhotoFormat format = format_of_extension(extension_of(ref.path));
      if (is_upload_path(join(source.root(), ref.path))) {
        ++photos.uploads;
      } else if (can_decode(format)) {
        photos.items.push_back({join(name, ref.path), label});
      } else {
        ++photos.skipped[std::string(name_of(format))];
        ++skipped;
      }
    }
    cursor = page->next;
  } while (!cursor.empty());
  if (photos.items.size() == before && skipped == 0 && photos.uploads > uploads) return {};
  photos.classes.push_back(name);
  if (photos.items.size() > before) return {};
  const std::string why = skipped > 0 ? "only photos of formats that are not supported (" +
                                            decodable_formats() + " are)"
                                      : "no photos";
  return {Code::kNotFound,
          "class folder " + join(photos.root, name) + ": " + why + "; fill it or remove it"};
}

bool is_directory(Fs& fs, const std::string& path) {
  const Result<FileInfo> info = fs.info(path);
  return info.ok() && info->is_directory;
}

}  // namespace

Result<LabelledPhotos> read_image_folder(Fs& fs, const std::string& root) {
  LabelledPhotos photos{.root = root, .classes = {}, .items = {}, .skipped = {}};
  const Result<std::vector<std::string>> names = directories_in(fs, root);
  if (!names.ok()) return names.status();
  if (names->empty()) {
    return Status(Code::kNotFound,
                  root + ": no photos: a folder for each class, or a labels.csv, is expected");
  }
  for (const std::string& name : *names) {
    if (Status s = add_class(fs, name, photos); !s.ok()) return s;
  }
  if (photos.classes.empty()) {
    return Status(Code::kNotFound,
                  root +
                      ": no photos but those that were uploaded to a PipeStore, of which no "
                      "folder says what they show");
  }
  return photos;
}

std::vector<std::string> class_like_folders(Fs& fs, const std::string& root, size_t most) {
  const Result<DataLayout> layout = find_layout(fs, root);
  if (!layout.ok()) return {};
  const Result<std::vector<std::string>> names = directories_in(fs, layout->train);
  if (!names.ok()) return {};
  std::vector<std::string> found;
  for (const std::string& name : *names) {
    const Result<std::vector<std::string>> files = fs.list(join(layout->train, name));
    const bool photos = files.ok() && std::ranges::any_of(*files, [&](const std::string& file) {
                          return format_of_extension(extension_of(file)) != PhotoFormat::kUnknown &&
                                 !is_upload_path(join(name, file));
                        });
    if (photos) found.push_back(name);
    if (found.size() == std::max<size_t>(most, 2)) break;
  }
  if (found.size() < 2) return {};
  return found;
}

Result<LabelledPhotos> with_classes(LabelledPhotos photos,
                                    const std::vector<std::string>& classes) {
  if (photos.classes == classes) return photos;
  std::unordered_map<std::string, int> index;
  for (size_t i = 0; i < classes.size(); ++i) index.emplace(classes[i], static_cast<int>(i));
  std::vector<int> to;
  for (const std::string& name : photos.classes) {
    const auto found = index.find(name);
    if (found == index.end()) {
      return Status(Code::kNotFound, photos.root + ": class '" + name + "' is not among the " +
                                         std::to_string(classes.size()) + " classes trained on");
    }
    to.push_back(found->second);
  }
  for (LabelledPhotos::Item& item : photos.items) item.label = to[item.label];
  photos.classes = classes;
  return photos;
}

Result<DataLayout> find_layout(Fs& fs, const std::string& data) {
  const Result<FileInfo> info = fs.info(data);
  if (!info.ok()) return info.status();
  if (!info->is_directory) return Status(Code::kNotFound, data + ": not a directory");
  const std::string train = join(data, "train"), val = join(data, "val");
  if (!is_directory(fs, train)) return DataLayout{.train = data, .val = ""};
  return DataLayout{.train = train, .val = is_directory(fs, val) ? val : ""};
}

// The last eight bytes: order and grouping of photos elsewhere go by the first ones.
bool in_validation(const Digest& photo, double fraction) {
  uint64_t bits = 0;
  for (size_t i = photo.size() - 8; i < photo.size(); ++i) bits = bits << 8 | photo[i];
  return static_cast<double>(bits >> 11) * 0x1p-53 < fraction;
}

}  // namespace ndtrain::ndp
