// Schedules of one network over one link, replayed by rank processes on this machine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/security_args.h"
#include "cli/started_ranks.h"
#include "framework/comm/communicator.h"
#include "framework/parallel/replay.h"
#include "framework/parallel/replay_network.h"
#include "framework/parallel/simulate.h"

namespace ndtrain::cli {

// What decides the figures of a replay, in the network's own terms.
struct ReplaySettings {
  std::string file;  // that has the network
  ReplayNetwork network;
  int ranks = 2, shards = 2, steps = 20;
  ReplayLink link;
  ReplayScale scale;
  uint64_t seed = 0;

  std::vector<int> first_shards() const;
  // The flags of `bench parallel` that give these, for other ranks.
  std::vector<std::string> words() const;
  Json to_json() const;
};

// Where a rank is that somebody else has started; else this process is rank 0, and starts the
// others.
struct ReplayPlace {
  int rank = 0;
  std::string rendezvous = {};
  RankNet net = {};  // in which it is
};

// Of one schedule, in the seconds of the replay, and steps that begin with the backward pass.
struct ScheduleReplay {
  std::string schedule;
  StepPrediction predicted;  // by what collectives and updates cost when measured
  ReplayResult measured;

  double mean_s() const;
  double sigma_s() const;  // of a step: the sample's standard deviation
  Json to_json() const;
};

// "sparse:S:DROP": sparse gradients with that staleness and drop, by threshold-v16, which end at
// other parameters.
bool is_sparse_exchange(const std::string& name);
void check_sparse_exchange(const std::string& name);  // throws UsageError

// One thread.
class ReplayGroup {
 public:
  // Meets the other ranks, and measures what collectives and updates cost. Throws Error.
  ReplayGroup(const ReplaySettings& settings, const ReplayPlace& place, Context& context);
  ~ReplayGroup();

  // As measured here: layers, collectives and updates of the replay.
  const CostProfile& costs() const { return costs_; }
  bool is_first() const { return communicator_->rank() == 0; }

  // Of a schedule, or as is_sparse_exchange() says.
  ScheduleReplay replay(const std::string& schedule);
  // By ranks that are not the first: what this one replays, until it has done all.
  void follow();

 private:
  std::unique_ptr<Communicator> meet(const ReplayPlace& place);
  void measure(Context& context);
  ScheduleReplay run(const std::string& schedule);
  ScheduleReplay run_sparse(const std::string& name);

  const ReplaySettings settings_;
  StartedRanks started_;                        // waited for at the end
  std::unique_ptr<Communicator> communicator_;  // ends first
  CostProfile costs_;
  std::unique_ptr<Replay> replay_;
};

}  // namespace ndtrain::cli
