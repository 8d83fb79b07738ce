// The Tuner's own part in a training by several: it is rank 0, has the rows, and writes the run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/json_fwd.h"
#include "framework/parallel/led_training.h"
#include "ndp/jobs/run_directory.h"
#include "tuner/group/group_rows.h"
#include "tuner/group/group_rules.h"
#include "tuner/group/training_members.h"

namespace ndtrain::tuner {
using namespace ndp;

// Of one job; on its lane. Members that are lost are trained on without, to the same bytes.
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
  // longer; null where there are none, or it is interrupted. Throws Error.
  static std::unique_ptr<GroupLeader> meet(const Setting& setting, const GroupRules& rules);
  ~GroupLeader();

  Training& training() { return *training_; }
  Trainer& trainer() { return training_->ranks().trainer(); }
  // Rows that are trained on as long as this lives; the members get those of their shards.
  class Use {
   public:
    Use(GroupLeader* group, SpoolDataset& data) : group_(group) {
      if (group_) group_->use(&data);
    }
    ~Use() {
      if (group_) group_->rows_.use(nullptr);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    GroupLeader* const group_;  // null: nobody else trains
  };
  // After an epoch: says who was lost, and what steps take when that is known.
  void report(RunDirectory& run);
  // The training is over: members may be asked for other things.
  void end() { training_->end(); }

  // For a job's result.
  Json json() const;

 private:
  GroupLeader(const Setting& setting, const GroupRules& rules, TrainingGroup group);
  void use(SpoolDataset* data);
  std::vector<std::string> lost() const;

  const Setting setting_;
  const std::string sync_;
  const std::vector<std::string> names_;
  std::vector<std::string> said_lost_;
  LeaderRows rows_;
  std::optional<ExchangeReport> exchange_;
  bool exchange_kept_ = false;
  std::unique_ptr<LeadingTraining> training_;
};

}  // namespace ndtrain::tuner
