#include "ndp/pipestore/store_photos.h"

#include <fmt/format.h>

#include <filesystem>

#include "framework/core/error.h"
#include "framework/core/limits.h"
#include "ndp/photos/dataset.h"
#include "ndp/photos/upload_path.h"

namespace ndtrain::ndp {
namespace {

constexpr char kInUploads = '/';  // begins the cursors of uploads: no path does

}  // namespace

StorePhotos::StorePhotos(Fs& fs, std::string photos, std::string state)
    : fs_(fs),
      photos_(std::move(photos)),
      state_(std::move(state)),
      collection_(fs, photos_),
      uploads_(fs, join(state_, kUploadDirectory)) {}

std::string StorePhotos::uploaded_file(const std::string& path) const {
  const bool upload = is_upload_path(path) && parent_of(parent_of(path)) == kUploadDirectory;
  return upload && !state_.empty() ? join(state_, path) : "";
}

bool StorePhotos::is_upload(const std::string& path) const {
  const std::string uploaded = uploaded_file(path);
  return !uploaded.empty() && fs_.exists(uploaded);
}

std::string StorePhotos::file_of(const std::string& path) const {
  return is_upload(path) ? uploaded_file(path) : join(photos_, path);
}

Result<PhotoPage> StorePhotos::list(const std::string& cursor, size_t limit) {
  if (cursor.starts_with(kInUploads)) {
    Result<PhotoPage> page = uploads_.list(cursor.substr(1), limit);
    if (!page.ok()) return page;
    for (PhotoRef& p : page->photos) p.path = join(kUploadDirectory, p.path);
    for (PhotoProblem& p : page->problems) p.path = join(kUploadDirectory, p.path);
    if (!page->next.empty()) page->next.insert(0, 1, kInUploads);
    return page;
  }
  if (cursor.empty()) left_by_older_ = 0;
  Result<PhotoPage> page = collection_.list(cursor, limit);
  if (!page.ok()) return page;
  std::erase_if(page->photos, [&](const PhotoRef& p) {
    const bool there = is_upload(p.path);  // it is listed with those
    left_by_older_ += !there && !uploaded_file(p.path).empty();
    return there;
  });
  if (page->next.empty()) page->next = first_upload();
  return page;
}

std::string StorePhotos::first_upload() const {
  const bool some = !state_.empty() && fs_.exists(uploads_.root());
  return some ? std::string(1, kInUploads) : "";
}

Result<std::string> StorePhotos::open(const std::string& path) {
  return fs_.read(file_of(path), limits::kPhotoFile);
}

std::string class_folders_hint(Fs& fs, const std::string& photos) {
  constexpr size_t kNamed = 3;
  std::vector<std::string> folders = class_like_folders(fs, photos, kNamed + 1);
  if (folders.empty()) return "";
  if (folders.size() > kNamed) folders.back() = "…";
  return fmt::format(
      "the names of its folders ({}) say nothing of what the photos show; if they "
      "are classes, give --labels folder",
      fmt::join(folders, ", "));
}

void check_apart(const std::string& state, const std::string& photos) {
  namespace files = std::filesystem;
  const files::path below =
      files::weakly_canonical(files::absolute(state))
          .lexically_relative(files::weakly_canonical(files::absolute(photos)));
  for (const files::path& part : below) {
    if (part != "." && part.native().starts_with('.')) return;  // elsewhere, or hidden
  }
  throw Error("the state directory ", state, " is among the photos of ", photos,
              ": what people upload would become a class of theirs; give --state a directory "
              "elsewhere, or one whose name begins with a dot");
}

}  // namespace ndtrain::ndp
