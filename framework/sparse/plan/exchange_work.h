// What choosing, writing and adding up what travels takes on a processor: seconds for an element.
#pragma once

#include "framework/core/clock.h"
#include "framework/train/optimizer_config.h"

namespace ndtrain {

// On one thread, of a tensor that no cache holds. The defaults are what measure_exchange_work() has
// said on a core of an AMD EPYC (Zen 4, AVX-512), with Adam.
struct ExchangeWork {
  // Of an element of a tensor:
  double add_s = 0.55e-9;     // a gradient is added to what is left (ErrorFeedback::add)
  double choose_s = 0.04e-9;  // threshold-v16 looks for elements, until it has found enough
  double sort_s = 6e-9;       // topk does, in all of them
  double column_s = 2e-9;     // and a column, all three products of PowerSGD
  double outer_s = 2.4e-9;    // an outer gradient, and the outer optimizer's step
  // Of an element that travels:
  double encode_s = 6.5e-9;  // its selection is written (selection_codec.h)
  double decode_s = 9e-9;    // and read, and added up (sum_of())
  double update_s = 7.5e-9;  // the sparse optimizer's step
};

// Throws Error naming the member: one that is negative or not finite.
void validate(const ExchangeWork& work);

// Here, with this optimizer: medians of a few rounds on a tensor of four million elements, about a
// third of a second in all.
ExchangeWork measure_exchange_work(const OptimizerConfig& optimizer, Clock& clock);

}  // namespace ndtrain
