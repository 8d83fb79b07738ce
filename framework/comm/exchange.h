// One operation under way: its pieces one behind the other, a few at once, so that ranks add up one
// while others travel.
#pragma once

#include <list>
#include <optional>
#include <set>
#include <vector>

#include "framework/comm/comm_op.h"
#include "framework/comm/exchange_piece.h"
#include "framework/comm/native_collective.h"
#include "framework/comm/transport.h"

namespace ndtrain {

// By the transport's thread alone. Borrows the operation's memory, the transport and the buffers.
// Stays where it is when it has begun.
class Exchange {
 public:
  // `op` is checked(); tags: exchange_piece.h. `piece`: how many values of a part travel at once,
  // the same on all ranks.
  Exchange(CommOp op, std::vector<uint64_t> tags, size_t piece, Transport& transport,
           BufferPool& buffers);

  void begin();
  // One of its requests has ended well.
  void ended(Transport::Request request);
  // With which ranks one of its requests is; none where it has no such request.
  std::set<int> peers_of(Transport::Request request) const;
  bool finished() const { return begun_ == count_ && pieces_.empty() && !collecting_; }
  // Ranks that have not sent, or not taken, what they have to.
  std::set<int> lacking() const;

 private:
  void go_on();
  std::set<int> others() const;

  const CommOp op_;
  const std::vector<uint64_t> tags_;
  const size_t piece_;
  Transport& transport_;
  BufferPool& buffers_;
  const size_t place_;  // of this rank in the group
  size_t begun_ = 0, count_ = 0;
  std::list<ExchangePiece> pieces_;  // that are under way
  std::optional<NativeCollective> native_;
  std::optional<Transport::Request> collecting_;
};

}  // namespace ndtrain
