// FusedQLinearConv on the onednn plugin, against its definition in integers and doubles.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/ops/conv.h"
#include "framework/runtime/product_rate.h"
#include "tests/runtime/cpu_device.h"
#include "tests/runtime/onednn_cases.h"

namespace ndtrain {
namespace {

struct Case {
  const char* name;
  Ints x, w;  // of one image; [M, C/group, kh, kw]
  int64_t group = 1, stride = 1, pad = 0;
  DType in = DType::kU8, out = DType::kU8;
  int x_zero = 0, y_zero = 0;
  bool residual = false;
  int r_zero = 0;
  const char* steps = "";
  DType residual_type = DType::kNone;  // none: as out
};

std::vector<Case> cases() {
  return {
      {"Pointwise", {1, 64, 7, 7}, {70, 64, 1, 1}},
      {"Same", {1, 48, 14, 14}, {64, 48, 3, 3}, 1, 1, 1},
      {"Relu",
       {1, 48, 9, 9},
       {32, 48, 3, 3},
       1,
       2,
       1,
       DType::kU8,
       DType::kU8,
       0,
       0,
       false,
       0,
       "Relu x0"},
      {"Residual",
       {1, 32, 9, 9},
       {64, 32, 1, 1},
       1,
       1,
       0,
       DType::kU8,
       DType::kU8,
       0,
       0,
       true,
       0,
       "Relu x0"},
      {"ResidualWithZeros",
       {1, 32, 9, 9},
       {64, 32, 1, 1},
       1,
       1,
       0,
       DType::kU8,
       DType::kU8,
       7,
       100,
       true,
       90},
      {"SignedResidual",
       {1, 32, 9, 9},
       {64, 32, 1, 1},
       1,
       1,
       0,
       DType::kU8,
       DType::kU8,
       0,
       0,
       true,
       0,
       "Relu x0",
       DType::kI8},
      {"Signed", {1, 32, 9, 9}, {64, 32, 3, 3}, 1, 1, 1, DType::kI8, DType::kI8, 0, 3},
      {"Image",
       {1, 3, 30, 30},
       {32, 3, 7, 7},
       1,
       2,
       3,
       DType::kU8,
       DType::kU8,
       0,
       0,
       false,
       0,
       "Relu x0"},
      {"ImageWithZero",
       {1, 3, 30, 30},
       {32, 3, 3, 3},
       1,
       2,
       1,
       DType::kU8,
       DType::kU8,
       117,
       0,
       false,
       0,
       "Relu x0"},
      {"Depthwise",
       {1, 96, 14, 14},
       {96, 1, 3, 3},
       96,
       1,
       1,
       DType::kU8,
       DType::kU8,
       0,
       0,
       false,
       0,
       "Clip x0 0 6"},
      {"DepthwiseWithZero",
       {1, 96, 14, 14},
       {96, 1, 3, 3},
       96,
       2,
       1,
       DType::kU8,
       DType::kU8,
       12,
       9},
      {"Grouped", {1, 64, 9, 9}, {64, 4, 3, 3}, 16, 1, 1},
      {"GroupsOfBlocks", {1, 64, 9, 9}, {64, 32, 3, 3}, 2, 1, 1},
  };
}

constexpr float kXScale = 0.03F, kYScale = 0.07F, kRScale = 0.05F;

Attrs attrs_of(const Case& c) {
  return {{"group", c.group},
          {"kernel_shape", Ints{c.w[2], c.w[3]}},
          {"strides", Ints{c.stride, c.stride}},
          {"dilations", Ints{1, 1}},
          {"pads", Ints{c.pad, c.pad, c.pad, c.pad}},
          {"steps", c.steps}};
}

class Builder {
 public:
  explicit Builder(NodeRun& run) : run_(run) {}
  void add(DType t, const Shape& shape, const std::vector<double>& values, bool constant = true) {
    run_.in.push_back({t, shape});
    run_.data.emplace_back(run_.in.back().bytes());
    store(values.data(), values.size(), t, run_.data.back().data());
    run_.constant.push_back(constant);
  }
  void absent() {
    run_.in.push_back({DType::kNone, {}});
    run_.data.emplace_back(0);
    run_.constant.push_back(false);
  }

 private:
  NodeRun& run_;
};

NodeRun run_of(const Case& c, int64_t first, int64_t batch) {
  NodeRun run{.op = "FusedQLinearConv", .attrs = attrs_of(c)};
  Builder b(run);
  const Shape x = Shape(c.x).with(0, batch), w(c.w);
  const Shape y = conv_shape(run.attrs, x, w).output();
  const int64_t m = w[0];
  std::vector<double> w_scales, bias;
  for (int64_t i = 0; i < m; ++i) {
    w_scales.push_back(0.002F + 0.0001F * static_cast<float>(i % 7));
    bias.push_back(static_cast<double>(i * 131 % 4000) - 2000);
  }
  b.add(c.in, x, byte_stream(c.in, first, batch, x.count() / batch, 1), false);
  b.add(DType::kF32, {}, {kXScale});
  b.add(c.in, {}, {static_cast<double>(c.x_zero)});
  b.add(DType::kI8, w, byte_stream(DType::kI8, 0, 1, w.count(), 2));
  b.add(DType::kF32, {m}, w_scales);
  b.add(DType::kI8, {m}, std::vector<double>(static_cast<size_t>(m), 0));
  b.add(DType::kF32, {}, {kYScale});
  b.add(c.out, {}, {static_cast<double>(c.y_zero)});
  b.add(DType::kI32, {m}, bias);
  if (c.residual) {
    const DType r = c.residual_type == DType::kNone ? c.out : c.residual_type;
    b.add(r, y, byte_stream(r, first, batch, y.count() / batch, 3), false);
    b.add(DType::kF32, {}, {kRScale});
    b.add(r, {}, {static_cast<double>(c.r_zero)});
  } else {
    for (int i = 0; i < 3; ++i) b.absent();
  }
  run.out.push_back({c.out, y});
  run.in_place = true;
  return run;
}

std::vector<double> values_of(const NodeRun& run, size_t i) {
  std::vector<double> values(static_cast<size_t>(run.in[i].shape.count()));
  load(run.data[i].data(), values.size(), run.in[i].dtype, values.data());
  return values;
}

std::vector<double> definition(const Case& c, const NodeRun& run) {
  const ConvShape s = conv_shape(run.attrs, run.in[0].shape, run.in[3].shape);
  const std::vector<double> x = values_of(run, 0), w = values_of(run, 3), scale = values_of(run, 4),
                            bias = values_of(run, 8);
  std::vector<double> y(static_cast<size_t>(run.out[0].shape.count()), 0.0), r;
  if (c.residual) r = values_of(run, 9);
  for_each_product(s, [&](int64_t o, int64_t i, int64_t k) { y[o] += (x[i] - c.x_zero) * w[k]; });
  const int64_t plane = s.window.out_count(), channels = run.in[3].shape[0];
  const double low = c.out == DType::kI8 ? -128 : 0, high = low + 255;
  for (size_t i = 0; i < y.size(); ++i) {
    const auto channel = static_cast<size_t>(static_cast<int64_t>(i) / plane % channels);
    double v = static_cast<double>(kXScale) * scale[channel] * (y[i] + bias[channel]);
    if (c.residual) v += static_cast<double>(kRScale) * (r[i] - c.r_zero);
    if (c.steps == std::string("Relu x0")) v = std::max(v, 0.0);
    if (c.steps == std::string("Clip x0 0 6")) v = std::clamp(v, 0.0, 6.0);
    y[i] = std::clamp(std::nearbyint(v / kYScale) + c.y_zero, low, high);
  }
  return y;
}

bool has_vnni() { return testing::has_vnni(onednn()->abi().numerics); }

// Empty where the plugin must refuse.
std::optional<Ports> ports_of(const NodeRun& run) {
  auto ports = onednn()->prefer(run, ports_from(run, Start::kLast));
  EXPECT_EQ(ports.has_value(), has_vnni()) << onednn()->abi().last_error();
  return ports;
}

class OnednnInt8Test : public ::testing::TestWithParam<Case> {};

TEST_P(OnednnInt8Test, MatchesTheDefinition) {
  const Case& c = GetParam();
  if (!onednn()) return;
  const NodeRun run = run_of(c, 0, 2);
  const auto ports = ports_of(run);
  if (!ports) GTEST_SKIP() << onednn()->abi().last_error();
  onednn()->set_threads(2);
  const Bytes got = std::move(onednn()->run(run, *ports).at(0));
  const std::vector<double> want = definition(c, run);
  std::vector<double> values(want.size());
  load(got.data(), values.size(), c.out, values.data());
  size_t off = 0, inside = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_NEAR(values[i], want[i], 1) << c.name << " element " << i;
    off += values[i] != want[i];
    inside += want[i] > -128 && want[i] != 0 && want[i] < 127;
  }
  EXPECT_LE(off, want.size() / 200) << "more than ties are rounded otherwise";
  EXPECT_GT(inside, want.size() / 8) << "the case tells little: most results are at their limits";
}

TEST_P(OnednnInt8Test, GivesAnImageTheBitsItHasAloneAndLeavesGaps) {
  const Case& c = GetParam();
  if (!onednn()) return;
  std::vector<Bytes> alone;
  for (int64_t i = 0; i < 8; ++i) {
    const NodeRun one = run_of(c, i, 1);
    const auto ports = ports_of(one);
    if (!ports) GTEST_SKIP() << onednn()->abi().last_error();
    alone.push_back(std::move(onednn()->run(one, *ports).at(0)));
  }
  for (const int64_t batch : {1, 2, 3, 5, 8}) {
    for (const int threads : {1, 2}) {
      onednn()->set_threads(threads);
      const NodeRun run = run_of(c, 0, batch);
      Ports ports = *ports_of(run);
      const Bytes together = std::move(onednn()->run(run, ports).at(0));
      const size_t size = alone[0].size();
      for (int64_t i = 0; i < batch; ++i) {
        EXPECT_TRUE(Bytes(size, together.data() + static_cast<size_t>(i) * size) ==
                    alone[static_cast<size_t>(i)])
            << c.name << ", image " << i << " of " << batch << ", " << threads << " threads";
      }
      ndt_tensor_type& y = ports.out[0];
      for (const int d : {0, 2, 3}) y.strides[d] = y.strides[d] / y.dims[1] * (y.dims[1] + 32);
      EXPECT_TRUE(onednn()->run(run, ports).at(0) == together) << c.name << " as part of a Concat";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, OnednnInt8Test, ::testing::ValuesIn(cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(OnednnInt8, RefusesWhatItCannotDoWithTheReason) {
  if (!onednn() || !has_vnni()) GTEST_SKIP() << "needs VNNI";
  NodeRun run = run_of(cases()[0], 0, 1);
  run.data[5].data()[3] = std::byte{4};
  EXPECT_NE(onednn()->refusal(run, ports_from(run, Start::kLast)).find("weights is 4, not 0"),
            std::string::npos);
  run = run_of(cases()[0], 0, 1);
  run.constant[3] = false;
  EXPECT_NE(onednn()->refusal(run, ports_from(run, Start::kLast)).find("weight (input 3)"),
            std::string::npos);
}

TEST(OnednnInt8, WhereThereAreNoProductsOfBytesTheyGainNothing) {
  if (!onednn()) return;
  const Device device(Backend::find("onednn"), {});
  const std::string why = why_bytes_gain_nothing(device);
  EXPECT_EQ(why.empty(), has_vnni()) << why;
  EXPECT_EQ(why.find("need AVX512_VNNI or AVX_VNNI") != std::string::npos, !has_vnni()) << why;
}

TEST(OnednnInt8, PoolsAndQuantizesChannelsLast) {
  if (!onednn()) return;
  NodeRun pool{.op = "MaxPool",
               .attrs = {{"kernel_shape", Ints{3, 3}},
                         {"strides", Ints{2, 2}},
                         {"pads", Ints{1, 1, 1, 1}},
                         {"dilations", Ints{1, 1}},
                         {"ceil_mode", int64_t{0}},
                         {"storage_order", int64_t{0}}},
               .out = {{DType::kU8, {3, 48, 7, 7}}}};
  Builder(pool).add(DType::kU8, {3, 48, 14, 14},
                    byte_stream(DType::kU8, 0, 3, int64_t{48} * 14 * 14, 5), false);
  const auto ports = onednn()->prefer(pool, ports_from(pool, Start::kLast));
  ASSERT_TRUE(ports.has_value()) << onednn()->abi().last_error();
  compare(find_op("MaxPool"), "MaxPool u8", pool, 0, reference_of(pool),
          onednn()->run(pool, *ports));

  NodeRun quantize{.op = "QuantizeLinear", .out = {{DType::kU8, {2, 20, 5, 6}}}};
  Builder b(quantize);
  b.add(DType::kF32, {2, 20, 5, 6}, byte_stream(DType::kI8, 0, 2, 600, 6), false);
  b.add(DType::kF32, {}, {0.75F});
  b.add(DType::kU8, {}, {128});
  quantize.attrs = {{"axis", int64_t{1}}, {"block_size", int64_t{0}}};
  for (const Start start : kStarts) {
    const auto q = onednn()->prefer(quantize, ports_from(quantize, start));
    ASSERT_TRUE(q.has_value()) << onednn()->abi().last_error();
    EXPECT_EQ(q->out[0].strides[1] == 1, start != Start::kPlain)
        << "bytes of images lie channels-last; what is plain may be none";
    compare(find_op("QuantizeLinear"), "QuantizeLinear", quantize, 0, reference_of(quantize),
            onednn()->run(quantize, *q), 1);
  }
}

}  // namespace
}  // namespace ndtrain
