// What ranks tell one another of steps besides values: their losses and what they find, and that
// they are done.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/train/step_report.h"

namespace ndtrain {

// Each rank hears each other one at the end, and waits for that from the beginning, so that all
// miss a rank that is lost meanwhile, and not only its neighbours, who leave then. The communicator
// has to end first. All calls may throw RankLost. One thread.
class StepTalk {
 public:
  // `tellers`: the ranks of the last stage.
  StepTalk(Communicator& communicator, const RankGroup& tellers);

  void begin(int64_t steps);  // which are run together
  // By each teller, of its rows: of one step after the other.
  void tell(const ShardReport& report);
  // On all ranks what the tellers have told of a step, from 0; waits for it.
  StepReport report(int64_t step);
  // When all ranks are done. Whether one of them wants to stop.
  bool end(bool stop);

 private:
  using Words = std::array<float, 4>;  // as they travel
  struct Peer {
    int rank = 0;
    float stops = 0;
    Communicator::Op end = 0;
  };
  struct Teller {
    int rank = 0;
    std::vector<ShardReport> reports = {};  // of the steps so far
    Words words = {};                       // of the one that comes next
    Communicator::Op coming = 0;
  };
  Communicator::Op begin(int from, int to, int lane, std::span<float> words);
  void await_report(Teller& from);
  const ShardReport& report(Teller& from, int64_t step);

  Communicator& communicator_;
  std::vector<Peer> peers_;
  std::vector<Teller> tellers_;
  std::vector<Communicator::Op> sent_;
  float stop_ = 0;
  int64_t steps_ = 0;
  std::deque<Words> told_;  // memory of messages
};

}  // namespace ndtrain
