// Running a plan allocates nothing: every operator new of this program is counted, those of the
// plugin too, which takes the program's. Sanitizers bring an operator new of their own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "tests/graph/random_graph.h"
#include "tests/runtime/bound_run.h"
#include "tests/runtime/cpu_device.h"

namespace {

std::atomic<int64_t> allocations{0};

[[maybe_unused]] void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const std::size_t rounded = (bytes + alignment) / alignment * alignment;
  void* p = std::aligned_alloc(alignment, rounded);
  if (!p) throw std::bad_alloc();
  return p;
}

}  // namespace

#if !NDT_SANITIZED
void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t a) {
  return counted(bytes, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
#endif

namespace ndtrain {
namespace {

TEST(Executor, RunningAllocatesNothing) {
  if (NDT_SANITIZED) GTEST_SKIP() << "the sanitizer's operator new counts nothing";
  set_threads(1);
  int tilings = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Graph g = optimize_for_inference(testing::random_network(seed, 20));
    const Plan plan(g, testing::cpu(), {.tiling = {.images = 1, .cache = 0, .outweigh = 0}});
    tilings += plan.tiling().nodes > 0;
    Executor executor(plan);
    const std::vector<Tensor> inputs = testing::random_inputs(g, seed);
    testing::BoundRun bound(plan, inputs);
    int needed = 0, reported = 0;
    const Hooks count{.before = [&needed](int, ndt_stream*) { ++needed; },
                      .ready = [&reported](int, ndt_stream*) { ++reported; }};
    executor.run(bound.in, bound.out, count);

    const int64_t before = allocations;
    executor.run(bound.in, bound.out, count);
    EXPECT_EQ(allocations - before, 0) << "seed " << seed;
    EXPECT_EQ(needed, 2 * static_cast<int>(bound.in.size()));
    EXPECT_EQ(reported, 2 * static_cast<int>(bound.outputs.size()));
  }
  EXPECT_GT(tilings, 0);
  const int64_t before = allocations;
  const std::vector<int> one(1000, static_cast<int>(before));
  EXPECT_GT(allocations - before, 0) << "nothing is counted here";
  EXPECT_EQ(one.back(), static_cast<int>(before));
}

}  // namespace
}  // namespace ndtrain
