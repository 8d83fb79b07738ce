// A rank's part of steps: the interpreter of the lists that schedules make.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "framework/parallel/versioned_parameters.h"
#include "framework/pipeline/run/prepared_stages.h"
#include "framework/pipeline/run/stage_messages.h"
#include "framework/pipeline/schedules/pipeline_schedule.h"

namespace ndtrain {

// One thread.
class PipelineInterpreter {
 public:
  struct Settings {
    const PipelineSchedule& schedule;
    PipeShape shape;            // but for its micro-batches and mini-batches
    StageRanks ranks;           // of its places
    std::vector<int> stage_of;  // of each forward node
    std::function<StepGraph(int64_t rows)> step;
    int64_t padded_to = 0;  // rows that every micro-batch has, some of no weight; 0: its own
  };
  // Keeps the references.
  PipelineInterpreter(Settings settings, Communicator& communicator, const RankState& state);

  struct MiniBatch {
    std::span<const int64_t> rows;
    int64_t step = 0;  // of the training, from 1
  };
  struct Run {
    Dataset& data;
    uint64_t seed = 0;                        // of the training
    std::span<const MiniBatch> mini_batches;  // with a flush behind them
    int parts = 1;                            // micro-batches of each
    // Of the rank's stages; null: there is one version, which is that of the state.
    VersionedParameters* versions = nullptr;
    // Between the replicas of the rank's stage, from backward_begins() on; null: it is alone.
    GradientSync* sync = nullptr;
    // All forward passes of a mini-batch are done, one mini-batch after the other; null: the last
    // stage, which has the report, is on another rank.
    std::function<void(const ShardReport* report)> forward_done;
    // The gradients of its last micro-batch are next.
    std::function<void(int64_t mini_batch)> backward_begins;
    // The stage's gradients are complete.
    std::function<void(int stage, int64_t mini_batch)> update;
    // This rank is done with a mini-batch.
    std::function<void(int64_t mini_batch)> done;
  };
  // Throws RankLost.
  void run(const Run& run);

  std::vector<int> own_stages() const;
  int64_t value_bytes() const;  // memory of what stages have of micro-batches
  int64_t work_bytes() const;   // of what their passes work in and read

 private:
  struct Listed {
    PipeShape shape;
    std::vector<Instruction> list;
    std::vector<bool> ends;       // of each: the last of its stage and micro-batch
    std::vector<bool> sent;       // the last of a forward pass that is computed again
    std::vector<bool> forwarded;  // the last forward pass of its mini-batch
    std::vector<bool> backward;   // the first of a backward pass of its mini-batch's last one
    std::vector<bool> done;       // the last of its mini-batch
  };
  const Listed& list_of(int parts, int64_t mini_batches);
  PreparedStages& prepared(std::span<const int64_t> rows);
  std::span<const int64_t> all_rows_of(const Instruction& i, const Run& run) const;
  PreparedStages::Rows rows_of(const Instruction& i, const Run& run) const;
  MicroBatch micro_batch_of(const Instruction& i, const Run& run) const;
  bool has_last_stage() const {
    return settings_.shape.rank_of(settings_.shape.stages - 1) == place_;
  }
  void carry_out(const Instruction& i, const Listed& of, const Run& run);
  void forward(const Instruction& i, const Run& run);
  void forget(const Instruction& i, const Run& run);
  // To stages of this rank.
  void hand_over(const std::vector<StagePort>& ports, PreparedStages& stages, int64_t micro_batch,
                 StageValues& from, StageValues& (PreparedStage::*to)(int64_t));
  StageMessages::Lane lane(const Instruction& i, const PipeShape& shape) const;

  const Settings settings_;
  const int place_, replica_;
  const RankState& state_;
  StageMessages messages_;
  std::map<std::pair<int, int64_t>, Listed> lists_;           // by parts and mini-batches
  std::map<int64_t, std::unique_ptr<PreparedStages>> ready_;  // by rows
  ShardReport report_;  // of the mini-batch, where the loss is
};

}  // namespace ndtrain
