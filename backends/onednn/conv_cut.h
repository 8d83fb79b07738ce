// One image of a convolution in parts, so that several threads can compute it.
#pragma once

#include <vector>

#include "backends/onednn/conv_plan.h"

namespace ndtrain::onednn {

// At most `n` parts of `images`, for ports in the order of the library's: blocked outputs by
// channels, each with its own weights, channels-last ones by rows. Empty, or throws Unsupported: it
// cannot be cut, or the library would use another algorithm.
std::vector<Sliced::Plan::Part> cut_image(const AskedConv& a, const Desc& weights, int64_t images,
                                          int64_t n);

}  // namespace ndtrain::onednn
