// What a step takes when ranks exchange it by one method or another, and how much time they need
// for the same accuracy: a plain function of what computing, links and processors take.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/shape.h"
#include "framework/parallel/cost_profile.h"
#include "framework/sparse/control/loss_penalty.h"
#include "framework/sparse/plan/exchange_method.h"
#include "framework/sparse/plan/exchange_work.h"

namespace ndtrain {

// Of a training by ranks, each of which does its part of the rows of a step.
struct TrainingCosts {
  // Layers: forward and backward passes of a rank's rows. Ranks, collectives between them, and the
  // dense optimizer.
  CostProfile step;
  // Of each trained parameter; none: not known, and each layer with elements counts as one that is
  // no matrix.
  std::vector<Shape> tensors = {};
  ExchangeWork work = {};
  int threads = 1;            // that a rank computes with
  int64_t rows = 0;           // of a step of all ranks; 0: not known
  int64_t epoch_steps = 100;  // of an epoch, at whose end all that is under way is waited for
};

struct MethodForecast {
  ExchangeMethod method;
  // Seconds of a step, the mean of an epoch.
  double step_s = 0;
  double computing_s = 0;  // of it, forward and backward passes and a dense update
  double work_s = 0;       // of it, choosing, writing, adding up, outer steps
  double exposed_s = 0;    // of it, what is left: waiting for the link
  double sent_bytes = 0;   // by a rank to each other
  // Steps to the loss of a step of exact gradients, of the same rows.
  double steps_factor = 1;
  std::string source;  // of the factor

  // Of what a step of exact gradients brings.
  double seconds_to_accuracy() const { return step_s * steps_factor; }
};

// - A schedule: simulate() of framework/parallel; of all-reduces blocking the bytes all travel
//   behind the backward pass.
// - sparse: selections as selection_codec.h writes them (of blocks of threshold-v16 an index for
//   16), gathered by all. With a staleness the slower of computing and exchanging; what chooses and
//   adds up takes its part of the processor from computing, and behind --drain-every steps and each
//   epoch one exchange is waited for.
// - powersgd: two all-reduces behind each other, of P and what travels whole, and of Q.
// - local, diloco: agreements of fragments within the epoch, and of all at its end and where it
//   drains; of each what its overlap does not hide.
//
// Without steps_factor(). Throws Error: costs that validate() refuses, fewer than 2 ranks, no
// threads or steps of an epoch, shapes of other elements than layers have; powersgd without shapes.
MethodForecast forecast_step(const ExchangeMethod& method, const TrainingCosts& costs);

// The same with the factors of steps_factor.h, the least seconds_to_accuracy() first, of equal ones
// as they are in `methods`.
std::vector<MethodForecast> forecast(std::span<const ExchangeMethod> methods,
                                     const TrainingCosts& costs, const LossPenalty* penalty);

// Collectives on links that carry so many bytes per second each way between a rank and all others
// together, of which headers of packets take their part.
void set_link(double bytes_per_s, double latency_s, int ranks, CostProfile& costs);
// The other way: bytes per second that these all-gathers of `costs` carry; infinite where bytes
// take nothing.
double link_bytes_per_s(const CostProfile& costs);

}  // namespace ndtrain
