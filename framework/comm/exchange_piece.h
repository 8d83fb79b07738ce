// A piece of an operation under way: so many values of each part. Each rank sends straight to each.
// For 2 to 16 ranks that moves the bytes of a ring in fewer latencies, and the owner of a part gets
// all that is to be added at once, so that it can add in the order of the tree. It adds up and
// sends the sum as soon as it has them; the sums of others come when they have its summands.
#pragma once

#include <map>
#include <optional>
#include <set>
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
  bool finished() const { return under_way_.empty(); }
  void add_lacking(std::set<int>& ranks) const;
  // With which rank one of its requests is.
  std::optional<int> peer_of(Transport::Request request) const;

 private:
  // Of messages: summands go out and come in; so do sums, and what is not added up.
  enum class Role : uint8_t { kGives, kCollects, kSpreads, kGathers };
  struct Message {
    int rank;  // at the other end
    Role role;
  };
  using Buffer = BufferPool::Buffer;

  size_t ranks() const { return of_.op.group.size(); }
  std::span<float> piece_of(std::span<float> part) const;
  std::span<float> part(size_t place) const { return piece_of(part_of(of_.op, place)); }
  std::vector<Subtree> nodes_of(size_t place) const;

  void begin_sum();
  void over(Role role);
  void add_up();
  void spread();
  void gather();
  void swap();
  void meet();
  void take_gathered();

  bool waits_for(Role role) const;
  void send(size_t to, Role role, std::span<const std::byte> bytes);
  void receive(size_t from, Role role, std::span<std::byte> into);
  void gather_floats(size_t from, std::span<float> into);
  std::span<const std::byte> on_the_wire(std::span<const std::span<const float>> subtrees,
                                         std::vector<Buffer>& packed);
  uint64_t tag_of(size_t place, Role role) const;

  const Operation of_;
  const size_t number_, values_;
  std::map<Transport::Request, Message> under_way_;
  std::vector<Buffer> given_, spread_;      // what is not sent from where it lies
  std::vector<Buffer> collected_;           // of each place its summands
  std::vector<Buffer> gathered_;            // of each place what is not received in place
  std::vector<std::span<float>> unpacked_;  // of each place where that goes
};

}  // namespace ndtrain
