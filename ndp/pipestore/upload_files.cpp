#include "ndp/pipestore/upload_files.h"

#include <span>
#include <utility>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/photos/object_url.h"
#include "ndp/photos/upload_path.h"

namespace ndtrain::ndp {

UploadFiles::UploadFiles(Fs& fs, std::string photos, std::string state)
    : fs_(fs),
      photos_(std::move(photos)),
      state_(std::move(state)),
      room_(DiskBudget::open(fs, state_, 0).or_throw()) {}

Result<std::string> UploadFiles::keep(const std::string& path, const std::string& file) {
  if (is_object_url(photos_)) {
    std::string key = upload_key(path);
    const Status s = put(join(photos_, key), file);
    const bool denied = s.code() == Code::kUnsupported, taken = s.code() == Code::kExists;
    if (!s.ok() && !denied && !taken) return s;
    bool said = false;
    {
      const std::lock_guard lock(mutex_);
      said = std::exchange(denied_, denied) && denied;
    }
    if (s.ok()) return key;
    if (!said)
      log::warn("uploads stay in {} where {} does not take them: {}", state_, photos_, s.message());
  }
  if (Status s = keep_in_state(path, file); !s.ok()) return s;
  return path;
}

Status UploadFiles::put(const std::string& path, const std::string& file) {
  const Result<std::unique_ptr<File>> object = fs_.open(path, Fs::Mode::kCreate);
  if (!object.ok()) return object.status();
  if (Status s = (*object)->append(std::as_bytes(std::span(file))); !s.ok()) return s;
  (*object)->sync();
  return {};
}

Status UploadFiles::book(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Result<int64_t> room = room_.room_on_volume(bytes);
  if (!room.ok()) return room.status();
  if (*room < bytes) return {Code::kNoSpace, state_ + ": the volume's last 5 % stay free"};
  room_.wrote(bytes);
  return {};
}

Status UploadFiles::keep_in_state(const std::string& path, const std::string& file) {
  const std::string to = join(state_, path), directory = parent_of(to);
  if (Status s = book(static_cast<int64_t>(file.size())); !s.ok()) return s;
  const auto made = [&] {
    const std::lock_guard lock(mutex_);
    return made_.contains(directory);
  };
  if (!made()) {
    if (Status s = fs_.make_directories(directory); !s.ok()) return s;
    const std::lock_guard lock(mutex_);
    made_.insert(directory);
  }
  return publish(fs_, to, file);
}

}  // namespace ndtrain::ndp
