#include "tuner/group/tuner_members.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "framework/comm/rendezvous.h"
#include "framework/core/log.h"
#include "ndp/wire/message_limits.h"
#include "tuner/group/group_rules.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr std::chrono::milliseconds kBetweenLooks{100}, kBeforeAnotherTry{1'000};

}  // namespace

TunerMembers::TunerMembers(Setting setting, TunerSessions sessions)
    : setting_(std::move(setting)), sessions_(std::move(sessions)) {}

void TunerMembers::handle(LinkEvent<wire::FromStore> event) {
  const std::lock_guard lock(mutex_);
  if (const auto* opened = std::get_if<LinkOpened>(&event.what)) {
    return apply(sessions_.opened(now(), event.link, *opened));
  }
  if (const auto* closed = std::get_if<LinkClosed>(&event.what)) {
    return apply(sessions_.closed(event.link, closed->reason));
  }
  auto& message = std::get<wire::FromStore>(event.what);
  if (const Status s = wire::admit(message); !s.ok()) {
    return apply(sessions_.refuse(now(), event.link, s.message()));
  }
  TunerSessions::Actions actions = sessions_.message(now(), event.link, message);
  const std::optional<std::string> member = actions.deliver;
  apply(std::move(actions));
  if (!member) return;
  if (message.has_left_training()) return left_training(*member, message.left_training());
  const bool leaves = message.has_leaving();
  apply(sessions_.refuse(now(), *member,
                         leaves ? "the member stops: " + message.leaving().reason()
                                : "a message that members do not send"));
}

void TunerMembers::apply(TunerSessions::Actions actions) {
  for (const std::string& warning : actions.warnings) log::warn("{}", warning);
  for (const auto& [name, reason] : actions.left) {
    members_.erase(name);
    log::info("member {} has left: {}", name, reason);
  }
  for (auto& [link, message] : actions.send) setting_.links.send(link, std::move(message));
  for (const LinkId link : actions.close) setting_.links.close(link);
  if (!actions.arrived) return;
  const wire::Hello& hello = *actions.arrived;
  members_[hello.store()] = {.record = {.name = hello.store(),
                                        .numerics = hello.numerics(),
                                        .version = hello.version(),
                                        .peer = sessions_.who(hello.store()).peer,
                                        .site = hello.site()}};
  log::info("member {} is here", hello.store());
}

void TunerMembers::left_training(const std::string& name, const wire::LeftTraining& left) {
  const auto it = members_.find(name);
  if (it == members_.end() || it->second.training != left.training()) return;
  it->second.record.failure = left.failure();
  it->second.record.job = 0;
  it->second.training = 0;
  if (!left.failure().empty()) log::warn("member {} left its training: {}", name, left.failure());
}

void TunerMembers::tick() {
  const std::lock_guard lock(mutex_);
  apply(sessions_.tick(now()));
}

TunerMembers::Time TunerMembers::next() const {
  const std::lock_guard lock(mutex_);
  return sessions_.next();
}

std::vector<MemberRecord> TunerMembers::members() const {
  const std::lock_guard lock(mutex_);
  std::vector<MemberRecord> all;
  for (const auto& [name, member] : members_) all.push_back(member.record);
  return all;
}

GroupFigures TunerMembers::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

void TunerMembers::report(const GroupFigures& figures) {
  const std::lock_guard lock(mutex_);
  figures_ = figures;
}

std::string TunerMembers::why_not(const Member& member, const Wanted& wanted) {
  if (wanted.without.contains(member.record.name)) return "could not be met";
  if (member.record.numerics != wanted.numerics) {
    return "has another program, processor or plugin";
  }
  return member.training != 0 ? "still trains for another job" : "";
}

// In order of their names, so that a member is the same rank when a job goes on.
std::vector<std::string> TunerMembers::idle(const Wanted& wanted) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, member] : members_) {
    if (why_not(member, wanted).empty() && std::ssize(names) < wanted.tuners - 1) {
      names.push_back(name);
    }
  }
  return names;
}

std::string TunerMembers::others(const Wanted& wanted) const {
  const std::lock_guard lock(mutex_);
  std::string all;
  for (const auto& [name, member] : members_) {
    const std::string why = why_not(member, wanted);
    if (!why.empty()) all += fmt::format("; {} {}", name, why);
  }
  return all;
}

TrainingGroup TunerMembers::meet(const Wanted& asked, Progress& progress) {
  Wanted wanted = asked;
  const Time until = now() + wanted.patience;
  const Time begun = now();
  std::string said;
  while (!progress.interrupted()) {
    const std::vector<std::string> here = idle(wanted);
    const auto missing = wanted.tuners - 1 - std::ssize(here);
    if (missing > 0 && now() < until) {
      std::string line = fmt::format("waits for {} more of {} Tuners (ndtrain tuner join){}",
                                     missing, wanted.tuners, others(wanted));
      // Who has just left another training may say so in a moment.
      if (line != said && now() - begun >= kBetweenLooks) {
        progress.say(line);
        said = std::move(line);
      }
      setting_.clock.sleep(kBetweenLooks);
      continue;
    }
    if (here.empty()) {
      progress.say(fmt::format("no other Tuner is here: this one trains alone{}{}",
                               wanted.same_model ? ", to the same model" : "", others(wanted)));
      return {};
    }
    Meeting meeting = meet_these(here, wanted);
    if (meeting.group.ranks) {
      progress.say(fmt::format("{} of {} Tuners train: this one, {}{}{}",
                               meeting.group.names.size(), wanted.tuners, fmt::join(here, ", "),
                               missing > 0 && wanted.same_model ? "; the model is the same" : "",
                               missing > 0 ? others(wanted) : ""));
      return std::move(meeting.group);
    }
    progress.say("members could not be met: " + meeting.why);
    setting_.clock.sleep(kBeforeAnotherTry);
    if (now() >= until) wanted.without.insert(meeting.absent.begin(), meeting.absent.end());
  }
  return {};
}

TunerMembers::Meeting TunerMembers::meet_these(const std::vector<std::string>& names,
                                               const Wanted& wanted) {
  auto listener = setting_.net.listen(setting_.listen);
  if (!listener.ok()) {
    throw Error("members cannot meet this Tuner at ", setting_.listen, ": ",
                listener.status().message(), "; tuner serve --ranks-listen names another address");
  }
  ask(names, wanted.job, (*listener)->address());
  const RankPlace place{.rank = 0,
                        .ranks = static_cast<int>(names.size()) + 1,
                        .generation = static_cast<uint32_t>(trainings_),
                        .patience = kMeeting};
  RankArrivals arrivals;
  auto streams = receive_ranks(**listener, place, setting_.clock, &arrivals);
  Meeting meeting;
  if (!streams.ok()) {
    meeting.why = streams.status().message();
    for (const int r : arrivals.absent) {
      meeting.absent.push_back(names[static_cast<size_t>(r) - 1]);
    }
    if (arrivals.absent.empty()) meeting.absent = names;
    return meeting;
  }
  if (arrivals.is_to_relay) {
    meeting.group.relay = std::make_unique<RankRelay>(std::move(*listener), place);
  }
  meeting.group.names = {"this Tuner"};
  meeting.group.names.insert(meeting.group.names.end(), names.begin(), names.end());
  meeting.group.ranks = group_communicator(0, std::move(*streams), setting_.silence);
  return meeting;
}

void TunerMembers::ask(const std::vector<std::string>& names, uint64_t job,
                       const std::string& address) {
  const std::lock_guard lock(mutex_);
  ++trainings_;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto link = sessions_.link_of(names[i]);
    if (!link) continue;  // it has left: it will not come
    Member& member = members_.at(names[i]);
    member.training = trainings_;
    member.record.job = job;
    member.record.failure.clear();
    wire::ToStore m;
    wire::JoinTraining& join = *m.mutable_join_training();
    join.set_training(trainings_);
    join.set_job(job);
    join.set_rank(static_cast<uint32_t>(i) + 1);
    join.set_ranks(static_cast<uint32_t>(names.size()) + 1);
    join.set_address(address);
    sessions_.stamp(now(), *link, m);
    setting_.links.send(*link, std::move(m));
  }
}

}  // namespace ndtrain::tuner
