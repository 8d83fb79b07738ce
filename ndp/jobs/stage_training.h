// A training by stages in a job: what its ranks have to agree on, and what is said of it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/comm/fingerprint.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "framework/pipeline/run/pipeline_training.h"
#include "ndp/jobs/progress.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::ndp {

// What stages are asked for.
struct StageConfig {
  std::string schedule = "1f1b";
  int64_t micro_batches = 1;
  int chunks = 1;                    // stages of a rank
  std::vector<int> replicas = {};    // ranks of each stage; none: one
  std::string sync = "ddp";          // between these
  std::vector<bool> recompute = {};  // by stage, as PipelineTraining has it
  Staleness staleness = {};
  int64_t drain_every = PipelineTraining::Options{}.drain_every;
  // The nodes of each stage, as cut_by_names() has them; none: cut_by_operations().
  std::vector<std::vector<std::string>> plan = {};
};

// As the plan has it.
StageConfig stages_of_plan(const PipelinePlan& plan);
PipelineTraining::Options options_of(const StageConfig& config, Clock& clock,
                                     std::function<void(const std::string& line)> say = {});
// Who has what, and what of it is other than one may think.
void say_stages(PipelineTraining& training, const StageConfig& config, Progress& progress);

// All ranks make the same calls. One thread.
class StageTraining {
 public:
  // Keeps the references. Throws Error as PipelineTraining does. At rank 0 it says who has what.
  StageTraining(const TransferModel& model, const Device& device, const TrainerConfig& trainer,
                const StageConfig& config, std::unique_ptr<Communicator> ranks, Progress& progress,
                Clock& clock);

  PipelineTraining& training() { return *training_; }

  // Throws the same Error on all ranks where one differs in these or in its stages.
  void agree(const Fingerprint& decisive);
  struct RankFigures {
    double waited_s = 0;       // for other ranks
    int64_t memory_bytes = 0;  // PipelineTraining::memory_bytes()
  };
  // After the training, of all ranks, which rank 0 says; none where one is lost meanwhile.
  std::vector<RankFigures> describe();
  // So that no rank misses one that was faster.
  void leave_together();

 private:
  const StageConfig config_;
  Progress& progress_;
  std::unique_ptr<PipelineTraining> training_;
};

}  // namespace ndtrain::ndp
