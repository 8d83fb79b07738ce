#include "ndp/pipestore/upload_log.h"

#include <algorithm>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {

UploadLog::~UploadLog() {
  if (!mark_due_ || !file_ || !broken_.ok()) return;
  // It only spares sending lines again.
  const std::string line = upload_format::record(header_.salt, mark().SerializeAsString());
  static_cast<void>(file_->append(std::as_bytes(std::span(line))).ok());
}

void UploadLog::take(const wire::Upload& line, const Place& at) {
  next_ = std::max(next_, line.sequence() + 1);
  const auto frame = [](const Place& p) {
    return static_cast<int64_t>(upload_format::kHead + p.bytes);
  };
  const std::optional<Digest> digest = digest_of(line.digest());
  if (!digest) {
    acknowledged_ = std::max(acknowledged_, line.sequence());
    outbox_.erase(outbox_.begin(), outbox_.upper_bound(acknowledged_));
    dead_ += frame(at);
    return;
  }
  if (line.sequence() > acknowledged_) outbox_[line.sequence()] = at;
  Photo& photo = photos_[*digest];
  const auto replace = [&](std::optional<Place>& old, std::optional<Place> now) {
    if (old) dead_ += frame(*old);
    old = now;
  };
  uploaded_ -= photo.label.has_value();
  removed_ -= photo.removal.has_value();
  if (line.removed()) {
    replace(photo.label, std::nullopt);
    replace(photo.truth, std::nullopt);
    replace(photo.removal, at);
    photo.labelled = false;
  } else {
    replace(photo.removal, std::nullopt);
    replace(line.truth().empty() ? photo.label : photo.truth, at);
    if (line.truth().empty()) photo.labelled = line.version() > 0;
  }
  uploaded_ += photo.label.has_value();
  removed_ += photo.removal.has_value();
  if (photo.label && !photo.labelled) {
    unlabelled_.insert(*digest);
  } else {
    unlabelled_.erase(*digest);
  }
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
      return it->second.removal.has_value() ||
             (line.version() == 0 && it->second.label.has_value());
    });
  }
}

Status UploadLog::write(const std::vector<Waiting*>& batch) {
  if (!broken_.ok()) return broken_;
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

std::optional<UploadLog::Known> UploadLog::find(const Digest& digest) const {
  const std::lock_guard lock(mutex_);
  const auto it = photos_.find(digest);
  if (it == photos_.end()) return std::nullopt;
  const Photo& photo = it->second;
  Known known{.uploaded = photo.label.has_value(), .removed = photo.removal.has_value()};
  if (const auto& at = photo.removal) {
    const wire::Upload line = read(*at).or_throw();
    known.path = line.path();
    known.time = line.time();
  }
  if (const auto& at = photo.truth) {
    const wire::Upload line = read(*at).or_throw();
    known.path = line.path();
    known.truth = line.truth();
    known.said = line.time();
  }
  if (const auto& at = photo.label) {
    const wire::Upload line = read(*at).or_throw();
    known.path = line.path();
    known.time = line.time();
    known.version = line.version();
    known.files = line.extractor() + line.head();
    known.top.assign(line.top().begin(), line.top().end());
  }
  return known;
}

UploadLog::Feedback UploadLog::feedback(const Digest& digest) const {
  const std::lock_guard lock(mutex_);
  const auto it = photos_.find(digest);
  if (it == photos_.end()) return {};
  const Photo& photo = it->second;
  return {.removed = photo.removal.has_value(),
          .truth = photo.truth ? read(*photo.truth).or_throw().truth() : ""};
}

std::vector<Digest> UploadLog::unlabelled(const std::optional<Digest>& after, size_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<Digest> some;
  auto it = after ? unlabelled_.upper_bound(*after) : unlabelled_.begin();
  for (; it != unlabelled_.end() && some.size() < most; ++it) some.push_back(*it);
  return some;
}

std::vector<std::pair<Digest, std::string>> UploadLog::removed() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<Digest, std::string>> all;
  for (const auto& [digest, photo] : photos_) {
    if (photo.removal) all.emplace_back(digest, read(*photo.removal).or_throw().path());
  }
  return all;
}

UploadLog::Counts UploadLog::counts() const {
  const std::lock_guard lock(mutex_);
  return {.photos = uploaded_,
          .unlabelled = static_cast<int64_t>(unlabelled_.size()),
          .removed = removed_,
          .unacknowledged = static_cast<int64_t>(outbox_.size()),
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
    if (!line.ok()) {
      log::error("the Tuner does not hear of an upload: {}", line.status().message());
      it = outbox_.erase(it);
      continue;
    }
    lines.push_back({it++->first, line->SerializeAsString()});
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
