// The first layers of a network, run a few images at a time: the same bytes as with the whole
// batch.
#include "framework/runtime/batch_tiling.h"

#include <gtest/gtest.h>

#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/layout.h"
#include "tests/graph/random_graph.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using testing::host_devices;
using testing::random_inputs;
using testing::random_tensor;

constexpr TilingRule kAlways{.images = 2, .cache = 0, .outweigh = 0};

ValueId conv(Graph& g, ValueId x, int64_t out, int64_t kernel) {
  const std::string name = "w" + std::to_string(g.value_count());
  const ValueId w = g.add_param(
      name, random_tensor({DType::kF32, {out, g.shape(x)[1], kernel, kernel}}, 1, name));
  const int64_t pad = kernel / 2;
  return g.add1("Conv", {x, w}, {{"pads", Ints{pad, pad, pad, pad}}});
}

ValueId input(Graph& g, Shape s) { return g.add_input("x", {DType::kF32, std::move(s)}); }

BatchTiling chosen(const Graph& g, int threads, const TilingRule& rule = {}) {
  return choose_tiling(g, row_major_types(g), threads, rule);
}

TEST(BatchTiling, EndsWhereTheWeightsBeginToOutweighTheImages) {
  Graph g;
  ValueId v = input(g, {8, 3, 100, 100});
  v = g.add1("Relu", {conv(g, v, 16, 3)});
  v = conv(g, v, 16, 3);
  v = g.add1("MaxPool", {v}, {{"kernel_shape", Ints{20, 20}}, {"strides", Ints{20, 20}}});
  v = conv(g, v, 128, 3);  // 25 pixels
  g.mark_output(g.add1("Relu", {v}));
  const BatchTiling s = chosen(g, 2);
  EXPECT_EQ(s.nodes, 4U);
  EXPECT_EQ(s.images, 2);
  EXPECT_EQ(s.tiles, 4);
  EXPECT_EQ(s.threads, 2);
}

TEST(BatchTiling, IsNoneForWhatStaysInCacheOrDoesNotShareOut) {
  const auto network = [](int64_t batch, int64_t side) {
    Graph g;
    g.mark_output(g.add1("Relu", {conv(g, input(g, {batch, 3, side, side}), 16, 3)}));
    return g;
  };
  EXPECT_EQ(chosen(network(8, 100), 1).nodes, 2U);
  EXPECT_EQ(chosen(network(8, 16), 1).nodes, 0U);
  EXPECT_EQ(chosen(network(7, 100), 1).images, 1);
  EXPECT_EQ(chosen(network(7, 100), 2).nodes, 0U) << "a thread would wait for the other";
  EXPECT_EQ(chosen(network(1, 400), 1).nodes, 0U);
}

TEST(BatchTiling, EndsBeforeAnOpThatLooksAcrossImages) {
  Graph g;
  const ValueId x = input(g, {4, 3, 9, 9});
  const ValueId y = g.add1("Relu", {g.add1("Relu", {conv(g, x, 4, 3)})});
  const ValueId shift = g.add_constant("shift", random_tensor({DType::kF32, {4, 1, 1, 1}}, 1, "s"));
  g.mark_output(g.add1("Relu", {g.add1("Add", {y, shift})}));
  EXPECT_EQ(chosen(g, 1, kAlways).nodes, 3U);
}

TEST(BatchTiling, EndsBeforeWhatOnlyLooksLikeABatch) {
  Graph g;
  const ValueId y = conv(g, input(g, {4, 3, 9, 4}), 4, 3);
  const ValueId row = g.add_input("row", {DType::kF32, {4}});  // one for each column
  g.mark_output(g.add1("Relu", {g.add1("Add", {g.add1("Relu", {y}), row})}));
  EXPECT_EQ(chosen(g, 1, kAlways).nodes, 2U);
  Graph h;
  const ValueId weights = h.add_input("w", {DType::kF32, {4, 3, 1, 1}});
  h.mark_output(h.add1("Relu", {h.add1("Conv", {input(h, {4, 3, 9, 9}), weights})}));
  EXPECT_EQ(chosen(h, 1, kAlways).nodes, 0U);
}

// Every byte of every output, with one thread and with two.
void expect_same(const Graph& g, uint64_t seed, size_t& tilings) {
  const std::vector<Tensor> inputs = random_inputs(g, seed);
  for (const Device* d : host_devices()) {
    const Plan whole(g, *d, {.tiling = {.images = 0}});
    EXPECT_EQ(whole.tiling().nodes, 0U);
    const std::vector<Tensor> want = Executor(whole).run(inputs);
    for (const int threads : {1, 2}) {
      set_threads(threads);
      const Plan tiled(g, *d, {.tiling = kAlways});
      tilings += tiled.tiling().nodes > 0;
      Executor executor(tiled);
      for (int run = 0; run < 2; ++run) {
        const std::vector<Tensor> got = executor.run(inputs);
        for (size_t k = 0; k < want.size(); ++k) {
          EXPECT_TRUE(got[k].same_bytes(want[k]))
              << d->backend().name() << ", seed " << seed << ", output " << k << ", " << threads
              << " threads, " << tiled.tiling().nodes << " nodes";
        }
      }
    }
    set_threads(1);
  }
}

TEST(BatchTiling, ChangesNoByteOfRandomNetworks) {
  size_t tilings = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    expect_same(optimize_for_inference(testing::random_network(seed, 24, 8)), seed, tilings);
  }
  EXPECT_GT(tilings, 80U);
}

// What lies behind it reads what was left half-way, a part of a Concat, and an output.
TEST(BatchTiling, LeavesWhatIsReadBehindIt) {
  Graph g;
  const ValueId x = input(g, {8, 16, 12, 11});
  const ValueId a = g.add1("Relu", {conv(g, x, 32, 3)});
  const ValueId b = g.add1("Relu", {conv(g, a, 16, 1)});
  const ValueId joined =
      g.add1("Concat", {conv(g, b, 16, 1), conv(g, b, 32, 3)}, {{"axis", int64_t{1}}});
  const ValueId sum = g.add1("Add", {conv(g, joined, 16, 1), b});
  const ValueId last = g.add1("Relu", {g.add1("Softmax", {sum}, {{"axis", int64_t{1}}})});
  g.mark_output(g.add1("Add", {last, b}));
  g.mark_output(sum);
  g.mark_output(g.add1("GlobalAveragePool", {joined}));
  size_t tilings = 0;
  expect_same(optimize_for_inference(g), 1, tilings);
  EXPECT_EQ(tilings, 2 * host_devices().size());
}

TEST(BatchTiling, TakesLessMemory) {
  set_threads(1);
  Graph g;
  ValueId v = input(g, {16, 8, 40, 40});
  for (int i = 0; i < 4; ++i) v = g.add1("Relu", {conv(g, v, 16, 3)});
  g.mark_output(g.add1("GlobalAveragePool", {v}));
  for (const Device* d : host_devices()) {
    const Plan whole(g, *d, {.tiling = {.images = 0}}), tiled(g, *d);
    EXPECT_EQ(tiled.tiling().images, 2);
    EXPECT_LT(2 * tiled.arena_bytes(), whole.arena_bytes()) << d->backend().name();
  }
}

TEST(BatchTiling, EndsBeforeAKernelThatTakesWholeBatchesOnly) {
  setenv("NDT_WRAPPED_PLUGIN", Backend::find("cpu").path().c_str(), 1);
  const Device device(Backend::load(support::build_path("/tests/runtime/libndt_whole_batch.so")),
                      {.deterministic = true});
  Graph g;
  ValueId v = g.add1("Relu", {conv(g, input(g, {8, 3, 20, 20}), 8, 3)});
  v = g.add1("AveragePool", {v}, {{"kernel_shape", Ints{2, 2}}});
  g.mark_output(g.add1("Relu", {conv(g, v, 8, 3)}));
  const Plan whole(g, testing::cpu(), {.tiling = {.images = 0}});
  const Plan all(g, testing::cpu(), {.tiling = kAlways}), part(g, device, {.tiling = kAlways});
  EXPECT_GT(all.tiling().nodes, 3U);
  EXPECT_EQ(part.tiling().nodes, 2U);
  const std::vector<Tensor> inputs = random_inputs(g, 3);
  EXPECT_TRUE(Executor(part).run(inputs)[0].same_bytes(Executor(whole).run(inputs)[0]));
}

TEST(BatchTiling, IsNoneWhereParametersAreTrained) {
  Graph g;
  const ValueId y = g.add1("Relu", {conv(g, input(g, {8, 3, 100, 100}), 16, 3)});
  g.mark_output(y);
  const Plan plan(g, testing::cpu(), {.bound_params = {g.params()[0]}, .tiling = kAlways});
  EXPECT_EQ(plan.tiling().nodes, 0U);
}

TEST(BatchTiling, IsProfiledNodeByNode) {
  Graph g;
  ValueId v = input(g, {8, 3, 60, 60});
  for (int i = 0; i < 3; ++i) v = g.add1("Sigmoid", {conv(g, v, 16, 3)});
  g.mark_output(v);
  const Plan plan(g, testing::cpu(), {.tiling = kAlways});
  ASSERT_GT(plan.tiling().nodes, 0U);
  Executor executor(plan);
  executor.set_profiling(true);
  executor.run(random_inputs(g, 1));
  for (const auto& node : executor.profile()) EXPECT_GT(node.seconds, 0) << node.name;
}

}  // namespace
}  // namespace ndtrain
