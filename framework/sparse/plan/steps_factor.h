// How many steps a method needs for what one of exact gradients brings. Measured, where there is a
// convergence profile; else assumed, by what is published or was measured here: each source is in
// the table of steps_factor.cpp, and nowhere else.
#pragma once

#include <string>

#include "framework/sparse/control/goodput.h"
#include "framework/sparse/control/loss_penalty.h"
#include "framework/sparse/plan/exchange_method.h"

namespace ndtrain {

struct StepsFactor {
  double factor = 1;
  std::string source;
};

// 1 of a schedule of exact gradients.
StepsFactor assumed_steps_factor(const ExchangeMethod& method);

// With a loss penalty h a step counts for 1 / (1 + 50 h), as in BatchObjective (StellaTrain,
// section 4). h is that of `rows` in a step of all ranks and, of sparse gradients, of their drop;
// of all others, of drop 0. Of a profile over bandwidths a drop stands for the part of the
// reference's bytes that it sends. A profile knows nothing of staleness, low rank or local steps:
// what is assumed of these is a factor besides.
StepsFactor measured_steps_factor(const ExchangeMethod& method, const LossPenalty& penalty,
                                  double rows, const SelectionSizes& sizes, int ranks);

}  // namespace ndtrain
