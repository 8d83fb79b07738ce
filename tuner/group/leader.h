// The Tuner's own part in a training by several: it is rank 0, has the rows, and writes the run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "framework/parallel/led_training.h"
#include "framework/parallel/restarted_training.h"
#include "ndp/jobs/run_directory.h"
#include "tuner/group/group_rows.h"
#include "tuner/group/group_rules.h"
#include "tuner/group/training_members.h"

namespace ndtrain::tuner {
using namespace ndp;

// Of one job; on its lane. By rows, members that are lost are trained on without, to the same
// bytes; over slow links likewise, to another model. By stages, those that are left meet again,
// make a plan of their own, and begin where the last epoch ended. So do all when, after an epoch,
// fewer than the job asks for train and others are here, back or for the first time.
class GroupLeader {
 public:
  struct Setting {
    Fs& fs;
    Clock& clock;
    const Device& device;  // deterministic
    TrainingMembers& members;
    Progress& progress;
    uint64_t job = 0;
    std::string directory;  // of the job: the head is kept there
  };

  // With the members that `rules.spec` asks for, or those that are here when it does not wait any
  // longer; null where there are none, or it is interrupted, but over slow links, where this Tuner
  // then is the only rank. Throws Error.
  static std::unique_ptr<GroupLeader> meet(const Setting& setting, const GroupRules& rules);
  ~GroupLeader();

  Training& training() { return *training_; }
  // Rows that are trained on as long as this lives; the members get those of their shards.
  class Use {
   public:
    Use(GroupLeader* group, SpoolDataset& data, const RowWeights& weights) : group_(group) {
      if (group_) group_->use(&data, &weights);
    }
    ~Use() {
      if (group_) group_->rows_.use(nullptr, nullptr);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    GroupLeader* const group_;  // null: nobody else trains
  };
  // After an epoch: says who was lost, and what steps take when that is known.
  void report(RunDirectory& run);
  // Between epochs: whoever is here and has nothing else to do takes part from now on, the same one
  // three times at most.
  void take_in();
  // The training is over: members may be asked for other things.
  void end();

  // For a job's result.
  Json json() const;

 private:
  GroupLeader(const Setting& setting, const GroupRules& rules);
  bool meet_others(TrainingMembers::Wanted wanted);
  bool over_slow_links() const { return is_slow_link(rules_.spec.sync); }
  std::unique_ptr<RankedTraining> slow_link_training(Model head,
                                                     std::unique_ptr<Communicator> ranks);
  void say_loss(const RegroupedTraining::Loss& loss);
  void begin(std::unique_ptr<Communicator> ranks);
  Training& begin_anew(const RankLost& lost);
  Training& meet_again(int tuners, std::chrono::nanoseconds patience);
  void forget_ranks();
  int present() const;
  SlowLinkTraining::Figures sent() const;
  void use(SpoolDataset* data, const RowWeights* weights);
  int tuners() const;
  std::vector<std::string> lost() const;
  double exposed_s() const;
  void say_what_was_sent();
  void say_rates();
  void add_rates(Json& result) const;

  const Setting setting_;
  const GroupRules rules_;
  std::vector<std::string> names_;        // of the ranks of `leading_`
  std::vector<std::string> lost_before_;  // these had been met
  std::vector<std::string> said_lost_;
  std::map<std::string, int> taken_in_;  // how often, of those that were
  // Of trainings before this one.
  double exposed_before_s_ = 0;
  SlowLinkTraining::Figures sent_before_;
  RateInstruction said_rates_;
  int regrouped_before_ = 0;
  int64_t relayed_before_ = 0;
  LeaderRows rows_;
  std::optional<ExchangeReport> exchange_;
  bool exchange_kept_ = false;
  std::optional<PipelinePlan> plan_;          // the last one; none: by rows
  RankedTraining* ranks_ = nullptr;           // in `leading_`
  PipelineTraining* stages_ = nullptr;        // the same, where it is by stages
  RegroupedTraining* slow_link_ = nullptr;    // or over slow links
  std::unique_ptr<RankRelay> relay_;          // null: nobody needs it
  std::unique_ptr<LeadingTraining> leading_;  // null: nobody else is left
  std::unique_ptr<Trainer> alone_;            // then
  std::unique_ptr<RestartedTraining> training_;
};

}  // namespace ndtrain::tuner
