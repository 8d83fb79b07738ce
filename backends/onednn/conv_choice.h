// Direct, by the library, or by our Winograd: by a fixed rule, or as the tuning file says, for
// which it is measured.
#pragma once

#include <vector>

#include "backends/onednn/conv_plan.h"

namespace ndtrain::onednn {

// Of a direct one: how the weights lie, and the sizes of a slice that go with it. Forms of weights
// that are equal gave equal bits in all of the layers tried, others did not.
struct DirectForm {
  Desc weights;
  std::vector<int64_t> sizes;
};

DirectForm direct_form(const AskedConv& a);

// Whether the fixed rule computes it by Winograd.
bool winograd_by_rule(const AskedConv& a);

// Whether this device does. Depends on the layer, never on its batch.
bool takes_winograd(const ndt_device& device, const AskedConv& a);

}  // namespace ndtrain::onednn
