// How the plugin uses cuDNN: which engines, which forms of a graph, what it keeps of its choices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "tests/cuda/cases.h"
#include "tests/cuda/fake_cudart.h"
#include "tests/cuda/fake_cudnn.h"
#include "tests/support/changed_tuning.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Batched kConv{"Conv", "Conv", {{1, 5, 6, 7}, {4, 5, 3, 3}, {4}}, {{"pads", Ints(4, 1)}}};
const Batched kPlainConv{"Plain", "Conv", {{1, 5, 6, 7}, {4, 5, 3, 3}}, {{"strides", Ints(2, 2)}}};
const Batched kFused{"Fused",
                     "FusedConv",
                     {{1, 6, 5, 5}, {4, 6, 1, 1}, {4}, {1, 4, 5, 5}},
                     {{"steps", "Relu x0"}},
                     {3}};

Batched clipped(double low, double high) {
  Batched c = kFused;
  std::ostringstream steps;
  steps << "Clip x0 " << low << ' ' << high;
  c.attrs = {{"steps", steps.str()}};
  return c;
}

class Dnn : public ::testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    fake::reset_dnn();
    ASSERT_NE(cuda_plugin(), nullptr);
  }
  void TearDown() override {
    cuda_plugin()->keep_open(false);
    cuda_plugin()->set_tuning_file("");
    cuda_plugin()->set_tf32(false);
  }

  // Runs it and holds it against the reference.
  static void check(const Batched& c, int64_t images, DType t, double allowed = 0) {
    const NodeRun run = batch_of(c, 0, images, t);
    for (const Ports& ports : cuda_ways(run)) {
      const std::vector<Bytes> got = cuda_plugin()->run(run, ports);
      if (HasFailure()) return;
      compare(find_op(c.op), c.name, run, allowed, reference_of(run), got);
    }
  }
  static std::string refusal(const Batched& c, DType t) {
    const NodeRun run = batch_of(c, 0, 1, t);
    return cuda_plugin()->refusal(run, plain_ports(run));
  }
  static void leave_out(const std::string& name) {
    std::vector<fake::DnnEngine> engines = fake::dnn_engines();
    for (fake::DnnEngine& e : engines) {
      if (e.name == name) e.takes = [](const fake::DnnPattern&) { return false; };
    }
    fake::set_dnn_engines(engines);
  }
};

TEST_F(Dnn, EnginesThatSumByChanceTransformOrFailAreNotUsed) {
  check(kPlainConv, 2, DType::kF16);
  EXPECT_THAT(fake::dnn_runs(), Each("tensor cores:13=0"));
}

TEST_F(Dnn, ADeviceThatIsKeptOpenServesAllTests) {
  const auto opened = [](int runs) {
    fake::forget_calls();
    for (int i = 0; i < runs; ++i) check(kPlainConv, 2, DType::kF16);
    return fake::count("cublasLtCreate");
  };
  EXPECT_GT(opened(2), 2U);
  cuda_plugin()->keep_open(true);
  EXPECT_EQ(opened(2), 1U);
  EXPECT_EQ(opened(1), 0U);
  cuda_plugin()->keep_open(false);
  EXPECT_GT(opened(1), 0U);
}

TEST_F(Dnn, F32IsNotRoundedToTf32UnlessThatIsAllowed) {
  check(kPlainConv, 2, DType::kF32);
  EXPECT_THAT(fake::dnn_runs(), Each("plain"));
  fake::reset_dnn();
  cuda_plugin()->set_tf32(true);
  check(kPlainConv, 2, DType::kF32, 2e-3);
  EXPECT_THAT(fake::dnn_runs(), Each("tensor cores:13=0"));
}

TEST_F(Dnn, AConvolutionWithAllThatFollowsIsOneGraphWhereThereIsAnEngine) {
  for (const DType t : {DType::kF16, DType::kBF16}) check(kFused, 3, t);
  check(clipped(0, 0.5), 2, DType::kF16);
  check(kConv, 2, DType::kF16);
  EXPECT_THAT(fake::dnn_runs(), Each("fused"));
}

TEST_F(Dnn, AConvolutionIsTwoStepsWhereThereIsNoEngineForOneGraph) {
  constexpr double kOneMoreRounding = 4e-3;
  leave_out("fused");
  check(kFused, 3, DType::kF16, kOneMoreRounding);
  check(kConv, 2, DType::kF16, kOneMoreRounding);
  EXPECT_THAT(fake::dnn_runs(), Each("tensor cores:13=0"));
  check(kFused, 3, DType::kBF16, 8 * kOneMoreRounding);
  check(kFused, 3, DType::kF32);
  check(clipped(-0.25, 0.25), 2, DType::kF32);
}

TEST_F(Dnn, AGraphThatOnlyFallbacksTakeIsNotUsed) {
  std::vector<fake::DnnEngine> engines = fake::dnn_engines();
  for (fake::DnnEngine& e : engines) e.fallback = e.fallback || e.name == "fused";
  fake::set_dnn_engines(engines);
  check(kFused, 2, DType::kF16, 4e-3);
  EXPECT_THAT(fake::dnn_runs(), Each("tensor cores:13=0"));
}

TEST_F(Dnn, ADepthwiseConvolutionIsTwoSteps) {
  check({"Depthwise", "FusedConv", {{1, 4, 5, 5}, {4, 1, 3, 3}, {4}}, {{"group", 4}}}, 2,
        DType::kF16, 4e-3);
  EXPECT_THAT(fake::dnn_runs(), Each("tensor cores:13=0"));
}

TEST_F(Dnn, AClipThatDoesNotBeginAtZeroIsNotAskedOfCudnn) {
  check(clipped(-0.25, 0.5), 2, DType::kF16, 4e-3);
  EXPECT_THAT(fake::dnn_runs(), Each("tensor cores:13=0"));
}

TEST_F(Dnn, FallbacksAreUsedWhereNothingElseIsSuggested) {
  leave_out("tensor cores");
  leave_out("plain");
  check(kPlainConv, 2, DType::kF32);
  EXPECT_THAT(fake::dnn_runs(), Each("last resort"));
}

TEST_F(Dnn, ARefusalSaysWhatWasAskedAndWhy) {
  for (const char* name : {"tensor cores", "plain", "last resort"}) leave_out(name);
  EXPECT_THAT(refusal(kPlainConv, DType::kF16),
              ::testing::AllOf(HasSubstr("cuDNN's engines refuse conv f16 5>4 6x7>2x3"),
                               HasSubstr("the engine is broken")));
  leave_out("broken");
  EXPECT_THAT(refusal(kPlainConv, DType::kF16), HasSubstr("cuDNN has no engine for conv f16"));
}

// An example of an op, its constants given at prepare().
void run_example(const char* op, size_t index) {
  const OpDef& def = find_op(op);
  const ExampleGraph e = build_example(def, def.examples.at(index));
  NodeRun run = node_of(e);
  freeze(run);
  const auto want = run_reference(def, run.attrs, run.in, run.out, e.values);
  for (const Ports& ports : cuda_ways(run)) {
    const std::vector<Bytes> got = cuda_plugin()->run(run, ports);
    compare(def, op, run, 0, want, got, 0);
  }
}

TEST_F(Dnn, SumsOfBytesAreExactByCudnnAndByOurOwnKernel) {
  const size_t n = find_op("FusedQLinearConv").examples.size();
  for (size_t i = 0; i < n; ++i) run_example("FusedQLinearConv", i);
  EXPECT_THAT(fake::dnn_runs(),
              ::testing::AllOf(::testing::SizeIs(::testing::Ge(4u)), Each("bytes")));
  fake::reset_dnn();
  leave_out("bytes");
  for (size_t i = 0; i < n; ++i) run_example("FusedQLinearConv", i);
  EXPECT_THAT(fake::dnn_runs(), ::testing::IsEmpty());
}

TEST_F(Dnn, WeightsAreLaidOutOnceForAllBatches) {
  NodeRun one = batch_of(kPlainConv, 0, 1, DType::kF16),
          five = batch_of(kPlainConv, 0, 5, DType::kF16);
  one.first_id = five.first_id = 4711;
  const auto held = cuda_plugin()->hold(one, plain_ports(one));
  fake::forget_calls();
  const auto other = cuda_plugin()->hold(five, plain_ports(five));
  EXPECT_EQ(fake::count("cudaMemcpy H2D"), 0u);
  EXPECT_EQ(fake::count("cudaMalloc"), 0u);
}

TEST_F(Dnn, NoDescriptorOutlivesItsKernel) {
  const size_t before = fake::dnn_descriptors();
  check(kFused, 2, DType::kF16);
  leave_out("plain");
  leave_out("last resort");
  EXPECT_NE(refusal(kPlainConv, DType::kF32), "");
  EXPECT_EQ(fake::dnn_descriptors(), before);
}

class TunedDnn : public Dnn {
 protected:
  void SetUp() override {
    Dnn::SetUp();
    cuda_plugin()->set_tuning_file(path_, true);
  }
  void choose(const std::string& choice) const {
    support::change_tuning(path_, [&](const auto&, auto& c) { c.choice = choice; });
  }
  std::string choices() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  // What ran last, of a single image.
  static std::string run_last() {
    check(kPlainConv, 1, DType::kF16);
    return fake::dnn_runs().back();
  }

  const support::TemporaryDirectory directory_;
  const std::string path_ = directory_.at("choices.txt");
};

TEST_F(TunedDnn, TheFastestOfTheFirstIsChosenAndKept) {
  EXPECT_EQ(run_last(), "plain");
  EXPECT_THAT(
      choices(),
      HasSubstr("conv f16 5>4 6x7>2x3 3x3 g1 s2,2 d1,1 p0,0 q0,0 channels-last choice=4 rule="));
}

TEST_F(TunedDnn, KnobsAreKeptToo) {
  leave_out("plain");
  EXPECT_EQ(run_last(), "tensor cores:13=3");
  EXPECT_THAT(choices(), HasSubstr(" choice=3:13=3 rule=2\n"));
  fake::reset_dnn();
  EXPECT_EQ(run_last(), "tensor cores:13=3") << "from the file";
}

TEST_F(TunedDnn, AChoiceIsForEveryBatch) {
  run_last();
  fake::forget_calls();
  check(kPlainConv, 7, DType::kF16);
  EXPECT_EQ(fake::dnn_runs().back(), "plain");
  EXPECT_EQ(fake::count("cudaEventElapsedTime"), 0u);
}

TEST_F(TunedDnn, AChoiceThatDoesNotWorkAnyMoreIsPassedOver) {
  run_last();
  choose("2");  // the broken one
  cuda_plugin()->set_tuning_file(path_);
  EXPECT_EQ(run_last(), "tensor cores:13=0");
  choose("nonsense");
  EXPECT_EQ(run_last(), "tensor cores:13=0");
}

TEST_F(TunedDnn, WithoutMemoryToMeasureInTheFirstSuggestionIsUsedAndNothingKept) {
  const NodeRun run = batch_of(kPlainConv, 0, 1, DType::kF16);
  fake::fail("cudaMalloc", 1, cudaErrorMemoryAllocation);
  cuda_plugin()->hold(run, plain_ports(run));
  EXPECT_THAT(choices(), ::testing::Not(HasSubstr("choice=")));
  cuda_plugin()->set_tuning_file(path_);
  EXPECT_EQ(run_last(), "tensor cores:13=0");
}

TEST_F(TunedDnn, AnEngineThatFailsToRunIsNotChosen) {
  fake::fail("cudnnBackendExecute", 21, cudaErrorInvalidValue);  // of "plain", after four knobs
  EXPECT_EQ(run_last(), "tensor cores:13=3");
}

TEST_F(TunedDnn, ADeviceLostWhileMeasuringIsReported) {
  fake::fail("cudaEventSynchronize", 1, cudaErrorLaunchFailure);
  EXPECT_THAT(refusal(kPlainConv, DType::kF16), HasSubstr("the device is lost"));
}

// softmax(scale q k^T + mask) v in double; all of [photos * heads, sequence, depth].
std::vector<double> attention(const std::vector<double>& q, const std::vector<double>& k,
                              const std::vector<double>& v, const std::vector<double>& mask,
                              int64_t heads, int64_t s, int64_t t, int64_t d, double scale) {
  std::vector<double> y(static_cast<size_t>(heads * s * d), 0.0);
  const auto at = [](const std::vector<double>& x, int64_t i) { return x[static_cast<size_t>(i)]; };
  for (int64_t row = 0; row < heads * s; ++row) {
    std::vector<double> w(static_cast<size_t>(t));
    double sum = 0;
    for (int64_t j = 0; j < t; ++j) {
      double dot = 0;
      for (int64_t i = 0; i < d; ++i) dot += at(q, row * d + i) * at(k, (row / s * t + j) * d + i);
      w[static_cast<size_t>(j)] =
          std::exp(scale * dot + (mask.empty() ? 0 : at(mask, row % s * t + j)));
      sum += at(w, j);
    }
    for (int64_t j = 0; j < t; ++j) {
      for (int64_t i = 0; i < d; ++i) {
        y[static_cast<size_t>(row * d + i)] += at(w, j) / sum * at(v, (row / s * t + j) * d + i);
      }
    }
  }
  return y;
}

struct AttentionCase {
  DType type = DType::kF16;
  int64_t depth = 8, mask_rows = 0;  // rows 0: no mask
  int64_t photos = 2, masks = 1;
};

constexpr int64_t kHeads = 2, kQueries = 5, kKeys = 6;

NodeRun attention_node(const AttentionCase& c) {
  NodeRun run{.op = "FusedAttention", .attrs = {{"scale", 0.5}, {"heads_axis", 1}, {"packed", 0}}};
  const Shape q{c.photos, kHeads, kQueries, c.depth}, k{c.photos, kHeads, kKeys, c.depth};
  std::vector<Shape> shapes = {q, k, k};
  if (c.mask_rows) shapes.push_back({c.mask_rows, kKeys});
  if (c.masks > 1) shapes.back() = {c.masks, 1, c.mask_rows, kKeys};
  for (const Shape& shape : shapes) {
    run.in.push_back({c.type, shape});
    std::vector<double> values(static_cast<size_t>(shape.count()));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = std::sin(static_cast<double>(i * (run.in.size() + 2)));
    }
    run.data.emplace_back(run.in.back().bytes());
    store(values.data(), values.size(), c.type, run.data.back().data());
    run.constant.push_back(false);
  }
  run.out = {{c.type, q}};
  return run;
}

std::vector<double> values_of(const Bytes& b, const TensorType& t) {
  std::vector<double> values(static_cast<size_t>(t.shape.count()));
  load(b.data(), values.size(), t.dtype, values.data());
  return values;
}

class DnnAttention : public Dnn {
 protected:
  void SetUp() override {
    Dnn::SetUp();
    fake::set_devices({{.name = "Fake A100", .major = 8, .minor = 0}});
  }
  static std::string refused(const AttentionCase& c) {
    const NodeRun run = attention_node(c);
    return cuda_plugin()->refusal(run, plain_ports(run));
  }
};

TEST_F(DnnAttention, IsOneGraphWithAndWithoutAMask) {
  for (const AttentionCase& c : {AttentionCase{}, AttentionCase{.mask_rows = kQueries},
                                 AttentionCase{.type = DType::kBF16, .depth = 16}}) {
    NodeRun run = attention_node(c);
    run.captured = true;
    const std::vector<Bytes> got = cuda_plugin()->run(run);
    ASSERT_EQ(got.size(), 1u);
    std::vector<std::vector<double>> in;
    for (size_t i = 0; i < run.in.size(); ++i) in.push_back(values_of(run.data[i], run.in[i]));
    in.resize(4);
    const std::vector<double> want =
        attention(in[0], in[1], in[2], in[3], c.photos * kHeads, kQueries, kKeys, c.depth, 0.5);
    const std::vector<double> y = values_of(got[0], run.out[0]);
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_NEAR(y[i], want[i], c.type == DType::kF16 ? 2e-3 : 2e-2) << i;
    }
  }
  EXPECT_THAT(fake::dnn_runs(), Each("attention"));
}

TEST_F(DnnAttention, IsRefusedWhereCudnnHasNone) {
  EXPECT_THAT(refused({.type = DType::kF32}), HasSubstr("for f16 and bf16, not f32"));
  EXPECT_THAT(refused({.depth = 12}), HasSubstr("a depth of 12 is no multiple of 8"));
  EXPECT_THAT(refused({.mask_rows = 1}), HasSubstr("its mask f16[1,6]"));
  EXPECT_THAT(refused({.mask_rows = kQueries, .photos = 4, .masks = 2}),
              HasSubstr("its mask f16[2,1,5,6] is not of whole rows of all images or of each"));
  fake::reset();
  EXPECT_THAT(refused({}), HasSubstr("needs architecture 80, this is 75"));
}

}  // namespace
}  // namespace ndtrain
