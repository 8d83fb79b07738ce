#include "framework/testing/faulty_fs.h"

#include <utility>

namespace ndtrain {

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kIo:
      return "EIO";
    case Fault::kNoSpace:
      return "ENOSPC";
    case Fault::kReadOnly:
      return "EROFS";
    case Fault::kTooManyFiles:
      return "EMFILE";
    case Fault::kShortWrite:
      return "short write";
    case Fault::kTornWrite:
      return "torn write";
    case Fault::kSyncLost:
      return "fsync lost";
    case Fault::kRenameLost:
      return "rename lost";
  }
  return "?";
}

bool is_lie(Fault fault) { return fault == Fault::kSyncLost || fault == Fault::kRenameLost; }

namespace {

Status failure(Fault fault, const std::string& path) {
  switch (fault) {
    case Fault::kNoSpace:
    case Fault::kShortWrite:
      return {Code::kNoSpace, path + ": No space left on device"};
    case Fault::kReadOnly:
      return {Code::kIo, path + ": Read-only file system"};
    case Fault::kTooManyFiles:
      return {Code::kIo, path + ": Too many open files"};
    default:
      return {Code::kIo, path + ": Input/output error"};
  }
}

}  // namespace

class FaultyFs::OpenFile final : public File {
 public:
  OpenFile(FaultyFs& fs, std::string path, std::unique_ptr<File> file)
      : fs_(fs), path_(std::move(path)), file_(std::move(file)) {}

  Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
    if (Status s = fs_.begin(Call::kRead, path_); !s.ok()) return s;
    return file_->read_at(offset, to);
  }
  Status append(std::span<const std::byte> bytes) override {
    const std::optional<Fault> fault = fs_.hit(Call::kAppend);
    if (!fault) return file_->append(bytes);
    if (fault != Fault::kShortWrite && fault != Fault::kTornWrite) return failure(*fault, path_);
    if (Status half = file_->append(bytes.first(bytes.size() / 2)); !half.ok()) return half;
    if (fault == Fault::kShortWrite) return failure(*fault, path_);
    fs_.end();
    throw ProcessEnded{};
  }
  Status truncate(int64_t size) override {
    if (Status s = fs_.begin(Call::kChange, path_); !s.ok()) return s;
    return file_->truncate(size);
  }
  Result<int64_t> size() override {
    if (Status s = fs_.begin(Call::kRead, path_); !s.ok()) return s;
    return file_->size();
  }
  Status lock() override { return file_->lock(); }

 private:
  Status try_sync() override {
    const std::optional<Fault> fault = fs_.hit(Call::kSync);
    if (!fault) file_->sync();
    if (!fault || is_lie(*fault)) return {};
    fs_.end();
    return failure(*fault, path_);
  }

  FaultyFs& fs_;
  const std::string path_;
  const std::unique_ptr<File> file_;
};

void FaultyFs::strike(int64_t n, Fault fault, bool lasting) {
  const std::lock_guard lock(mutex_);
  fault_ = fault;
  lasting_ = lasting;
  struck_ = ended_ = false;
  left_ = n;
}

bool FaultyFs::struck() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

void FaultyFs::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
}

bool FaultyFs::can_strike(Fault fault, Call call) {
  switch (fault) {
    case Fault::kIo:
      return true;
    case Fault::kNoSpace:
      return call == Call::kMake || call == Call::kAppend || call == Call::kRename;
    case Fault::kReadOnly:
      return call != Call::kRead && call != Call::kOpen && call != Call::kSync;
    case Fault::kTooManyFiles:
      return call == Call::kOpen || call == Call::kMake;
    case Fault::kShortWrite:
    case Fault::kTornWrite:
      return call == Call::kAppend;
    case Fault::kSyncLost:
      return call == Call::kSync;
    case Fault::kRenameLost:
      return call == Call::kRename;
  }
  return false;
}

std::optional<Fault> FaultyFs::hit(Call call) {
  const std::lock_guard lock(mutex_);
  if (ended_) return Fault::kIo;
  if (left_ == 0 || !can_strike(fault_, call)) return std::nullopt;
  if (left_ > 1) {
    --left_;
    return std::nullopt;
  }
  if (!lasting_) left_ = 0;
  struck_ = true;
  return fault_;
}

Status FaultyFs::begin(Call call, const std::string& path) {
  const std::optional<Fault> fault = hit(call);
  return fault ? failure(*fault, path) : Status();
}

Result<std::unique_ptr<File>> FaultyFs::open(const std::string& path, Mode mode) {
  const Call call = mode == Mode::kRead ? Call::kOpen : Call::kMake;
  if (Status s = begin(call, path); !s.ok()) return s;
  Result<std::unique_ptr<File>> file = disk_.open(path, mode);
  if (!file.ok()) return file.status();
  return std::unique_ptr<File>(new OpenFile(*this, path, std::move(*file)));
}

Result<FileInfo> FaultyFs::info(const std::string& path) {
  if (Status s = begin(Call::kRead, path); !s.ok()) return s;
  return disk_.info(path);
}

Result<std::vector<std::string>> FaultyFs::list(const std::string& directory) {
  if (Status s = begin(Call::kOpen, directory); !s.ok()) return s;
  return disk_.list(directory);
}

Status FaultyFs::make_directories(const std::string& path) {
  if (Status s = begin(Call::kChange, path); !s.ok()) return s;
  return disk_.make_directories(path);
}

Status FaultyFs::rename(const std::string& from, const std::string& to) {
  const std::optional<Fault> fault = hit(Call::kRename);
  if (!fault) return disk_.rename(from, to);
  return is_lie(*fault) ? Status() : failure(*fault, from + " -> " + to);
}

Status FaultyFs::remove(const std::string& path) {
  if (Status s = begin(Call::kChange, path); !s.ok()) return s;
  return disk_.remove(path);
}

Result<Space> FaultyFs::space(const std::string& path) {
  if (Status s = begin(Call::kRead, path); !s.ok()) return s;
  return disk_.space(path);
}

Result<std::unique_ptr<FileLock>> FaultyFs::lock(const std::string& path) {
  if (Status s = begin(Call::kMake, path); !s.ok()) return s;
  return disk_.lock(path);
}

Status FaultyFs::try_sync_directory(const std::string& path) {
  const std::optional<Fault> fault = hit(Call::kSync);
  if (!fault) disk_.sync_directory(path);
  if (!fault || is_lie(*fault)) return {};
  end();
  return failure(*fault, path);
}

}  // namespace ndtrain
