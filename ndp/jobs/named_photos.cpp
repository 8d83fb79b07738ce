#include "ndp/jobs/named_photos.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "framework/core/limits.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/photo_pattern.h"
#include "ndp/photos/decode.h"
#include "ndp/photos/object_url.h"
#include "ndp/photos/read_ahead.h"
#include "ndp/photos/verdict.h"

namespace ndtrain::ndp {
namespace {

namespace files = std::filesystem;

constexpr size_t kAtOnce = 4096;

class NamedReader {
 public:
  NamedReader(Fs& fs, const NamedPhotos& named, Progress& progress, const OnNamedRead& on_read)
      : fs_(fs), named_(named), progress_(progress), on_read_(on_read) {
    set_.root = named.root;
  }

  PhotoSet read() {
    for (const std::string& name : named_.names) take(name);
    far_ ? read_far_files() : read_files();
    if (twice_ > 0) {
      progress_.say(fmt::format("{} photos were named more than once; each counts once", twice_));
    }
    return std::move(set_);
  }

 private:
  void take(const std::string& name) {
    if (name == "-") return take_list("stdin", named_.input());
    const Result<FileInfo> info = fs_.info(name);
    if (info.ok() && info->is_directory) return take_directory(name);
    if (info.ok()) {
      return is_photo(name) ? take_file(name, info->size) : take_list(name, read_list(name));
    }
    if (!is_pattern(name)) throw Error(info.status().message());
    if (is_object_url(name)) {
      throw Error(info.status().message(), "; patterns are not looked for in S3 and RADOS: name a ",
                  "prefix, s3://BUCKET/PREFIX or rados://POOL/NAMESPACE/PREFIX");
    }
    const std::vector<std::string> paths = matching_paths(fs_, name);
    if (paths.empty()) throw Error(name, ": nothing matches this pattern");
    for (const std::string& path : paths) take_path(path);
  }

  void take_path(const std::string& path) {
    const Result<FileInfo> info = fs_.info(path);
    info.ok() && info->is_directory ? take_directory(path) : take_file(path);
  }

  // By its name, or by what it holds.
  bool is_photo(const std::string& path) {
    if (format_of_extension(extension_of(path)) != PhotoFormat::kUnknown) return true;
    if (is_object_url(path)) return is_far_photo(path);
    std::array<std::byte, 64> begin{};
    const auto file = fs_.open(path, Fs::Mode::kRead);
    if (!file.ok()) return true;  // which says why it cannot be read
    const Result<size_t> n = (*file)->read_at(0, begin);
    return n.ok() && sniff(std::span(begin).first(*n)) != PhotoFormat::kUnknown;
  }

  // All of it comes by one request, and is not asked for again.
  bool is_far_photo(const std::string& path) {
    Result<std::string> file = fs_.read(path, limits::kLabelsFile);
    if (!file.ok()) return true;
    const auto begin = std::as_bytes(std::span(*file)).first(std::min<size_t>(file->size(), 64));
    const bool photo = sniff(begin) != PhotoFormat::kUnknown;
    fetched_bytes_ += static_cast<int64_t>(file->size());
    if (!photo || fetched_bytes_ <= ScanOptions::kPartBytes) fetched_[path] = std::move(*file);
    return photo;
  }

  std::string read_list(const std::string& path) {
    if (auto fetched = fetched_.extract(path)) return std::move(fetched.mapped());
    return fs_.read(path, limits::kLabelsFile).or_throw();
  }

  void take_list(const std::string& list, const std::string& text) {
    std::string_view rest = text;
    for (int64_t line = 1; !rest.empty(); ++line) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      std::string path(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (path.ends_with('\r')) path.pop_back();
      if (path.empty()) continue;
      if (const Result<FileInfo> info = fs_.info(path); !info.ok()) {
        set_.quarantined.push_back(
            {path, fmt::format("line {} of {}: {}", line, list, info.status().message())});
      } else {
        info->is_directory ? take_directory(path) : take_file(path, info->size);
      }
    }
  }

  PhotoSet photos_of(const std::string& directory) {
    const auto catalogue = open_catalogue(fs_, named_.cache, directory);
    if (!on_read_ || !is_object_url(directory)) {
      return all_photos(fs_, *catalogue, directory, progress_);
    }
    DirectorySource source(fs_, directory);
    ScanOptions options;
    options.on_read = [&](std::vector<PhotoRead> part) {
      for (PhotoRead& p : part) p.entry.ref.path = placed(join(directory, p.entry.ref.path));
      return on_read_(std::move(part));
    };
    Result<PhotoSet> set = all_photos(source, *catalogue, directory, progress_, options);
    if (set.status().code() == Code::kCancelled) return {.root = directory};
    return std::move(set).or_throw();
  }

  void take_directory(const std::string& directory) {
    const PhotoSet below = photos_of(directory);
    for (const Photo& p : below.photos) {
      const std::string path = join(directory, p.path);
      if (is_new(path)) set_.photos.push_back({placed(path), p.digest, p.bytes});
    }
    for (const QuarantinedPhoto& q : below.quarantined) {
      set_.quarantined.push_back({join(directory, q.path), q.reason});
    }
    for (const auto& [format, n] : below.skipped) set_.skipped[format] += n;
  }

  void take_file(const std::string& path, int64_t bytes = 0) {
    if (!is_new(path)) return;
    files_.push_back(path);
    bytes_.push_back(bytes);
    far_ = far_ || is_object_url(path);
  }

  bool is_new(const std::string& path) {
    const bool fresh =
        seen_.insert(is_object_url(path) ? path : files::absolute(path).lexically_normal().string())
            .second;
    twice_ += !fresh;
    return fresh;
  }

  // Its path below the root.
  std::string placed(const std::string& path) const {
    if (named_.root.empty()) return path;
    const auto normal = [](const std::string& p) { return files::absolute(p).lexically_normal(); };
    const std::string below = normal(path).lexically_relative(normal(named_.root));
    if (below.empty() || below == "." || below.starts_with("..")) {
      throw Error(path, " is not below the root ", named_.root);
    }
    return below;
  }

  struct Looked {
    Photo photo;
    Verdict verdict;
  };

  Looked look(const std::string& path) const {
    return look(path, fs_.read(path, limits::kPhotoFile));
  }
  static Looked look(const std::string& path, const Result<std::string>& bytes) {
    if (!bytes.ok()) return {{path}, {PhotoState::kQuarantined, bytes.status().message()}};
    return {{.path = path, .digest = sha256(*bytes), .bytes = static_cast<int64_t>(bytes->size())},
            judge_photo(path, std::as_bytes(std::span(*bytes)))};
  }

  void read_files() {
    if (files_.empty()) return;
    progress_.begin("reading photos", static_cast<int64_t>(files_.size()), "photos");
    for (size_t begin = 0; begin < files_.size() && !progress_.interrupted(); begin += kAtOnce) {
      const size_t n = std::min(kAtOnce, files_.size() - begin);
      std::vector<Looked> looked(n);
      shared_threads().parallel_for(static_cast<int64_t>(n), 1, [&](int64_t from, int64_t to) {
        for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) {
          looked[i] = look(files_[begin + i]);
        }
      });
      for (Looked& l : looked) add(std::move(l));
      progress_.update(static_cast<int64_t>(begin + n));
    }
    progress_.end();
  }

  // Several at a time, and in parts that are handed on.
  void read_far_files() {
    std::vector<size_t> order(files_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    PhotoReadAhead ahead({.in_order = order,
                          .open = [&](size_t i) { return fetch(files_[i]); },
                          .bytes = [&](size_t i) { return bytes_[i]; }});
    progress_.begin("reading photos", static_cast<int64_t>(files_.size()), "photos");
    std::vector<PhotoRead> part;
    int64_t bytes = 0;
    for (size_t i = 0; i < files_.size() && !progress_.interrupted(); ++i) {
      Result<std::string> file = ahead.take(i);
      if (file.status().code() == Code::kUnavailable) throw Error(file.status().message());
      Looked looked = look(files_[i], file);
      if (on_read_ && looked.verdict.state == PhotoState::kOk) {
        bytes += looked.photo.bytes;
        part.push_back({.entry = {.ref = {.path = placed(files_[i]), .size = looked.photo.bytes},
                                  .digest = looked.photo.digest},
                        .file = std::move(*file)});
      }
      add(std::move(looked));
      progress_.update(static_cast<int64_t>(i + 1));
      const bool full = part.size() == ScanOptions::kPartPhotos || bytes >= ScanOptions::kPartBytes;
      if (part.empty() || (!full && i + 1 < files_.size())) continue;
      bytes = 0;
      if (!on_read_(std::exchange(part, {}))) break;
    }
    progress_.end();
  }

  // Any thread.
  Result<std::string> fetch(const std::string& path) {
    {
      const std::lock_guard lock(fetched_mutex_);
      if (auto fetched = fetched_.extract(path)) return std::move(fetched.mapped());
    }
    return fs_.read(path, limits::kPhotoFile);
  }

  void add(Looked looked) {
    Photo& photo = looked.photo;
    if (looked.verdict.state == PhotoState::kSkipped) {
      ++set_.skipped[extension_of(photo.path)];
    } else if (looked.verdict.state != PhotoState::kOk) {
      set_.quarantined.push_back({photo.path, looked.verdict.reason});
    } else {
      photo.path = placed(photo.path);
      set_.photos.push_back(std::move(photo));
    }
  }

  Fs& fs_;
  const NamedPhotos& named_;
  Progress& progress_;
  const OnNamedRead& on_read_;
  PhotoSet set_;
  std::vector<std::string> files_;
  std::vector<int64_t> bytes_;                  // of each file
  bool far_ = false;                            // one is in S3 or RADOS
  std::mutex fetched_mutex_;                    // of the next, while files are read
  std::map<std::string, std::string> fetched_;  // files without a photo's name, by path
  int64_t fetched_bytes_ = 0;
  std::unordered_set<std::string> seen_;
  int64_t twice_ = 0;
};

}  // namespace

PhotoSet read_named_photos(Fs& fs, const NamedPhotos& named, Progress& progress,
                           const OnNamedRead& on_read) {
  if (named.names.size() == 1 && named.root.empty()) {
    const std::string& directory = named.names[0];
    const Result<FileInfo> info = fs.info(directory);
    if (info.ok() && info->is_directory) {
      return all_photos(fs, *open_catalogue(fs, named.cache, directory), directory, progress);
    }
  }
  return NamedReader(fs, named, progress, on_read).read();
}

}  // namespace ndtrain::ndp
