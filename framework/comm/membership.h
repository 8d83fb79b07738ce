// Who takes part in a run: a state machine that the leader is told what happened and when. It
// forms a group, makes it anew as ranks are lost, come back or come late, and ends the run when too
// few are left. One thread; no clock, no sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/fingerprint.h"

namespace ndtrain {

class Membership {
 public:
  using Time = std::chrono::nanoseconds;  // of any clock that does not go back
  struct Member {
    int rank = 0;
    std::string name, address;
    Fingerprint fingerprint;
    double speed = 1;  // measured, for shares of the work
    int64_t step = 0;  // steps that it has applied
  };
  struct Rules {
    int least = 1, most = 0;                   // members, the leader too; 0: as many as come
    Time silence = std::chrono::seconds(30);   // after which a member is lost
    Time patience = std::chrono::seconds(60);  // for the first group, and where too few are left
  };
  // Members who have applied fewer steps than `step` get what these made from `source`, the lowest
  // rank that has; then all do the step that follows.
  struct Generation {
    uint32_t number = 0;          // rising from 1
    std::vector<Member> members;  // by rank
    int64_t step = 0;
    int source = 0;
  };
  // What the caller does, in this order.
  struct Actions {
    std::vector<std::pair<int, std::string>> refuse;  // ranks, and why; they write nothing more
    std::optional<Generation> begin;
    std::optional<std::string> fail;  // the run ends; nothing else happens from now on
  };

  // The first group begins when there are `most` members, or when `patience` has passed and there
  // are at least `least`. Throws Error where the rules cannot be.
  Membership(Time now, const Rules& rules, Member leader);

  // A rank wants to take part. It is refused when it is there already, is not of this run
  // (fingerprint.h), or there are `most`.
  Actions hello(Time now, Member who);
  // Any sign of life, and the steps that it has applied. Who was given up is refused.
  Actions heard(Time now, int rank, int64_t step);
  // A connection has broken.
  Actions lost(Time now, int rank, const std::string& why);
  // Time has passed; to be called when next() says.
  Actions tick(Time now);
  Time next() const;  // Time::max(): never

  uint32_t generation() const { return generation_; }

 private:
  enum class Phase : uint8_t { kForming, kRunning, kTooFew, kFailed };
  struct Present {
    Member member;
    Time heard;
  };

  std::string refusal(const Member& who) const;
  void give_up(int rank, const std::string& why);
  Actions settle(Time now, bool changed);
  Generation begin();
  bool enough() const { return std::ssize(present_) >= rules_.least; }

  const Rules rules_;
  const int leader_;
  Phase phase_ = Phase::kForming;
  Time until_;  // while forming, or too few
  std::map<int, Present> present_;
  uint32_t generation_ = 0;
  std::string last_loss_;
};

}  // namespace ndtrain
