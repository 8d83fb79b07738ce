// The stages of a rank, made ready for micro-batches of a number of rows, with what goes into them
// and what comes out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "framework/pipeline/run/prepared_stage.h"
#include "framework/train/dataset.h"

namespace ndtrain {

// One thread.
class PreparedStages {
 public:
  // Of those of all stages that are `own`. Keeps a reference to the state. Throws Error as
  // make_stages() does.
  PreparedStages(StepGraph step, std::span<const int> stage_of, std::span<const int> own,
                 const RankState& state);
  PreparedStages(const PreparedStages&) = delete;

  PreparedStage& stage(int number) { return *stages_.at(number); }

  struct Rows {
    Dataset& data;
    std::span<const int64_t> rows;  // of the micro-batch
    int64_t of = 1;                 // rows of the step
    uint64_t seed = 0;              // of the training
    int64_t step = 0;               // of the training, from 1
  };
  int64_t bytes() const;           // of the values of all micro-batches
  int64_t constant_bytes() const;  // of what passes read

  // What of the data set the stage needs of a micro-batch, and the seed of its dropout.
  void give(int stage, const MicroBatch& micro_batch, const Rows& rows);
  // Of the last stage, which was given the rows and has run forward: adds to the step's report.
  void report(const MicroBatch& micro_batch, const Rows& rows, ShardReport& to);

 private:
  void upload(PreparedStage& to, int64_t micro_batch, ValueId v, const Tensor& value) const;

  const StepGraph step_;
  const RankState& state_;
  std::map<int, std::unique_ptr<PreparedStage>> stages_;
  std::vector<Tensor> features_;
  Tensor labels_, weights_, seed_, loss_, logits_;
};

}  // namespace ndtrain
