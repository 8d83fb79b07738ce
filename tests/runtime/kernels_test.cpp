// Every example of every operator on every build of the cpu plugin, against the double reference.
#include <gtest/gtest.h>

#include "tests/runtime/kernel_cases.h"

namespace ndtrain {
namespace {

class KernelTest : public ::testing::TestWithParam<ExampleCase> {};

TEST_P(KernelTest, MatchesTheReferenceWithAnyThreadsAndConstants) {
  const ExampleCase& c = GetParam();
  const ExampleGraph e = build_example(*c.def, c.example());
  if (e.graph.nodes().empty()) GTEST_SKIP() << "folded while the graph is built";
  NodeRun run = node_of(e);
  const auto want = run_reference(*c.def, run.attrs, run.in, run.out, e.values);
  ASSERT_FALSE(Plugin::cpu_builds().empty()) << "no cpu plugin in $NDTRAIN_BACKEND_PATH";
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    if (c.def->by_reference && !plugin->refusal(run, plain_ports(run)).empty()) {
      GTEST_SKIP() << "it runs by its reference";
    }
    run.in_place = true;
    plugin->set_threads(1);
    const std::vector<Bytes> got = plugin->run(run);
    compare(*c.def, describe(*c.def, c.index), run, c.example().tolerance, want, got);
    if (::testing::Test::HasFailure()) return;
    plugin->set_threads(3);
    const std::vector<Bytes> threaded = plugin->run(run);
    NodeRun frozen = node_of(e);
    for (size_t i = 1; i < frozen.in.size(); ++i) {
      frozen.constant[i] = frozen.in[i].dtype != DType::kNone;
    }
    const std::vector<Bytes> packed = plugin->run(frozen);
    for (size_t k = 0; k < got.size(); ++k) {
      EXPECT_TRUE(threaded.at(k) == got[k]) << describe(*c.def, c.index) << ": threads matter";
      EXPECT_TRUE(packed.at(k) == got[k]) << describe(*c.def, c.index) << ": constants matter";
    }
  }
}

bool has_kernel(const OpDef& def, const Example& e) {
  return (needs_kernel(def) || def.by_reference) && !is_optional_fusion(def, e.attrs);
}

INSTANTIATE_TEST_SUITE_P(Every, KernelTest, ::testing::ValuesIn(example_cases(has_kernel)),
                         [](const auto& c) { return name_of(c.param); });

// Larger than an example, to reach every block size; not one result per image.
std::vector<Batched> large_cases() {
  const Ints p1 = {1, 1, 1, 1}, s2 = {2, 2};
  const auto grad = [](Ints x, Attrs attrs) {
    attrs.set("input_shape", std::move(x));
    return attrs;
  };
  const Attrs same{{"pads", p1}}, half{{"pads", p1}, {"strides", s2}};
  Attrs kernel3 = same, half3 = half, kernel1 = {{"kernel_shape", Ints{1, 1}}};
  kernel3.set("kernel_shape", Ints{3, 3});
  half3.set("kernel_shape", Ints{3, 3});
  Attrs grouped = kernel3;
  grouped.set("group", int64_t{4});
  return {
      {"GradInputValid",
       "ConvGradInput",
       {{2, 70, 14, 15}, {70, 45, 3, 3}},
       grad({2, 45, 16, 17}, {})},
      {"GradInput",
       "ConvGradInput",
       {{2, 70, 14, 15}, {70, 45, 3, 3}},
       grad({2, 45, 14, 15}, same)},
      {"GradInputStrided",
       "ConvGradInput",
       {{2, 70, 15, 30}, {70, 145, 3, 3}},
       grad({2, 145, 30, 59}, half)},
      {"GradInputPointwiseStrided",
       "ConvGradInput",
       {{2, 70, 7, 7}, {70, 345, 1, 1}},
       grad({2, 345, 14, 14}, {{"strides", s2}})},
      {"GradWeight", "ConvGradWeight", {{2, 45, 14, 15}, {2, 70, 14, 15}}, kernel3},
      {"GradWeightLarge", "ConvGradWeight", {{2, 20, 40, 41}, {2, 30, 40, 41}}, kernel3},
      {"GradWeightStrided", "ConvGradWeight", {{2, 145, 9, 9}, {2, 16, 5, 5}}, half3},
      {"GradWeightPointwise", "ConvGradWeight", {{3, 345, 7, 7}, {3, 70, 7, 7}}, kernel1},
      {"GradWeightGrouped", "ConvGradWeight", {{2, 32, 9, 9}, {2, 64, 9, 9}}, grouped},
      {"GemmLarge", "Gemm", {{150, 800}, {800, 350}, {150, 350}}},
      {"GemmBothTransposed",
       "Gemm",
       {{800, 50}, {70, 800}, {50, 1}},
       {{"transA", 1}, {"transB", 1}}},
  };
}

class LargeTest : public ::testing::TestWithParam<Batched> {};

TEST_P(LargeTest, MatchesTheReferenceWithAnyThreads) {
  const Batched& c = GetParam();
  const NodeRun run = batch_of(c, 0, 1);
  const OpDef& def = find_op(c.op);
  const auto want = reference_of(run);
  ASSERT_FALSE(Plugin::cpu_builds().empty()) << "no cpu plugin in $NDTRAIN_BACKEND_PATH";
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    plugin->set_threads(1);
    const std::vector<Bytes> got = plugin->run(run);
    compare(def, c.name, run, 1e-5, want, got);
    plugin->set_threads(5);
    const std::vector<Bytes> threaded = plugin->run(run);
    ASSERT_EQ(threaded.size(), got.size());
    EXPECT_TRUE(threaded[0] == got[0]) << c.name << ": threads matter";
  }
}

INSTANTIATE_TEST_SUITE_P(OneImage, LargeTest, ::testing::ValuesIn(batched_cases()),
                         [](const auto& c) { return std::string(c.param.name); });
INSTANTIATE_TEST_SUITE_P(Whole, LargeTest, ::testing::ValuesIn(large_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

class BatchTest : public ::testing::TestWithParam<Batched> {};

TEST_P(BatchTest, AnImageAloneHasTheBitsItHasInABatch) {
  const Batched& c = GetParam();
  ASSERT_FALSE(Plugin::cpu_builds().empty()) << "no cpu plugin in $NDTRAIN_BACKEND_PATH";
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    plugin->set_threads(3);
    const std::vector<Bytes> together = plugin->run(batch_of(c, 0, 7));
    ASSERT_EQ(together.size(), 1u);
    for (const int threads : {1, 2}) {
      plugin->set_threads(threads);
      for (int64_t i = 0; i < 7; ++i) {
        const std::vector<Bytes> alone = plugin->run(batch_of(c, i, 1));
        ASSERT_EQ(alone.size(), 1u);
        const size_t size = alone[0].size();
        EXPECT_TRUE(Bytes(size, together[0].data() + static_cast<size_t>(i) * size) == alone[0])
            << c.name << ", image " << i << ", " << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, BatchTest, ::testing::ValuesIn(batched_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

}  // namespace
}  // namespace ndtrain
