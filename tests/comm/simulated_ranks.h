// Ranks that train and regroup in simulated time, with bugs that can be planted: each does its
// shards of every step, and has two values, updated one after the other when their owners send
// them.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/comm/regrouping.h"
#include "framework/core/rng.h"
#include "tests/sim/timeline.h"

namespace ndtrain::comm_tests {

// What a wrong program would do.
enum class RegroupBug {
  kNone,
  kReportsWhatIsHalfApplied,
  kTakesNothingBack,
  kKeepsOneValueOnly,
  kLeavesShardsOfTheLost,
  kDropsLaterGenerations,
  kCallsNobody,
  kGoesOnWhenGivenUp,
  kMissesNobody
};

inline constexpr int kSimulatedSteps = 12, kSimulatedShards = 8;

class SimulatedRanks {
 public:
  using Values = std::array<uint64_t, 2>;

  // Faults as the seed has them: ranks killed or stopped for a while, connections that break.
  SimulatedRanks(uint64_t seed, RegroupBug bug);

  // Until nothing happens any more. What is wrong with the end; "" where nothing is.
  std::string run();
  int regrouped() const { return regrouped_; }

 private:
  struct Wire {
    enum class Kind : uint8_t { kGradients, kValue, kTalk } kind;
    uint32_t generation;
    int64_t step;
    int half;                         // of kValue
    std::map<int, Values> gradients;  // by shard
    uint64_t value;
    Regrouping::Message talk;
  };
  struct Rank {
    enum class State : uint8_t {
      kTraining,
      kTalking,
      kDone,
      kEnded,
      kDead
    } state = State::kTraining;
    uint32_t generation = 0;
    RankGroup members;
    std::set<int> gone;  // whose connections have ended here
    Values values = {1, 2}, older = {};
    int64_t step = 0;                  // that runs, from 0
    std::array<bool, 2> applied = {};  // of it
    int64_t older_of = -1;             // the step that `older` was before
    std::map<int64_t, std::map<int, std::map<int, Values>>> heard;  // gradients by step, rank
    std::deque<std::pair<int, Wire>> waiting;                       // of later generations
    std::optional<Regrouping> talk;
    bool stopped = false;
    std::deque<std::pair<int, std::optional<Wire>>> inbox_of_stopped;
    std::string why;
  };

  static uint64_t mix(uint64_t a, uint64_t b);
  static Values gradient(int shard, int64_t step, const Values& at);
  static uint64_t updated(int half, const Values& values, const std::map<int, Values>& all);
  Values undisturbed() const;

  Rank& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  bool lives(const Rank& r) const {
    return r.state == Rank::State::kTraining || r.state == Rank::State::kTalking;
  }
  void plan_faults();
  void end_connection(int a, int b, double notice_s);
  void send(int from, int to, const Wire& wire);
  void arrive(int to, int from, const std::optional<Wire>& wire);  // none: the connection ends
  void hear(int to, int from, const Wire& wire);
  void begin_step_after(double delay_s, int rank);
  void begin_step(int rank);
  void add_up(int rank);
  void apply(int rank, int half, uint64_t value);
  void lose(int rank);
  void carry_out(int rank, const Regrouping::Actions& actions);
  void begin_generation(int rank, const Regrouping::Agreement& agreed);
  void leave(int rank, Rank::State state, const std::string& why = "");

  Rng rng_;
  const RegroupBug bug_;
  sim::Timeline timeline_;
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, sim::Time> free_at_;  // of each way: messages stay in order
  int regrouped_ = 0;
  std::string wrong_;
};

}  // namespace ndtrain::comm_tests
