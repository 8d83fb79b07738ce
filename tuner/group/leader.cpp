#include "tuner/group/leader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "ndp/jobs/exchange_files.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/stage_training.h"
#include "tuner/group/group_plan.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

const std::string kHeadFile = "group_head.onnx";

}  // namespace

std::unique_ptr<GroupLeader> GroupLeader::meet(const Setting& setting, const GroupRules& rules) {
  std::unique_ptr<GroupLeader> leader(new GroupLeader(setting, rules));
  if (!leader->meet_others({.tuners = rules.spec.tuners})) return nullptr;
  leader->training_ = std::make_unique<RestartedTraining>(
      *leader->leading_,
      [l = leader.get()](const RankLost& lost) -> Training& { return l->begin_anew(lost); });
  return leader;
}

// The head is published as its file has it, as the members' are.
GroupLeader::GroupLeader(const Setting& setting, const GroupRules& rules)
    : setting_(setting), rules_(rules) {
  publish(setting_.fs, join(setting_.directory, kHeadFile), rules.head).or_throw();
}

GroupLeader::~GroupLeader() = default;

// False: nobody is here.
bool GroupLeader::meet_others(TrainingMembers::Wanted wanted) {
  const auto patience = std::chrono::duration<double>(rules_.spec.store_timeout);
  wanted.job = setting_.job;
  wanted.numerics = rules_.numerics;
  wanted.patience = std::chrono::duration_cast<std::chrono::nanoseconds>(patience);
  wanted.same_model = rules_.spec.parallel == "dp";
  for (;;) {
    TrainingGroup group = setting_.members.meet(wanted, setting_.progress);
    if (!group.ranks) return false;
    names_ = std::move(group.names);
    try {
      begin(std::move(group.ranks));
      return true;
    } catch (const RankLost& lost) {
      setting_.progress.say(std::string("a member was lost before the training began: ") +
                            lost.what());
      for (const int r : lost.ranks) wanted.without.insert(names_[static_cast<size_t>(r)]);
      forget_ranks();
    }
  }
}

void GroupLeader::begin(std::unique_ptr<Communicator> ranks) {
  const auto say = [this](const std::string& line) { setting_.progress.say(line); };
  static_cast<void>(share_rules(*ranks, rules_));
  Model head = load_model(setting_.fs, join(setting_.directory, kHeadFile)).model;
  plan_ = plan_group(*ranks, rules_, head, setting_.device, setting_.clock, say);
  std::unique_ptr<RankedTraining> training;
  if (plan_) {
    auto by_stages = training_by_stages(rules_, *plan_, std::move(head), setting_.device,
                                        std::move(ranks), setting_.clock, say);
    say_stages(*by_stages, stages_of_plan(*plan_), setting_.progress);
    stages_ = by_stages.get();
    training = std::move(by_stages);
  } else {
    training =
        training_by_rows(rules_, std::move(head), setting_.device, std::move(ranks), setting_.clock,
                         say, [this](const ExchangeReport& r) { exchange_ = r; });
  }
  ranks_ = training.get();
  leading_ = std::make_unique<LeadingTraining>(std::move(training), rows_);
  if (rows_.in_use()) leading_->use_rows();
}

// Those that are left miss a rank, too, and leave; they are met again, without it.
Training& GroupLeader::begin_anew(const RankLost& lost) {
  setting_.progress.say(
      fmt::format("{}; those that are left begin anew where the last epoch ended", lost.what()));
  const std::vector<std::string> before = names_;
  exposed_before_s_ = exposed_s();
  forget_ranks();
  const bool met =
      before.size() > 2 && meet_others({.tuners = static_cast<int>(before.size()) - 1});
  if (!met) names_ = {before.front()};
  for (const std::string& name : before) {
    if (std::ranges::count(names_, name) == 0) lost_before_.push_back(name);
  }
  if (met) return *leading_;
  setting_.progress.say("this Tuner goes on alone");
  alone_ =
      std::make_unique<Trainer>(load_model(setting_.fs, join(setting_.directory, kHeadFile)).model,
                                rules_.trainable, setting_.device, trainer_alone(rules_, plan_));
  return *alone_;
}

void GroupLeader::forget_ranks() {
  ranks_ = nullptr;
  stages_ = nullptr;
  leading_.reset();
}

void GroupLeader::use(SpoolDataset* data) {
  rows_.use(data);
  training_->with_restarts([this] {
    if (leading_) leading_->use_rows();
  });
}

void GroupLeader::end() {
  training_->with_restarts([this] {
    if (leading_) leading_->end();
  });
}

// That have trained together, lost ones with them.
int GroupLeader::tuners() const { return static_cast<int>(names_.size() + lost_before_.size()); }

std::vector<std::string> GroupLeader::lost() const {
  std::vector<std::string> names = lost_before_;
  if (!leading_) return names;
  for (const int r : ranks_->communicator().lost()) {
    names.push_back(names_[static_cast<size_t>(r)]);
  }
  return names;
}

double GroupLeader::exposed_s() const {
  return exposed_before_s_ + (leading_ ? ranks_->communicator().waited_s() : 0);
}

void GroupLeader::report(RunDirectory& run) {
  const std::vector<std::string> gone = lost();
  for (const std::string& name : gone) {
    if (std::ranges::count(said_lost_, name) > 0) continue;
    setting_.progress.say(name + (plan_ ? " is lost"
                                        : " is lost; the others have taken over its shards, to the "
                                          "same model"));
  }
  said_lost_ = gone;
  if (exchange_ && !exchange_kept_) {
    setting_.progress.say(exchange_line(rules_.spec.sync, *exchange_));
    write_exchange(run, *exchange_);
    exchange_kept_ = true;
  }
  GroupFigures figures{.job = setting_.job,
                       .tuners = tuners() - static_cast<int>(gone.size()),
                       .lost = static_cast<int>(gone.size()),
                       .exposed_s = exposed_s(),
                       .row_bytes = rows_.bytes_sent()};
  if (stages_) figures.step_s = stages_->step_s();
  if (exchange_) {
    figures.step_s = exchange_->step_s;
    if (exchange_->slowest_rank > 0) {
      figures.slowest = names_[static_cast<size_t>(exchange_->slowest_rank)];
    }
  }
  setting_.members.report(figures);
}

Json GroupLeader::json() const {
  Json j = {{"tuners", tuners()},
            {"parallel", rules_.spec.parallel},
            {"exposed_s", exposed_s()},
            {"member_row_bytes", rows_.bytes_sent()}};
  if (plan_) {
    j.update({{"stages", plan_->stages.size()},
              {"schedule", plan_->schedule},
              {"micro_batches", plan_->micro_batches}});
    if (stages_) j["step_s"] = stages_->step_s();
  } else {
    j.update({{"sync", rules_.spec.sync}, {"shards", rules_.spec.trainer.shards}});
  }
  if (const auto gone = lost(); !gone.empty()) j["lost_tuners"] = gone;
  if (!exchange_) return j;
  j["step_s"] = exchange_->step_s;
  j["step_exposed_s"] = exchange_->exposed_s;
  if (exchange_->slowest_rank >= 0) {
    j["slowest_tuner"] = names_[static_cast<size_t>(exchange_->slowest_rank)];
  }
  return j;
}

}  // namespace ndtrain::tuner
