// Inference on crops: the pixels that a network of some preprocessing sees, u8 in rows, as crop()
// makes them.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "framework/core/hash.h"
#include "framework/runtime/batch_plans.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain {

// Under which crops of this preprocessing are kept in a SegmentStore, each under its photo's
// digest.
Digest crop_group(const Preprocess& preprocess);

// The outputs for crops of preprocess.values() bytes each; the same bytes as Engine gives for the
// photos they are of. Throws Error for a crop of another size.
std::vector<Tensor> infer_crops(BatchPlans& extractor, const Preprocess& preprocess,
                                std::span<const std::string_view> crops);

}  // namespace ndtrain
