// How ranks agree who goes on when some are lost, and from which step: a state machine for each
// rank. The lowest rank leads, and its loss ends the run for the others. No clock, no transport.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "framework/comm/comm_op.h"

namespace ndtrain {

// The leader calls the others; each reports the steps that it has applied, and whom it misses; the
// verdict is who goes on (those that are there, and missed by nobody who is), and the step that all
// of them have applied. Who has reported waits for the verdict: a rank that is lost meanwhile is
// left out of it, or missed by the next agreement.
class Regrouping {
 public:
  struct Message {
    enum class Kind : uint64_t { kCall, kReport, kVerdict };
    Kind kind = Kind::kCall;
    int64_t step = 0;
    uint64_t ranks = 0;  // bit r is rank r: whom a report misses, whom a verdict lets go on
    bool operator==(const Message&) const = default;
  };
  struct Agreement {
    RankGroup members;
    int64_t step = 0;  // all of them have applied so many
    bool operator==(const Agreement&) const = default;
  };
  // What the caller does. Nothing else happens after an agreement or an end.
  struct Actions {
    std::vector<std::pair<int, Message>> send;
    std::optional<Agreement> agreed;
    std::optional<std::string> fail;  // why this rank ends
  };

  // Of `rank`, one of `members`, which misses `lost` and has applied `step` steps. Throws Error for
  // ranks that there cannot be (limits::kRanks).
  Regrouping(int rank, RankGroup members, std::set<int> lost, int64_t step);

  Actions begin();
  Actions heard(int from, const Message& message);
  Actions gone(int rank, const std::string& why);  // nothing more comes from it

  const RankGroup& members() const { return members_; }  // before
  int leader() const { return members_.front(); }
  // With whom messages are exchanged: the leader with all, the others with the leader.
  RankGroup peers() const;

 private:
  bool leads() const { return rank_ == leader(); }
  Actions decide();
  Actions follow(const Message& verdict);

  const int rank_;
  const RankGroup members_;
  std::set<int> lost_;  // of the leader: who will not go on
  std::set<int> gone_;  // of these, whom nothing reaches
  const int64_t step_;
  std::map<int, int64_t> reported_;
  bool over_ = false;
};

}  // namespace ndtrain
