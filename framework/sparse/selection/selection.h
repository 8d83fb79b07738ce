// Elements of a tensor: of a gradient, those that travel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ndtrain {

// Of a tensor of at most limits::kSparseElements elements.
struct Selection {
  std::vector<uint32_t> indices;  // rising, each once
  std::vector<float> values;      // of each of these

  friend bool operator==(const Selection&, const Selection&) = default;
};

// Moves the elements `indices` of `values` into `out`, bit for bit; zeros stay behind.
void move_out(std::span<float> values, std::vector<uint32_t> indices, Selection& out);

// The sum of what the ranks selected of one tensor. The values of an element are added up in the
// order of the ranks; an element that one rank has keeps its bits. As large as what it is given,
// not as the tensor.
Selection sum_of(std::span<const Selection> of_ranks);

}  // namespace ndtrain
