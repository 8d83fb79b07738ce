#include "framework/comm/regrouping.h"

#include <algorithm>

#include "framework/core/error.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

using Kind = Regrouping::Message::Kind;

static_assert(limits::kRanks <= 64, "ranks are bits of a word");

template <typename Ranks>
uint64_t bits_of(const Ranks& ranks) {
  uint64_t bits = 0;
  for (const int r : ranks) bits |= uint64_t{1} << r;
  return bits;
}

bool has(uint64_t bits, int rank) { return (bits >> rank & 1) != 0; }

}  // namespace

Regrouping::Regrouping(int rank, RankGroup members, std::set<int> lost, int64_t step)
    : rank_(rank), members_(std::move(members)), lost_(std::move(lost)), step_(step) {
  const auto possible = [](int r) { return r >= 0 && r < limits::kRanks; };
  if (std::ranges::count(members_, rank) != 1 || !std::ranges::all_of(members_, possible) ||
      !std::ranges::is_sorted(members_) || lost_.contains(rank)) {
    throw Error("Regrouping: rank ", rank, " of ", members_.size(), " cannot agree with them");
  }
  std::erase_if(lost_, [&](int r) { return std::ranges::count(members_, r) == 0; });
  gone_ = lost_;
}

RankGroup Regrouping::peers() const {
  RankGroup all;
  for (const int r : leads() ? members_ : RankGroup{leader()}) {
    if (r != rank_ && !lost_.contains(r)) all.push_back(r);
  }
  return all;
}

Regrouping::Actions Regrouping::begin() {
  if (leads()) {
    Actions actions = decide();
    if (over_) return actions;
    for (const int r : peers()) actions.send.push_back({r, {.kind = Kind::kCall}});
    return actions;
  }
  if (lost_.contains(leader())) return gone(leader(), "its connection has ended");
  return {.send = {{leader(), {Kind::kReport, step_, bits_of(lost_)}}}};
}

Regrouping::Actions Regrouping::heard(int from, const Message& message) {
  if (over_) return {};
  if (!leads()) {
    return from == leader() && message.kind == Kind::kVerdict ? follow(message) : Actions{};
  }
  // Who was given up has nothing to say.
  if (message.kind != Kind::kReport || lost_.contains(from)) return {};
  reported_[from] = message.step;
  for (const int r : members_) {
    if (r != from && has(message.ranks, r)) lost_.insert(r == rank_ ? from : r);
  }
  return decide();
}

Regrouping::Actions Regrouping::gone(int rank, const std::string& why) {
  if (over_) return {};
  if (!leads()) {
    if (rank != leader()) return {};
    over_ = true;
    return {.fail = "rank " + std::to_string(leader()) +
                    ", which leads, is lost, or has given this rank up (" + why + ")"};
  }
  lost_.insert(rank);
  gone_.insert(rank);
  return decide();
}

// The leader, as soon as it knows of everybody. Who is given up but there is told so.
Regrouping::Actions Regrouping::decide() {
  Agreement all{.step = step_};
  for (const int r : members_) {
    if (lost_.contains(r)) continue;
    all.members.push_back(r);
    if (r == rank_) continue;
    const auto it = reported_.find(r);
    if (it == reported_.end()) return {};
    all.step = std::min(all.step, it->second);
  }
  over_ = true;
  Actions actions{.agreed = all};
  for (const int r : members_) {
    if (r == rank_ || gone_.contains(r)) continue;
    actions.send.push_back({r, {Kind::kVerdict, all.step, bits_of(all.members)}});
  }
  return actions;
}

Regrouping::Actions Regrouping::follow(const Message& verdict) {
  over_ = true;
  if (!has(verdict.ranks, rank_)) {
    return {.fail = "the others have given this rank up, and go on without it"};
  }
  Agreement all{.step = verdict.step};
  for (const int r : members_) {
    if (has(verdict.ranks, r)) all.members.push_back(r);
  }
  return {.agreed = all};
}

}  // namespace ndtrain
