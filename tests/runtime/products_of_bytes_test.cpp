// FusedQLinearMatMul on every plugin that computes it, against its definition, and whether a photo
// has the same bytes alone and in any batch.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/graph/op.h"
#include "tests/runtime/onednn_cases.h"

namespace ndtrain {
namespace {

struct ProductCase {
  const char* name;
  Ints x;  // of one image
  int64_t n;
  DType in = DType::kU8, out = DType::kU8;
  int x_zero = 117, y_zero = 100;
  bool bias = true, transposed = false;
  const char* steps = "";
};

std::vector<ProductCase> product_cases() {
  const DType u = DType::kU8, i = DType::kI8, f = DType::kF32;
  return {
      {"Tokens", {1, 50, 192}, 576, u, f},
      {"TokensOfNoVector", {1, 49, 83}, 131, u, f},
      {"Gelu", {1, 50, 192}, 768, u, u, 128, 9, true, false, "Gelu x0 approximate=none"},
      {"GeluTanh", {1, 17, 64}, 70, u, i, 128, -9, true, false, "Gelu x0 approximate=tanh"},
      {"Relu", {1, 17, 770}, 192, u, u, 3, 0, true, false, "Relu x0"},
      {"Clip", {1, 17, 64}, 192, u, u, 3, 0, true, false, "Clip x0 -2 3"},
      {"Classifier", {1, 768}, 1000, u, f, 117, 0, true, true},
      {"Signed", {1, 9, 9, 64}, 128, i, i, -3, 4, false},
      {"Deep", {1, 20, 4096}, 64, u, u, 0, 128, true, true},
  };
}

// With results between -4 and 4 or so, and steps of 1/40 where they are bytes.
NodeRun product_run(const ProductCase& c, int64_t first, int64_t batch) {
  NodeRun run{.op = "FusedQLinearMatMul",
              .attrs = {{"transB", int64_t{c.transposed}}, {"steps", c.steps}}};
  const auto add = [&](DType t, const Shape& shape, const std::vector<double>& values,
                       bool constant = true) {
    run.in.push_back({t, shape});
    run.data.emplace_back(t == DType::kNone ? 0 : run.in.back().bytes());
    if (t != DType::kNone) store(values.data(), values.size(), t, run.data.back().data());
    run.constant.push_back(constant);
  };
  const Shape x = Shape(c.x).with(0, batch);
  const int64_t k = x[-1];
  std::vector<double> scales, bias;
  for (int64_t i = 0; i < c.n; ++i) {
    scales.push_back(0.01F + 0.001F * static_cast<float>(i % 7));
    bias.push_back(static_cast<float>(i * 131 % 400 - 200) / 200.0F);
  }
  add(c.in, x, byte_stream(c.in, first, batch, x.count() / batch, 1), false);
  add(DType::kF32, {}, {0.02F / std::sqrt(static_cast<float>(k))});
  add(c.in, {}, {static_cast<double>(c.x_zero)});
  add(DType::kI8, c.transposed ? Shape{c.n, k} : Shape{k, c.n},
      byte_stream(DType::kI8, 0, 1, k * c.n, 2));
  add(DType::kF32, {c.n}, scales);
  add(DType::kI8, {c.n}, std::vector<double>(static_cast<size_t>(c.n), 0));
  const bool bytes = c.out != DType::kF32;
  add(bytes ? DType::kF32 : DType::kNone, {}, {0.025F}, bytes);
  add(bytes ? c.out : DType::kNone, {}, {static_cast<double>(c.y_zero)}, bytes);
  add(c.bias ? DType::kF32 : DType::kNone, {c.n}, bias, c.bias);
  run.out.push_back({c.out, x.with(x.rank() - 1, c.n)});
  return run;
}

std::vector<const Plugin*> plugins_for(const NodeRun& run) {
  std::vector<const Plugin*> all;
  for (const auto& plugin : Plugin::cpu_builds()) all.push_back(plugin.get());
  if (!onednn()) return all;
  const std::string refusal = onednn()->refusal(run, plain_ports(run));
  EXPECT_TRUE(refusal.empty() || refusal.find("VNNI") != std::string::npos) << refusal;
  if (refusal.empty()) all.push_back(onednn());
  return all;
}

class ProductsOfBytes : public ::testing::TestWithParam<ProductCase> {};

TEST_P(ProductsOfBytes, MatchTheDefinition) {
  const ProductCase& c = GetParam();
  const NodeRun run = product_run(c, 0, 2);
  const auto want = reference_of(run);
  for (const Plugin* plugin : plugins_for(run)) {
    SCOPED_TRACE(plugin->path());
    const std::vector<Bytes> got = plugin->run(run);
    compare(find_op(run.op), c.name, run, 1e-5, want, got, 1);
    if (c.out == DType::kF32 || got.empty()) continue;
    std::vector<double> values(want[0].size());
    load(got[0].data(), values.size(), c.out, values.data());
    size_t off = 0, inside = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      off += values[i] != want[0][i];
      inside += values[i] > (c.out == DType::kI8 ? -128 : 0) && values[i] < 127;
    }
    EXPECT_LE(off, values.size() / 200) << "more than ties are rounded otherwise";
    EXPECT_GT(inside, values.size() / 8) << "most results are at their limits";
  }
}

TEST_P(ProductsOfBytes, GiveAPhotoTheBytesItHasAlone) {
  const ProductCase& c = GetParam();
  for (const Plugin* plugin : plugins_for(product_run(c, 0, 1))) {
    SCOPED_TRACE(plugin->path());
    auto* p = const_cast<Plugin*>(plugin);
    p->set_threads(1);
    std::vector<Bytes> alone;
    for (int64_t i = 0; i < 8; ++i) {
      alone.push_back(std::move(plugin->run(product_run(c, i, 1)).at(0)));
    }
    const size_t size = alone[0].size();
    for (const int64_t batch : {1, 2, 3, 5, 8}) {
      for (const int threads : {1, 2}) {
        p->set_threads(threads);
        const Bytes together = std::move(plugin->run(product_run(c, 0, batch)).at(0));
        for (int64_t i = 0; i < batch; ++i) {
          EXPECT_TRUE(Bytes(size, together.data() + static_cast<size_t>(i) * size) ==
                      alone[static_cast<size_t>(i)])
              << c.name << ", image " << i << " of " << batch << ", " << threads << " threads";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ProductsOfBytes, ::testing::ValuesIn(product_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(ProductsOfBytesRefused, WhatIsNotConstantOrOffCentreInTheMatrixIsNamed) {
  for (const Plugin* plugin : plugins_for(product_run(product_cases()[0], 0, 1))) {
    SCOPED_TRACE(plugin->path());
    NodeRun run = product_run(product_cases()[0], 0, 1);
    run.data[5].data()[3] = std::byte{4};
    EXPECT_NE(plugin->refusal(run, plain_ports(run)).find("matrix is 4, not 0"), std::string::npos);
    run = product_run(product_cases()[0], 0, 1);
    run.constant[3] = false;
    EXPECT_NE(plugin->refusal(run, plain_ports(run)).find("matrix (input 3)"), std::string::npos);
    run = product_run(product_cases()[0], 0, 1);
    run.attrs.set("steps", "Exp x0");
    EXPECT_NE(plugin->refusal(run, plain_ports(run)).find("Exp x0"), std::string::npos);
  }
}

}  // namespace
}  // namespace ndtrain
