// One operation under way: the messages that it takes, each rank straight to each. For 2 to 16
// ranks that moves the bytes of a ring in fewer latencies, and the owner of a part gets all that is
// to be added at once, so that it can add in the order of the tree.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "framework/comm/comm_op.h"
#include "framework/comm/sum_tree.h"
#include "framework/comm/transport.h"

namespace ndtrain {

// By the transport's thread alone. Borrows the transport and the operation's memory.
class Exchange {
 public:
  // `op` is checked(). tags[p] and tags[p] + 1 are for messages between this rank and the group's
  // rank p, both of which use them for this operation only.
  Exchange(CommOp op, std::vector<uint64_t> tags, Transport& transport);

  const CommOp& op() const { return op_; }
  void begin();
  // One of its requests has ended well.
  void ended(Transport::Request request);
  // With which ranks one of its requests is; none where it has no such request.
  std::set<int> peers_of(Transport::Request request) const;
  bool finished() const { return phase_ == Phase::kFinished; }
  // Ranks that have not sent, or not taken, what they have to.
  std::set<int> lacking() const;

 private:
  enum class Phase : uint8_t { kScatter, kGather, kAllToAll, kBarrier, kNative, kFinished };
  using Bytes = std::unique_ptr<std::byte[]>;

  size_t ranks() const { return op_.group.size(); }
  bool on_device() const { return op_.native && transport_.collects_on_device(); }
  std::span<float> part(size_t place) const;
  std::span<float> received_part(size_t place) const;
  std::vector<Subtree> nodes_of(size_t place) const;

  void enter(Phase phase);
  void phase_over();
  void begin_scatter();
  void begin_gather();
  void begin_all_to_all();
  void begin_barrier();
  void begin_native();
  void begin_calls(std::span<const LibraryCall> calls);
  std::span<float> native_summands();
  void take_native();
  void add_up();
  void take_arrived();

  void send(size_t to, std::span<const std::byte> bytes);
  void receive(size_t from, std::span<std::byte> into);
  void receive_floats(size_t from, std::span<float> into);
  std::span<const std::byte> on_the_wire(std::span<const std::span<const float>> pieces);
  std::span<std::byte> room_for(size_t from, size_t values);

  const CommOp op_;
  const std::vector<uint64_t> tags_;
  Transport& transport_;
  const size_t place_;  // of this rank in the group
  Phase phase_ = Phase::kFinished;
  std::map<Transport::Request, RankGroup> under_way_;  // and the ranks at the other end
  std::vector<Bytes> packed_;                          // what is not sent from where it lies
  std::vector<Bytes> arrived_;                 // of each place what is not received in place
  std::vector<std::span<float>> unpacked_;     // of each place where that goes
  std::vector<float> native_in_, native_out_;  // of the library, where it is not given `data`
};

}  // namespace ndtrain
