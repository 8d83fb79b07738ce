// What RNN, GRU and LSTM have in common: a cell that goes over a sequence in one direction or in
// both. Inputs: x [steps, batch, inputs]; for each direction W [gates hidden, inputs],
// R [gates hidden, hidden] and their biases, one behind the other; how many steps each image has;
// the states that the cell begins with, [directions, batch, hidden]; an LSTM's peepholes. With
// layout 1 the batch comes before the steps, and before the directions.
#pragma once

#include "framework/ops/common.h"

namespace ndtrain {

enum class Cell { kRnn, kGru, kLstm };

// The inputs.
inline constexpr size_t kX = 0, kW = 1, kR = 2, kB = 3, kLengths = 4, kH = 5, kC = 6, kP = 7;

struct Recurrence {
  int64_t steps, batch, inputs, hidden, directions, gates;
  bool batch_first;

  // Of x and of R.
  Recurrence(Cell cell, const Attrs& attrs, const Shape& x);

  // Whether direction d begins at the last step.
  static bool backwards(const Attrs& attrs, int64_t d) {
    return d == 1 || attrs.s("direction") == "reverse";
  }
};

// The outputs of a node as others: a product for all steps at once, then a few nodes for each step.
std::vector<ValueId> compose_recurrence(ComposeContext& c, Cell cell);

}  // namespace ndtrain
