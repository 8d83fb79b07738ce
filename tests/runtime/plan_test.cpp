#include "framework/runtime/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "framework/graph/differentiate.h"
#include "framework/graph/split.h"
#include "framework/passes/passes.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/bound_run.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using testing::cpu;
using testing::error_of;
using ::testing::HasSubstr;
using testing::host_devices;
using testing::largest_difference;
using ::testing::Not;
using testing::random_inputs;
using testing::random_network;
using testing::random_tensor;

std::vector<Tensor> run(const Plan& plan, std::span<const Tensor> bindings) {
  return Executor(plan).run(bindings);
}

void expect_same_bytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b,
                       const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t k = 0; k < a.size(); ++k) {
    EXPECT_TRUE(a[k].same_bytes(b[k])) << what << ", output " << k;
  }
}

double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  std::vector<std::vector<double>> x, y;
  for (const Tensor& t : a) x.push_back(t.to_doubles());
  for (const Tensor& t : b) y.push_back(t.to_doubles());
  return largest_difference(x, y);
}

// Every kind of output that a plan cannot simply write.
void add_outputs_of_hostile_names(Graph& g) {
  const ValueId x = g.inputs()[0];
  const ValueId c = g.add_constant("c", Tensor::of<float>(DType::kF32, {2}, {1, 2}));
  std::vector<ValueId> outputs(g.outputs().begin(), g.outputs().end());
  for (ValueId v : {x, c, outputs[0], g.add1("Flatten", {x}),
                    g.add1("Identity", {g.add1("Flatten", {c}, {{"axis", int64_t{0}}})}),
                    g.add1("Flatten", {outputs[0]}, {{"axis", int64_t{0}}}), g.params()[0]}) {
    outputs.push_back(v);
  }
  g.set_outputs(outputs);
}

// In turn, each in what the other has left there.
TEST(Plan, ExecutorsThatShareWhatTheyWorkInGiveWhatTheyDoAlone) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    for (const Device* d : host_devices()) {
      SCOPED_TRACE(d->backend().name() + ", seed " + std::to_string(seed));
      const auto work = std::make_shared<WorkMemory>(*d);
      std::vector<std::unique_ptr<Plan>> plans;
      std::vector<std::unique_ptr<Executor>> executors;
      std::vector<std::vector<Tensor>> inputs, want;
      size_t largest = 0;
      for (const int nodes : {4, 16, 9}) {
        const Graph g = optimize_for_inference(random_network(seed, nodes));
        plans.push_back(std::make_unique<Plan>(g, *d));
        executors.push_back(std::make_unique<Executor>(*plans.back(), work));
        inputs.push_back(random_inputs(g, seed));
        want.push_back(run(*plans.back(), inputs.back()));
        largest = std::max(largest, plans.back()->arena_bytes());
      }
      EXPECT_GE(work->bytes(), largest);
      for (int turn = 0; turn < 2; ++turn) {
        for (size_t k = 0; k < plans.size(); ++k) {
          expect_same_bytes(executors[k]->run(inputs[k]), want[k], std::to_string(k));
        }
      }
    }
  }
}

TEST(Plan, RandomNetworksEqualTheInterpreter) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Graph g = random_network(seed, 16);
    if (seed % 2 == 0) add_outputs_of_hostile_names(g);
    const std::vector<Tensor> inputs = random_inputs(g, seed);
    const auto want = interpret_outputs(g, inputs);
    const Graph fast = optimize_for_inference(g);
    for (const Device* d : host_devices()) {
      SCOPED_TRACE(d->backend().name() + ", seed " + std::to_string(seed));
      EXPECT_LE(difference(run(Plan(g, *d), inputs), want), 1e-4);
      EXPECT_LE(difference(run(Plan(fast, *d), inputs), want), 1e-3);
    }
  }
}

TEST(Plan, SharingMemoryChangesNoByte) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Graph g = random_network(seed, 24);
    if (seed % 2 == 0) add_outputs_of_hostile_names(g);
    const std::vector<Tensor> inputs = random_inputs(g, seed);
    for (const Device* d : host_devices()) {
      SCOPED_TRACE(d->backend().name() + ", seed " + std::to_string(seed));
      const Plan shared(g, *d), apart(g, *d, {.reuse_memory = false});
      expect_same_bytes(run(shared, inputs), run(apart, inputs), "shared");
      EXPECT_LE(shared.arena_bytes(), apart.arena_bytes());
    }
  }
}

TEST(Plan, ExecutorsOfOnePlanAndRepeatedRunsAgree) {
  const Graph g = random_network(5, 20);
  const Plan plan(g, cpu());
  Executor a(plan), b(plan);
  const std::vector<Tensor> one = random_inputs(g, 1), two = random_inputs(g, 2);
  const auto first = a.run(one);
  const auto second = b.run(two);
  expect_same_bytes(a.run(two), second, "second inputs");
  expect_same_bytes(b.run(one), first, "first inputs");
}

// A network with its gradients as further outputs.
struct Differentiated {
  Graph g;
  size_t forward = 0;
  std::vector<ValueId> wrt;
  explicit Differentiated(uint64_t seed) : g(random_network(seed, 16)) {
    const ValueId logits = g.outputs()[0];
    forward = g.nodes().size();
    for (ValueId v : g.params()) {
      const ValueId root[] = {v};
      // Running statistics have no gradient worth a kernel.
      if (depends_on(g, root)[index(logits)] && g.shape(v).rank() != 1) wrt.push_back(v);
    }
    const ValueId seed_value = g.add_constant("", random_tensor(g.type(logits), seed, "dlogits"));
    std::vector<ValueId> outputs = {logits};
    for (ValueId v : differentiate(g, std::vector{logits}, std::vector{seed_value}, wrt)) {
      outputs.push_back(v);
    }
    g.set_outputs(outputs);
  }
};

TEST(Plan, GradientsEqualTheInterpreter) {
  for (uint64_t seed = 300; seed < 330; ++seed) {
    const Differentiated d(seed);
    const std::vector<Tensor> inputs = random_inputs(d.g, seed);
    const auto want = interpret_outputs(d.g, inputs);
    for (const Device* device : host_devices()) {
      EXPECT_LE(difference(run(Plan(d.g, *device), inputs), want), 1e-3)
          << device->backend().name() << ", seed " << seed;
    }
  }
}

TEST(Plan, ForwardThenBackwardEqualTheJointPlan) {
  for (uint64_t seed = 300; seed < 330; ++seed) {
    const Differentiated d(seed);
    const std::vector<Tensor> inputs = random_inputs(d.g, seed);
    std::map<std::string, Tensor> values;
    for (size_t i = 0; i < inputs.size(); ++i) values[d.g.value(d.g.inputs()[i]).name] = inputs[i];
    const Split s = split_after(d.g, d.forward);
    const auto run_half = [&](const Graph& half) {
      std::vector<Tensor> given;
      for (ValueId v : half.inputs()) given.push_back(values.at(half.value(v).name));
      return run(Plan(half, cpu()), given);
    };
    const auto saved = run_half(s.extractor);
    for (size_t i = 0; i < s.features.size(); ++i) values[s.features[i]] = saved[i];
    expect_same_bytes(run_half(s.trainable), run(Plan(d.g, cpu()), inputs),
                      "seed " + std::to_string(seed));
  }
}

TEST(Plan, BoundParametersAreGivenAtEveryRun) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 3}});
  const ValueId w = g.add_param("w", {DType::kF32, {3, 3}});
  const ValueId u = g.add_param("u", random_tensor({DType::kF32, {3, 3}}, 1, "u"));
  g.mark_output(g.add1("MatMul", {g.add1("MatMul", {x, u}), w}));
  EXPECT_THAT(error_of([&] { Plan(g, cpu()); }), HasSubstr("'w'"));
  EXPECT_THAT(error_of([&] { Plan(g, cpu(), {.bound_params = {x}}); }), HasSubstr("parameter"));
  const Plan plan(g, cpu(), {.bound_params = {w, u}});
  ASSERT_EQ(plan.bindings().size(), 3U);
  Executor e(plan);
  for (uint64_t seed = 1; seed < 4; ++seed) {
    const std::vector<Tensor> given = {random_tensor(g.type(x), seed, "x"),
                                       random_tensor(g.type(w), seed, "w"),
                                       random_tensor(g.type(u), seed, "u")};
    const DoubleValues all = interpret(
        g, {{x, given[0].to_doubles()}, {w, given[1].to_doubles()}, {u, given[2].to_doubles()}});
    EXPECT_LE(largest_difference({e.run(given)[0].to_doubles()}, {all.at(g.outputs()[0])}), 1e-5);
  }
}

TEST(Plan, WrongBindingsAreRefused) {
  const Graph g = random_network(1);
  const Plan plan(g, cpu());
  std::vector<Tensor> given = random_inputs(g, 1);
  given.pop_back();
  EXPECT_THAT(error_of([&] { run(plan, given); }), HasSubstr("takes 2 tensors, was given 1"));
  given.emplace_back(TensorType{DType::kF32, {2, 4, 5, 6}});
  EXPECT_THAT(error_of([&] { run(plan, given); }),
              AllOf(HasSubstr("f32[2,4,5,5]"), HasSubstr("f32[2,4,5,6]")));
  given.back() = Tensor();
  EXPECT_NE(error_of([&] { run(plan, given); }), "no error");
}

TEST(Plan, AllRefusedNodesAreNamedAtOnce) {
  Graph g;
  // What bind() would have composed of others.
  const ValueId x = g.add_input("x", {DType::kF32, {1, 1, 3}});
  const ValueId w = g.add_input("w", {DType::kF32, {1, 1, 1}});
  const ValueId a = g.add1("ConvTranspose", {x, w}), b = g.add1("Relu", {a});
  const ValueId c = g.add1("ConvTranspose", {b, w});
  g.rename(a, "first half");
  g.rename(b, "in between");
  g.rename(c, "second half");
  g.mark_output(c);
  EXPECT_THAT(error_of([&] { Plan(g, cpu()); }),
              AllOf(HasSubstr("2 of 3"), HasSubstr("'first half'"), HasSubstr("'second half'"),
                    HasSubstr("ConvTranspose"), Not(HasSubstr("in between"))));
}

TEST(Plan, OutputsAreReportedInPlannedOrderAndComplete) {
  for (uint64_t seed = 300; seed < 310; ++seed) {
    Differentiated d(seed);
    add_outputs_of_hostile_names(d.g);
    const Plan plan(d.g, cpu());
    const Plan again(d.g, cpu());
    const std::vector<int> order(plan.ready_order().begin(), plan.ready_order().end());
    EXPECT_TRUE(std::ranges::equal(order, again.ready_order()));
    EXPECT_TRUE(std::ranges::is_permutation(order, [&] {
      std::vector<int> all;
      for (size_t k = 0; k < plan.outputs().size(); ++k) all.push_back(static_cast<int>(k));
      return all;
    }()));

    const std::vector<Tensor> inputs = random_inputs(d.g, seed);
    testing::BoundRun bound(plan, inputs);
    std::vector<int> reported;
    std::map<int, std::vector<char>> when_reported;
    const auto ready = [&](int k, ndt_stream*) {
      reported.push_back(k);
      const auto* bytes = static_cast<const char*>(bound.out[static_cast<size_t>(k)]);
      when_reported[k].assign(bytes, bytes + bound.outputs[static_cast<size_t>(k)].bytes());
    };
    Executor(plan).run(bound.in, bound.out, {.before = {}, .ready = ready});
    EXPECT_EQ(reported, order);
    for (const auto& [k, bytes] : when_reported) {
      EXPECT_EQ(std::memcmp(bytes.data(), bound.out[static_cast<size_t>(k)], bytes.size()), 0)
          << "output " << k << " changed after it was reported";
    }
  }
}

TEST(Plan, GradientsAreReportedBackToFront) {
  Graph g;
  ValueId v = g.add_input("x", {DType::kF32, {2, 3}});
  std::vector<ValueId> wrt;
  for (int i = 0; i < 4; ++i) {
    const std::string name = "w" + std::to_string(i);
    wrt.push_back(g.add_param(name, random_tensor({DType::kF32, {3, 3}}, 1, name)));
    v = g.add1("Relu", {g.add1("MatMul", {v, wrt.back()})});
  }
  const ValueId seed = g.add_constant("", random_tensor(g.type(v), 1, "seed"));
  g.set_outputs(differentiate(g, std::vector{v}, std::vector{seed}, wrt));
  const Plan plan(g, cpu());
  EXPECT_TRUE(std::ranges::equal(plan.ready_order(), std::vector{3, 2, 1, 0}));
}

TEST(Plan, AParameterMayBeReplacedInPlace) {
  Graph g;
  const ValueId w = g.add_param("w", {DType::kF32, {64}});
  const ValueId step = g.add_input("step", {DType::kF32, {64}});
  g.mark_output(g.add1("Sub", {w, step}));
  const Plan plan(g, cpu(), {.bound_params = {w}});
  Tensor value = random_tensor(g.type(w), 1, "w");
  const Tensor delta = random_tensor(g.type(w), 1, "step");
  const std::vector<double> before = value.to_doubles();
  const void* in[] = {delta.data(), value.data()};
  void* out[] = {value.mutable_data()};
  Executor(plan).run(in, out);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(value.to_doubles()[i], before[i] - delta.to_doubles()[i]);
  }
}

TEST(Plan, ProfilesEveryKernel) {
  const Graph g = random_network(3);
  const Plan plan(g, cpu());
  Executor e(plan);
  e.set_profiling(true);
  e.run(random_inputs(g, 1));
  const auto profile = e.profile();
  EXPECT_EQ(profile.size(), plan.kernel_count());
  for (const auto& node : profile) EXPECT_GT(node.seconds, 0) << node.op;
}

TEST(Plan, ProfilesOperationsOfTheNodesThatRun) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 3, 8, 8}});
  const ValueId w = g.add_param("w", random_tensor({DType::kF32, {4, 3, 3, 3}}, 1, "w"));
  const ValueId y = g.add1("Conv", {x, w}, {{"strides", Ints{2, 2}}});
  g.mark_output(g.add1("Relu", {y}));
  const Plan plan(g, cpu());
  double operations = 0;
  for (const auto& node : Executor(plan).profile()) {
    operations += node.operations;
    EXPECT_EQ(node.dtype, DType::kF32);
  }
  EXPECT_EQ(operations, 2.0 * (2 * 4 * 3 * 3) * (3 * 3 * 3));
}

}  // namespace
}  // namespace ndtrain
