#include "ndp/engine/crops.h"

#include <cstring>

#include "framework/core/log.h"
#include "ndp/engine/network_input.h"
#include "ndp/engine/packed_crop.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kRoom = 16;  // crops: what several threads may put at once, and headers

}  // namespace

Digest crop_group(const Preprocess& preprocess) {
  Sha256 hash;
  hash.field("crops").field(photo_decoders());
  for (const auto& [key, value] : to_metadata(preprocess)) hash.field(key).field(value);
  return hash.finish();
}

bool CropCache::find(const Digest& photo, Image& crop, std::vector<std::byte>& packed) {
  packed.clear();
  const auto bytes = std::as_writable_bytes(std::span(crop.rgb));
  const Result<Found> found = store_.get(group_, photo, bytes);
  if (!found.ok()) return false;
  if (found->meta.codec == static_cast<uint8_t>(CropCodec::kPixels)) return found->bytes == bytes_;
  if (found->meta.codec != static_cast<uint8_t>(CropCodec::kPacked)) return false;
  const auto part = bytes.first(found->bytes);
  packed.assign(part.begin(), part.end());
  return !packed.empty();
}

std::optional<Image> CropCache::get(const Digest& photo) {
  Image crop(side_, side_);
  std::vector<std::byte> packed;
  if (!find(photo, crop, packed)) return {};
  if (!packed.empty() && !unpack_crop(packed, crop)) return {};
  return crop;
}

Status CropCache::keep(const Digest& photo, const Image& crop) {
  const auto room = store_.budget_bytes() - store_.disk_bytes();
  if (room < static_cast<int64_t>(kRoom * bytes_)) return {};
  RecordMeta meta;
  std::vector<std::byte> packed;
  if (pack_) packed = pack_crop(crop);
  if (packed.empty()) return store_.put(group_, photo, meta, std::as_bytes(std::span(crop.rgb)));
  meta.codec = static_cast<uint8_t>(CropCodec::kPacked);
  return store_.put(group_, photo, meta, packed);
}

void CropCache::put(const Digest& photo, const Image& crop) {
  const Status s = keep(photo, crop);
  if (!s.ok() && !failed_.exchange(true)) {
    log::warn("crops are not kept for the next time: {}", s.message());
  }
}

Engine::Crops CropCache::with(const std::function<const Digest&(size_t)>& digest) {
  return {.find = [this, &digest](
                      size_t item, Image& crop,
                      std::vector<std::byte>& packed) { return find(digest(item), crop, packed); },
          .keep = [this, &digest](size_t item, const Image& crop) { put(digest(item), crop); }};
}

std::vector<Tensor> infer_crops(BatchPlans& extractor, const Preprocess& preprocess,
                                std::span<const std::string_view> crops) {
  send_bytes_where_faster(extractor, preprocess);
  const auto n = static_cast<int64_t>(crops.size());
  NetworkInput input(preprocess, extractor.reads_photos());
  input.resize(n);
  shared_threads().parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::string_view crop = crops[static_cast<size_t>(i)];
      if (crop.size() != preprocess.values()) {
        throw Error("a crop of ", crop.size(), " bytes; the network sees ", preprocess.values());
      }
      Image image(preprocess.img_size, preprocess.img_size);
      std::memcpy(image.rgb.data(), crop.data(), crop.size());
      input.put(i, image);
    }
  });
  const Tensor rows = input.first(n);
  return extractor.run({&rows, 1});
}

}  // namespace ndtrain::ndp
