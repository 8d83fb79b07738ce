#include "ndp/rados/rados_file.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "framework/core/text.h"
#include "framework/core/write_once_file.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kBeginOfObject = int64_t{4} << 20;  // bytes: a photo comes in one request
constexpr int64_t kPartOfObject = int64_t{8} << 20;   // of what is behind it

// Of one version of an object, or of others with its bytes: its beginning is there, the rest is
// asked for.
class RadosFile final : public File {
 public:
  RadosFile(std::shared_ptr<RadosView> view, std::string path, std::string name, ObjectBytes begin)
      : view_(std::move(view)),
        path_(std::move(path)),
        name_(std::move(name)),
        begin_(std::move(begin)),
        version_(begin_.object.version) {}

  Result<size_t> read_at(int64_t offset, std::span<std::byte> to) override {
    const int64_t whole = begin_.object.size;
    const int64_t n = std::clamp<int64_t>(whole - offset, 0, static_cast<int64_t>(to.size()));
    const auto there = static_cast<int64_t>(begin_.bytes.size());
    int64_t done = std::clamp<int64_t>(there - offset, 0, n);
    if (done > 0) std::memcpy(to.data(), begin_.bytes.data() + offset, static_cast<size_t>(done));
    while (done < n) {
      const int64_t part = std::min(n - done, kPartOfObject);
      const Result<ObjectBytes> read = read_part(offset + done, part);
      if (!read.ok()) return read.status();
      if (read->bytes.size() != static_cast<size_t>(part)) {
        return Status(Code::kIo, printable(path_, 1024) + ": cut short");
      }
      std::memcpy(to.data() + done, read->bytes.data(), read->bytes.size());
      done += part;
    }
    return static_cast<size_t>(n);
  }
  Result<int64_t> size() override { return begin_.object.size; }
  Status append(std::span<const std::byte>) override { return open_to_read(); }
  Status truncate(int64_t) override { return open_to_read(); }

 private:
  // Where the object is of another version, whose bytes are the same, that is what is read.
  Result<ObjectBytes> read_part(int64_t offset, int64_t size) {
    const uint64_t version = version_;
    Result<ObjectBytes> read = view_->read(name_, offset, size, version);
    if (read.status().code() != Code::kIo) return read;
    const Result<ObjectFacts> now = view_->stat(std::span(&name_, 1)).front();
    const bool marked = now.ok() && now->version != version &&
                        now->content == begin_.object.content && now->size == begin_.object.size;
    if (!marked) return read;
    version_ = now->version;
    return view_->read(name_, offset, size, now->version);
  }
  Status try_sync() override { return open_to_read(); }
  Status open_to_read() const {
    return {Code::kUnsupported, printable(path_, 1024) + ": open to read"};
  }

  const std::shared_ptr<RadosView> view_;
  const std::string path_, name_;
  const ObjectBytes begin_;
  std::atomic<uint64_t> version_;
};

// One that append() puts there.
class NewRadosFile final : public WriteOnceFile {
 public:
  NewRadosFile(std::shared_ptr<RadosView> view, const std::string& path, std::string name)
      : WriteOnceFile(printable(path, 1024)), view_(std::move(view)), name_(std::move(name)) {}

 private:
  Status put(std::string_view bytes) override { return view_->add(name_, bytes); }

  const std::shared_ptr<RadosView> view_;
  const std::string name_;
};

}  // namespace

Result<std::unique_ptr<File>> read_rados_file(std::shared_ptr<RadosView> view, std::string path,
                                              std::string name) {
  Result<ObjectBytes> begin = view->read(name, 0, kBeginOfObject, 0);
  if (!begin.ok()) return begin.status();
  return std::unique_ptr<File>(std::make_unique<RadosFile>(std::move(view), std::move(path),
                                                           std::move(name), std::move(*begin)));
}

std::unique_ptr<File> new_rados_file(std::shared_ptr<RadosView> view, const std::string& path,
                                     std::string name) {
  return std::make_unique<NewRadosFile>(std::move(view), path, std::move(name));
}

}  // namespace ndtrain::ndp
