// Values on their way between stages of different ranks: those of a micro-batch in one message, or,
// between replicas that share its rows out in another way, in one for each interval of rows.
#pragma once

#include <deque>
#include <map>
#include <span>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/pipeline/run/stage_part.h"
#include "framework/pipeline/run/stage_ranks.h"
#include "framework/pipeline/schedules/pipe_shape.h"

namespace ndtrain {

// What is sent is copied, and travels while the rank goes on. The communicator has to end first:
// messages under way are in this object's memory. One thread.
class StageMessages {
 public:
  StageMessages(Communicator& communicator, const Device& device, const StageRanks& ranks)
      : communicator_(communicator), device_(device), ranks_(ranks) {}

  struct Lane {            // one way of an edge
    int from = 0, to = 0;  // stages
    int64_t buffer = 1;    // micro-batches that may be under way: then the oldest is waited for
  };
  // Of a micro-batch of so many rows in all, on whose values that the ranks do not share out alike
  // images come first. These throw RankLost.
  void send(const PipeShape& shape, const Lane& lane, int64_t rows,
            const std::vector<ValueId>& values, const StageValues& from);
  // Waits for them.
  void receive(const PipeShape& shape, const Lane& lane, int64_t rows,
               const std::vector<ValueId>& values, StageValues& to);
  // Waits until all that was sent has been taken.
  void finish();

 private:
  struct Sent {
    Communicator::Op op;
    std::vector<float> memory;
  };
  Communicator::Op begin(const PipeShape& shape, const Lane& lane, int from, int to,
                         std::span<float> memory);
  void wait_for_oldest(std::deque<Sent>& sent);

  Communicator& communicator_;
  const Device& device_;
  const StageRanks ranks_;
  std::map<std::pair<int, int>, std::deque<Sent>> sent_;  // by lane: stages from and to
  std::vector<float> received_;
};

}  // namespace ndtrain
