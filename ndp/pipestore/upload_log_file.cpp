// The file of a log of uploads: how it is read again after a crash, and rewritten.
#include <algorithm>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/pipestore/upload_line.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/wire/digests.h"

namespace ndtrain {
namespace {

constexpr std::string_view kMagic = "NDTUPL1\n";
constexpr size_t kReadAtOnce = size_t{4} << 20;

}  // namespace

Result<std::unique_ptr<UploadLog>> UploadLog::open(Fs& fs, const std::string& directory) {
  if (Status s = fs.make_directories(directory); !s.ok()) return s;
  std::unique_ptr<UploadLog> log(new UploadLog(fs, join(directory, "log")));
  if (Status s = log->recover(); !s.ok()) return s;
  return log;
}

Status UploadLog::recover() {
  sweep_temporaries(fs_, parent_of(path_));
  // Begun whole, so that no crash leaves a part of its first line.
  if (fs_.info(path_).status().code() == Code::kNotFound) {
    if (Status s = publish(fs_, path_, kMagic); !s.ok()) return s;
  }
  Result<std::unique_ptr<File>> file = fs_.open(path_, Fs::Mode::kAppend);
  if (!file.ok()) return file.status();
  file_ = std::move(*file);
  if (Status s = reopen(); !s.ok()) return s;
  const Result<int64_t> size = file_->size();
  if (!size.ok()) return size.status();
  const Result<int64_t> whole = scan(*reader_, *size);
  if (!whole.ok()) return whole.status();
  end_ = *whole;
  if (end_ < *size) {
    log::warn("{}: {} bytes of an unfinished commit are dropped", path_, *size - end_);
    if (Status s = file_->truncate(end_); !s.ok()) return s;
  }
  sync_or_throw(*file_, path_);
  return {};
}

Status UploadLog::reopen() {
  Result<std::unique_ptr<File>> reader = fs_.open(path_, Fs::Mode::kRead);
  if (!reader.ok()) return reader.status();
  reader_ = std::move(*reader);
  return {};
}

Result<int64_t> UploadLog::scan(File& file, int64_t size) {
  std::string bytes;  // from `begin` on
  int64_t begin = 0, at = 0;
  const auto have = [&](int64_t n) -> Result<bool> {  // n bytes from `at` on
    if (at + n > size) return false;
    if (at + n <= begin + static_cast<int64_t>(bytes.size())) return true;
    bytes.resize(std::max(static_cast<size_t>(n), kReadAtOnce));
    begin = at;
    const auto got = file.read_at(at, std::as_writable_bytes(std::span(bytes)));
    if (!got.ok()) return got.status();
    bytes.resize(*got);
    return static_cast<int64_t>(*got) >= n;
  };
  Result<bool> there = have(kMagic.size());
  if (!there.ok()) return there.status();
  if (!bytes.starts_with(kMagic)) {
    return Status(Code::kCorrupt, path_ + ": is no log of uploads");
  }
  for (at = kMagic.size();;) {
    there = have(kLineHead);
    if (!there.ok()) return there.status();
    if (!*there) return at;
    const auto* head = reinterpret_cast<const std::byte*>(&bytes[static_cast<size_t>(at - begin)]);
    const auto checksum = load_le<uint64_t>(head);
    const auto n = load_le<uint32_t>(head + 8);
    if (n > kLongestLine) return at;
    there = have(static_cast<int64_t>(kLineHead + n));
    if (!there.ok()) return there.status();
    if (!*there) return at;
    const char* line = &bytes[static_cast<size_t>(at - begin) + kLineHead];
    wire::Upload upload;
    if (xxh3(line, n) != checksum || !upload.ParseFromArray(line, static_cast<int>(n))) return at;
    take(upload, {at + static_cast<int64_t>(kLineHead), n});
    at += static_cast<int64_t>(kLineHead + n);
  }
}

bool UploadLog::alive(const wire::Upload& line, const Place& at) const {
  const std::optional<Digest> digest = digest_of(line.digest());
  if (!digest) return false;
  const Photo& photo = photos_.at(*digest);
  for (const auto* place : {&photo.label, &photo.truth, &photo.removal}) {
    if (*place && (*place)->at == at.at) return true;
  }
  // What was said of a photo that is deleted now, nobody needs to hear.
  return !photo.removal && outbox_.contains(line.sequence());
}

// By who is writing.
Status UploadLog::rewrite() {
  Result<Publisher> publisher = Publisher::start(fs_, path_);
  if (!publisher.ok()) return publisher.status();
  std::string bytes(kMagic);
  {
    const std::lock_guard lock(mutex_);
    bytes += mark();
  }
  for (int64_t at = kMagic.size(), end = end_; at < end;) {
    std::string head(kLineHead, '\0');
    const auto got = reader_->read_at(at, std::as_writable_bytes(std::span(head)));
    if (!got.ok()) return got.status();
    const Place place{at + static_cast<int64_t>(kLineHead),
                      load_le<uint32_t>(reinterpret_cast<const std::byte*>(head.data()) + 8)};
    at = place.at + place.bytes;
    wire::Upload line = read(place);
    {
      const std::lock_guard lock(mutex_);
      if (!alive(line, place)) continue;
      if (line.removed() && line.sequence() <= acknowledged_) line.clear_path();
    }
    bytes += framed(line.SerializeAsString());
    if (bytes.size() < kReadAtOnce) continue;
    if (Status s = publisher->write(bytes); !s.ok()) return s;
    bytes.clear();
  }
  if (Status s = publisher->write(bytes); !s.ok()) return s;
  if (Status s = publisher->commit(); !s.ok()) return s;
  UploadLog fresh(fs_, path_);
  if (Status s = fresh.recover(); !s.ok()) return broken_ = s;
  file_ = std::move(fresh.file_);
  next_ = std::max(next_, fresh.next_);
  const std::lock_guard lock(mutex_);
  reader_ = std::move(fresh.reader_);
  photos_ = std::move(fresh.photos_);
  unlabelled_ = std::move(fresh.unlabelled_);
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
Status UploadLog::compact() {
  std::unique_lock lock(commit_mutex_);
  committed_.wait(lock, [&] { return !writing_; });
  writing_ = true;
  lock.unlock();
  Status status = broken_;
  try {
    if (status.ok()) status = rewrite();
  } catch (...) {
    lock.lock();
    end_writing();
    throw;
  }
  lock.lock();
  end_writing();
  return status;
}

}  // namespace ndtrain
