// Small random networks and numbers for them: what property tests run on.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain::testing {

// Floats uniform in ±1 that their dtype holds exactly; a function of type, seed and purpose.
Tensor random_tensor(const TensorType& type, uint64_t seed, std::string_view purpose);
std::vector<Tensor> random_inputs(const Graph& g, uint64_t seed);

// `nodes` nodes or a few more over maps [batch, C, 5, 5] that start at the inputs "x" and "y", with
// skips, views, concatenations and nodes of two outputs; params have data. Outputs: "logits"
// [batch, 3], then some of the maps. The same seed gives the same weights for every batch.
Graph random_network(uint64_t seed, int nodes = 14, int64_t batch = 2);

// Outputs of the interpreter for inputs and params by name (params may be left to the graph), not
// rounded to f32.
using NamedValues = std::map<std::string, std::vector<double>>;
std::vector<std::vector<double>> interpret_named(const Graph& g, const NamedValues& given);
NamedValues named_inputs(const Graph& g, uint64_t seed);

// The largest |a - b| / max(1, |b|); throws Error when the sizes differ.
double largest_difference(const std::vector<std::vector<double>>& a,
                          const std::vector<std::vector<double>>& b);

int count_nodes(const Graph& g, std::string_view op);

}  // namespace ndtrain::testing
