#include "ndp/pipestore/store_trash.h"

#include <algorithm>
#include <string_view>

#include "framework/core/coding.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"

namespace ndtrain::ndp {
namespace {

constexpr std::string_view kTrashMagic = "NDTTRS1\n";
constexpr size_t kNumber = 8;

void put_number(std::string& bytes, uint64_t number) {
  std::byte le[kNumber];
  store_le<uint64_t>(le, number);
  bytes.append(reinterpret_cast<const char*>(le), kNumber);
}

uint64_t number_at(const std::string& bytes, size_t at) {
  return load_le<uint64_t>(reinterpret_cast<const std::byte*>(bytes.data()) + at);
}

bool is_whole(const std::string& bytes) {
  const size_t least = kTrashMagic.size() + 2 * kNumber;
  return bytes.size() >= least && (bytes.size() - least) % sizeof(Digest) == 0 &&
         bytes.starts_with(kTrashMagic) &&
         number_at(bytes, bytes.size() - kNumber) == xxh3(bytes.data(), bytes.size() - kNumber);
}

}  // namespace

StoreTrash::StoreTrash(Fs& fs, const std::string& path) : fs_(fs), path_(path) {
  const Result<std::string> bytes = fs_.read(path_);
  if (bytes.status().code() == Code::kNotFound) return;
  bytes.status().or_throw();
  if (!is_whole(*bytes)) {
    log::warn("{}: is damaged; what is in the trash is heard of from the Tuner again", path_);
    return;
  }
  revision_ = number_at(*bytes, kTrashMagic.size());
  for (size_t at = kTrashMagic.size() + kNumber; at + kNumber < bytes->size();
       at += sizeof(Digest)) {
    Digest photo{};
    std::copy_n(bytes->data() + at, photo.size(), photo.begin());
    photos_.insert(photo);
  }
}

Status StoreTrash::check(const std::string& bytes) {
  return is_whole(bytes) ? Status() : Status(Code::kCorrupt, "its checksum is wrong");
}

bool StoreTrash::has(const Digest& photo) const {
  const std::lock_guard lock(mutex_);
  return photos_.contains(photo);
}

size_t StoreTrash::size() const {
  const std::lock_guard lock(mutex_);
  return photos_.size();
}

uint64_t StoreTrash::revision() const {
  const std::lock_guard lock(mutex_);
  return revision_;
}

Status StoreTrash::replace(const std::set<Digest>& photos, uint64_t revision) {
  const std::lock_guard lock(mutex_);
  return keep(photos, revision);
}

Status StoreTrash::change(std::span<const Digest> photos, std::span<const Digest> restored,
                          uint64_t revision) {
  const std::lock_guard lock(mutex_);
  std::set<Digest> now = photos_;
  now.insert(photos.begin(), photos.end());
  for (const Digest& photo : restored) now.erase(photo);
  return keep(std::move(now), revision);
}

Status StoreTrash::restore(const Digest& photo) {
  const std::lock_guard lock(mutex_);
  std::set<Digest> now = photos_;
  if (now.erase(photo) == 0) return {};
  return keep(std::move(now), revision_);
}

Status StoreTrash::keep(std::set<Digest> photos, uint64_t revision) {
  if (photos == photos_ && revision == revision_) return {};
  std::string bytes(kTrashMagic);
  put_number(bytes, revision);
  for (const Digest& photo : photos) {
    bytes.append(reinterpret_cast<const char*>(photo.data()), photo.size());
  }
  put_number(bytes, xxh3(bytes.data(), bytes.size()));
  if (Status s = publish(fs_, path_, bytes); !s.ok()) return s;
  photos_ = std::move(photos);
  revision_ = revision;
  return {};
}

}  // namespace ndtrain::ndp
