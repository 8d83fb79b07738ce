// Every example of every operator on the cuda plugin, in the layouts it asks for, against the
// double reference; and the larger cases, in which a photo must not see the batch it sits in.
#include <gtest/gtest.h>

#include "tests/cuda/cases.h"

namespace ndtrain {
namespace {

// Opening a device takes long: one serves all tests of this program.
class OneDevice : public ::testing::Environment {
  void SetUp() override {
    if (cuda_plugin()) cuda_plugin()->keep_open(true);
  }
  void TearDown() override {
    if (cuda_plugin()) cuda_plugin()->keep_open(false);
  }
};
const ::testing::Environment* const one_device = ::testing::AddGlobalTestEnvironment(new OneDevice);

bool is_computed(const OpDef& def, const Example&) {
  for (std::string_view view : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"}) {
    if (def.name == view) return false;
  }
  return needs_kernel(def) || def.by_reference;
}

class CudaExample : public ::testing::TestWithParam<ExampleCase> {
 protected:
  void SetUp() override {
    if (!cuda_plugin()) GTEST_SKIP() << why_not();
  }
};

// In every layout; whether none was refused.
void run_in_all_ways(const NodeRun& run, const OpDef& def, const std::string& what, double allowed,
                     const std::vector<std::vector<double>>& want) {
  for (const Ports& ports : cuda_ways(run)) {
    SCOPED_TRACE(is_plain(ports.out[0]) ? "row-major" : "channels-last");
    const std::vector<Bytes> got = cuda_plugin()->run(run, ports);
    if (::testing::Test::HasFailure()) return;
    compare(def, what, run, allowed, want, got, is_float(run.in[0].dtype) ? 1 : 0);
  }
}

TEST_P(CudaExample, MatchesTheReferenceInEveryLayoutFrozenOrNot) {
  const ExampleCase& c = GetParam();
  const ExampleGraph e = build_example(*c.def, c.example());
  if (e.graph.nodes().empty()) GTEST_SKIP() << "folded while the graph is built";
  NodeRun run = node_of(e);
  if (is_optional_fusion(*c.def, run.attrs) || c.def->by_reference) {
    const std::string why = cuda_plugin()->refusal(run, plain_ports(run));
    if (!why.empty()) GTEST_SKIP() << why;
  }
  run.in_place = run.captured = true;
  const auto want = run_reference(*c.def, run.attrs, run.in, run.out, e.values);
  const std::string what = describe(*c.def, c.index);
  run_in_all_ways(run, *c.def, what, c.example().tolerance, want);
  if (HasFailure()) return;
  freeze(run);
  run_in_all_ways(run, *c.def, what + " frozen", c.example().tolerance, want);
}

INSTANTIATE_TEST_SUITE_P(Every, CudaExample, ::testing::ValuesIn(example_cases(is_computed)),
                         [](const auto& c) { return name_of(c.param); });

class CudaBatch : public ::testing::TestWithParam<Batched> {
 protected:
  void SetUp() override {
    if (!cuda_plugin()) GTEST_SKIP() << why_not();
  }
};

TEST_P(CudaBatch, AnImageAloneHasTheBitsItHasInABatchAndTheReferencesValue) {
  constexpr int64_t kImages = 3;
  const Batched& c = GetParam();
  for (const DType t : {DType::kF32, DType::kF16}) {
    SCOPED_TRACE(t == DType::kF32 ? "f32" : "f16");
    const NodeRun together = batch_of(c, 0, kImages, t);
    const std::vector<Ports> ways = cuda_ways(together);
    for (size_t way = 0; way < ways.size(); ++way) {
      SCOPED_TRACE("way " + std::to_string(way));
      const std::vector<Bytes> all = cuda_plugin()->run(together, ways[way]);
      if (HasFailure()) return;
      compare(find_op(c.op), c.name, together, 0, reference_of(together), all);
      for (int64_t i = 0; i < kImages; ++i) {
        const NodeRun alone = batch_of(c, i, 1, t);
        const std::vector<Ports> same = cuda_ways(alone);
        ASSERT_EQ(same.size(), ways.size()) << "preferences depend on the batch";
        const std::vector<Bytes> one = cuda_plugin()->run(alone, same[way]);
        ASSERT_EQ(one.size(), 1u);
        const size_t size = one[0].size();
        EXPECT_TRUE(Bytes(size, all[0].data() + static_cast<size_t>(i) * size) == one[0])
            << c.name << ", image " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, CudaBatch, ::testing::ValuesIn(batched_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(CudaStreams, MayRunOneKernelAtOnce) {
  if (!cuda_plugin()) GTEST_SKIP() << why_not();
  for (const Batched& c : batched_cases()) {
    if (std::string_view(c.name) != "Gemm" && std::string_view(c.name) != "Fused") continue;
    NodeRun run = batch_of(c, 0, 4);
    run.streams = 3;
    cuda_plugin()->run(run);
  }
}

}  // namespace
}  // namespace ndtrain
