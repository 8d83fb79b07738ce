// An NCCL without devices, on the fake runtime (tests/cuda/fake_cudart.h): ranks are threads or
// processes of one machine, whose bytes go through a file that all of them map. An operation takes
// its input when its stream has come to it, and ends when all ranks it is of have come there.
//
// As the real one it counts on all ranks calling the collectives of a world in one order. It knows
// when they do not: the call that differs is an error, which names both, and all ranks of that
// world have it from then on. What the real one takes for granted it checks: memory is a device's,
// and no two ranks have one device. Sums are of f32, added up in the order of the ranks.
#pragma once

#include <nccl.h>

#include <string>
#include <vector>

namespace ndtrain::fake {

// Nothing ordered, an empty record; of this process.
void reset_nccl();

// Collectives that this rank has called, in their order: "AllReduce 16", "Reduce 3 to 1".
std::vector<std::string> nccl_calls(int rank);

// What ncclCommGetAsyncError() tells this rank from now on.
void break_nccl(int rank, ncclResult_t error);

}  // namespace ndtrain::fake
