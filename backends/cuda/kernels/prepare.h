// What the ops of this folder share when they are prepared.
#pragma once

#include <vector>

#include "backends/cuda/kernel.h"
#include "backends/cuda/layout.h"

namespace ndtrain::cuda {

// The types of inputs [begin, end).
std::vector<ndt_tensor_type> inputs_of(const Node& node, int begin, int end);

// An axis of a tensor of this rank, counted from the end when negative.
int axis_of(const Node& node, int rank);

// The integers (or bools) of constant input i, or unsupported().
std::vector<int64_t> known_ints(const Node& node, int i, const char* what);

void check_float(const ndt_tensor_type& t);  // of a float dtype, or unsupported()

// unsupported() unless it is row-major.
void check_row_major(const ndt_tensor_type& t, const char* what);

// Every port of the node is row-major, or unsupported().
void check_row_major(const Node& node);

// For prefer(): if one of the inputs that have the output's rank and are not constant lies
// channels-last, they all do, and the outputs of that rank; else all of these are row-major. Other
// inputs may lie as they do.
void follow_images(const ndt_device& device, const Node& node, ndt_tensor_type* in,
                   ndt_tensor_type* out);

// For prefer(): inputs as they are, outputs row-major.
void take_any(const ndt_device& device, const Node& node, ndt_tensor_type* in,
              ndt_tensor_type* out);

}  // namespace ndtrain::cuda
