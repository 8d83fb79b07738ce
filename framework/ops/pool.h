// What the pools and their gradients share.
#pragma once

#include "framework/ops/spatial.h"

namespace ndtrain {

std::vector<AttrSpec> max_pool_attrs();
std::vector<AttrSpec> average_pool_attrs(std::vector<AttrSpec> more = {});

// The window of a pool. Throws Error like window_of, and for padding that a whole window fits into.
Window pool_window(const Attrs& a, const Shape& x);

// [N, C, …] after pooling.
inline Shape pooled(const Shape& x, const Window& w) { return shape_of_planes(x[0], x[1], w.out); }

// What an average over the window at each output position divides by: its cells inside x, and with
// count_include_pad those in the padding too. Cells that ceil_mode adds beyond the padding never
// count. At least 1.
std::vector<double> average_counts(const Attrs& a, const Window& w);

}  // namespace ndtrain
