// What goes on behind uploads: versions that come into force, photos that no version has labelled
// yet, and the last traces of deleted ones.
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/pipestore/uploads.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

constexpr std::chrono::seconds kGlance{1};
constexpr std::chrono::seconds kBetweenTidying{60};
constexpr size_t kAtOnce = 8;  // waiting photos in one batch: those that people upload go first
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
    if (Status s = erase(id, paths); !s.ok()) return s;
  }
  changed_();
  return {};
}

Status Uploads::erase(const Digest& id, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    for (const std::string& directory : {config_.state, config_.photos}) {
      if (Status s = erase_file(id, join(directory, path)); !s.ok()) return s;
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
  return {};
}

Status Uploads::erase_file(const Digest& id, const std::string& file) {
  const Result<std::string> bytes = fs_.read(file, limits::kPhotoFile);
  if (bytes.ok() && sha256(*bytes) != id) return {};  // another photo is there by now
  const Status s = fs_.remove(file);
  if (!s.ok() && s.code() != Code::kNotFound) return s;
  const std::string directory = parent_of(file);
  if (fs_.info(directory).status().code() != Code::kNotFound) fs_.sync_directory(directory);
  return {};
}

void Uploads::chores() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool version = coming_ != nullptr;
    const bool waiting = std::exchange(unlabelled_, false);
    lock.unlock();
    if (version) load_version();
    if ((version || waiting) && online_.model()) label_waiting();
    try {
      tidy();
    } catch (const std::exception& e) {
      log::warn("deleted photos leave traces for now: {}", e.what());
    }
    lock.lock();
    woken_.wait_for(lock, kGlance, [&] { return stopping_ || coming_ != nullptr || unlabelled_; });
  }
}

void Uploads::load_version() {
  std::function<std::shared_ptr<OnlineModel>()> load;
  {
    const std::lock_guard lock(mutex_);
    load = std::exchange(coming_, nullptr);
  }
  try {
    const std::shared_ptr<OnlineModel> model = load();
    if (model) warm_up(*model, config_.online.batch);
    online_.put_in_force(model);
    if (model) log::info("uploads are labelled by version {}", model->version);
  } catch (const std::exception& e) {
    log::error("uploads go on with version {}: the next one cannot run here: {}", version(),
               e.what());
  }
}

void Uploads::label_waiting() {
  std::optional<Digest> after;
  for (std::vector<Digest> ids; !(ids = log_.unlabelled(after, kAtOnce)).empty();) {
    after = ids.back();
    try {
      if (Status s = label_some(ids); !s.ok()) return log::warn("{}", s.message());
    } catch (const std::exception& e) {
      return log::warn("waiting photos are not labelled: {}", e.what());
    }
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
}

Status Uploads::label_some(const std::vector<Digest>& ids) {
  const std::shared_ptr<OnlineModel> model = online_.model();
  struct Waiting {
    Digest id;
    std::string path;
    std::future<OnlineLabeler::Labelled> label;
    std::unique_ptr<Busy> alone;
  };
  std::vector<Waiting> all;
  {
    const OnlineLabeler::Coming coming(online_);
    for (const Digest& id : ids) {
      auto alone = std::make_unique<Busy>(*this, id);
      const auto known = log_.find(id);
      if (!known || !known->uploaded || known->version > 0) continue;
      const Result<std::string> file = fs_.read(photos_.file_of(known->path), limits::kPhotoFile);
      if (!file.ok()) continue;  // somebody took it away
      Result<std::string> pixels = crop(known->path, *file, model->network->preprocess());
      if (!pixels.ok()) continue;
      all.push_back({id, known->path, online_.label(model, std::move(*pixels)), std::move(alone)});
    }
  }
  std::vector<wire::Upload> lines;
  for (Waiting& w : all) {
    OnlineLabeler::Labelled label = w.label.get();
    wire::Upload line = line_of(w.id, w.path);
    if (!put_label(line, *model, label.top)) continue;
    lines.push_back(std::move(line));
    cache_writer_.put(w.id, model, std::move(label));
  }
  if (lines.empty()) return {};
  Status s = log_.commit(std::move(lines));
  changed_();
  return s;
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
