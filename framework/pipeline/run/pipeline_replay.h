// A pipeline with the arithmetic of its stages left out: ranks sleep for as long as stages compute,
// and really send their values. Shows what a schedule does with accelerators that this machine does
// not have.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/core/clock.h"
#include "framework/parallel/replay.h"
#include "framework/pipeline/run/stage_ranks.h"
#include "framework/pipeline/schedules/simulate_pipeline.h"

namespace ndtrain {

// One rank of several, all of which make the same calls. Keeps references. One thread.
class PipelineReplay {
 public:
  // Of costs as simulate_pipeline() takes them; links are the communicator's. An exchange between
  // replicas is slept for, too, once all of them have come. Throws Error as that does, and where
  // there are not as many ranks.
  PipelineReplay(const PipelineSchedule& schedule, const PipeShape& shape,
                 const PipelineCosts& costs, Communicator& communicator, Clock& clock);

  // On all ranks PipelinePrediction::mini_batch_s as it is measured. Throws RankLost.
  double run();

 private:
  struct Sent {
    Communicator::Op op;
    std::vector<float> memory;
  };
  double rows_share() const;  // of this rank, of a micro-batch's
  double seconds_of(const Instruction& i) const;
  const PipelineCosts::Edge& edge_of(const Instruction& i) const;
  double bytes_of(const Instruction& i) const;  // of all rows of a micro-batch
  void carry_out(const Instruction& i);
  void send(const Instruction& i);
  void receive(const Instruction& i);
  void exchange(const Instruction& i);
  void wait_for(Communicator::Op op);
  void wait_for_oldest(std::deque<Sent>& sent);
  Communicator::Op message(const Instruction& i, int from, int to, std::span<float> data);

  const PipelineSchedule& schedule_;
  const PipeShape shape_;
  const PipelineCosts costs_;
  const std::vector<StageEdge> edges_;
  Communicator& communicator_;
  Clock& clock_;
  const StageRanks ranks_;
  const int place_, replica_;
  std::optional<SleepingDevice> device_;                  // while it runs
  std::map<std::pair<int, int>, std::deque<Sent>> sent_;  // by the stages from and to
};

}  // namespace ndtrain
