// What all ranks of a training did when, as one Chrome trace: what each computed and waited for,
// and what its link carried.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/core/clock.h"
#include "framework/parallel/timed_sync.h"

namespace ndtrain {

// By how much `clock` of rank `other` is ahead of rank 0's, at rank 0: half of a round trip is
// taken for one way, of the fastest of some (Cristian, "Probabilistic clock synchronization",
// 1989), so that it errs by half of that one at most. Only these two ranks call it.
std::chrono::nanoseconds clock_offset(Communicator& communicator, int other, Clock& clock);

// One of each rank. Not thread-safe.
class RankTrace {
 public:
  static constexpr size_t kMost = 100'000;  // spans of a rank: the first ones are kept

  // Both by the same clock.
  void add(std::vector<TimedSync::Span> computing, std::vector<Communicator::Span> link);

  // At rank 0 the trace, in seconds from the first span of all; else empty. Collective. `clock` is
  // that of the spans.
  std::string collect(Communicator& communicator, Clock& clock);

 private:
  struct Span {
    bool link;
    std::string name;
    int64_t begun_ns, ended_ns;
  };
  std::string text() const;

  std::vector<Span> spans_;
  size_t left_out_ = 0;
};

}  // namespace ndtrain
