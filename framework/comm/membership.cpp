#include "framework/comm/membership.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain {

Membership::Membership(Time now, const Rules& rules, Member leader)
    : rules_(rules), leader_(leader.rank), until_(now + rules.patience) {
  if (rules.least < 1 || rules.most < 0 || (rules.most > 0 && rules.most < rules.least) ||
      rules.silence <= Time(0) || rules.patience < Time(0)) {
    throw Error("Membership: at least ", rules.least, " and at most ", rules.most, " members");
  }
  present_[leader_] = {std::move(leader), now};
}

Membership::Actions Membership::hello(Time now, Member who) {
  if (const std::string why = refusal(who); !why.empty()) return {.refuse = {{who.rank, why}}};
  const int rank = who.rank;
  present_[rank] = {std::move(who), now};
  return settle(now, true);
}

Membership::Actions Membership::heard(Time now, int rank, int64_t step) {
  const auto it = present_.find(rank);
  if (phase_ == Phase::kFailed || it == present_.end()) {
    return {.refuse = {{rank, "rank " + std::to_string(rank) + " is not in generation " +
                                  std::to_string(generation_)}}};
  }
  it->second.heard = now;
  it->second.member.step = std::max(it->second.member.step, step);
  return settle(now, false);
}

Membership::Actions Membership::lost(Time now, int rank, const std::string& why) {
  if (rank == leader_) throw Error("Membership: the leader is lost to itself");
  if (phase_ == Phase::kFailed || !present_.contains(rank)) return {};
  give_up(rank, why);
  return settle(now, true);
}

Membership::Actions Membership::tick(Time now) {
  if (phase_ == Phase::kFailed) return {};
  std::vector<int> silent;
  for (const auto& [rank, p] : present_) {
    if (rank != leader_ && now - p.heard >= rules_.silence) silent.push_back(rank);
  }
  for (const int rank : silent) give_up(rank, "nothing was heard of it");
  return settle(now, !silent.empty());
}

Membership::Time Membership::next() const {
  if (phase_ == Phase::kFailed) return Time::max();
  Time first = phase_ == Phase::kRunning ? Time::max() : until_;
  for (const auto& [rank, p] : present_) {
    if (rank != leader_) first = std::min(first, p.heard + rules_.silence);
  }
  return first;
}

std::string Membership::refusal(const Member& who) const {
  if (phase_ == Phase::kFailed) return "the run has ended";
  if (present_.contains(who.rank)) {
    return "rank " + std::to_string(who.rank) + " is there already";
  }
  if (who.rank < 0) return "there is no rank " + std::to_string(who.rank);
  if (rules_.most > 0 && std::ssize(present_) >= rules_.most) {
    return "there are " + std::to_string(rules_.most) + " ranks already";
  }
  return first_difference(present_.at(leader_).member.fingerprint, who.fingerprint);
}

void Membership::give_up(int rank, const std::string& why) {
  const std::string& name = present_.at(rank).member.name;
  last_loss_ =
      "rank " + std::to_string(rank) + (name.empty() ? "" : " (" + name + ")") + " is lost: " + why;
  present_.erase(rank);
}

// What is to be done now; `changed`: somebody came or went.
Membership::Actions Membership::settle(Time now, bool changed) {
  const bool full = rules_.most > 0 && std::ssize(present_) == rules_.most;
  const bool over = now >= until_;
  if (phase_ == Phase::kRunning) {
    if (!changed) return {};
    if (enough()) return {.begin = begin()};
    phase_ = Phase::kTooFew;
    until_ = now + rules_.patience;
    return {};
  }
  if (enough() && (full || over || phase_ == Phase::kTooFew)) return {.begin = begin()};
  if (!over) return {};
  phase_ = Phase::kFailed;
  return {.fail = std::to_string(present_.size()) + " of at least " + std::to_string(rules_.least) +
                  " ranks are there" + (last_loss_.empty() ? "" : "; " + last_loss_)};
}

Membership::Generation Membership::begin() {
  phase_ = Phase::kRunning;
  Generation g{.number = ++generation_, .source = leader_};
  for (const auto& [rank, p] : present_) {
    g.members.push_back(p.member);
    g.step = std::max(g.step, p.member.step);
  }
  for (const Member& m : g.members) {
    if (m.step == g.step) {
      g.source = m.rank;
      break;
    }
  }
  return g;
}

}  // namespace ndtrain
