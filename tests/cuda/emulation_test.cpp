// The emulation runs what a device would, and ends the process where a device would hang.
#include "tests/cuda/emulation.h"

#include <gtest/gtest.h>

#include <vector>

namespace ndtrain::cuda::emulation {
namespace {

TEST(Emulation, EveryThreadOfEveryBlockRunsOnce) {
  std::vector<int> runs(3 * 64, 0);
  run_blocks(3, 64, [&] { ++runs[blockIdx.x * blockDim.x + threadIdx.x]; });
  EXPECT_EQ(runs, std::vector<int>(3 * 64, 1));
}

TEST(Emulation, NobodyPassesABarrierBeforeTheLast) {
  int arrived = 0;
  std::vector<int> seen;
  run_blocks(1, 96, [&] {
    ++arrived;
    __syncthreads();
    seen.push_back(arrived);
    __syncthreads();
  });
  EXPECT_EQ(seen, std::vector<int>(96, 96));
}

TEST(Emulation, LanesOfAWarpExchangeTheirValues) {
  std::vector<unsigned> got(64);
  run_blocks(1, 64, [&] {
    const unsigned once = __shfl_xor_sync(~0u, threadIdx.x, 1);
    got[threadIdx.x] = __shfl_xor_sync(~0u, once, 16);
  });
  for (unsigned i = 0; i < 64; ++i) EXPECT_EQ(got[i], i ^ 17u);
}

TEST(EmulationDeathTest, ABarrierThatSomeLanesPassByEndsTheProcess) {
  EXPECT_DEATH(run_blocks(1, 32,
                          [] {
                            if (threadIdx.x < 7) __syncthreads();
                          }),
               "do not wait at the same kind of place");
}

TEST(EmulationDeathTest, ABarrierThatAWarpPassesByEndsTheProcess) {
  EXPECT_DEATH(run_blocks(1, 64,
                          [] {
                            if (threadIdx.x < 32) __syncthreads();
                          }),
               "some warps are done, others at a barrier");
}

TEST(EmulationDeathTest, ABlockOfPartsOfWarpsEndsTheProcess) {
  EXPECT_DEATH(run_blocks(1, 33, [] {}), "no whole warps");
}

}  // namespace
}  // namespace ndtrain::cuda::emulation
