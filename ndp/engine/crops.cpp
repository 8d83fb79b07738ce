#include "ndp/engine/crops.h"

#include <cstring>

#include "framework/core/log.h"
#include "ndp/engine/network_input.h"

namespace ndtrain {
namespace {

constexpr size_t kRoom = 16;  // crops: what several threads may put at once, and headers

}  // namespace

Digest crop_group(const Preprocess& preprocess) {
  Sha256 hash;
  hash.field("crops").field(jpeg_decoder());
  for (const auto& [key, value] : to_metadata(preprocess)) hash.field(key).field(value);
  return hash.finish();
}

bool CropCache::get(const Digest& photo, std::span<uint8_t> to) {
  const Result<Found> found = store_.get(group_, photo, std::as_writable_bytes(to));
  return found.ok() && found->bytes == bytes_;
}

void CropCache::put(const Digest& photo, const Image& crop) {
  const auto room = store_.budget_bytes() - store_.disk_bytes();
  if (room < static_cast<int64_t>(kRoom * bytes_)) return;
  const Status s = store_.put(group_, photo, {}, std::as_bytes(std::span(crop.rgb)));
  if (!s.ok() && !failed_.exchange(true)) {
    log::warn("crops are not kept for the next time: {}", s.message());
  }
}

Engine::Crops CropCache::with(const std::function<const Digest&(size_t)>& digest) {
  return {
      .find = [this, &digest](size_t item, std::span<uint8_t> to) { return get(digest(item), to); },
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

}  // namespace ndtrain
