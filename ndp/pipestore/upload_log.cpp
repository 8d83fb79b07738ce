#include "ndp/pipestore/upload_log.h"

#include <algorithm>
#include <cstring>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/store/coding.h"
#include "ndp/wire/digests.h"

namespace ndtrain {
namespace {

constexpr std::string_view kMagic = "NDTUPL1\n";
constexpr size_t kLineHead = 12;
constexpr uint32_t kLongestLine = 1 << 20;
constexpr size_t kReadAtOnce = size_t{4} << 20;

std::string framed(const std::string& line) {
  std::string out(kLineHead, '\0');
  auto* head = reinterpret_cast<std::byte*>(out.data());
  store_le<uint64_t>(head, xxh3(line.data(), line.size()));
  store_le<uint32_t>(head + 8, static_cast<uint32_t>(line.size()));
  return out + line;
}

}  // namespace

size_t UploadLog::DigestHash::operator()(const Digest& d) const {
  size_t h = 0;
  std::memcpy(&h, d.data(), sizeof h);
  return h;
}

Result<std::unique_ptr<UploadLog>> UploadLog::open(Fs& fs, const std::string& directory) {
  if (Status s = fs.make_directories(directory); !s.ok()) return s;
  std::unique_ptr<UploadLog> log(new UploadLog(fs, join(directory, "log")));
  if (Status s = log->recover(); !s.ok()) return s;
  return log;
}

UploadLog::~UploadLog() {
  if (!mark_due_ || !file_ || !broken_.ok()) return;
  const std::string line = mark();  // only spares sending lines again
  static_cast<void>(file_->append(std::as_bytes(std::span(line))).ok());
}

Status UploadLog::recover() {
  sweep_temporaries(fs_, parent_of(path_));
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
  if (end_ == 0) {
    if (Status s = file_->append(std::as_bytes(std::span(kMagic))); !s.ok()) return s;
    end_ = kMagic.size();
  }
  sync_or_throw(*file_, path_);
  if (Status s = fs_.sync_directory(parent_of(path_)); !s.ok()) throw FsyncFailed(s.message());
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
  if (!*there) return int64_t{0};
  if (!bytes.starts_with(kMagic)) {
    // A crash may leave a file whose bytes never came; anything else is not ours.
    if (bytes.find_first_not_of('\0') == std::string::npos) return int64_t{0};
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

void UploadLog::take(const wire::Upload& line, const Place& at) {
  next_ = std::max(next_, line.sequence() + 1);
  const auto frame = [](const Place& p) { return static_cast<int64_t>(kLineHead + p.bytes); };
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

std::string UploadLog::mark() const {
  wire::Upload line;
  line.set_sequence(acknowledged_);
  return framed(line.SerializeAsString());
}

Status UploadLog::commit(std::vector<wire::Upload> lines) {
  Waiting mine{.lines = std::move(lines)};
  std::unique_lock lock(commit_mutex_);
  waiting_.push_back(&mine);
  committed_.wait(lock, [&] { return mine.done || !writing_; });
  if (mine.done) return mine.status;
  writing_ = true;
  const std::vector<Waiting*> batch = std::exchange(waiting_, {});
  lock.unlock();
  Status status(Code::kIo, path_ + ": its fsync failed");
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

Status UploadLog::write(const std::vector<Waiting*>& batch) {
  if (!broken_.ok()) return broken_;
  std::string bytes;
  std::vector<Place> places;
  int64_t end = 0;
  {
    const std::lock_guard lock(mutex_);
    end = end_;
    if (mark_due_) bytes = mark();
    mark_due_ = false;
  }
  const size_t marked = bytes.size();
  uint64_t sequence = next_;
  for (Waiting* w : batch) {
    for (wire::Upload& upload : w->lines) {
      upload.set_sequence(sequence++);
      const std::string line = upload.SerializeAsString();
      if (line.size() > kLongestLine) return {Code::kTooLarge, path_ + ": a line is too long"};
      places.push_back({end + static_cast<int64_t>(bytes.size() + kLineHead),
                        static_cast<uint32_t>(line.size())});
      bytes += framed(line);
    }
  }
  if (Status s = file_->append(std::as_bytes(std::span(bytes))); !s.ok()) {
    const Status undone = file_->truncate(end);
    if (!undone.ok()) broken_ = {Code::kIo, undone.message() + "; a restart puts it right"};
    return s;
  }
  sync_or_throw(*file_, path_);
  const std::lock_guard lock(mutex_);
  auto place = places.begin();
  for (const Waiting* w : batch) {
    for (const wire::Upload& line : w->lines) take(line, *place++);
  }
  end_ = end + static_cast<int64_t>(bytes.size());
  dead_ += static_cast<int64_t>(marked);
  return {};
}

wire::Upload UploadLog::read(const Place& at) const {
  std::string bytes(at.bytes, '\0');
  const Result<size_t> got = reader_->read_at(at.at, std::as_writable_bytes(std::span(bytes)));
  wire::Upload line;
  if (!got.ok() || *got != bytes.size() || !line.ParseFromString(bytes)) {
    throw Error(path_, ": a line at ", at.at, " cannot be read");
  }
  return line;
}

std::optional<UploadLog::Known> UploadLog::find(const Digest& digest) const {
  const std::lock_guard lock(mutex_);
  const auto it = photos_.find(digest);
  if (it == photos_.end()) return std::nullopt;
  const Photo& photo = it->second;
  Known known{.uploaded = photo.label.has_value(), .removed = photo.removal.has_value()};
  if (const auto& at = photo.removal) {
    const wire::Upload line = read(*at);
    known.path = line.path();
    known.time = line.time();
  }
  if (const auto& at = photo.truth) {
    const wire::Upload line = read(*at);
    known.path = line.path();
    known.truth = line.truth();
  }
  if (const auto& at = photo.label) {
    const wire::Upload line = read(*at);
    known.path = line.path();
    known.time = line.time();
    known.version = line.version();
    known.files = line.extractor() + line.head();
    known.top.assign(line.top().begin(), line.top().end());
  }
  return known;
}

UploadLog::Said UploadLog::said(const Digest& digest) const {
  const std::lock_guard lock(mutex_);
  const auto it = photos_.find(digest);
  if (it == photos_.end()) return {};
  const Photo& photo = it->second;
  return {.removed = photo.removal.has_value(),
          .truth = photo.truth ? read(*photo.truth).truth() : ""};
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
    if (photo.removal) all.emplace_back(digest, read(*photo.removal).path());
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
          .dead_bytes = dead_};
}

std::vector<UploadLog::Line> UploadLog::after(uint64_t sequence, size_t bytes) const {
  const std::lock_guard lock(mutex_);
  std::vector<Line> lines;
  size_t sum = 0;
  for (auto it = outbox_.upper_bound(sequence); it != outbox_.end() && sum < bytes; ++it) {
    lines.push_back({it->first, read(it->second).SerializeAsString()});
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
