// An operation on a device's memory, which the host cannot touch, as calls of a library.
#pragma once

#include <cstddef>
#include <vector>

#include "framework/comm/comm_op.h"
#include "framework/comm/transport.h"

namespace ndtrain {

// Of a checked() native operation of all ranks, on the group's rank `place`; none where there is
// nothing to move. All are in place, so that no memory is taken: where the parts of the ranks
// differ in length, each is a call of its own, to or from the rank it belongs to.
std::vector<LibraryCall> calls_on_device(const CommOp& op, size_t place);

}  // namespace ndtrain
