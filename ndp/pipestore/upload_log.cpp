#include "ndp/pipestore/upload_log.h"

#include <algorithm>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/upload_line.h"

namespace ndtrain::ndp {

namespace {

int64_t frame_of(uint32_t line_bytes) {
  return static_cast<int64_t>(upload_format::kHead + line_bytes);
}

std::string_view task_of(const wire::Upload& line) {
  return line.task().empty() ? kDefaultTask : std::string_view(line.task());
}

}  // namespace

UploadLog::~UploadLog() {
  if (!mark_due_ || !file_ || !broken_.ok()) return;
  // It only spares sending lines again.
  const std::string line = upload_format::record(header_.salt, mark().SerializeAsString());
  static_cast<void>(file_->append(std::as_bytes(std::span(line))).ok());
}

void UploadLog::take(const wire::Upload& line, const Place& at) {
  next_ = std::max(next_, line.sequence() + 1);
  const std::optional<Digest> digest = digest_of(line.digest());
  if (!digest) {
    acknowledged_ = std::max(acknowledged_, line.sequence());
    outbox_.erase(outbox_.begin(), outbox_.upper_bound(acknowledged_));
    dead_ += frame_of(at.bytes);
    return;
  }
  if (line.sequence() > acknowledged_) outbox_[line.sequence()] = at;
  Photo& photo = photos_[*digest];
  count(*digest, photo, -1);
  const bool says = line.version() > 0 || !line.truth().empty();
  if (line.removed()) {
    for (InTask& t : photo.tasks) {
      replace(t.label, {});
      replace(t.truth, {});
    }
    photo.tasks.clear();
    replace(photo.taken, {});
    replace(photo.removal, at);
  } else if (!says) {
    replace(photo.removal, {});
    replace(photo.taken, at);
  } else {
    const size_t task = numbered(task_of(line));
    const InTask* known = photo.in(task);
    InTask& t = known ? photo.tasks[static_cast<size_t>(known - photo.tasks.data())]
                      : photo.tasks.emplace_back(InTask{.task = task});
    replace(photo.removal, {});
    if (line.truth().empty()) replace(photo.taken, {});
    replace(line.truth().empty() ? t.label : t.truth, at);
  }
  count(*digest, photo, 1);
}

void UploadLog::replace(Place& old, const Place& now) {
  if (old) dead_ += frame_of(old.bytes);
  old = now;
}

// Photos, deletions, and the labels that are still to come.
void UploadLog::count(const Digest& id, const Photo& photo, int sign) {
  uploaded_ += sign * static_cast<int>(photo.uploaded());
  removed_ += sign * static_cast<int>(static_cast<bool>(photo.removal));
  bool waits = false;
  for (auto& [task, waiting] : unlabelled_) {
    if (sign > 0 && waits_for_label(photo, number_of(task))) {
      waits |= waiting.insert(id).second;
    } else if (sign < 0) {
      waits |= waiting.erase(id) > 0;
    }
  }
  if (waits) waiting_photos_ += sign;
}

bool UploadLog::waits_for_label(const Photo& photo, std::optional<size_t> task) {
  const InTask* said = task ? photo.in(*task) : nullptr;
  return photo.uploaded() && !(said && said->label);
}

bool UploadLog::Photo::uploaded() const {
  return taken || std::ranges::any_of(tasks, [](const InTask& t) { return bool(t.label); });
}

const UploadLog::InTask* UploadLog::Photo::in(size_t task) const {
  const auto it = std::ranges::find(tasks, task, &InTask::task);
  return it == tasks.end() ? nullptr : &*it;
}

std::optional<size_t> UploadLog::number_of(std::string_view task) const {
  const auto it = std::ranges::find(task_names_, task);
  if (it == task_names_.end()) return std::nullopt;
  return static_cast<size_t>(it - task_names_.begin());
}

size_t UploadLog::numbered(std::string_view task) {
  if (const std::optional<size_t> known = number_of(task)) return *known;
  task_names_.emplace_back(task);
  return task_names_.size() - 1;
}

void UploadLog::label_in(std::set<std::string, std::less<>> tasks) {
  const std::lock_guard lock(mutex_);
  const bool same = std::ranges::equal(tasks, unlabelled_, {}, {},
                                       [](const auto& of_task) { return of_task.first; });
  if (same) return;
  unlabelled_.clear();
  for (const std::string& task : tasks) unlabelled_[task];
  find_unlabelled();
}

void UploadLog::find_unlabelled() {
  std::set<Digest> all;
  for (auto& [task, waiting] : unlabelled_) {
    waiting.clear();
    const std::optional<size_t> number = number_of(task);
    for (const auto& [id, photo] : photos_) {
      if (waits_for_label(photo, number)) waiting.insert(id);
    }
    all.insert(waiting.begin(), waiting.end());
  }
  waiting_photos_ = std::ssize(all);
}

wire::Upload UploadLog::mark() const {
  wire::Upload line;
  line.set_sequence(acknowledged_);
  return line;
}

Status UploadLog::commit(std::vector<wire::Upload> lines) {
  return commit(Waiting{.lines = std::move(lines)});
}

Status UploadLog::commit_new(std::vector<wire::Upload> lines) {
  return commit(Waiting{.lines = std::move(lines), .only_new = true});
}

Status UploadLog::commit(Waiting mine) {
  for (const wire::Upload& line : mine.lines) {  // what the Tuner would refuse is not promised
    if (Status s = wire::check_message(line); !s.ok()) return s;
  }
  std::unique_lock lock(commit_mutex_);
  waiting_.push_back(&mine);
  committed_.wait(lock, [&] { return mine.done || !writing_; });
  if (mine.done) return mine.status;
  writing_ = true;
  const std::vector<Waiting*> batch = std::exchange(waiting_, {});
  lock.unlock();
  Status status(Code::kIo, path_ + ": a commit was broken off");
  const auto finish = [&] {
    lock.lock();
    for (Waiting* w : batch) {
      w->status = status;
      w->done = true;
    }
    end_writing();
  };
  try {
    status = write(batch);
  } catch (...) {
    broken_ = status;
    finish();
    throw;
  }
  finish();
  return mine.status;
}

void UploadLog::end_writing() {
  writing_ = false;
  committed_.notify_all();
}

// What the others of the batch say of a photo counts as said before.
void UploadLog::leave_out_known(const std::vector<Waiting*>& batch) const {
  std::set<std::string> others;
  for (const Waiting* w : batch) {
    for (const wire::Upload& line : w->lines) {
      if (!w->only_new) others.insert(line.digest());
    }
  }
  const std::lock_guard lock(mutex_);
  for (Waiting* w : batch) {
    if (!w->only_new) continue;
    std::erase_if(w->lines, [&](const wire::Upload& line) {
      if (others.contains(line.digest())) return true;
      const auto it = photos_.find(*digest_of(line.digest()));
      if (it == photos_.end()) return false;
      return it->second.removal || (line.version() == 0 && it->second.uploaded());
    });
  }
}

void UploadLog::leave_out_forgotten(const std::vector<Waiting*>& batch) const {
  const std::lock_guard lock(mutex_);
  if (forgotten_.empty()) return;
  for (Waiting* w : batch) {
    for (wire::Upload& line : w->lines) {
      const auto it = forgotten_.find(line.task());
      if (it != forgotten_.end() && line.version() > 0 && line.version() <= it->second) {
        wire::leave_out_what_is_said(line);
      }
    }
  }
}

Status UploadLog::write(const std::vector<Waiting*>& batch) {
  if (!broken_.ok()) return broken_;
  leave_out_forgotten(batch);
  if (std::ranges::any_of(batch, &Waiting::only_new)) leave_out_known(batch);
  std::string bytes;
  std::vector<Place> places;
  int64_t end = 0;
  {
    const std::lock_guard lock(mutex_);
    end = end_;
    if (mark_due_) bytes = upload_format::record(header_.salt, mark().SerializeAsString());
    mark_due_ = false;
  }
  const size_t marked = bytes.size();
  uint64_t sequence = next_;
  for (Waiting* w : batch) {
    for (wire::Upload& upload : w->lines) {
      upload.set_sequence(sequence++);
      const std::string line = upload.SerializeAsString();
      if (line.size() > upload_format::kLongestLine) {
        return {Code::kTooLarge, path_ + ": a line is too long"};
      }
      places.push_back({end + static_cast<int64_t>(bytes.size() + upload_format::kHead),
                        static_cast<uint32_t>(line.size())});
      bytes += upload_format::record(header_.salt, line);
    }
  }
  if (bytes.empty()) return {};
  if (Status s = file_->append(std::as_bytes(std::span(bytes))); !s.ok()) {
    const Status undone = file_->truncate(end);
    if (!undone.ok()) broken_ = {Code::kIo, undone.message() + "; a restart puts it right"};
    return s;
  }
  file_->sync();
  const std::lock_guard lock(mutex_);
  auto place = places.begin();
  for (const Waiting* w : batch) {
    for (const wire::Upload& line : w->lines) take(line, *place++);
  }
  end_ = end + static_cast<int64_t>(bytes.size());
  dead_ += static_cast<int64_t>(marked);
  return {};
}

Result<wire::Upload> UploadLog::read(const Place& at) const {
  std::string bytes(upload_format::kHead + at.bytes, '\0');
  const Result<size_t> got = reader_->read_at(at.at - static_cast<int64_t>(upload_format::kHead),
                                              std::as_writable_bytes(std::span(bytes)));
  if (!got.ok()) return got.status();
  wire::Upload line;
  if (*got == bytes.size() && upload_format::is_record(bytes, header_.salt) &&
      line.ParseFromString(bytes.substr(upload_format::kHead))) {
    return line;
  }
  damaged_ = true;
  return Status(Code::kCorrupt, path_ + ": the line at " + std::to_string(at.at) +
                                    " is damaged; the log is put right in a minute, or at the "
                                    "next start");
}

// Where the photo is, its newest line says.
std::optional<UploadLog::Known> UploadLog::find(const Digest& digest, std::string_view task) const {
  const std::lock_guard lock(mutex_);
  const auto it = photos_.find(digest);
  if (it == photos_.end()) return std::nullopt;
  const Photo& photo = it->second;
  const std::optional<size_t> number = number_of(task);
  const InTask* said = number ? photo.in(*number) : nullptr;
  Known known{.uploaded = photo.uploaded(), .removed = static_cast<bool>(photo.removal)};
  Place newest = photo.taken.at > photo.removal.at ? photo.taken : photo.removal;
  for (const InTask& t : photo.tasks) {
    for (const Place& at : {t.label, t.truth}) newest = at.at > newest.at ? at : newest;
  }
  if (newest) {
    const wire::Upload line = read(newest).or_throw();
    known.path = line.path();
    known.time = line.time();
  }
  if (said && said->truth) {
    const wire::Upload line = read(said->truth).or_throw();
    known.truth = line.truth();
    known.said = line.time();
  }
  if (said && said->label) {
    const wire::Upload line = read(said->label).or_throw();
    known.time = line.time();
    known.version = line.version();
    known.files = line.extractor() + line.head();
    known.top.assign(line.top().begin(), line.top().end());
  }
  return known;
}

std::vector<std::string> UploadLog::tasks_of(const Digest& digest) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> tasks;
  const auto it = photos_.find(digest);
  if (it == photos_.end()) return tasks;
  for (const InTask& t : it->second.tasks) tasks.push_back(task_names_[t.task]);
  return tasks;
}

UploadLog::Feedback UploadLog::feedback(const Digest& digest) const {
  const std::lock_guard lock(mutex_);
  const auto it = photos_.find(digest);
  if (it == photos_.end()) return {};
  const Photo& photo = it->second;
  const std::optional<size_t> number = number_of(kDefaultTask);
  const InTask* said = number ? photo.in(*number) : nullptr;
  return {.removed = static_cast<bool>(photo.removal),
          .truth = said && said->truth ? read(said->truth).or_throw().truth() : ""};
}

std::vector<Digest> UploadLog::unlabelled(const std::optional<Digest>& after, size_t most,
                                          std::string_view task) const {
  const std::lock_guard lock(mutex_);
  std::vector<Digest> some;
  const auto of_task = unlabelled_.find(task);
  if (of_task == unlabelled_.end()) return some;
  const std::set<Digest>& all = of_task->second;
  auto it = after ? all.upper_bound(*after) : all.begin();
  for (; it != all.end() && some.size() < most; ++it) some.push_back(*it);
  return some;
}

std::vector<std::pair<Digest, std::string>> UploadLog::removed() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<Digest, std::string>> all;
  for (const auto& [digest, photo] : photos_) {
    if (photo.removal) all.emplace_back(digest, read(photo.removal).or_throw().path());
  }
  return all;
}

UploadLog::Counts UploadLog::counts() const {
  const std::lock_guard lock(mutex_);
  return {.photos = uploaded_,
          .removed = removed_,
          .unacknowledged = std::ssize(outbox_),
          .unlabelled = waiting_photos_,
          .bytes = end_,
          .dead_bytes = dead_,
          .damaged = damaged_};
}

std::vector<UploadLog::Line> UploadLog::after(uint64_t sequence, size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::vector<Line> lines;
  size_t sum = 0;
  for (auto it = outbox_.upper_bound(sequence); it != outbox_.end() && sum < bytes;) {
    const Result<wire::Upload> line = read(it->second);
    if (!line.ok() && line.status().code() != Code::kCorrupt) {  // it may be read later
      log::error("the Tuner hears later of uploads: {}", line.status().message());
      break;
    }
    if (!line.ok()) {
      log::error("the Tuner does not hear of an upload: {}", line.status().message());
      it = outbox_.erase(it);
      continue;
    }
    lines.push_back({it++->first, line->SerializeAsString(), !line->task().empty()});
    sum += lines.back().bytes.size();
  }
  return lines;
}

void UploadLog::acknowledged(uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (sequence <= acknowledged_) return;
  acknowledged_ = sequence;
  outbox_.erase(outbox_.begin(), outbox_.upper_bound(sequence));
  mark_due_ = true;
}

uint64_t UploadLog::acknowledged() const {
  const std::lock_guard lock(mutex_);
  return acknowledged_;
}

}  // namespace ndtrain::ndp
