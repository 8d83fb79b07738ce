// Batches and drop for the machines and links there are (StellaTrain, Lim et al., SIGCOMM'24,
// section 4). A state machine without clock, threads or I/O: told what ranks measured, it says what
// is in force from which step. The same for the same options, profile and telemetry.
//
// Warm-up: the first batches stay until every rank has 4 samples of its throughput behind 4 steps
// that are left out. Grow: every batch grows by half, up to the largest, every 4 steps. Run: every
// 5 steps B (bandwidth_estimate.h) and the drop that goes with it (goodput.h) are found anew; every
// 100, and where B has become `jump` times more or less, the batches too (batch_search.h). These
// stay where others would make J less by no more than 1 %, or, apart from cv, where they are
// balanced as well as throughputs are known, at least to 2 %: cv weighs so much in J that the last
// digits of a fit would choose among all batches that are in proportion.
//
// An instruction is for all ranks from the newest step any has told of + 3 on; telemetry that comes
// at once and in the order of steps lets it come before that step begins, and RateSchedule refuses
// one that does not.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "framework/sparse/control/bandwidth_estimate.h"
#include "framework/sparse/control/batch_search.h"
#include "framework/sparse/control/goodput.h"
#include "framework/sparse/control/loss_penalty.h"
#include "framework/sparse/control/rate_instruction.h"
#include "framework/sparse/control/telemetry.h"
#include "framework/sparse/control/telemetry_window.h"
#include "framework/sparse/control/throughput_samples.h"

namespace ndtrain {

struct RateControllerOptions {
  std::string model;  // that is trained: the profile is to be of it
  // Of each rank, in rows: in force from first_step until the first instruction; and what its
  // memory has room for.
  std::vector<int64_t> first_batch, largest_batch;
  int sites = 0;             // that send, each for its ranks (sites.h); 0: each rank does
  double first_drop = 0.99;  // SparseSyncOptions::drop, which grows with nothing but B
  int64_t first_step = 0;
  SelectionSizes sizes = {};
  ThroughputBounds throughput = {};
  double jump = 1.5;  // of a link (bandwidth_estimate.h), and of B since batches were searched for
  uint64_t seed = 0;
  bool dry_run = false;  // decisions are logged alone, and B begins anew at each
};

class RateController {
 public:
  enum class Phase : uint8_t { kWarmUp, kGrow, kRun };
  static constexpr int64_t kLatency = 3;  // steps, from the newest one to what it decides
  static constexpr int64_t kGrowEvery = 4, kRunEvery = 5, kSearchEvery = 100;  // steps
  static constexpr int64_t kFarAhead = 64;
  static constexpr size_t kLogLines = 1000;

  // Throws Error: a profile of another model, or that validate() refuses; fewer than two ranks (one
  // sends nothing: it needs no controller) or more than limits::kRanks; one site, or more of them
  // than ranks; a batch below 1 or above
  // the largest, a drop that is none; sizes or a jump that are refused.
  RateController(ConvergenceProfile profile, RateControllerOptions options);

  // An instruction, at times, but of a dry run. Throws Error of a rank or a step that there is not.
  // Otherwise what it cannot go by is ignored, with a line in the log:
  // - what fault_of() says something of, a step that its rank has told of, or one more than
  //   kFarAhead steps behind the newest: all of it;
  // - a throughput that is far from its batch's mean (ThroughputSamples): that alone;
  // - a batch or drop other than what is in force, such as an instruction that came too late
  //   leaves: the step's waits; its throughput counts.
  std::optional<RateInstruction> tell(const Telemetry& t);

  Phase phase() const { return phase_; }
  double bandwidth_mbps() const { return bandwidth_.mbps(); }  // B; 0 before Phase::kRun
  // Of each rank; known in Phase::kRun.
  std::vector<ThroughputModel> throughput() const;
  // The last one, in a dry run too; before any, what there was at first.
  const RateInstruction& decided() const { return decided_; }
  int64_t ignored() const { return ignored_; }  // telemetry, in all

  // Lines without their ends, "step 47: …": each decision and what it went by, and what was
  // ignored. Taken only once; if there are more than kLogLines, the first are left out, and the
  // first line says how many.
  std::vector<std::string> take_log();

 private:
  int ranks() const { return static_cast<int>(samples_.size()); }
  int senders() const { return options_.sites > 0 ? options_.sites : ranks(); }
  std::string refusal(const Telemetry& t) const;
  void take(const Telemetry& t);
  bool is_as_told(const Telemetry& t);
  void end_warm_up();
  std::optional<RateInstruction> grow();
  std::optional<RateInstruction> run();
  void estimate_bandwidth();
  bool is_search_due() const;
  std::vector<std::vector<double>> starts(const BatchObjective& objective) const;
  std::vector<int64_t> search(const BatchObjective& objective);
  std::optional<RateInstruction> issue(RateInstruction next);
  void log(const std::string& line);

  RateControllerOptions options_;
  LossPenalty penalty_;
  Phase phase_ = Phase::kWarmUp;
  std::vector<ThroughputSamples> samples_;  // of each rank
  TelemetryWindow window_;
  BandwidthEstimate bandwidth_;
  RateSchedule in_force_;
  RateInstruction decided_;
  int64_t searched_step_ = -1;  // complete then; -1: never
  double searched_mbps_ = 0;
  int64_t ignored_ = 0;
  std::deque<std::string> log_;
  int64_t log_left_out_ = 0;
};

}  // namespace ndtrain
