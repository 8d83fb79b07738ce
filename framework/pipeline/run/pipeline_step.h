// A rank's part of a step: the interpreter of the lists that schedules make.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "framework/pipeline/run/prepared_stages.h"
#include "framework/pipeline/run/stage_messages.h"
#include "framework/pipeline/schedules/pipeline_schedule.h"

namespace ndtrain {

// One thread.
class PipelineStep {
 public:
  struct Settings {
    const PipelineSchedule& schedule;
    PipeShape shape;            // but for its micro-batches
    std::vector<int> stage_of;  // of each forward node
    std::function<StepGraph(int64_t rows)> step;
    int64_t padded_to = 0;  // rows that every micro-batch has, some of no weight; 0: its own
  };
  // Keeps the references.
  PipelineStep(Settings settings, Communicator& communicator, const RankState& state);

  struct Run {
    PreparedStages::Rows rows;  // of the step
    int parts = 1;              // micro-batches
    // Where the last stage is: all of its forward passes are done.
    std::function<void(const ShardReport& report)> forward_done;
    std::function<void(int stage)> update;  // its gradients are complete
  };
  // Throws RankLost.
  void run(const Run& run);

  std::vector<int> own_stages() const;

 private:
  struct Listed {
    PipeShape shape;
    std::vector<Instruction> list;
    std::vector<bool> ends;  // of each: the last of its stage and micro-batch
  };
  const Listed& list_of(int parts);
  PreparedStages& prepared(std::span<const int64_t> rows);
  void carry_out(const Instruction& i, const Listed& of, const Run& run);
  void forward(const Instruction& i, const PreparedStages::Rows& rows, PreparedStages& stages,
               const Run& run);
  // To stages of this rank.
  void hand_over(const std::vector<StagePort>& ports, PreparedStages& stages, int64_t micro_batch,
                 StageValues& from, StageValues& (PreparedStage::*to)(int64_t));
  StageMessages::Lane lane(const Instruction& i, const PipeShape& shape) const;

  const Settings settings_;
  const int rank_;
  const RankState& state_;
  StageMessages messages_;
  std::map<int, Listed> lists_;                               // by micro-batches
  std::map<int64_t, std::unique_ptr<PreparedStages>> ready_;  // by rows
  ShardReport report_;                                        // of the step, where the loss is
};

}  // namespace ndtrain
