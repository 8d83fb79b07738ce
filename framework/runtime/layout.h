// How values lie in memory while a plan runs: row-major, unless the backend would rather have them
// otherwise (channels in blocks, channels last). The pass asks the backend about every node in
// order and puts a Reorder wherever a value lies otherwise than its reader wants it, once for each
// value and layout. Where both describe the same bytes (blocks of channels under one pixel), the
// Reorder is a view: its reader sees the description that it asked for; so is a Transpose that
// brings channels behind the pixels of images that lie channels-last, or back. Inputs, outputs and
// constants of a graph stay row-major.
#pragma once

#include <set>
#include <vector>

#include "framework/runtime/backend.h"

namespace ndtrain {

inline constexpr int kChannelAxis = 1;

struct LayoutAssignment {
  Graph graph;                         // the original's nodes, and Reorders
  std::vector<ndt_tensor_type> types;  // by value of `graph`
  std::vector<ValueId> now;            // by value of the original: what it is in `graph`, or kNone
};

// `bound` are the values that the caller gives at every run.
LayoutAssignment assign_layouts(const Graph& g, const Device& device,
                                const std::set<ValueId>& bound);

// Of every value, row-major.
std::vector<ndt_tensor_type> row_major_types(const Graph& g);

bool is_row_major(const ndt_tensor_type& t);
// The same bytes in the same order: dims of one element do not matter.
bool lie_alike(const ndt_tensor_type& a, const ndt_tensor_type& b);
// From the first element to the last, both included, with gaps and padding lanes.
size_t extent_bytes(const ndt_tensor_type& t);

}  // namespace ndtrain
