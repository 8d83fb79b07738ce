// The file of a log of uploads: how it is read again after a crash, and rewritten.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <random>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/upload_line.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kWriteAtOnce = size_t{4} << 20;

uint64_t new_salt() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

constexpr size_t kMostDescribed = 20;
constexpr int64_t kYear10000 = 253'402'300'800;

std::string described(const wire::Upload& line) {
  std::string text = fmt::format("line {}", line.sequence());
  if (line.time() < 0 || line.time() >= kYear10000) return text;
  return text + fmt::format(" of {:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(line.time()));
}

// A part of the file that is damaged, and the lines around it.
struct Lost {
  upload_format::LogDamage where;
  std::optional<wire::Upload> before, behind;
};

std::string described(const Lost& lost) {
  std::string text = fmt::format("{} bytes at {}", lost.where.bytes, lost.where.at);
  if (lost.before) text += ", behind " + described(*lost.before);
  if (lost.behind) text += ", before " + described(*lost.behind);
  return text;
}

}  // namespace

Result<std::unique_ptr<UploadLog>> UploadLog::open(Fs& fs, const std::string& directory) {
  if (Status s = fs.make_directories(directory); !s.ok()) return s;
  std::unique_ptr<UploadLog> log(new UploadLog(fs, join(directory, "log")));
  if (Status s = log->recover(); !s.ok()) return s;
  return log;
}

Status UploadLog::recover() {
  sweep_temporaries(fs_, parent_of(path_));
  // Begun whole, so that no crash leaves a part of its header.
  Status there = fs_.info(path_).status();
  if (!there.ok() && there.code() != Code::kNotFound) return there;
  if (!there.ok()) {
    if (Status s = publish(fs_, path_, upload_format::header(new_salt())); !s.ok()) return s;
  }
  Result<std::unique_ptr<File>> file = fs_.open(path_, Fs::Mode::kAppend);
  if (!file.ok()) return file.status();
  file_ = std::move(*file);
  if (Status s = reopen(); !s.ok()) return s;
  const Result<int64_t> size = file_->size();
  if (!size.ok()) return size.status();
  const Result<upload_format::LogWalk> walk =
      each_line(*size, [this](const wire::Upload& line, const Place& place) { take(line, place); });
  if (!walk.ok()) return walk.status();
  end_ = *size - walk->torn;
  if (walk->torn > 0) {
    log::warn("{}: {} bytes of an unfinished commit are dropped", path_, walk->torn);
    if (Status s = file_->truncate(end_); !s.ok()) return s;
  }
  file_->sync();
  const bool good = header_.version == 2 && header_.whole && walk->damage.empty();
  return good ? Status() : rewrite();
}

Status UploadLog::reopen() {
  Result<std::unique_ptr<File>> reader = fs_.open(path_, Fs::Mode::kRead);
  if (!reader.ok()) return reader.status();
  reader_ = std::move(*reader);
  const Result<upload_format::LogHeader> header = upload_format::read_header(*reader_);
  if (!header.ok()) return {header.status().code(), path_ + ": " + header.status().message()};
  header_ = *header;
  return {};
}

Result<upload_format::LogWalk> UploadLog::each_line(
    int64_t size, const std::function<void(wire::Upload, const Place&)>& f) const {
  return upload_format::walk(*reader_, header_, size, [&](std::string_view bytes, int64_t at) {
    wire::Upload line;
    const auto n = static_cast<uint32_t>(bytes.size());
    if (!line.ParseFromArray(bytes.data(), static_cast<int>(n))) return false;
    f(std::move(line), {at, n});
    return true;
  });
}

bool UploadLog::alive(const wire::Upload& line, const Place& at) const {
  const std::optional<Digest> digest = digest_of(line.digest());
  if (!digest) return false;
  const Photo& photo = photos_.at(*digest);
  const auto here = [&at](const Place& place) { return place && place.at == at.at; };
  if (here(photo.taken) || here(photo.removal)) return true;
  for (const InTask& t : photo.tasks) {
    if (here(t.label) || here(t.truth)) return true;
  }
  // What was said of a photo that is deleted now, nobody needs to hear.
  return !photo.removal && outbox_.contains(line.sequence());
}

// What is damaged is said and kept, before the file that has it is replaced.
Status UploadLog::keep_damaged(const std::vector<upload_format::LogDamage>& damage) const {
  std::string kept;
  for (int n = 1; kept.empty() || fs_.exists(kept); ++n) {
    kept = path_ + ".damaged-" + std::to_string(n);
  }
  Result<Publisher> copy = Publisher::start(fs_, kept);
  if (!copy.ok()) return copy.status();
  std::string bytes(kWriteAtOnce, '\0');
  for (int64_t at = 0;;) {
    const auto got = reader_->read_at(at, std::as_writable_bytes(std::span(bytes)));
    if (!got.ok()) return got.status();
    if (*got == 0) break;
    if (Status s = copy->write(std::string_view(bytes).substr(0, *got)); !s.ok()) return s;
    at += static_cast<int64_t>(*got);
  }
  if (Status s = copy->commit(); !s.ok()) return s;
  std::vector<Lost> lost;
  for (const upload_format::LogDamage& d : damage) {
    if (lost.size() < kMostDescribed) lost.push_back({.where = d});
  }
  const auto walk = each_line(end_, [&lost](const wire::Upload& line, const Place& place) {
    for (Lost& l : lost) {
      if (line.digest().empty()) continue;
      if (place.at < l.where.at) l.before = line;
      if (place.at > l.where.at && !l.behind) l.behind = line;
    }
  });
  if (!walk.ok()) return walk.status();
  log::error(
      "{}: is damaged in {} place{}: what stood there of uploads, labels, people's words or "
      "deletions is lost; all else is kept",
      path_, damage.size(), damage.size() == 1 ? "" : "s");
  for (const Lost& l : lost) log::error("{}: lost: {}", path_, described(l));
  log::error("{}: as it was, it is kept as {}, until somebody removes that", path_, kept);
  return {};
}

// By who is writing. Of a photo that was labelled in `without_task` it stays that it was taken.
Status UploadLog::rewrite(const std::string& without_task) {
  Result<Publisher> publisher = Publisher::start(fs_, path_);
  if (!publisher.ok()) return publisher.status();
  const uint64_t salt = new_salt();
  std::string bytes = upload_format::header(salt);
  Status written;
  const auto add = [&](const wire::Upload& line) {
    bytes += upload_format::record(salt, line.SerializeAsString());
    if (bytes.size() < kWriteAtOnce || !written.ok()) return;
    written = publisher->write(bytes);
    bytes.clear();
  };
  {
    const std::lock_guard lock(mutex_);
    add(mark());
  }
  const auto walk = each_line(end_, [&](wire::Upload line, const Place& place) {
    {
      const std::lock_guard lock(mutex_);
      if (!alive(line, place)) return;
      if (line.removed() && line.sequence() <= acknowledged_) line.clear_path();
    }
    if (!without_task.empty() && line.task() == without_task) {
      if (!line.truth().empty()) return;
      wire::leave_out_what_is_said(line);
    }
    add(line);
  });
  if (!walk.ok()) return walk.status();
  if (written.ok()) written = publisher->write(bytes);
  if (!written.ok()) return written;
  if (!walk->damage.empty()) {
    if (Status s = keep_damaged(walk->damage); !s.ok()) return s;
  }
  if (Status s = publisher->commit(); !s.ok()) return s;
  UploadLog fresh(fs_, path_);
  if (Status s = fresh.recover(); !s.ok()) return broken_ = s;
  file_ = std::move(fresh.file_);
  next_ = std::max(next_, fresh.next_);
  const std::lock_guard lock(mutex_);
  reader_ = std::move(fresh.reader_);
  header_ = fresh.header_;
  damaged_ = false;
  photos_ = std::move(fresh.photos_);
  task_names_ = std::move(fresh.task_names_);
  find_unlabelled();  // what was damaged may have been a label
  outbox_ = std::move(fresh.outbox_);
  outbox_.erase(outbox_.begin(), outbox_.upper_bound(acknowledged_));
  mark_due_ = fresh.acknowledged_ < acknowledged_;
  end_ = fresh.end_;
  dead_ = fresh.dead_;
  uploaded_ = fresh.uploaded_;
  removed_ = fresh.removed_;
  return {};
}

// Commits wait meanwhile; reads do not.
Status UploadLog::alone(const std::function<Status()>& f) {
  std::unique_lock lock(commit_mutex_);
  committed_.wait(lock, [&] { return !writing_; });
  writing_ = true;
  lock.unlock();
  Status status = broken_;
  try {
    if (status.ok()) status = f();
  } catch (...) {
    lock.lock();
    end_writing();
    throw;
  }
  lock.lock();
  end_writing();
  return status;
}

Status UploadLog::compact() {
  return alone([this] { return rewrite(); });
}

Status UploadLog::forget_task(const std::string& task, uint64_t version) {
  return alone([this, &task, version] {
    {
      const std::lock_guard lock(mutex_);
      forgotten_[task] = version;
    }
    return rewrite(task);
  });
}

Status UploadLog::unacknowledge() {
  return alone([this] {
    {
      const std::lock_guard lock(mutex_);
      acknowledged_ = 0;
    }
    return rewrite();
  });
}

}  // namespace ndtrain::ndp
