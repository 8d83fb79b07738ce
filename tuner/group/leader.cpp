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

namespace ndtrain::tuner {
using namespace ndp;

std::unique_ptr<GroupLeader> GroupLeader::meet(const Setting& setting, const GroupRules& rules) {
  const auto patience = std::chrono::duration<double>(rules.spec.store_timeout);
  TrainingMembers::Wanted wanted{
      .job = setting.job,
      .tuners = rules.spec.tuners,
      .numerics = rules.numerics,
      .patience = std::chrono::duration_cast<std::chrono::nanoseconds>(patience)};
  for (;;) {
    TrainingGroup group = setting.members.meet(wanted, setting.progress);
    if (!group.ranks) return nullptr;
    const std::vector<std::string> names = group.names;
    try {
      static_cast<void>(share_rules(*group.ranks, rules));
      return std::unique_ptr<GroupLeader>(new GroupLeader(setting, rules, std::move(group)));
    } catch (const RankLost& lost) {
      setting.progress.say(std::string("a member was lost before the training began: ") +
                           lost.what());
      for (const int r : lost.ranks) wanted.without.insert(names[static_cast<size_t>(r)]);
    }
  }
}

// Of the head as its file has it, as the members' are.
GroupLeader::GroupLeader(const Setting& setting, const GroupRules& rules, TrainingGroup group)
    : setting_(setting), sync_(rules.spec.sync), names_(std::move(group.names)) {
  const std::string file = join(setting_.directory, "group_head.onnx");
  publish(setting_.fs, file, rules.head).or_throw();
  const auto say = [this](const std::string& line) { setting_.progress.say(line); };
  const auto timed = [this](const ExchangeReport& r) { exchange_ = r; };
  training_ = std::make_unique<LeadingTraining>(
      group_training(rules, load_model(setting_.fs, file).model, setting_.device,
                     std::move(group.ranks), setting_.clock, say, timed),
      rows_);
}

GroupLeader::~GroupLeader() = default;

void GroupLeader::use(SpoolDataset* data) {
  rows_.use(data);
  training_->use_rows();
}

std::vector<std::string> GroupLeader::lost() const {
  std::vector<std::string> names;
  for (const int r : training_->ranks().communicator().lost()) {
    names.push_back(names_[static_cast<size_t>(r)]);
  }
  return names;
}

void GroupLeader::report(RunDirectory& run) {
  const std::vector<std::string> gone = lost();
  for (const std::string& name : gone) {
    if (std::ranges::count(said_lost_, name) > 0) continue;
    setting_.progress.say(
        fmt::format("{} is lost; the others have taken over its shards, to the same model", name));
  }
  said_lost_ = gone;
  if (exchange_ && !exchange_kept_) {
    setting_.progress.say(exchange_line(sync_, *exchange_));
    write_exchange(run, *exchange_);
    exchange_kept_ = true;
  }
  GroupFigures figures{.job = setting_.job,
                       .tuners = static_cast<int>(names_.size() - gone.size()),
                       .lost = static_cast<int>(gone.size()),
                       .exposed_s = training_->ranks().exposed_s(),
                       .row_bytes = rows_.bytes_sent()};
  if (exchange_) {
    figures.step_s = exchange_->step_s;
    if (exchange_->slowest_rank > 0) {
      figures.slowest = names_[static_cast<size_t>(exchange_->slowest_rank)];
    }
  }
  setting_.members.report(figures);
}

Json GroupLeader::json() const {
  Json j = {{"tuners", names_.size()},
            {"sync", sync_},
            {"shards", training_->ranks().shards()},
            {"exposed_s", training_->ranks().exposed_s()},
            {"member_row_bytes", rows_.bytes_sent()}};
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
