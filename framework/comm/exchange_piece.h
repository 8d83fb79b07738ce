// A piece of an operation under way: so many values of each part. Each rank sends straight to each.
// For 2 to 16 ranks that moves the bytes of a ring in fewer latencies, and the owner of a part gets
// all that is to be added at once, so that it can add in the order of the tree.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "framework/comm/buffer_pool.h"
#include "framework/comm/comm_op.h"
#include "framework/comm/sum_tree.h"
#include "framework/comm/transport.h"

namespace ndtrain {

class ExchangePiece {
 public:
  // What the pieces of an operation share.
  struct Operation {
    const CommOp& op;  // checked(), and not native
    // tags[p] and tags[p] + 1 are for messages between this rank and the group's rank p, both of
    // which use them for this operation only; above kTagBits is the number of the piece.
    const std::vector<uint64_t>& tags;
    size_t place;  // of this rank in the group
    Transport& transport;
    BufferPool& buffers;
  };
  static constexpr int kTagBits = 40;

  // Of each part values [number * values, (number + 1) * values), or what there is of these.
  ExchangePiece(const Operation& of, size_t number, size_t values);

  // By the transport's thread alone.
  void begin();
  // One of its requests has ended well. False: it has no such request.
  bool ended(Transport::Request request);
  bool finished() const { return phase_ == Phase::kFinished; }
  // With which rank each of its requests is that has not ended.
  const std::map<Transport::Request, int>& under_way() const { return under_way_; }

 private:
  enum class Phase : uint8_t { kScatter, kGather, kAllToAll, kBarrier, kFinished };
  using Buffer = BufferPool::Buffer;

  size_t ranks() const { return of_.op.group.size(); }
  std::span<float> piece_of(std::span<float> part) const;
  std::span<float> part(size_t place) const { return piece_of(part_of(of_.op, place)); }
  std::vector<Subtree> nodes_of(size_t place) const;

  void enter(Phase phase);
  void phase_over();
  void begin_scatter();
  void begin_gather();
  void begin_all_to_all();
  void begin_barrier();
  void add_up();
  void take_arrived();

  void send(size_t to, std::span<const std::byte> bytes);
  void receive(size_t from, std::span<std::byte> into);
  void receive_floats(size_t from, std::span<float> into);
  std::span<const std::byte> on_the_wire(std::span<const std::span<const float>> subtrees);
  std::span<std::byte> room_for(size_t from, size_t values);
  uint64_t tag_with(size_t place) const;

  const Operation of_;
  const size_t number_, values_;
  Phase phase_ = Phase::kFinished;
  std::map<Transport::Request, int> under_way_;
  std::vector<Buffer> packed_;              // what is not sent from where it lies
  std::vector<Buffer> arrived_;             // of each place what is not received in place
  std::vector<std::span<float>> unpacked_;  // of each place where that goes
};

}  // namespace ndtrain
