// Telemetry of all ranks since the last decision, put together step by step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "framework/sparse/control/telemetry.h"

namespace ndtrain {

class TelemetryWindow {
 public:
  static constexpr size_t kSteps = 128;  // that are kept, the newest

  // `before`: the step before the first.
  TelemetryWindow(int ranks, int64_t before);

  // Of a step behind last(its rank). `as_told`: it did what was in force.
  void add(const Telemetry& t, bool as_told);

  int64_t last(int rank) const { return last_[static_cast<size_t>(rank)]; }
  int64_t newest() const;    // of any rank
  int64_t complete() const;  // that no rank will tell anything of any more

  // Of steps that all ranks told of. Medians, of an even number the lower one, so that one step
  // with a jumping clock counts for nothing.
  struct Summary {
    int steps = 0;                         // of which waits are known
    double wait_ms = 0, computing_ms = 0;  // of the step whose part of waiting is the median: the
                                           // rank that waited least, the mean of all
    std::optional<double> wait_part() const;
    std::optional<double> receive_mbps;  // the rank that received slowest; of ranks that did
  };
  // Waits: of steps from `settled` on in which all did as told.
  Summary summary(int64_t settled) const;
  // Steps that are complete go; what is told of later ones is kept.
  void forget();

 private:
  struct Step {
    int told = 0;  // ranks
    bool as_told = true;
    double least_wait_ms = 0, computing_ms = 0;  // the latter of all ranks together
    std::optional<double> receive_mbps;
  };
  std::vector<int64_t> last_;
  std::map<int64_t, Step> steps_;
};

}  // namespace ndtrain
