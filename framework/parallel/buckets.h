// Ways to cut the flat space of the parameters into the buckets of a plan, in forward order. All
// throw Error for sizes and times that are not above 0.
#pragma once

#include <cstdint>
#include <vector>

#include "framework/parallel/cost_profile.h"

namespace ndtrain {

using Buckets = std::vector<ParameterRange>;

// `layers` each, counted from the front.
Buckets layer_buckets(const CostProfile& costs, int layers = 1);

// Layers are taken from the front while they are below `bytes` together.
Buckets front_buckets(const CostProfile& costs, int64_t bytes);

// Layers are taken from the back until there are `first_bytes`, then `bytes`, and so on.
Buckets back_buckets(const CostProfile& costs, int64_t first_bytes, int64_t bytes);

// All layers in one, which is cut, from the front, at each layer whose gradient waits another
// `wait_s` for the end of the backward pass.
Buckets waiting_buckets(const CostProfile& costs, double wait_s);

// Every layer by itself, in pieces of `bytes`; what is left over is the layer's last.
Buckets pieces(const CostProfile& costs, int64_t bytes);

// A bucket begins, seen from the front, with each layer that is marked, and with the first one.
Buckets cut_buckets(const CostProfile& costs, const std::vector<bool>& begins);

// Which layers have elements of each bucket. An empty one is that of the next layer without
// elements at its place, if there is one, else it goes with the bucket in front of it.
struct LayerSpan {
  size_t front, back;
};
std::vector<LayerSpan> layers_of(const Buckets& buckets, const CostProfile& costs);

}  // namespace ndtrain
