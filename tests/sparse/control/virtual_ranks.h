// Ranks that train in lockstep in virtual time, with known throughputs and a known link, and do as
// the controller says. Not by the code that is tested, but for what it is told and says.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "framework/core/rng.h"
#include "framework/sparse/control/rate_controller.h"
#include "framework/sparse/selection/compressor.h"

namespace ndtrain {

struct VirtualMachines {
  std::vector<ThroughputModel> throughput;  // of each rank
  std::vector<int64_t> elements;            // of each tensor
  std::function<double(int64_t step)> link_mbps;
  double noise = 0;  // deviation of what is measured, in parts of it
};

class VirtualRanks {
 public:
  // What was in force at a step, and what it was like.
  struct Step {
    RateInstruction in_force;
    double bandwidth_mbps = 0;  // the controller's B
    double wait_part = 0;       // of the rank that waited least
  };

  VirtualRanks(VirtualMachines machines, const RateControllerOptions& options)
      : machines_(std::move(machines)),
        schedules_(machines_.throughput.size(), RateSchedule({.from_step = options.first_step,
                                                              .batch = options.first_batch,
                                                              .drop = options.first_drop})),
        step_(options.first_step),
        noise_(options.seed, "noise") {}

  // Seconds of a step in which the slowest rank's backward pass takes so long: gradients travel
  // beside the next step, so that the slower of the two counts. A rank receives from each other one
  // the elements that SparseSync sends, of 8 bytes, with the headers of goodput.h.
  static double gradients_s(const std::vector<int64_t>& elements, double drop, int ranks,
                            double mbps) {
    double bytes = 0;
    for (const int64_t n : elements) {
      const double message = 47 + 8.0 * static_cast<double>(elements_to_send(n, drop, ranks));
      bytes += message + 66 * std::ceil(message / 1472);
    }
    return (ranks - 1) * bytes * 8e-6 / mbps;
  }

  // What ranks measure of the next step.
  std::vector<Telemetry> next_step() {
    const auto ranks = static_cast<int>(schedules_.size());
    double slowest_s = 0;
    Step step;
    std::vector<double> backward_s;
    for (size_t r = 0; r < schedules_.size(); ++r) {
      step.in_force = schedules_[r].begin_step(step_);
      const auto x = static_cast<double>(step.in_force.batch[r]);
      const ThroughputModel& f = machines_.throughput[r];
      backward_s.push_back((x < f.alpha ? f.alpha : x) / f.beta);
      slowest_s = std::max(slowest_s, 1.5 * backward_s.back());
    }
    const double link = machines_.link_mbps(step_);
    const double gradients = gradients_s(machines_.elements, step.in_force.drop, ranks, link);
    const double step_s = std::max(slowest_s, gradients);
    std::vector<Telemetry> all;
    for (size_t r = 0; r < schedules_.size(); ++r) {
      all.push_back({.rank = static_cast<int>(r),
                     .step = step_,
                     .batch = step.in_force.batch[r],
                     .drop = step.in_force.drop,
                     .send_mbps = measured(link),
                     .receive_mbps = measured(link),
                     .forward_ms = measured(500 * backward_s[r]),
                     .backward_ms = measured(1000 * backward_s[r]),
                     .backward_forward_gap_ms = measured(1000 * (step_s - 1.5 * backward_s[r])),
                     .in_forward_gap_ms = 0});
    }
    step.wait_part = (step_s - slowest_s) / step_s;
    history.push_back(step);
    ++step_;
    return all;
  }

  void tell(RateController& controller, const Telemetry& t) {
    const std::optional<RateInstruction> next = controller.tell(t);
    history.back().bandwidth_mbps = controller.bandwidth_mbps();
    if (!next) return;
    for (RateSchedule& s : schedules_) s.add(*next);
    instructions.push_back({t.step, *next});
  }

  void run(RateController& controller, int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      for (const Telemetry& t : next_step()) tell(controller, t);
    }
  }

  std::vector<Step> history;
  struct Told {
    int64_t newest_step = 0;
    RateInstruction instruction;
  };
  std::vector<Told> instructions;

 private:
  double measured(double value) { return value * (1 + machines_.noise * noise_.next_normal()); }

  VirtualMachines machines_;
  std::vector<RateSchedule> schedules_;
  int64_t step_;
  Rng noise_;
};

}  // namespace ndtrain
