// How a job trains: alone, by ranks that share the rows of a step, also over slow links, by stages,
// or by ranks first and by stages from some epoch on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "framework/train/switched_training.h"
#include "ndp/jobs/rank_training.h"
#include "ndp/jobs/slow_link_ranks.h"
#include "ndp/jobs/stage_training.h"

namespace ndtrain::ndp {

struct JobTrainingConfig {
  TrainerConfig trainer = {};                    // by stages without its shards and parts
  RankConfig ranks = {};                         // where there are some
  std::optional<SlowLinkConfig> slow_link = {};  // instead
  std::optional<StageConfig> stages = {};        // ranks are stages, instead of sharing rows,
  int64_t stages_from = 0;                       // from this epoch on, counted from 0
};

// All ranks make the same calls. One thread.
class JobTraining {
 public:
  // Keeps the references. `ranks`: null, it is alone. Throws Error as Trainer, DataParallel and
  // PipelineTraining do, whichever come sooner or later.
  JobTraining(const TransferModel& model, const Device& device, const JobTrainingConfig& config,
              std::unique_ptr<Communicator> ranks, const RankTraining::Place& place);

  Training& training() { return switched_ ? *switched_ : *now_; }
  const std::vector<TensorType>& row_types() const { return row_types_; }
  int64_t parameters() const { return parameters_; }

  // Among those that train by now; null: it is alone.
  Communicator* ranks();
  // Throws the same Error on all ranks where one differs in these or in how it takes part.
  void agree(const Fingerprint& decisive);

  struct Figures {
    double exposed_s = 0;                         // waiting for other ranks, in all
    std::optional<ExchangeReport> exchange = {};  // by ranks
    std::vector<RankShare> shares = {};           // of ranks that were measured
    double stage_step_s = 0;                      // by stages, of the last epoch; 0: not known
    std::vector<StageTraining::RankFigures> stage_ranks = {};  // by stages, of all ranks
    double clip_exposed_s = 0;                                 // see GradientSync
    std::optional<SlowLinkRanks::Figures> slow_link = {};      // by ranks over slow links
  };
  Figures describe();  // after the training; rank 0 says it, too
  // So that no rank misses one that was faster.
  void leave_together();
  std::vector<int> lost_ranks() const;
  // As of a training that has done nothing.
  Checkpoint beginning() const;

 private:
  void begin_ranks(std::unique_ptr<Communicator> ranks);
  void begin_slow_link(std::unique_ptr<Communicator> ranks);
  void begin_stages(std::unique_ptr<Communicator> ranks);
  Training& go_on_by_stages();
  void add_figures_of_ranks();

  const TransferModel& model_;
  const Device& device_;
  const JobTrainingConfig config_;
  const RankTraining::Place place_;
  std::unique_ptr<Trainer> alone_;
  std::unique_ptr<RankTraining> by_ranks_;       // or this
  std::unique_ptr<SlowLinkRanks> by_slow_link_;  // or this
  std::unique_ptr<StageTraining> by_stages_;     // or this
  Training* now_ = nullptr;                      // theirs
  Trainer* trainer_ = nullptr;                   // the same, or the one in it; null: by others
  std::optional<SwitchedTraining> switched_;
  std::vector<TensorType> row_types_;
  int64_t parameters_ = 0;
  Figures figures_;
};

}  // namespace ndtrain::ndp
