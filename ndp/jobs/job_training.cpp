#include "ndp/jobs/job_training.h"

#include <fmt/format.h>

#include <utility>

namespace ndtrain::ndp {
namespace {

TrainerConfig of_stages(TrainerConfig config, const StageConfig& stages) {
  config.shards = 1;
  config.accumulate = stages.micro_batches;
  return config;
}

}  // namespace

// Stages come first even where they train later: what they throw is thrown before anything takes
// time.
JobTraining::JobTraining(const TransferModel& model, const Device& device,
                         const JobTrainingConfig& config, std::unique_ptr<Communicator> ranks,
                         const RankTraining::Place& place)
    : model_(model), device_(device), config_(config), place_(place) {
  if (config_.stages) {
    begin_stages(std::move(ranks));
  } else if (ranks && config_.slow_link) {
    begin_slow_link(std::move(ranks));
  } else if (ranks) {
    begin_ranks(std::move(ranks));
  } else {
    alone_ = std::make_unique<Trainer>(model.head, model.trainable, device, config.trainer);
    now_ = trainer_ = alone_.get();
  }
  if (trainer_) {
    row_types_ = trainer_->row_types();
    parameters_ = trainer_->parameter_count();
  }
}

void JobTraining::begin_ranks(std::unique_ptr<Communicator> ranks) {
  by_ranks_ = std::make_unique<RankTraining>(model_, device_, config_.trainer, config_.ranks,
                                             std::move(ranks), place_);
  now_ = &by_ranks_->training();
  trainer_ = &by_ranks_->training().trainer();
}

void JobTraining::begin_slow_link(std::unique_ptr<Communicator> ranks) {
  by_slow_link_ =
      std::make_unique<SlowLinkRanks>(model_, device_, config_.trainer, *config_.slow_link,
                                      std::move(ranks), place_.fs, place_.progress);
  now_ = &by_slow_link_->training();
  row_types_ = by_slow_link_->training().row_types();
  parameters_ = by_slow_link_->parameters();
}

void JobTraining::begin_stages(std::unique_ptr<Communicator> ranks) {
  by_stages_ = std::make_unique<StageTraining>(
      model_, device_, of_stages(config_.trainer, *config_.stages), *config_.stages,
      std::move(ranks), place_.progress, place_.clock);
  now_ = &by_stages_->training();
  row_types_ = by_stages_->training().row_types();
  parameters_ = by_stages_->training().parameter_count();
}

Communicator* JobTraining::ranks() {
  if (by_ranks_) return &by_ranks_->training().communicator();
  if (by_slow_link_) return &by_slow_link_->training().communicator();
  if (by_stages_) return &by_stages_->training().communicator();
  return nullptr;
}

// Ranks that train by stages later have agreed on these, and agree now on how they begin.
void JobTraining::agree(const Fingerprint& decisive) {
  if (by_stages_) by_stages_->agree(decisive);
  if (by_stages_ && config_.stages_from > 0) {
    std::unique_ptr<Communicator> all = by_stages_->training().take_communicator();
    by_stages_.reset();
    begin_ranks(std::move(all));
    switched_.emplace(*now_, config_.stages_from,
                      [this]() -> Training& { return go_on_by_stages(); });
    return by_ranks_->agree({});
  }
  if (by_slow_link_) by_slow_link_->agree(decisive);
  if (by_ranks_) by_ranks_->agree(decisive);
}

Training& JobTraining::go_on_by_stages() {
  add_figures_of_ranks();
  if (by_ranks_->training().communicator().rank() == 0) {
    place_.progress.say(fmt::format("from epoch {} on ranks are stages", now_->epoch() + 1));
  }
  std::unique_ptr<Communicator> all = by_ranks_->training().take_communicator();
  trainer_ = nullptr;
  by_ranks_.reset();
  begin_stages(std::move(all));
  return *now_;
}

void JobTraining::add_figures_of_ranks() {
  figures_.exposed_s = by_ranks_->training().exposed_s();
  figures_.exchange = by_ranks_->describe_exchange();
  figures_.shares = by_ranks_->training().measured_shares();
}

JobTraining::Figures JobTraining::describe() {
  if (by_ranks_) add_figures_of_ranks();
  if (by_slow_link_) {
    figures_.slow_link = by_slow_link_->describe();
    figures_.exposed_s = figures_.slow_link->exposed_s;
  }
  if (by_stages_) {
    figures_.stage_ranks = by_stages_->describe();
    figures_.exposed_s = by_stages_->training().waited_s();
    figures_.stage_step_s = by_stages_->training().step_s();
  }
  if (trainer_) figures_.clip_exposed_s = trainer_->clip_exposed_s();
  return figures_;
}

void JobTraining::leave_together() {
  if (by_ranks_) by_ranks_->leave_together();
  if (by_slow_link_) by_slow_link_->leave_together();
  if (by_stages_) by_stages_->leave_together();
}

std::vector<int> JobTraining::lost_ranks() const {
  if (by_ranks_) return by_ranks_->training().communicator().lost();
  if (by_slow_link_) return by_slow_link_->training().communicator().lost();
  return {};
}

Checkpoint JobTraining::beginning() const { return trainer_->beginning(model_.head); }

}  // namespace ndtrain::ndp
