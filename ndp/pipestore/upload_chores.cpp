// What goes on behind uploads: versions that come into force, and the last traces of deleted
// photos.
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/photos/object_url.h"
#include "ndp/photos/upload_path.h"
#include "ndp/pipestore/uploads.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

constexpr std::chrono::seconds kBetweenLooks{1};
constexpr std::chrono::seconds kBetweenTidying{60};
constexpr std::chrono::seconds kRetry{10};  // where waiting photos could not be labelled
constexpr int64_t kWorthCompacting = int64_t{16} << 20;

}  // namespace

// First that it is deleted, durably, then all that there is of it.
Status Uploads::remove(const Digest& id) {
  const Busy alone(*this, id);
  const Result<std::vector<std::string>> paths = places(id);
  if (!paths.ok()) return paths.status();
  std::vector<wire::Upload> lines;
  for (const std::string& path : *paths) {
    lines.push_back(line_of(id, wire::is_photo_path(path) ? path : ""));
    lines.back().set_removed(true);
  }
  if (Status s = log_.commit(std::move(lines)); !s.ok()) return s;
  changed_();
  return erase(id, *paths);
}

Status Uploads::forget(std::span<const Digest> photos) {
  Status stays;
  for (const Digest& id : photos) {
    const Busy alone(*this, id);
    const Result<std::vector<std::string>> here = places(id);
    if (!here.ok() && here.status().code() != Code::kNotFound) return here.status();
    const std::vector<std::string> paths = here.ok() ? *here : std::vector<std::string>();
    if (!log_.feedback(id).removed || !paths.empty()) {
      const bool said = !paths.empty() && wire::is_photo_path(paths.front());
      wire::Upload line = line_of(id, said ? paths.front() : "");
      line.set_removed(true);
      if (Status s = log_.commit({line}); !s.ok()) return s;
    }
    Status s = erase(id, paths);
    if (!s.ok() && s.code() != Code::kUnsupported) return s;
    if (!s.ok()) stays = std::move(s);
  }
  changed_();
  return stays;
}

void Uploads::restored() {
  {
    const std::lock_guard lock(mutex_);
    unlabelled_ = true;
  }
  woken_.notify_all();
}

Status Uploads::erase(const Digest& id, std::vector<std::string> paths) {
  std::set<std::string> damaged;  // whatever they hold by now, it is of this photo
  {
    const std::lock_guard lock(catalogue_mutex_);
    const Result<std::vector<DamagedPhoto>> all = catalogue_->damaged();
    if (!all.ok()) return all.status();
    for (const DamagedPhoto& d : *all) {
      if (d.photo == id && damaged.insert(d.path).second) paths.push_back(d.path);
    }
  }
  Status stays;  // an object, which is the photo's no more
  for (const std::string& path : paths) {
    const bool any = damaged.contains(path) || photo_of_upload_path(path) == id;
    for (const std::string& directory : {config_.state, config_.photos}) {
      Status s = erase_file(id, join(directory, path), any);
      if (s.code() == Code::kUnsupported && is_object_url(directory)) {
        stays = std::move(s);
      } else if (!s.ok()) {
        return s;
      }
    }
  }
  {
    const std::lock_guard lock(catalogue_mutex_);
    if (Status s = catalogue_->remove(id); !s.ok()) return s;
  }
  for (const GroupInfo& g : cache_.groups()) {
    if (Status s = cache_.remove(g.group, id); !s.ok()) return s;
  }
  const std::lock_guard lock(mutex_);
  erased_.insert(id);
  return stays;
}

Status Uploads::erase_file(const Digest& id, const std::string& file, bool any_bytes) {
  if (!any_bytes) {
    const Result<std::string> bytes = fs_.read(file, limits::kPhotoFile);
    if (bytes.ok() && sha256(*bytes) != id) return {};  // another photo is there by now
  }
  const Status s = fs_.remove(file);
  if (!s.ok() && s.code() != Code::kNotFound) return s;
  const std::string directory = parent_of(file);
  if (fs_.info(directory).status().code() != Code::kNotFound) fs_.sync_directory(directory);
  return {};
}

void Uploads::chores() {
  std::unique_lock lock(mutex_);
  std::optional<std::chrono::nanoseconds> again;
  while (!stopping_) {
    const bool version = !coming_.empty();
    const bool waiting =
        std::exchange(unlabelled_, false) || (again && clock_.monotonic() > *again);
    lock.unlock();
    if (version) load_versions();
    if (version || waiting) {
      again.reset();
      if (!label_waiting()) again = clock_.monotonic() + kRetry;
    }
    try {
      tidy();
    } catch (const std::exception& e) {
      log::warn("deleted photos leave traces for now: {}", e.what());
    }
    lock.lock();
    woken_.wait_for(lock, kBetweenLooks,
                    [&] { return stopping_ || !coming_.empty() || unlabelled_; });
  }
}

bool Uploads::is_coming(const std::string& task) const {
  const std::lock_guard lock(mutex_);
  return coming_.contains(task);
}

void Uploads::load_versions() {
  std::map<std::string, std::function<std::shared_ptr<OnlineModel>()>> coming;
  {
    const std::lock_guard lock(mutex_);
    coming.swap(coming_);
  }
  for (const auto& [task, load] : coming) {
    const std::string of = task == kDefaultTask ? "" : " of task " + task;
    try {
      const std::shared_ptr<OnlineModel> model = load();
      if (model) model->task = task;
      if (model) warm_up(*model, config_.online.batch);
      if (is_coming(task)) continue;  // another is in force by now, or none any more
      online_.put_in_force(task, model);
      if (model) log::info("uploads are labelled by version {}{}", model->version, of);
      if (!model) log::info("uploads are not labelled{} any more", of);
    } catch (const std::exception& e) {
      log::error("uploads go on with version {}{}: the next one cannot run here: {}", version(task),
                 of, e.what());
    }
  }
  const std::vector<std::string> in_force = tasks();
  std::set<std::string, std::less<>> labelled_in(in_force.begin(), in_force.end());
  if (labelled_in.empty()) labelled_in.emplace(kDefaultTask);
  log_.label_in(std::move(labelled_in));
}

void Uploads::tidy() {
  const auto now = clock_.monotonic();
  if (now - tidied_ < kBetweenTidying) return;
  const UploadLog::Counts counts = log_.counts();
  std::set<Digest> erased;
  {
    const std::lock_guard lock(mutex_);
    erased = erased_;
  }
  // Before the log forgets where they were: with that, a start finds out what is still to be done.
  if (!erased.empty() && config_.forget) config_.forget(erased).or_throw();
  if (!erased.empty() || counts.damaged ||
      (counts.bytes > kWorthCompacting && 2 * counts.dead_bytes > counts.bytes)) {
    tidied_ = now;
    log_.compact().or_throw();
  }
  if (!erased.empty()) forget_traces(erased);
}

// A job that was at work on a photo when it was deleted may have kept something since.
void Uploads::forget_traces(const std::set<Digest>& erased) {
  for (const GroupInfo& g : cache_.groups()) {
    for (const Digest& id : erased) cache_.remove(g.group, id).or_throw();
  }
  (void)cache_.compact().or_throw();
  {
    const std::lock_guard lock(catalogue_mutex_);
    catalogue_->scrub().or_throw();
  }
  const std::lock_guard lock(mutex_);
  for (const Digest& id : erased) erased_.erase(id);
}

}  // namespace ndtrain::ndp
