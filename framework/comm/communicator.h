// Collective operations in one planned order. Sums are exact functions of the parts and of the tree
// in which they are added, never of who is first.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "framework/comm/comm_op.h"
#include "framework/comm/regrouping.h"
#include "framework/comm/transport.h"
#include "framework/core/clock.h"
#include "framework/core/error.h"

namespace ndtrain {

// Says which ranks, which operation lacks them, and since when.
struct RankLost : Error {
  RankLost(const std::string& what, std::vector<int> who, bool silent_only = false)
      : Error(what), ranks(std::move(who)), stalled(silent_only) {}
  std::vector<int> ranks;
  bool stalled;  // their connections stand, but an operation made no progress
};

// Communicator::Options::stall of trainings: a rank that is silent is lost much sooner
// (transport.h), and one that computes is waited for.
inline constexpr std::chrono::hours kTrainingStall{24 * 7};

// Operations begin in the order in which they were enqueued, which has to be the same on all ranks:
// one whose data is not there yet holds up those behind it, and the order of arrival decides
// nothing. (Libraries of collectives ask for such an order, too.) Messages alone stand in no line:
// each begins when it is released, and the n-th of a lane that a rank enqueues to another is the
// n-th that this one enqueues from there. Thread-safe; the transport's calls are made by a thread
// of its own, which also adds up.
class Communicator {
 public:
  using Op = uint64_t;
  struct Options {
    int in_flight = 2;                        // calls that are under way at once, besides messages
    std::chrono::milliseconds stall{30'000};  // without progress of an operation that has begun
    size_t piece = size_t{1} << 18;           // values of a part that travel at once, on all ranks
    bool trace = false;
    // The ranks regroup() when some are lost: one that has begun to makes the others' waits throw
    // RankLost.
    bool regroups = false;
    Clock* clock = nullptr;     // borrowed; null: the system's
    std::stop_token stop = {};  // where it is requested, by any thread, this rank leaves
  };

  // Throws Error where an option cannot be.
  Communicator(std::unique_ptr<Transport> transport, const Options& options);
  // Abandons what is not done; its memory is free afterwards. To leave others no work undone, wait
  // for a barrier first.
  ~Communicator();

  int rank() const;
  int ranks() const;             // that the run began with
  RankGroup members() const;     // those of the present generation
  RankGroup lost() const;        // the others
  bool has_collectives() const;  // of a library, for CommOp::native
  bool collects_on_device() const;

  // The operation's memory is this object's from release() until it is done. Throws Error where
  // the operation cannot be (comm_op.h), or somebody in its group is not here any more.
  Op enqueue(CommOp op);
  // One call: they begin together, when all of them are released.
  std::vector<Op> enqueue_together(std::vector<CommOp> ops);
  // Its data is there. Throws Error the second time.
  void release(Op op);
  bool done(Op op) const;
  // Returns when it is done. Throws RankLost when a rank is gone, or an operation has made no
  // progress for `stall`; then a rank that is held up by another is named as well as that one. From
  // then on nothing is under way, all memory is free, and each wait for what was not done throws
  // the same, until begin_generation(). Throws Error where the operation was never enqueued or was
  // dropped.
  void wait(Op op);
  // The same, for so long; false: it is not done by then.
  bool wait(Op op, std::chrono::nanoseconds patience);
  double waited_s() const;  // in wait(), in all

  // Takes part in nothing any more: all memory is free, and each wait, those of other threads and
  // regroup() among them, throws a RankLost that is `stalled`. There is no way back. The others
  // hear of it when this object ends. Options::stop does the same without waiting for it.
  void leave();

  // Drops what is not done, and goes on with these ranks (transport.h). Throws Error likewise.
  void begin_generation(uint32_t generation, const RankGroup& members);

  // After a RankLost that is not `stalled`, by each rank that is left, which has applied `step`
  // steps: agrees with them who goes on (regrouping.h), and begins a generation of these. Waits for
  // all of them. Throws RankLost where the leader is lost, or this rank is not among those who go
  // on; only with Options::regroups.
  Regrouping::Agreement regroup(int64_t step);

  struct Span {  // by the clock's monotonic(): when an operation was released, begun and done
    std::string name;
    std::chrono::nanoseconds released, begun, ended;
  };
  std::vector<Span> take_trace();  // of those done since the last call; empty without `trace`

 private:
  void in_thread(std::function<void()> action);  // returns when it is done; rethrows

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ndtrain
