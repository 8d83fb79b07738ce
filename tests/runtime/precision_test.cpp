// Graphs of lower precision on the cpu plugin.
#include <gtest/gtest.h>

#include <cstring>

#include "framework/passes/passes.h"
#include "framework/runtime/batch_plans.h"
#include "framework/runtime/interpreter.h"
#include "tests/graph/random_graph.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::largest_difference;
using testing::random_inputs;
using testing::random_network;

Graph in_bf16(uint64_t seed, int64_t batch) {
  const Graph g = optimize_for_inference(random_network(seed, 18, batch));
  return lower_floats(g, DType::kBF16, g.outputs());
}

TEST(Bf16, PlansOfRandomNetworksEqualTheInterpreter) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph g = in_bf16(seed, 2);
    const std::vector<Tensor> inputs = random_inputs(g, seed);
    std::vector<std::vector<double>> got, want;
    for (const Tensor& t : Executor(Plan(g, cpu())).run(inputs)) got.push_back(t.to_doubles());
    for (const Tensor& t : interpret_outputs(g, inputs)) want.push_back(t.to_doubles());
    EXPECT_LE(largest_difference(got, want), 0.05) << "seed " << seed;
  }
}

TEST(Bf16, ARowIsTheSameAloneAndInABatch) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    BatchPlans plans([&](int64_t b) { return in_bf16(seed, b); }, cpu(), 4);
    const std::vector<Tensor> rows = random_inputs(in_bf16(seed, 3), seed);
    const std::vector<Tensor> all = plans.run(rows);
    for (int64_t r = 0; r < 3; ++r) {
      std::vector<Tensor> one;
      for (const Tensor& t : rows) {
        Tensor& row = one.emplace_back(TensorType{t.type().dtype, t.shape().with(0, 1)});
        std::memcpy(row.mutable_data(), static_cast<const std::byte*>(t.data()) + r * row.bytes(),
                    row.bytes());
      }
      const std::vector<Tensor> alone = plans.run(one);
      for (size_t k = 0; k < all.size(); ++k) {
        const auto* whole = static_cast<const std::byte*>(all[k].data());
        EXPECT_EQ(std::memcmp(whole + r * alone[k].bytes(), alone[k].data(), alone[k].bytes()), 0)
            << "seed " << seed << ", row " << r << ", output " << k;
      }
    }
  }
}

}  // namespace
}  // namespace ndtrain
