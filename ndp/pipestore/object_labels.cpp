#include "ndp/pipestore/object_labels.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kEntriesAtOnce = 1000;  // of the catalogue
constexpr size_t kObjectsAtOnce = 256;   // objects
constexpr double kScoreSteps = 10'000;   // steps from 0 to 1: less is noise of other processors
constexpr const char* kLabelAttribute = "ndtrain.label";

std::string label_attribute(const std::string& task) {
  return task == kDefaultTask ? kLabelAttribute : std::string(kLabelAttribute) + "." + task;
}

// Of a photo in an object of this inode, which tells its path, too.
uint64_t label_hash(uint64_t inode, uint64_t version, const std::string& task) {
  const std::string text = std::to_string(inode) + " " + std::to_string(version) + " " + task;
  return xxh3(text.data(), text.size());
}

std::string label_text(const std::string& name, float score, const Digest& photo,
                       uint64_t version) {
  const Json json = {{"label", name},
                     {"score", std::round(score * kScoreSteps) / kScoreSteps},
                     {"sha256", to_hex(photo)},
                     {"version", version}};
  return json_text(json);
}

}  // namespace

ObjectLabels::ObjectLabels(Setting setting, std::unique_ptr<Catalogue> catalogue)
    : setting_(std::move(setting)), catalogue_(std::move(catalogue)) {}

void ObjectLabels::put_in_force(const std::string& task, uint64_t version,
                                const std::string& model) {
  {
    const std::lock_guard lock(mutex_);
    if (version == 0) in_force_.erase(task);
    if (version > 0) in_force_[task] = {version, model};
    written_.clear();
    denied_ = false;
    if (!waiting_.empty()) retry_at_ = setting_.clock.monotonic();
  }
  look();
}

ObjectLabels::AllInForce ObjectLabels::in_force() const {
  const std::lock_guard lock(mutex_);
  return in_force_;
}

void ObjectLabels::look() {
  const Time now = setting_.clock.monotonic();
  const std::lock_guard lock(mutex_);
  if (!due_) due_ = now + kSoon;
  once_more_ = now + kOnceMore;
}

ObjectLabels::Counts ObjectLabels::counts() const {
  const std::lock_guard lock(mutex_);
  return {.written = count_, .lost = lost_, .waiting = waiting_photos_};
}

void ObjectLabels::wait(JobLabels labels, Time until) {
  const Time now = setting_.clock.monotonic();
  const std::lock_guard lock(mutex_);
  waiting_photos_ += labels.photos.size();
  waiting_.emplace_back(until, std::move(labels));
  while (!waiting_.empty() && (waiting_photos_ > kMostWaiting || waiting_.front().first <= now)) {
    lost_ += waiting_.front().second.photos.size();
    waiting_photos_ -= waiting_.front().second.photos.size();
    waiting_.pop_front();
  }
  if (!waiting_.empty()) retry_at_ = std::min(retry_at_, now + kRetry);
}

void ObjectLabels::take(JobLabels labels) {
  if (labels.photos.empty()) return;
  try {
    take(std::move(labels), setting_.clock.monotonic() + kPatience);
  } catch (const std::exception& e) {
    log::warn("labels of a job are not written on objects: {}", e.what());
  }
}

void ObjectLabels::take(JobLabels labels, Time until) {
  std::vector<Label> known;
  const AllInForce all = in_force();
  for (const auto& [task, now] : all) {
    if (now.model != labels.model) continue;
    for (const JobLabels::Photo& p : labels.photos) {
      known.push_back({p.id, p.path, task, p.label, p.score, now.version});
    }
  }
  if (known.empty()) return wait(std::move(labels), until);
  const std::vector<Status> said = write(known);
  std::set<size_t> places;
  for (size_t i = 0; i < said.size(); ++i) {
    if (said[i].code() == Code::kUnavailable) places.insert(i % labels.photos.size());
  }
  std::vector<JobLabels::Photo> later;
  for (const size_t i : places) later.push_back(std::move(labels.photos[i]));
  if (!later.empty()) wait({.model = labels.model, .photos = std::move(later)}, until);
}

// Each is tried once; those of models that are not in force wait on.
void ObjectLabels::retry_waiting() {
  std::deque<std::pair<Time, JobLabels>> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(waiting_);
    waiting_photos_ = 0;
    retry_at_ = Time::max();
  }
  for (auto& [until, labels] : all) take(std::move(labels), until);
}

std::vector<ObjectLabels::Label> ObjectLabels::labels_in_log(const CatalogueEntry& e,
                                                             const AllInForce& in_force) {
  std::vector<Label> labels;
  if (e.state != PhotoState::kOk || !e.digest) return labels;
  for (const auto& [task, now] : in_force) {
    {
      const std::lock_guard lock(mutex_);
      if (written_.contains(label_hash(e.ref.inode, now.version, task))) continue;
    }
    const std::optional<UploadLog::Known> known = setting_.log.find(*e.digest, task);
    if (!known || known->removed || known->version != now.version || known->top.empty()) continue;
    labels.push_back({*e.digest, e.ref.path, task, known->top[0].name(), known->top[0].score(),
                      known->version, e.ref.inode});
  }
  return labels;
}

// Whether all could be written.
bool ObjectLabels::look_at_all() {
  const AllInForce in_force = this->in_force();
  bool all = true;
  for (std::string after; !in_force.empty();) {
    std::vector<CatalogueEntry> page;
    {
      const std::lock_guard lock(catalogue_mutex_);
      page = catalogue_->entries_after(after, kEntriesAtOnce).or_throw();
    }
    if (page.empty()) break;
    after = page.back().ref.path;
    std::vector<Label> labels;
    for (const CatalogueEntry& e : page) {
      for (Label& label : labels_in_log(e, in_force)) labels.push_back(std::move(label));
    }
    const std::vector<Status> said = write(labels);
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < labels.size(); ++i) {
      all = all && said[i].code() != Code::kUnavailable;
      if (!said[i].ok()) continue;
      written_.insert(label_hash(labels[i].inode, labels[i].version, labels[i].task));
    }
  }
  return all;
}

// Those of one photo are written together: each write makes another version of the object.
std::vector<Status> ObjectLabels::write(std::span<const Label> labels) {
  std::vector<Status> said(labels.size());
  std::vector<FileAttributes> files;
  std::vector<std::vector<size_t>> of_file;
  std::map<std::string, size_t> by_path;
  for (size_t i = 0; i < labels.size(); ++i) {
    const Label& label = labels[i];
    said[i] = Status(Code::kNotFound, label.path + ": it is not that photo any more");
    if (!wire::is_class_name(label.name) || !std::isfinite(label.score)) continue;
    Result<std::optional<CatalogueEntry>> found = std::optional<CatalogueEntry>();
    {
      const std::lock_guard lock(catalogue_mutex_);
      found = catalogue_->find(label.path);
    }
    const std::optional<CatalogueEntry> e = std::move(found).or_throw();
    if (!e || e->digest != label.photo) continue;
    const auto [file, fresh] = by_path.emplace(label.path, files.size());
    if (fresh) {
      const PhotoRef& ref = e->ref;
      files.push_back({.path = join(setting_.photos, ref.path),
                       .info = {.size = ref.size, .mtime_ns = ref.mtime_ns, .inode = ref.inode},
                       .attributes = {}});
      of_file.emplace_back();
    }
    files[file->second].attributes[label_attribute(label.task)] =
        label_text(label.name, label.score, label.photo, label.version);
    of_file[file->second].push_back(i);
  }
  for (size_t begin = 0; begin < files.size(); begin += kObjectsAtOnce) {
    const size_t n = std::min(kObjectsAtOnce, files.size() - begin);
    send(std::span(files).subspan(begin, n), std::span(of_file).subspan(begin, n), said);
  }
  return said;
}

void ObjectLabels::send(std::span<const FileAttributes> files,
                        std::span<const std::vector<size_t>> labels, std::vector<Status>& said) {
  const std::vector<Status> done = setting_.rados.set_attributes(files);
  const std::lock_guard lock(mutex_);
  for (size_t f = 0; f < files.size(); ++f) {
    for (const size_t i : labels[f]) said[i] = done[f];
    if (done[f].ok()) count_ += labels[f].size();
    if (done[f].code() != Code::kUnsupported || std::exchange(denied_, true)) continue;
    log::warn("labels are not written on objects: {}", done[f].message());
  }
}

ObjectLabels::Time ObjectLabels::step() {
  const auto is_due = [&](const std::optional<Time>& at) {
    return at && *at <= setting_.clock.monotonic();
  };
  bool look = false, retry = false;
  {
    const std::lock_guard lock(mutex_);
    for (std::optional<Time>* at : {&due_, &once_more_}) {
      if (!is_due(*at)) continue;
      at->reset();
      look = true;
    }
    retry = retry_at_ <= setting_.clock.monotonic();
    look = look && !denied_;
  }
  if (retry) retry_waiting();
  const Time began = setting_.clock.monotonic();
  const bool all = !look || look_at_all();
  const Time ended = setting_.clock.monotonic();
  const std::lock_guard lock(mutex_);
  if (!all) due_ = ended + kRetry;
  // Many photos are looked at less often.
  if (look && due_) due_ = std::max(*due_, ended + 10 * (ended - began));
  return std::min({due_.value_or(Time::max()), once_more_.value_or(Time::max()), retry_at_});
}

}  // namespace ndtrain::ndp
