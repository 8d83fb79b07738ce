#include "ndp/jobs/kept_hashes.h"

#include <span>

#include "framework/core/log.h"
#include "ndp/photos/perceptual_hash.h"

namespace ndtrain::ndp {
namespace {

constexpr int kEnoughPixels = 64;       // of the shorter side: hashes have 9 x 8
constexpr int64_t kRecordBytes = 4096;  // with its header, and what a new segment begins with

}  // namespace

Result<uint64_t> hash_photo(const std::string& name, std::string_view file, PhotoDecoder& by) {
  PhotoCost cost;
  const Result<Image> image =
      decode_photo(name, file, {.min_shorter_side = kEnoughPixels}, cost, by);
  if (!image.ok()) return image.status();
  return difference_hash(*image);
}

KeptHashes::KeptHashes(SegmentStore& store)
    : store_(store), group_(Sha256().field("difference hashes").field(photo_decoders()).finish()) {}

std::optional<uint64_t> KeptHashes::get(const Digest& photo) const {
  uint64_t hash = 0;
  const auto found = store_.get(group_, photo, std::as_writable_bytes(std::span(&hash, 1)));
  return found.ok() && found->bytes == sizeof hash ? std::optional(hash) : std::nullopt;
}

void KeptHashes::put(const Digest& photo, uint64_t hash) {
  if (full_) return;
  Status s(Code::kNoSpace, "the cache is full");
  if (store_.disk_bytes() + kRecordBytes <= store_.budget_bytes()) {
    s = store_.put(group_, photo, {}, std::as_bytes(std::span(&hash, 1)));
  }
  if (s.ok()) return;
  full_ = true;
  log::warn("hashes of photos are not kept for the next time: {}", s.message());
}

}  // namespace ndtrain::ndp
