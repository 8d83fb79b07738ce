#include "framework/core/fs.h"

#include <utility>

#include "framework/core/error.h"
#include "framework/core/fsync.h"

namespace ndtrain {
namespace {

// The locks of file systems that live in this process alone.
class LocalLock final : public FileLock {
 public:
  using Name = std::pair<const Fs*, std::string>;

  static std::unique_ptr<FileLock> take(const Name& name) {
    const std::lock_guard guard(mutex());
    if (!held().insert(name).second) return nullptr;
    return std::unique_ptr<FileLock>(new LocalLock(name));
  }
  ~LocalLock() override {
    const std::lock_guard guard(mutex());
    held().erase(name_);
  }

 private:
  explicit LocalLock(Name name) : name_(std::move(name)) {}
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static std::set<Name>& held() {
    static std::set<Name> names;
    return names;
  }

  const Name name_;
};

}  // namespace

bool Fs::exists(const std::string& path) {
  const Status there = info(path).status();
  if (there.ok()) return true;
  if (there.code() == Code::kNotFound) return false;
  throw Error(there.message());
}

Result<std::string> Fs::read(const std::string& path, int64_t limit) {
  Result<std::unique_ptr<File>> file = open(path, Mode::kRead);
  if (!file.ok()) return file.status();
  Result<int64_t> size = (*file)->size();
  if (!size.ok()) return size.status();
  if (*size > limit) {
    return Status(Code::kTooLarge, path + ": " + std::to_string(*size) + " bytes, at most " +
                                       std::to_string(limit) + " are accepted");
  }
  std::string bytes(static_cast<size_t>(*size), '\0');
  Result<size_t> got = (*file)->read_at(0, std::as_writable_bytes(std::span(bytes)));
  if (!got.ok()) return got.status();
  bytes.resize(*got);
  return bytes;
}

void File::sync() {
  if (const Status s = try_sync(); !s.ok()) fsync_failed(s.message());
}

void Fs::sync_directory(const std::string& path) {
  if (const Status s = try_sync_directory(path); !s.ok()) fsync_failed(s.message());
}

Status File::lock() { return {Code::kUnsupported, "files of this kind cannot be locked"}; }

bool Fs::first_visit(const std::string& directory) {
  const std::lock_guard guard(visits_mutex_);
  return visits_.insert(directory).second;
}

void Fs::forget_visits() {
  const std::lock_guard guard(visits_mutex_);
  visits_.clear();
}

Result<std::unique_ptr<FileLock>> Fs::lock(const std::string& path) {
  if (std::unique_ptr<FileLock> taken = LocalLock::take({this, path})) return taken;
  return Status(Code::kExists, path + ": is locked");
}

std::string join(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

std::string parent_of(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return "";
  const size_t last = path.find_last_not_of('/', slash);
  if (last == std::string_view::npos) return "/";
  return std::string(path.substr(0, last + 1));
}

std::string name_of_path(std::string_view path) {
  return std::string(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
}

std::string extension_of(std::string_view path) {
  const std::string name = name_of_path(path);
  const size_t dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name.size()) return "";
  std::string extension = name.substr(dot);
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return extension;
}

}  // namespace ndtrain
