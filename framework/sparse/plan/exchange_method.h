// How the ranks of a training exchange what they learn, as one word: a schedule of an all-reduce,
// or what is for slow links, with what decides how much travels.
//
// - ddp, blocking, auto, …: a schedule (framework/parallel/schedules).
// - sparse:S:DROP[:COMPRESSOR]: sparse gradients of staleness S, by threshold-v16 or another
//   (compressor.h), as sparse:1:0.99 and sparse:0:0.99:topk.
// - powersgd:R: PowerSGD of R columns.
// - local:H[:N[:T]]: the mean of the ranks' parameters every H steps, in N fragments that travel
//   under T steps; diloco:H[:N[:T]]: the same with DiLoCo's outer optimizer.
//
// What is not said is as `ndtrain train` has it by default.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "framework/sparse/local/local_steps.h"
#include "framework/sparse/low_rank/power_sgd.h"
#include "framework/sparse/sync/slow_link_training.h"
#include "framework/sparse/sync/sparse_sync.h"

namespace ndtrain {

struct ExchangeMethod {
  std::string sync;  // of --sync
  // None: the schedule of that name, which has the bytes of one process.
  std::variant<std::monostate, SparseSyncOptions, PowerSgdOptions, LocalStepsOptions> options = {};
  int64_t drain_every = SlowLinkTraining::Options{}.drain_every;  // where steps are under way

  bool is_exact() const { return std::holds_alternative<std::monostate>(options); }
  std::string text() const;   // the word
  std::string flags() const;  // of ndtrain train: "--sync sparse --staleness 1 --drop 0.99"
};

// Throws Error, which begins with the word: no such schedule or method, a number that is missing or
// out of its range.
ExchangeMethod parse_exchange_method(std::string_view word);

// Behind so many steps from 100 on all agree where ranks train by themselves: a multiple of H.
int64_t drained_every(int64_t inner_steps);

// What is worth comparing: sparse gradients by two compressors with and without staleness,
// PowerSGD, local steps, and DiLoCo whole and in its streaming form.
std::vector<ExchangeMethod> slow_link_methods();
// The schedules auto, ddp and blocking, and these.
std::vector<ExchangeMethod> usual_methods();

}  // namespace ndtrain
