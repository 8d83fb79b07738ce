// Direct or Winograd: by a fixed rule, or as the tuning file says, for which it is measured.
#pragma once

#include <vector>

#include "backends/onednn/conv_plan.h"

namespace ndtrain::onednn {

// How the weights lie, and the sizes of a slice that go with it. The library's Winograd sums in an
// order that depends on the images at once, and so does the form of its weights: equal forms gave
// equal bits, others did not, in all of the layers tried.
struct ConvChoice {
  Desc weights;
  std::vector<int64_t> sizes;
};

// Whether the fixed rule computes it by Winograd.
bool winograd_by_rule(const AskedConv& a);

// Sets `a.how.winograd`. Depends on the layer, never on its batch.
ConvChoice choose(const ndt_device& device, AskedConv& a);

}  // namespace ndtrain::onednn
