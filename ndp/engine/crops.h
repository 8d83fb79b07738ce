// Crops: the pixels that a network of some preprocessing sees, u8 in rows, as crop() makes them.
// Where they are kept, and inference on them.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "framework/runtime/batch_plans.h"
#include "ndp/engine/engine.h"
#include "ndp/photos/preprocess.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

// Under which crops of this preprocessing are kept in a SegmentStore, each under its photo's
// digest.
Digest crop_group(const Preprocess& preprocess);

// RecordMeta::codec of a crop.
enum class CropCodec : uint8_t { kPixels = 0, kPacked = 1 };  // ndp/engine/packed_crop.h

// Crops of one preprocessing in a store that has features too. They are many times larger, so they
// are kept only as long as nothing has to go for them. Packed ones and others may lie beside each
// other. Thread-safe.
class CropCache {
 public:
  // `pack`: those that are kept from now on.
  CropCache(SegmentStore& store, const Preprocess& preprocess, bool pack)
      : store_(store),
        group_(crop_group(preprocess)),
        side_(preprocess.img_size),
        bytes_(preprocess.values()),
        pack_(pack) {}

  // Whether one is kept, which may turn out to be damaged.
  bool has(const Digest& photo) const { return store_.contains(group_, photo); }
  std::optional<Image> get(const Digest& photo);
  // Ok also when there is no room.
  Status keep(const Digest& photo, const Image& crop);
  void put(const Digest& photo, const Image& crop);  // the same, and warns once when that fails

  // As the engine wants them; `digest` is of its photo numbers. Both must outlive the answer.
  Engine::Crops with(const std::function<const Digest&(size_t item)>& digest);

 private:
  // As Engine::Crops::find.
  bool find(const Digest& photo, Image& crop, std::vector<std::byte>& packed);

  SegmentStore& store_;
  const Digest group_;
  const int side_;
  const size_t bytes_;
  const bool pack_;
  std::atomic<bool> failed_ = false;
};

// The outputs for crops of preprocess.values() bytes each; the same bytes as Engine gives for the
// photos they are of. Throws Error for a crop of another size.
std::vector<Tensor> infer_crops(BatchPlans& extractor, const Preprocess& preprocess,
                                std::span<const std::string_view> crops);

}  // namespace ndtrain::ndp
