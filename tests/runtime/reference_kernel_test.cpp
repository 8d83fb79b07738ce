// Ops for which there is no kernel: a plan of the cpu plugin runs their references, says so, and
// gives their numbers.
#include "framework/runtime/reference_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "framework/runtime/executor.h"
#include "framework/runtime/interpreter.h"
#include "tests/ops/example_graph.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

bool by_reference(const OpDef& def, const Example&) { return def.by_reference; }

class ByReference : public ::testing::TestWithParam<ExampleCase> {};

TEST_P(ByReference, APlanGivesTheReferencesNumbers) {
  const ExampleCase& c = GetParam();
  const ExampleGraph e = build_example(*c.def, c.example());
  if (e.graph.nodes().empty()) GTEST_SKIP() << "folded while the graph is built";
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    if (e.inputs[i] == kNone || c.example().inputs[i].known) continue;
    inputs.push_back(Tensor::from_doubles(c.example().inputs[i].type, e.values[i]));
  }
  const std::vector<Tensor> want = interpret_outputs(e.graph, inputs);
  for (const Device* device : testing::host_devices()) {
    SCOPED_TRACE(device->backend().name());
    const Plan plan(e.graph, *device);
    const std::vector<Tensor> got = Executor(plan).run(inputs);
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < want.size(); ++k) {
      EXPECT_EQ(got[k].type(), want[k].type());
      // Some have a kernel that adds in f32.
      EXPECT_THAT(got[k].to_doubles(),
                  ::testing::Pointwise(::testing::DoubleNear(1e-5), want[k].to_doubles()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ByReference, ::testing::ValuesIn(example_cases(by_reference)),
                         [](const auto& c) { return name_of(c.param); });

// Between kernels, and with a value that lies in a larger one.
Graph mixed() {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {2, 3, 3}});
  const ValueId det = g.add1("Det", {g.add1("Relu", {x})});
  const ValueId same = g.add1("Det", {g.add1("Abs", {x})});
  g.mark_output(g.add1("Concat", {det, same}, {{"axis", int64_t{0}}}));
  return g;
}

TEST(ByReferencePlan, StandsBetweenKernelsAndNamesItself) {
  const Graph g = mixed();
  const std::vector<Tensor> in = {Tensor::from_doubles(
      {DType::kF32, {2, 3, 3}}, std::vector<double>{1, 2, -3, 4, 5, 6, 7, 8, -9,  //
                                                    2, 0, 1, 3, -1, 1, 4, 4, 2})};
  const std::vector<Tensor> want = interpret_outputs(g, in);
  const support::TemporaryDirectory directory;
  log::to_file(directory.at("log"));
  const Plan plan(g, testing::cpu());
  log::to_file("");
  Executor run(plan);
  run.set_profiling(true);
  EXPECT_EQ(run.run(in).at(0).to_doubles(), want[0].to_doubles());
  int named = 0;
  for (const Executor::NodeTime& t : run.profile()) named += t.op == "Det (reference)" ? 1 : 0;
  EXPECT_EQ(named, 2);
}

TEST(ByReferencePlan, IsSaidOnceForEachOp) {
  const support::TemporaryDirectory directory;
  log::to_file(directory.at("log"));
  say_by_reference("NoSuchOp");
  say_by_reference("NoSuchOp");
  log::to_file("");
  const std::string said = real_fs().read(directory.at("log")).or_throw();
  const std::string line = "there is no kernel for NoSuchOp";
  ASSERT_THAT(said, HasSubstr(line));
  EXPECT_EQ(said.find(line), said.rfind(line)) << said;
}

// What the data say is found out while it runs.
TEST(ByReferencePlan, TellsOfDataThatDoNotFit) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {3, 1}});
  const ValueId lengths = g.add_input("lengths", {DType::kI64, {1}});
  g.mark_output(g.add1("ReverseSequence", {x, lengths}));
  const Plan plan(g, testing::cpu());
  Executor run(plan);
  const std::vector<Tensor> in = {Tensor({DType::kF32, {3, 1}}), Tensor::i64({4})};
  try {
    run.run(in);
    FAIL() << "4 of 3 steps";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("ReverseSequence: a length is 4 of 3 steps"));
  }
}

TEST(ByReferencePlan, OtherOpsWithoutAKernelAreRefused) {
  Graph g;
  const ValueId x = g.add_input("x", {DType::kF32, {1, 1, 2}});
  const ValueId w = g.add_input("w", {DType::kF32, {1, 1, 2}});
  g.mark_output(g.add1("ConvTranspose", {x, w}));
  try {
    const Plan plan(g, testing::cpu());
    FAIL() << "a composed op that was not composed";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("ConvTranspose"));
  }
}

}  // namespace
}  // namespace ndtrain
