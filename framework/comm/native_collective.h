// An operation that is left to the library below the transport.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "framework/comm/comm_op.h"
#include "framework/comm/transport.h"

namespace ndtrain {

// By the transport's thread alone. Borrows the operation, which is checked() and native, and its
// memory.
class NativeCollective {
 public:
  // `place`: of this rank in the group.
  NativeCollective(const CommOp& op, size_t place) : op_(op), place_(place) {}

  // None where there is nothing to do.
  std::optional<Transport::Request> begin(Transport& transport);
  // The request has ended well.
  void take();

 private:
  std::span<float> part(size_t place) const { return part_of(op_, place); }
  std::span<float> summands();

  const CommOp& op_;
  const size_t place_;
  bool on_device_ = false;
  std::vector<float> in_, out_;  // of the library, where it is not given `data`
};

}  // namespace ndtrain
