// Between the steps of a run; tests/cuda/hooks_test.cpp does the same where nobody waits.
#include "framework/runtime/hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "framework/graph/differentiate.h"
#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/bound_run.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::error_of;
using testing::host_devices;
using testing::random_inputs;
using testing::random_network;
using testing::random_tensor;

// A network, its parameters given at every run, one of them read by nobody but the caller and one
// by nobody at all.
struct Bound {
  Graph g;
  std::vector<ValueId> params;
  std::vector<Tensor> given;
  explicit Bound(uint64_t seed) : g(random_network(seed, 16)) {
    std::vector<ValueId> outputs(g.outputs().begin(), g.outputs().end());
    outputs.push_back(g.add_param("passed on", random_tensor({DType::kF32, {3}}, seed, "on")));
    (void)g.add_param("of no use", random_tensor({DType::kF32, {5}}, seed, "none"));
    g.set_outputs(outputs);
    given = random_inputs(g, seed);
    for (ValueId v : g.params()) {
      if (g.type(v).dtype != DType::kF32) continue;
      params.push_back(v);
      given.push_back(g.value(v).data);
    }
  }
};

// Bindings that hold what they should not until a run asks for them.
class Withheld {
 public:
  explicit Withheld(const std::vector<Tensor>& values) : values_(values) {
    for (const Tensor& t : values) {
      Tensor& wrong = memory_.emplace_back(t.type());
      if (t.type().dtype != DType::kF32) continue;
      std::ranges::fill(wrong.mutable_as<float>(), std::nanf(""));
    }
  }
  const std::vector<Tensor>& memory() const { return memory_; }
  const std::vector<int>& asked() const { return asked_; }
  Hooks hooks() {
    return {.before =
                [this](int k, ndt_stream*) {
                  const auto i = static_cast<size_t>(k);
                  std::memcpy(memory_[i].mutable_data(), values_[i].data(), values_[i].bytes());
                  asked_.push_back(k);
                },
            .ready = {}};
  }

 private:
  const std::vector<Tensor>& values_;
  std::vector<Tensor> memory_;
  std::vector<int> asked_;
};

void expect_asked_in_time(const Plan& plan, const std::vector<Tensor>& given) {
  testing::BoundRun plain(plan, given);
  Executor(plan).run(plain.in, plain.out);
  Withheld withheld(given);
  testing::BoundRun run(plan, withheld.memory());
  Executor(plan).run(run.in, run.out, withheld.hooks());
  for (size_t k = 0; k < run.outputs.size(); ++k) {
    EXPECT_TRUE(run.outputs[k].same_bytes(plain.outputs[k])) << "output " << k;
  }
  EXPECT_TRUE(std::ranges::equal(withheld.asked(), plan.need_order()));
  std::vector<int> all(given.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_TRUE(std::ranges::is_permutation(withheld.asked(), all));
}

TEST(Hooks, ABindingIsAskedForBeforeItIsFirstRead) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Bound b(seed);
    for (const Device* device : host_devices()) {
      SCOPED_TRACE(device->backend().name() + ", seed " + std::to_string(seed));
      expect_asked_in_time(Plan(b.g, *device, {.bound_params = b.params}), b.given);
    }
  }
}

TEST(Hooks, WhatATilingReadsIsAskedForBeforeItsFirstTile) {
  int tilings = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Graph g = optimize_for_inference(random_network(seed, 24, 8));
    const Plan plan(g, cpu(), {.tiling = {.images = 1, .cache = 0, .outweigh = 0}});
    tilings += plan.tiling().nodes > 0;
    expect_asked_in_time(plan, random_inputs(g, seed));
  }
  EXPECT_GT(tilings, 0);
}

// Four layers and their gradients: layers are needed from the front, gradients are ready from the
// back.
struct Layers {
  Graph g;
  std::vector<ValueId> weights;
  Layers() {
    ValueId v = g.add_input("x", {DType::kF32, {2, 3}});
    for (int i = 0; i < 4; ++i) {
      const std::string name = "w" + std::to_string(i);
      weights.push_back(g.add_param(name, random_tensor({DType::kF32, {3, 3}}, 1, name)));
      v = g.add1("Relu", {g.add1("MatMul", {v, weights.back()})});
    }
    const ValueId seed = g.add_constant("", random_tensor(g.type(v), 1, "seed"));
    g.set_outputs(differentiate(g, std::vector{v}, std::vector{seed}, weights));
  }
};

TEST(Hooks, AlternateFromTheFrontAndFromTheBack) {
  const Layers l;
  const Plan plan(l.g, cpu(), {.bound_params = l.weights});
  EXPECT_TRUE(std::ranges::equal(plan.need_order(), std::vector{0, 1, 2, 3, 4}));
  std::vector<Tensor> given = random_inputs(l.g, 1);
  for (ValueId v : l.weights) given.push_back(l.g.value(v).data);
  testing::BoundRun run(plan, given);
  std::vector<std::string> seen;
  const Hooks hooks{
      .before = [&](int k, ndt_stream*) { seen.push_back("needs " + std::to_string(k)); },
      .ready = [&](int k, ndt_stream*) { seen.push_back("has " + std::to_string(k)); }};
  Executor(plan).run(run.in, run.out, hooks);
  EXPECT_THAT(seen, ::testing::ElementsAre("needs 0", "needs 1", "needs 2", "needs 3", "needs 4",
                                           "has 3", "has 2", "has 1", "has 0"));
}

TEST(Hooks, WhatTheyThrowLeavesTheRunAndTheNextRunIsWhole) {
  const Layers l;
  const Plan plan(l.g, cpu(), {.bound_params = l.weights});
  std::vector<Tensor> given = random_inputs(l.g, 1);
  for (ValueId v : l.weights) given.push_back(l.g.value(v).data);
  testing::BoundRun plain(plan, given), run(plan, given);
  Executor executor(plan);
  executor.run(plain.in, plain.out);
  const auto refuse = [](int k, ndt_stream*) {
    if (k == 2) throw Error("rank 3 is gone");
  };
  EXPECT_EQ(error_of([&] { executor.run(run.in, run.out, {.before = refuse, .ready = {}}); }),
            "rank 3 is gone");
  EXPECT_EQ(error_of([&] { executor.run(run.in, run.out, {.before = {}, .ready = refuse}); }),
            "rank 3 is gone");
  executor.run(run.in, run.out);
  for (size_t k = 0; k < run.outputs.size(); ++k) {
    EXPECT_TRUE(run.outputs[k].same_bytes(plain.outputs[k])) << "output " << k;
  }
}

}  // namespace
}  // namespace ndtrain
