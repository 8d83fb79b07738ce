// Crops: the pixels that a network of some preprocessing sees, u8 in rows, as crop() makes them.
// Where they are kept, and inference on them.
#pragma once

#include <atomic>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "framework/runtime/batch_plans.h"
#include "ndp/engine/engine.h"
#include "ndp/photos/preprocess.h"
#include "ndp/store/segment_store.h"

namespace ndtrain {

// Under which crops of this preprocessing are kept in a SegmentStore, each under its photo's
// digest.
Digest crop_group(const Preprocess& preprocess);

// Crops of one preprocessing in a store that has features too. They are many times larger, so they
// are kept only as long as nothing has to go for them. Thread-safe.
class CropCache {
 public:
  CropCache(SegmentStore& store, const Preprocess& preprocess)
      : store_(store), group_(crop_group(preprocess)), bytes_(preprocess.values()) {}

  bool get(const Digest& photo, std::span<uint8_t> to);  // preprocess.values() bytes
  void put(const Digest& photo, const Image& crop);      // warns once when that fails

  // As the engine wants them; `digest` is of its photo numbers. Both must outlive the answer.
  Engine::Crops with(const std::function<const Digest&(size_t item)>& digest);

 private:
  SegmentStore& store_;
  const Digest group_;
  const size_t bytes_;
  std::atomic<bool> failed_ = false;
};

// The outputs for crops of preprocess.values() bytes each; the same bytes as Engine gives for the
// photos they are of. Throws Error for a crop of another size.
std::vector<Tensor> infer_crops(BatchPlans& extractor, const Preprocess& preprocess,
                                std::span<const std::string_view> crops);

}  // namespace ndtrain
