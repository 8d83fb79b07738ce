#include "tuner/group/leader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/jobs/exchange_files.h"
#include "ndp/jobs/model_file.h"
#include "ndp/jobs/rates_log.h"
#include "ndp/jobs/slow_link_method.h"
#include "ndp/jobs/stage_training.h"
#include "tuner/group/group_plan.h"
#include "tuner/jobs/slow_link_job.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

const std::string kHeadFile = "group_head.onnx", kThisTuner = "this Tuner";

// In the job's directory: of gradients, and what FinetuneWork makes.
constexpr const char *kUnsent = "unsent", *kRun = "run";
constexpr std::chrono::seconds kMeetingAgain{30};
constexpr int kMostReturns = 3;  // of a member, which may fail every time

}  // namespace

std::unique_ptr<GroupLeader> GroupLeader::meet(const Setting& setting, const GroupRules& rules) {
  std::unique_ptr<GroupLeader> leader(new GroupLeader(setting, rules));
  if (!leader->meet_others({.tuners = rules.spec.tuners})) {
    if (!leader->over_slow_links()) return nullptr;
    leader->names_ = {kThisTuner};
    leader->begin(nobody_else());
  }
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
  if (wanted.patience.count() == 0) {
    wanted.patience = std::chrono::duration_cast<std::chrono::nanoseconds>(patience);
  }
  wanted.same_model = rules_.spec.parallel == "dp" && !over_slow_links();
  for (;;) {
    TrainingGroup group = setting_.members.meet(wanted, setting_.progress);
    if (!group.ranks) return false;
    names_ = std::move(group.names);
    relay_ = std::move(group.relay);
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
  plan_ = plan_group(*ranks, rules_, head, setting_.device, setting_.clock, say, plan_);
  std::unique_ptr<RankedTraining> training;
  if (plan_) {
    auto by_stages = training_by_stages(rules_, *plan_, std::move(head), setting_.device,
                                        std::move(ranks), setting_.clock, say);
    say_stages(*by_stages, stages_of_plan(*plan_), setting_.progress);
    stages_ = by_stages.get();
    training = std::move(by_stages);
  } else if (over_slow_links()) {
    training = slow_link_training(std::move(head), std::move(ranks));
  } else {
    training =
        training_by_rows(rules_, std::move(head), setting_.device, std::move(ranks), setting_.clock,
                         say, [this](const ExchangeReport& r) { exchange_ = r; });
  }
  ranks_ = training.get();
  leading_ = std::make_unique<LeadingTraining>(std::move(training), rows_);
  if (rows_.in_use()) leading_->use_rows();
}

std::unique_ptr<RankedTraining> GroupLeader::slow_link_training(
    Model head, std::unique_ptr<Communicator> ranks) {
  const int count = ranks->ranks();
  auto training = training_over_slow_links(
      rules_, std::move(head), setting_.device, std::move(ranks),
      {.files = files_of(rules_, setting_.job, setting_.fs, join(setting_.directory, kUnsent)),
       .site = setting_.members.site(),
       .on_loss = [this](const RegroupedTraining::Loss& loss) { say_loss(loss); },
       .warn = [this](const std::string& line) { setting_.progress.say(line); },
       .log = rates_log(setting_.fs, join(setting_.directory, kRun))});
  const SlowLinkMethod method = method_of(slow_link_of(rules_.spec).method);
  for (const std::string& what : method.what_it_does(count, training->now().sites())) {
    setting_.progress.say(what);
  }
  slow_link_ = training.get();
  return training;
}

void GroupLeader::say_loss(const RegroupedTraining::Loss& loss) {
  const auto named = [this](const RankGroup& ranks) {
    std::vector<std::string> names;
    for (const int r : ranks) names.push_back(names_[static_cast<size_t>(r)]);
    return fmt::format("{}", fmt::join(names, ", "));
  };
  setting_.progress.say(fmt::format(
      "lost: {}, and what {} had not sent of its gradients; {} {} on from epoch {}, step {}, with "
      "what is left of theirs, to another model",
      named(loss.lost), loss.lost.size() == 1 ? "it" : "each", named(loss.left),
      loss.left.size() == 1 ? "goes" : "go", loss.epoch + 1, loss.step));
  if (rules_.spec.slow_link.controller) {
    setting_.progress.say("the controller measures anew, from the job's batch and drop on");
  }
}

// Those that are left miss a rank, too, and leave; they are met again, without it.
Training& GroupLeader::begin_anew(const RankLost& lost) {
  setting_.progress.say(
      fmt::format("{}; those that are left begin anew where the last epoch ended", lost.what()));
  return meet_again(static_cast<int>(names_.size()) - 1, {});
}

// So many with this one, of which all are here, or on their way out of a training.
Training& GroupLeader::meet_again(int tuners, std::chrono::nanoseconds patience) {
  const std::vector<std::string> before = names_;
  exposed_before_s_ = exposed_s();
  if (slow_link_) {
    sent_before_ = sent();
    regrouped_before_ += slow_link_->regrouped();
  }
  if (relay_) relayed_before_ += relay_->passed_on();
  forget_ranks();
  const bool met = tuners > 1 && meet_others({.tuners = tuners, .patience = patience});
  if (!met) names_ = {before.front()};
  for (const std::string& name : before) {
    if (std::ranges::count(names_, name) == 0) lost_before_.push_back(name);
  }
  std::erase_if(lost_before_, [this](const auto& n) { return std::ranges::count(names_, n) > 0; });
  if (met) return *leading_;
  setting_.progress.say("this Tuner goes on alone");
  if (over_slow_links()) {
    begin(nobody_else());
    return *leading_;
  }
  alone_ =
      std::make_unique<Trainer>(load_model(setting_.fs, join(setting_.directory, kHeadFile)).model,
                                rules_.trainable, setting_.device, trainer_alone(rules_, plan_));
  return *alone_;
}

// Ranks that are there, this one among them.
int GroupLeader::present() const {
  return leading_ ? static_cast<int>(names_.size() - ranks_->communicator().lost().size()) : 1;
}

void GroupLeader::take_in() {
  const int asked = rules_.spec.tuners, here = present();
  if (here >= asked) return;
  TrainingMembers::Wanted wanted{.tuners = asked - here + 1, .numerics = rules_.numerics};
  for (const auto& [name, times] : taken_in_) {
    if (times >= kMostReturns) wanted.without.insert(name);
  }
  const std::vector<std::string> more = setting_.members.idle(wanted);
  if (more.empty() || setting_.progress.interrupted()) return;
  setting_.progress.say(fmt::format("{} {} here: all Tuners meet again, and go on from epoch {}",
                                    fmt::join(more, ", "), more.size() == 1 ? "is" : "are",
                                    training_->epoch() + 1));
  try {
    if (leading_) leading_->part();
  } catch (const RankLost& lost) {  // the others miss this one, and leave, too
    log::warn("{}", lost.what());
  }
  Training& all = meet_again(here + static_cast<int>(more.size()), kMeetingAgain);
  for (const std::string& name : more) ++taken_in_[name];
  training_->go_on_by(all);
}

void GroupLeader::forget_ranks() {
  ranks_ = nullptr;
  stages_ = nullptr;
  slow_link_ = nullptr;
  leading_.reset();
  relay_.reset();
  alone_.reset();
}

// Over slow links, so far.
SlowLinkTraining::Figures GroupLeader::sent() const {
  SlowLinkTraining::Figures f = slow_link_->figures();
  f.add_earlier(sent_before_);
  return f;
}

void GroupLeader::use(SpoolDataset* data, const RowWeights* weights) {
  rows_.use(data, weights);
  training_->with_restarts([this] {
    if (leading_) leading_->use_rows();
  });
}

void GroupLeader::end() {
  training_->with_restarts([this] {
    if (leading_) leading_->end();
  });
  if (!slow_link_) return;
  files_of(rules_, setting_.job, setting_.fs, join(setting_.directory, kUnsent)).keep_only({});
  say_what_was_sent();
}

void GroupLeader::say_what_was_sent() {
  const SlowLinkTraining::Figures f = sent();
  if (f.steps > 0 && tuners() > 1) {
    setting_.progress.say(
        fmt::format("{:.3g} of {:.3g} MB of gradients were sent in a step",
                    static_cast<double>(f.sent_bytes) / static_cast<double>(f.steps) / 1e6,
                    static_cast<double>(slow_link_->now().gradient_bytes()) / 1e6));
  }
  if (f.left_out > 0) {
    setting_.progress.say(
        fmt::format("{} steps were left out: gradients were not finite", f.left_out));
  }
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

// Where they differ from the last that were said.
void GroupLeader::say_rates() {
  const SlowLinkTraining::Figures f = sent();
  if (!f.rates || f.rates->decided == said_rates_) return;
  said_rates_ = f.rates->decided;
  const std::string link =
      f.rates->link_mbps > 0 ? fmt::format(", by links of {:.3g} Mb/s", f.rates->link_mbps) : "";
  setting_.progress.say(fmt::format("{}batches {}, drop {:.4g}{}; each decision is in {}/{}",
                                    rules_.spec.dry_run ? "dry run: " : "",
                                    fmt::join(said_rates_.batch, " "), said_rates_.drop, link, kRun,
                                    kRatesLog));
}

void GroupLeader::add_rates(Json& result) const {
  const SlowLinkTraining::Figures f = sent();
  result.erase("convergence");  // the job's spec has it
  result["decisions"] = f.decisions;
  if (!f.rates) return;
  const RateInstruction& decided = f.rates->decided;
  result["decided_batches"] = decided.batch;
  result["decided_batch"] = std::accumulate(decided.batch.begin(), decided.batch.end(), int64_t{0});
  result["decided_drop"] = decided.drop;
  if (f.rates->link_mbps > 0) result["decided_link_mbps"] = f.rates->link_mbps;
}

void GroupLeader::report(RunDirectory& run) {
  const std::vector<std::string> gone = lost();
  for (const std::string& name : gone) {
    if (std::ranges::count(said_lost_, name) > 0) continue;
    if (slow_link_) continue;  // that was said at once
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
  if (slow_link_) {
    const SlowLinkTraining::Figures f = sent();
    figures.step_s = f.step_s;
    figures.last_step = f.last_step;
    if (f.steps > 0) figures.step_sent_bytes = f.sent_bytes / f.steps;
    say_rates();
  }
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
  if (slow_link_) {
    const SlowLinkTraining::Figures f = sent();
    add_slow_link(j, rules_.spec.slow_link);
    j["step_gradient_bytes"] = slow_link_->now().gradient_bytes();
    j["step_sent_bytes"] =
        f.steps > 0 ? static_cast<double>(f.sent_bytes) / static_cast<double>(f.steps) : 0.0;
    j["step_s"] = f.step_s;
    j["left_out_steps"] = f.left_out;
    j["regrouped"] = regrouped_before_ + slow_link_->regrouped();
    j["sites"] = slow_link_->now().sites();
    if (rules_.spec.slow_link.controller) add_rates(j);
  }
  const int64_t relayed = relayed_before_ + (relay_ ? relay_->passed_on() : 0);
  if (relayed > 0 || relay_) j["relayed_bytes"] = relayed;
  for (const auto& [name, times] : taken_in_) j["taken_in_tuners"].push_back(name);
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
