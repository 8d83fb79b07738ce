// A training by ranks over slow links that goes on without those that are lost: the others keep
// what they have not sent yet, and go on from the last position that all of them have come to.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/sparse/sync/slow_link_training.h"

namespace ndtrain {

// By a communicator that regroups (Communicator::Options::regroups), whose lowest rank leads; its
// loss is a RankLost of the others. At the beginning, behind every `drain_every` steps of an epoch
// and at its end each rank keeps in memory where it stands: parameters, moments, and what it has
// not sent, by parameter. Of these it has two, as large as the parameters some times over. Where
// ranks are lost in train_epoch(), gather() or elsewhere, the others agree on the last position
// that all of them have kept, share out all shards among themselves, and go on from there as a
// training by so many ranks would that began with what they have: all of them have the same
// parameters, which are not those of an undisturbed training. What the lost ranks had not sent is
// lost; an epoch that has ended on some rank has ended on all. One thread.
class RegroupedTraining final : public RankedTraining {
 public:
  struct Loss {
    RankGroup lost, left;
    int64_t epoch = 0, step = 0;  // where those that are left go on
  };
  // Called on each rank that is left, before it goes on.
  using OnLoss = std::function<void(const Loss& loss)>;

  // As SlowLinkTraining, whose Options::on_drained it has for itself. Keeps `device`. Throws Error
  // likewise.
  RegroupedTraining(Model model, std::vector<std::string> trainable, const Device& device,
                    const TrainerConfig& config, std::unique_ptr<Communicator> communicator,
                    SlowLinkTraining::Options options, SlowLinkTraining::MakeSync make_sync,
                    OnLoss on_loss = {});
  ~RegroupedTraining() override;

  bool train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step = {}) override;
  Evaluation evaluate(Dataset& data) override { return training_->evaluate(data); }
  const Model& model() override { return training_->model(); }
  // Behind train_epoch() it is gathered().
  Checkpoint checkpoint() override { return training_->checkpoint(); }
  void restore(const Checkpoint& c) override;
  int64_t epoch() const override { return training_->epoch(); }
  int64_t batch() const override { return training_->batch(); }
  void scale_lr(double factor) override;
  void reset_optimizer() override;

  Communicator& communicator() override;
  int shards() const override { return training_->shards(); }
  ShardRange own_shards() const override { return training_->own_shards(); }
  const std::vector<TensorType>& row_types() const override { return training_->row_types(); }
  bool gathered() const override { return training_->gathered(); }
  // Where a rank is lost in it, it is gathered() nowhere, or on some ranks until they hear of that.
  void gather() override;
  void regroup_after(const RankLost& lost) override;
  void on_shards(const OnShards& f) override { on_shards_ = f; }

  // In all, steps that were gone back behind among them.
  SlowLinkTraining::Figures figures() const;
  int regrouped() const { return regrouped_; }  // so many times
  // By the ranks that are there, until one is lost.
  SlowLinkTraining& now() { return *training_; }
  const SlowLinkTraining& now() const { return *training_; }

 private:
  struct Position {
    int64_t number = 0;  // the same on all ranks
    SlowLinkTraining::Kept kept;
  };

  void make_training(std::unique_ptr<Communicator> communicator);
  void keep_position();
  void keep_what_changed();
  void regroup(RankLost lost);
  void go_on_without(const RankLost& lost);

  const Model model_;
  const std::vector<std::string> trainable_;
  const Device& device_;
  const TrainerConfig config_;
  SlowLinkTraining::Options options_;
  const SlowLinkTraining::MakeSync make_sync_;
  const OnLoss on_loss_;
  OnShards on_shards_;
  std::unique_ptr<Communicator> communicator_;  // while there is no training
  std::unique_ptr<SlowLinkTraining> training_;
  std::deque<Position> positions_;  // the last two, or the first one
  bool changed_ = false;            // since the last one was kept, but by no step
  double lr_factor_ = 1;
  // Of trainings that have lost a rank.
  SlowLinkTraining::Figures before_;
  std::optional<StateFiles::Position> file_;
  int regrouped_ = 0;
};

}  // namespace ndtrain
