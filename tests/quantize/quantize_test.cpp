#include "framework/quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/graph/precision.h"
#include "framework/onnx/export.h"
#include "framework/onnx/import.h"
#include "framework/passes/inference.h"
#include "framework/runtime/device_fusion.h"
#include "framework/runtime/executor.h"
#include "framework/testing/memory_fs.h"
#include "tests/quantize/transformer.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::add_weight;
using ::testing::Contains;
using testing::count_nodes;
using testing::cpu;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::random_tensor;
using testing::transformer_block;

// Convolution, batch normalisation, Relu, a residual, a dropout, a pool, a classifier.
Model small_network() {
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 3, 12, 12}}};
  m.outputs = {"logits"};
  add_weight(m, "w0", {8, 3, 3, 3});
  add_weight(m, "w1", {8, 8, 3, 3});
  add_weight(m, "w2", {8, 1, 3, 3});
  add_weight(m, "fc", {8, 5});
  for (const char* name : {"s", "b", "mu"}) add_weight(m, name, {8});
  m.initialisers["var"] = Tensor::of(DType::kF32, {8}, std::vector<float>(8, 0.5F));
  const Attrs same{{"pads", Ints{1, 1, 1, 1}}};
  m.nodes = {{"Conv", {"x", "w0"}, {"c0"}, same},
             {"BatchNormalization", {"c0", "s", "b", "mu", "var"}, {"n0"}, {}},
             {"Relu", {"n0"}, {"r0"}, {}},
             {"MaxPool", {"r0"}, {"p0"}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}},
             {"Conv", {"p0", "w1", "b"}, {"c1"}, same},
             {"Add", {"c1", "p0"}, {"sum"}, {}},
             {"Relu", {"sum"}, {"r1"}, {}},
             {"Dropout", {"r1"}, {"d1"}, {}},
             {"Conv", {"d1", "w2"}, {"c2"}, {{"pads", Ints{1, 1, 1, 1}}, {"group", int64_t{8}}}},
             {"GlobalAveragePool", {"c2"}, {"gap"}, {}},
             {"Flatten", {"gap"}, {"features"}, {}},
             {"Gemm", {"features", "fc"}, {"logits"}, {}}};
  return m;
}

std::vector<Tensor> photos(size_t batches = 3, int64_t n = 4) {
  std::vector<Tensor> list;
  for (size_t i = 0; i < batches; ++i) {
    list.push_back(random_tensor({DType::kF32, {n, 3, 12, 12}}, i, "photos"));
  }
  return list;
}

std::vector<Tensor> run(const Model& m, const Tensor& batch) {
  const Graph g = inference_graph(m, batch.shape()[0]);
  const Plan plan(g, cpu());
  return Executor(plan).run({&batch, 1});
}

TEST(Quantize, EveryConvolutionComputesOnBytes) {
  const Quantization q = quantize(small_network(), photos(), cpu());
  EXPECT_EQ(q.convolutions, 3);
  EXPECT_TRUE(q.kept.empty());
  EXPECT_GT(q.cosine, 0.995);
  EXPECT_EQ(declared_precision(q.model), Precision::kInt8);
  const Graph g = inference_graph(q.model, 2);
  EXPECT_EQ(count_nodes(g, "FusedQLinearConv"), 3);
  EXPECT_EQ(count_nodes(g, "QuantizeLinear"), 1);
  EXPECT_EQ(count_nodes(g, "DequantizeLinear"), 1);
  EXPECT_EQ(count_nodes(g, "BatchNormalization") + count_nodes(g, "Add"), 0);
}

TEST(Quantize, ConvolutionsAreNumbersOnADeviceWithoutProductsOfBytes) {
  const Model m = small_network();
  const Quantization q = quantize(m, photos(), cpu());
  const Tensor other = random_tensor({DType::kF32, {2, 3, 12, 12}}, 99, "others");
  for (const Device* device : testing::host_devices()) {
    const Graph g = inference_graph(q.model, 2);
    const bool bytes = device == &cpu() || testing::has_vnni(device->abi().numerics);
    EXPECT_EQ(count_nodes(fuse_for(*device, g, g.inputs()).graph, "FusedQLinearConv") > 0, bytes);
    const Plan plan(g, *device);
    EXPECT_GT(mean_cosine(Executor(plan).run({&other, 1}), run(m, other)), 0.995);
  }
}

TEST(Quantize, OtherPhotosComeOutAlmostTheSame) {
  const Model m = small_network();
  const Quantization q = quantize(m, photos(), cpu());
  const Tensor other = random_tensor({DType::kF32, {16, 3, 12, 12}}, 99, "others");
  EXPECT_GT(mean_cosine(run(q.model, other), run(m, other)), 0.995);
}

TEST(Quantize, TheSamePhotosGiveTheSameModel) {
  const auto id = [](const Model& m) { return content_id(m); };
  EXPECT_EQ(id(quantize(small_network(), photos(), cpu()).model),
            id(quantize(small_network(), photos(), cpu()).model));
}

TEST(Quantize, AFileBringsTheSameModelBack) {
  const Quantization q = quantize(small_network(), photos(), cpu());
  MemoryFs fs;
  export_model(fs, "q.onnx", q.model).or_throw();
  const Model back = import_model(fs, "q.onnx");
  EXPECT_EQ(content_id(back), content_id(q.model));
}

// One weight of a channel that makes 127 steps of it, and eight of 0.4 steps, which all round to
// nothing: on photos that are nowhere negative the mean of the channel falls by what they would
// have added, unless the bias makes up for it.
TEST(Quantize, BiasCorrectionKeepsTheMeanOfTheFeatures) {
  constexpr float kStep = 1.0F / 127;
  constexpr int64_t kChannels = 3;
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, kChannels, 12, 12}}};
  m.outputs = {"features"};
  Tensor w({DType::kF32, {4, kChannels, 1, 3}});
  for (size_t i = 0; i < w.as<float>().size(); ++i) {
    w.mutable_as<float>()[i] = i % 9 == 4 ? 127 * kStep : 0.4F * kStep;
  }
  m.initialisers["w"] = w;
  m.nodes = {{"Conv", {"x", "w"}, {"features"}, {}}};
  std::vector<Tensor> sample = photos(4, 8);
  double mean_input = 0, values = 0;
  for (Tensor& batch : sample) {
    for (float& v : batch.mutable_as<float>()) v = std::abs(v), mean_input += v, ++values;
  }
  mean_input /= values;
  const Quantization q = quantize(m, sample, cpu());
  double low = 0, high = 0, count = 0;
  for (const Tensor& batch : sample) {
    const auto a = run(q.model, batch)[0].to_doubles(), b = run(m, batch)[0].to_doubles();
    for (size_t i = 0; i < a.size(); ++i) low += a[i], high += b[i], ++count;
  }
  const double fall = 8 * 0.4 * kStep * mean_input;  // what rounding alone takes from the mean
  EXPECT_LT(std::abs(low - high) / count, 0.1 * fall);
}

TEST(Quantize, OnlyWhatTheFeaturesNeedWhenTheyAreNamed) {
  const Quantization q = quantize(small_network(), photos(), cpu(), {.until = {"r1"}});
  EXPECT_EQ(q.convolutions, 2);
  const Graph g = inference_graph(q.model, 1);
  EXPECT_EQ(count_nodes(g, "Conv"), 1);
  EXPECT_EQ(precision_until(q.model), (std::vector<std::string>{"r1"}));
  const std::vector<std::string> x = {"x"}, r1 = {"r1"};
  const Model front = extract(q.model, x, r1), behind = extract(q.model, r1, q.model.outputs);
  const Tensor photo = photos(1, 2)[0];
  EXPECT_TRUE(run(behind, run(front, photo)[0])[0].same_bytes(run(q.model, photo)[0]));
}

// Weights of one channel a thousand times those of the others in a depthwise convolution's input
// leave the others no steps: the layer is sensitive.
TEST(Quantize, ASensitiveConvolutionStaysF32) {
  Model m = small_network();
  Tensor scale = Tensor({DType::kF32, {8}});
  for (size_t c = 0; c < 8; ++c) scale.mutable_as<float>()[c] = c == 0 ? 1000 : 1;
  m.initialisers["s"] = scale;
  Tensor fc({DType::kF32, {8, 5}});
  const Tensor was = m.initialisers["fc"];
  std::copy(was.as<float>().begin(), was.as<float>().end(), fc.mutable_as<float>().begin());
  std::fill_n(fc.mutable_as<float>().begin(), 5, 0.0F);  // and the large one does not count
  m.initialisers["fc"] = fc;
  Tensor w1({DType::kF32, {8, 8, 3, 3}});
  const Tensor old = m.initialisers["w1"];
  for (size_t i = 0; i < old.as<float>().size(); ++i) {
    w1.mutable_as<float>()[i] = i / 9 % 8 == 0 ? 0 : old.as<float>()[i];
  }
  m.initialisers["w1"] = w1;
  std::vector<std::string> said;
  const Quantization none = quantize(m, photos(), cpu(), {.least_cosine = 0, .most_kept = 1});
  const Quantization some = quantize(m, photos(), cpu(), {.least_cosine = 0.9999, .most_kept = 1},
                                     [&](const std::string& text) { said.push_back(text); });
  EXPECT_TRUE(none.kept.empty());
  EXPECT_LT(none.cosine, 0.9999);
  EXPECT_FALSE(some.kept.empty());
  EXPECT_GT(some.cosine, none.cosine);
  EXPECT_EQ(said.size(), some.kept.size());
}

TEST(Quantize, ProductsOfMatricesComputeOnBytes) {
  const Model m = transformer_block();
  const std::vector<Tensor> sample = {random_tensor({DType::kF32, {2, 64, 192}}, 1, "tokens")};
  const Quantization q = quantize(m, sample, cpu());
  EXPECT_EQ(q.convolutions, 0);
  EXPECT_EQ(q.products, 2);
  EXPECT_GT(q.cosine, 0.999);
  for (const Device* device : testing::host_devices()) {
    const Graph g = inference_graph(q.model, 2);
    const Graph fused = fuse_for(*device, g, g.inputs()).graph;
    const bool f32 = device != &cpu() && !testing::has_vnni(device->abi().numerics);
    EXPECT_EQ(count_nodes(fused, "FusedQLinearMatMul"), f32 ? 0 : 2);
    EXPECT_EQ(count_nodes(fused, "MatMul") + count_nodes(fused, "FusedMatMul"), f32 ? 2 : 0);
    const Plan plan(g, *device);
    const Tensor other = random_tensor({DType::kF32, {2, 64, 192}}, 9, "others");
    EXPECT_GT(mean_cosine(Executor(plan).run({&other, 1}), run(m, other)), 0.999);
  }
}

TEST(Quantize, WhatProductsReadMayLieOffCentre) {
  Model m = transformer_block();
  m.initialisers["norm.bias"] = Tensor::of(DType::kF32, {192}, std::vector<float>(192, -1.5F));
  const std::vector<Tensor> sample = {random_tensor({DType::kF32, {2, 64, 192}}, 1, "tokens")};
  const Quantization q = quantize(m, sample, cpu(), {.least_cosine = 0});
  EXPECT_GT(q.model.initialisers.at("norm@zero").to_doubles()[0], 150);
  EXPECT_EQ(q.model.initialisers.at("norm@zero").type().dtype, DType::kU8);
}

// x * sigmoid(x) is never below -0.28: around 0 it would have half of the steps.
TEST(Quantize, WhatIsHardlyEverNegativeHasAZeroPointAlsoWhereItIsPadded) {
  Model m = small_network();
  m.nodes[2] = {"Sigmoid", {"n0"}, {"s0"}, {}};
  m.nodes.insert(m.nodes.begin() + 3, {"Mul", {"n0", "s0"}, {"r0"}, {}});
  m.initialisers["s"] = Tensor::of(DType::kF32, {8}, std::vector<float>(8, 3.0F));
  const Quantization q = quantize(m, photos(), cpu(), {.least_cosine = 0});
  const Tensor& zero = q.model.initialisers.at("p0@zero");
  EXPECT_EQ(zero.type().dtype, DType::kU8);
  EXPECT_GT(zero.to_doubles()[0], 0);
  EXPECT_LT(zero.to_doubles()[0], 64);
  EXPECT_GT(q.cosine, 0.999);
  const Graph g = inference_graph(q.model, 2);
  EXPECT_EQ(count_nodes(g, "FusedQLinearConv"), 3);
}

// Whoever compares decides, however alike the features are.
TEST(Quantize, LayersBecomeF32OneByOneUntilTheyAreAccepted) {
  std::vector<std::string> said;
  std::vector<int> on_bytes;
  const auto accepts = [&](const Model& m) {
    EXPECT_EQ(declared_precision(m), Precision::kInt8);
    on_bytes.push_back(count_nodes(inference_graph(m, 1), "FusedQLinearConv"));
    return on_bytes.size() == 3;
  };
  const QuantizeOptions options{.least_cosine = 0, .most_kept = 1, .accepts = accepts};
  const auto say = [&](const std::string& text) { said.push_back(text); };
  const Quantization q = quantize(small_network(), photos(), cpu(), options, say);
  EXPECT_THAT(on_bytes, ElementsAre(3, 2, 1));
  EXPECT_EQ(q.kept.size(), 2U);
  ASSERT_EQ(said.size(), 2U);
  for (const std::string& name : q.kept) {
    EXPECT_THAT(said, Contains(HasSubstr(name + " stays f32")));
  }
}

TEST(Quantize, WhatCannotBeQuantisedIsRefused) {
  EXPECT_THAT(error_of([] { quantize(small_network(), {}, cpu()); }), HasSubstr("no photos"));
  Model m = small_network();
  m.outputs = {"logits"};
  std::erase_if(m.nodes, [](const ModelNode& n) { return n.op == "Conv"; });
  m.nodes = {{"GlobalAveragePool", {"x"}, {"logits"}, {}}};
  EXPECT_THAT(error_of([&] { quantize(m, photos(), cpu()); }), HasSubstr("bf16"));
}

}  // namespace
}  // namespace ndtrain
