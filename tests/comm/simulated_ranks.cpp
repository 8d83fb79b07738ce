#include "tests/comm/simulated_ranks.h"

#include <algorithm>

#include "framework/train/shards.h"

namespace ndtrain::comm_tests {
namespace {

constexpr double kSilence = 10, kHangup = 0.05, kLimit = 1e4;
constexpr uint64_t kMostEvents = 10'000;

RankGroup all_of(size_t ranks) {
  RankGroup all(ranks);
  for (size_t r = 0; r < ranks; ++r) all[r] = static_cast<int>(r);
  return all;
}

// Who sends a value when it has all gradients.
int owner_of(int half, const RankGroup& members) {
  return half == 0 ? members.front() : members.back();
}

}  // namespace

SimulatedRanks::SimulatedRanks(uint64_t seed, RegroupBug bug)
    : rng_(seed, "ranks"), bug_(bug), ranks_(3 + rng_.next_below(3)) {
  for (Rank& r : ranks_) r.members = all_of(ranks_.size());
  plan_faults();
  for (int r = 0; r < std::ssize(ranks_); ++r) begin_step_after(0, r);
}

uint64_t SimulatedRanks::mix(uint64_t a, uint64_t b) {
  a = (a ^ b) * 0x9E3779B97F4A7C15U;
  return a ^ (a >> 29);
}

SimulatedRanks::Values SimulatedRanks::gradient(int shard, int64_t step, const Values& at) {
  const uint64_t place = mix(static_cast<uint64_t>(shard) + 1, static_cast<uint64_t>(step) + 1);
  return {mix(place, at[0]), mix(place, mix(at[0], at[1]))};
}

uint64_t SimulatedRanks::updated(int half, const Values& values, const std::map<int, Values>& all) {
  const auto h = static_cast<size_t>(half);
  uint64_t value = values[h];
  for (const auto& [shard, g] : all) value = mix(value, mix(static_cast<uint64_t>(shard), g[h]));
  return value;
}

SimulatedRanks::Values SimulatedRanks::undisturbed() const {
  Values values = Rank().values;
  for (int64_t step = 0; step < kSimulatedSteps; ++step) {
    std::map<int, Values> all;
    for (int v = 0; v < kSimulatedShards; ++v) all[v] = gradient(v, step, values);
    values = {updated(0, values, all), updated(1, values, all)};
  }
  return values;
}

void SimulatedRanks::plan_faults() {
  const auto someone = [&](int least) {
    return least + static_cast<int>(rng_.next_below(ranks_.size() - static_cast<size_t>(least)));
  };
  for (uint64_t i = 0, n = rng_.next_below(4); i < n; ++i) {
    const sim::Time when = sim::seconds(rng_.next_uniform() * 4);
    const int who = someone(rng_.next_below(8) == 0 ? 0 : 1), other = someone(1);
    const uint64_t kind = rng_.next_below(3);
    const double stopped_s = rng_.next_uniform() * 3 * kSilence;
    timeline_.at(when, [this, kind, who, other, stopped_s] {
      if (!lives(at(who)) || at(who).stopped) return;
      if (kind == 0) {
        leave(who, Rank::State::kDead);
      } else if (kind == 1) {
        at(who).stopped = true;
        for (int r = 0; r < std::ssize(ranks_); ++r) {
          if (r == who) continue;
          timeline_.after(sim::seconds(kSilence * (1 + rng_.next_uniform() / 10)), [this, who, r] {
            if (at(who).stopped) end_connection(r, who, 0);
          });
        }
        timeline_.after(sim::seconds(stopped_s), [this, who] {
          at(who).stopped = false;
          auto inbox = std::exchange(at(who).inbox_of_stopped, {});
          for (const auto& [from, wire] : inbox) arrive(who, from, wire);
        });
      } else if (who != other) {
        end_connection(who, other, rng_.next_uniform());
      }
    });
  }
}

// `a` notices now, `b` later.
void SimulatedRanks::end_connection(int a, int b, double notice_s) {
  arrive(a, b, std::nullopt);
  timeline_.after(sim::seconds(notice_s), [this, a, b] { arrive(b, a, std::nullopt); });
}

void SimulatedRanks::send(int from, int to, const Wire& wire) {
  if (at(from).gone.contains(to)) {
    if (at(from).talk && wire.kind == Wire::Kind::kTalk) {
      timeline_.after({}, [this, from, to] {
        if (at(from).state == Rank::State::kTalking) {
          carry_out(from, at(from).talk->gone(to, "its connection has ended"));
        }
      });
    }
    return;
  }
  sim::Time& free_at = free_at_[{from, to}];
  free_at = std::max(free_at, timeline_.now()) + sim::seconds(rng_.next_uniform() * 0.05);
  timeline_.at(free_at, [this, from, to, wire] { arrive(to, from, wire); });
}

void SimulatedRanks::arrive(int to, int from, const std::optional<Wire>& wire) {
  Rank& r = at(to);
  if (!lives(r)) return;
  if (r.stopped) return r.inbox_of_stopped.emplace_back(from, wire), void();
  if (r.gone.contains(from)) return;
  if (wire) return hear(to, from, *wire);
  r.gone.insert(from);
  if (std::ranges::count(r.members, from) == 0) return;
  if (r.state == Rank::State::kTraining) return lose(to);
  carry_out(to, r.talk->gone(from, "its connection has ended"));
}

void SimulatedRanks::hear(int to, int from, const Wire& wire) {
  Rank& r = at(to);
  if (wire.generation > r.generation) {
    if (bug_ == RegroupBug::kDropsLaterGenerations) return;
    r.waiting.emplace_back(from, wire);
    if (r.state == Rank::State::kTraining) lose(to);  // it is called
    return;
  }
  if (wire.generation < r.generation) return;
  if (wire.kind == Wire::Kind::kTalk) {
    if (r.state == Rank::State::kTalking) carry_out(to, r.talk->heard(from, wire.talk));
    return;
  }
  if (r.state != Rank::State::kTraining) return;
  if (wire.kind == Wire::Kind::kValue) return apply(to, wire.half, wire.value);
  r.heard[wire.step][from] = wire.gradients;
  add_up(to);
}

void SimulatedRanks::begin_step(int rank) {
  Rank& r = at(rank);
  if (r.state != Rank::State::kTraining) return;
  if (r.step == kSimulatedSteps) return leave(rank, Rank::State::kDone);
  const RankGroup& sharing =
      bug_ == RegroupBug::kLeavesShardsOfTheLost ? all_of(ranks_.size()) : r.members;
  const std::vector<int> first =
      shards_of_ranks(kSimulatedShards, std::vector<double>(sharing.size(), 1.0));
  const auto place = static_cast<size_t>(std::ranges::find(sharing, rank) - sharing.begin());
  Wire wire{.kind = Wire::Kind::kGradients, .generation = r.generation, .step = r.step};
  for (int v = first[place]; v < first[place + 1]; ++v) {
    wire.gradients[v] = gradient(v, r.step, r.values);
  }
  r.heard[r.step][rank] = wire.gradients;
  for (const int to : r.members) {
    if (to != rank) send(rank, to, wire);
  }
  add_up(rank);
}

// The gradients of all are there: an owner updates, and sends what it has made.
void SimulatedRanks::add_up(int rank) {
  Rank& r = at(rank);
  for (const int member : r.members) {
    if (!r.heard[r.step].contains(member)) return;
  }
  std::map<int, Values> all;
  for (const auto& [from, gradients] : r.heard[r.step])
    all.insert(gradients.begin(), gradients.end());
  const Values before = r.values;
  const Wire wire{.kind = Wire::Kind::kValue, .generation = r.generation, .step = r.step};
  for (int half = 0; half < 2; ++half) {
    if (owner_of(half, r.members) != rank || r.applied[static_cast<size_t>(half)]) continue;
    Wire made = wire;
    made.half = half;
    made.value = updated(half, before, all);
    for (const int to : r.members) {
      if (to != rank) send(rank, to, made);
    }
    apply(rank, half, made.value);
  }
}

void SimulatedRanks::apply(int rank, int half, uint64_t value) {
  Rank& r = at(rank);
  const auto h = static_cast<size_t>(half);
  if (r.older_of != r.step) {
    r.older = r.values;
    r.older_of = r.step;
  }
  r.values[h] = value;
  r.applied[h] = true;
  if (!r.applied[0] || !r.applied[1]) return;
  r.applied = {};
  r.heard.erase(r.step);
  ++r.step;
  begin_step_after(rng_.next_uniform() * 0.3, rank);
}

// Unless its generation ends; who is stopped computes nothing.
void SimulatedRanks::begin_step_after(double delay_s, int rank) {
  timeline_.after(sim::seconds(delay_s), [this, rank, g = at(rank).generation] {
    if (at(rank).generation != g || !lives(at(rank))) return;
    if (at(rank).stopped) return begin_step_after(0.1, rank);
    begin_step(rank);
  });
}

void SimulatedRanks::lose(int rank) {
  Rank& r = at(rank);
  r.state = Rank::State::kTalking;
  ++r.generation;
  const bool half_applied = r.applied[0] || r.applied[1];
  const int64_t step =
      r.step + (half_applied && bug_ == RegroupBug::kReportsWhatIsHalfApplied ? 1 : 0);
  std::set<int> missing;
  for (const int m : r.members) {
    if (r.gone.contains(m)) missing.insert(m);
  }
  r.talk.emplace(rank, r.members, missing, step);
  carry_out(rank, r.talk->begin());
  auto waiting = std::exchange(r.waiting, {});
  for (const auto& [from, wire] : waiting) hear(rank, from, wire);
}

void SimulatedRanks::carry_out(int rank, const Regrouping::Actions& actions) {
  Rank& r = at(rank);
  for (auto [to, message] : actions.send) {
    using Kind = Regrouping::Message::Kind;
    if (message.kind == Kind::kCall && bug_ == RegroupBug::kCallsNobody) continue;
    if (message.kind == Kind::kReport && bug_ == RegroupBug::kMissesNobody) message.ranks = 0;
    send(rank, to, {.kind = Wire::Kind::kTalk, .generation = r.generation, .talk = message});
  }
  if (actions.fail && bug_ == RegroupBug::kGoesOnWhenGivenUp) {
    return begin_generation(rank, {{rank}, r.step});
  }
  if (actions.fail) return leave(rank, Rank::State::kEnded, *actions.fail);
  if (actions.agreed) begin_generation(rank, *actions.agreed);
}

void SimulatedRanks::begin_generation(int rank, const Regrouping::Agreement& agreed) {
  Rank& r = at(rank);
  r.state = Rank::State::kTraining;
  ++r.generation;
  ++regrouped_;
  if (agreed.members.front() != 0) wrong_ = "rank " + std::to_string(rank) + " leads itself";
  r.talk.reset();
  if (r.older_of >= agreed.step && bug_ != RegroupBug::kTakesNothingBack) {
    if (bug_ != RegroupBug::kKeepsOneValueOnly) r.values[1] = r.older[1];
    r.values[0] = r.older[0];
    r.older_of = -1;
  }
  r.step = agreed.step;
  r.applied = {};
  r.heard.clear();
  for (const int m : r.members) {
    if (m != rank && std::ranges::count(agreed.members, m) == 0 && !r.gone.contains(m)) {
      r.gone.insert(m);
      timeline_.after(sim::seconds(kHangup), [this, m, rank] { arrive(m, rank, std::nullopt); });
    }
  }
  r.members = agreed.members;
  const bool missed = std::ranges::any_of(r.members, [&](int m) { return r.gone.contains(m); });
  if (missed) return lose(rank);
  begin_step_after(0, rank);
  auto waiting = std::exchange(r.waiting, {});
  for (const auto& [from, wire] : waiting) hear(rank, from, wire);
}

void SimulatedRanks::leave(int rank, Rank::State state, const std::string& why) {
  at(rank).state = state;
  at(rank).why = why;
  for (int to = 0; to < std::ssize(ranks_); ++to) {
    if (to == rank) continue;
    sim::Time& free_at = free_at_[{rank, to}];  // behind what was sent
    free_at = std::max(free_at, timeline_.now()) + sim::seconds(kHangup);
    timeline_.at(free_at, [this, to, rank] { arrive(to, rank, std::nullopt); });
  }
}

std::string SimulatedRanks::run() {
  const Values expected = undisturbed();
  for (uint64_t i = 0; i < kMostEvents && timeline_.now() < sim::seconds(kLimit); ++i) {
    if (timeline_.step()) continue;
    using State = Rank::State;
    for (int r = 0; r < std::ssize(ranks_); ++r) {
      const Rank& rank = at(r);
      const std::string who = "rank " + std::to_string(r);
      if (lives(rank)) return who + " waits for ever";
      if (rank.state == State::kDone && rank.values != expected) return who + " has other values";
    }
    if (at(0).state == State::kEnded) return "rank 0 has ended: " + at(0).why;
    return wrong_;
  }
  return "it never ends";
}

}  // namespace ndtrain::comm_tests
