// What ranks tell one another of a step besides values: its loss and what it finds, and that they
// are done with it.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "framework/comm/communicator.h"
#include "framework/train/gradient_sync.h"

namespace ndtrain {

// Each rank hears each other one at the end, and waits for that from the beginning, so that all
// miss a rank that is lost meanwhile, and not only its neighbours, who leave then. The communicator
// has to end first. All calls may throw RankLost. One thread.
class StepTalk {
 public:
  explicit StepTalk(Communicator& communicator);

  void begin();  // of a step
  // By the last rank, which knows it.
  void tell(const ShardReport& report);
  // On all ranks what the last one has told; waits for it.
  const ShardReport& report();
  // When all ranks are done. Whether one of them wants to stop.
  bool end(bool stop);

 private:
  using Words = std::array<float, 4>;  // as they travel
  struct Peer {
    int rank = 0;
    float stops = 0;
    Communicator::Op end = 0;
  };
  bool is_last() const { return communicator_.rank() + 1 == communicator_.ranks(); }
  Communicator::Op begin(int from, int to, int lane, std::span<float> words);

  Communicator& communicator_;
  std::vector<Peer> peers_;
  std::vector<Communicator::Op> sent_;
  float stop_ = 0;
  Words words_{};
  Communicator::Op coming_ = 0;
  std::optional<ShardReport> report_;
};

}  // namespace ndtrain
