// Bytes of each rank to all others, by messages: apart from collectives, which stand in one line.
#pragma once

#include <string>
#include <vector>

#include "framework/comm/communicator.h"

namespace ndtrain {

// All ranks call gather() as often as the others, by one thread each. Keeps a reference.
class MessageGather {
 public:
  // By messages of that lane (comm_op.h), which is for this alone.
  MessageGather(Communicator& communicator, int lane);

  // What each rank gives, in their order. Waits. Throws RankLost; Error where another rank
  // announces more than `most` bytes, for which the communicator is left.
  std::vector<std::string> gather(std::string ours, uint64_t most);

 private:
  CommOp message(int from, int to, std::span<float> data) const;
  Communicator::Op begin(CommOp op) const;

  Communicator& communicator_;
  const int lane_;
};

}  // namespace ndtrain
