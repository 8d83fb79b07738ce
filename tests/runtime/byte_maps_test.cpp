// FusedQLinearAveragePool, FusedQLinearMul and FusedQLinearBatchNorm on every build of the cpu
// plugin and on onednn: the same bytes, those of the definition but for ties, for any batch and any
// threads.
#include <gtest/gtest.h>

#include <cmath>

#include "framework/graph/graph.h"
#include "tests/runtime/onednn_cases.h"

namespace ndtrain {
namespace {

struct MapCase {
  const char* name;
  Ints x;  // of one image
  DType in = DType::kU8, out = DType::kU8;
  int x_zero = 0, y_zero = 0;
  Attrs window = {};                 // none: a product with a factor for each map
  std::vector<int64_t> joined = {};  // channels of maps that are normalised; x's come first
};

std::vector<MapCase> map_cases() {
  const DType u = DType::kU8, i = DType::kI8;
  const Attrs global{{"kernel_shape", Ints{14, 13}}};
  Attrs same{{"kernel_shape", Ints{3, 3}}, {"pads", Ints(4, 1)}};
  Attrs padded = same;
  padded.set("count_include_pad", int64_t{1});
  return {
      {"Planes", {1, 240, 14, 13}, u, u, 0, 0, global},
      {"PlanesOfNoVector", {1, 72, 14, 13}, u, u, 17, 100, global},
      {"PlanesOfFewChannels", {1, 5, 14, 13}, i, u, -9, 100, global},
      {"Windows", {1, 192, 17, 15}, u, u, 0, 0, same},
      {"WindowsWithPadding", {1, 83, 17, 15}, i, i, 3, -7, padded},
      {"Excited", {1, 240, 14, 13}, u, u, 11, 11},
      {"ExcitedOfNoVector", {1, 72, 14, 13}, i, u, 0, 100},
      {"ExcitedOfFewChannels", {1, 5, 14, 13}, u, i, 128, 0},
      {"Normalised", {1, 64, 14, 13}, u, u, 0, 0, {}, {64}},
      {"NormalisedAndJoined", {1, 64, 7, 7}, u, u, 0, 0, {}, {64, 32, 32, 48}},
      {"NormalisedOfNoVector", {1, 72, 5, 3}, i, i, 0, -7, {}, {72, 5, 19}},
  };
}

// Maps of both kinds of bytes in turn.
void add_joined(const MapCase& c, int64_t first, int64_t batch, const auto& add) {
  std::vector<double> factors, offsets;
  for (const int64_t channels : c.joined) {
    for (int64_t of = 0; of < channels; ++of) {
      factors.push_back(0.37 * std::sin(static_cast<double>(factors.size())) + 0.2);
      offsets.push_back(90 * std::cos(static_cast<double>(3 * offsets.size())));
    }
  }
  const auto all = static_cast<int64_t>(factors.size());
  add(DType::kF32, {all}, factors, true);
  add(DType::kF32, {all}, offsets, true);
  add(c.out, {}, {static_cast<double>(c.y_zero)}, true);
  DType t = c.in;
  for (int k = 0; const int64_t channels : c.joined) {
    const Shape x = Shape(c.x).with(0, batch).with(1, channels);
    add(t, x, byte_stream(t, first, batch, x.count() / batch, ++k), false);
    t = t == DType::kU8 ? DType::kI8 : DType::kU8;
  }
}

const char* op_of(const MapCase& c) {
  if (!c.joined.empty()) return "FusedQLinearBatchNorm";
  return c.window.has("kernel_shape") ? "FusedQLinearAveragePool" : "FusedQLinearMul";
}

void complete(NodeRun& run) {
  Graph g;  // which completes the attributes
  std::vector<ValueId> in;
  for (const TensorType& t : run.in) in.push_back(g.add_input("i" + std::to_string(in.size()), t));
  run.out = {g.type(g.add1(run.op, std::move(in), run.attrs))};
  run.attrs = g.nodes()[0].attrs;
}

NodeRun map_run(const MapCase& c, int64_t first, int64_t batch) {
  const bool pools = c.window.has("kernel_shape");
  NodeRun run{.op = op_of(c), .attrs = c.window};
  const auto add = [&](DType t, const Shape& shape, const std::vector<double>& values,
                       bool constant = true) {
    run.in.push_back({t, shape});
    run.data.emplace_back(run.in.back().bytes());
    store(values.data(), values.size(), t, run.data.back().data());
    run.constant.push_back(constant);
  };
  if (!c.joined.empty()) {
    add_joined(c, first, batch, add);
    complete(run);
    return run;
  }
  const Shape x = Shape(c.x).with(0, batch);
  add(c.in, x, byte_stream(c.in, first, batch, x.count() / batch, 1), false);
  add(DType::kF32, {}, {0.0213F});
  add(c.in, {}, {static_cast<double>(c.x_zero)});
  if (!pools) {
    const Shape factors = x.with(2, 1).with(3, 1);
    add(DType::kU8, factors, byte_stream(DType::kU8, first, batch, x[1], 2), false);
    add(DType::kF32, {}, {1 / 255.0F});
    add(DType::kU8, {}, {0});
  }
  add(DType::kF32, {}, {0.0117F});
  add(c.out, {}, {static_cast<double>(c.y_zero)});
  complete(run);
  return run;
}

class ByteMaps : public ::testing::TestWithParam<MapCase> {};

TEST_P(ByteMaps, HaveTheSameBytesOnEveryPlugin) {
  const NodeRun run = map_run(GetParam(), 0, 2);
  const auto want = reference_of(run);
  std::vector<Bytes> all;
  for (const auto& plugin : Plugin::cpu_builds()) all.push_back(std::move(plugin->run(run).at(0)));
  ASSERT_TRUE(onednn());
  const auto ports = onednn()->prefer(run, ports_from(run, Start::kLast));
  ASSERT_TRUE(ports.has_value()) << onednn()->abi().last_error();
  all.push_back(std::move(onednn()->run(run, *ports).at(0)));
  for (const Bytes& got : all) EXPECT_TRUE(got == all[0]);
  std::vector<double> values(want[0].size());
  load(all[0].data(), values.size(), run.out[0].dtype, values.data());
  size_t off = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], want[0][i], 1);
    off += values[i] != want[0][i];
  }
  EXPECT_LE(off, values.size() / 500) << "more than ties are rounded otherwise";
}

TEST_P(ByteMaps, GiveAPhotoTheBytesItHasAlone) {
  const MapCase& c = GetParam();
  ASSERT_TRUE(onednn());
  onednn()->set_threads(1);
  const auto run = [&](int64_t first, int64_t batch) {
    const NodeRun node = map_run(c, first, batch);
    return std::move(
        onednn()->run(node, onednn()->prefer(node, ports_from(node, Start::kLast)).value()).at(0));
  };
  std::vector<Bytes> alone;
  for (int64_t i = 0; i < 5; ++i) alone.push_back(run(i, 1));
  for (const int threads : {1, 3}) {
    onednn()->set_threads(threads);
    for (const int64_t batch : {1, 2, 5}) {
      const Bytes together = run(0, batch);
      for (int64_t i = 0; i < batch; ++i) {
        const Bytes& want = alone[static_cast<size_t>(i)];
        EXPECT_TRUE(Bytes(want.size(), together.data() + static_cast<size_t>(i) * want.size()) ==
                    want)
            << "image " << i << " of " << batch << ", " << threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Every, ByteMaps, ::testing::ValuesIn(map_cases()),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(ByteMapsRefused, OperandsThatAreNoFactorsAndLayoutsAreNamed) {
  ASSERT_TRUE(onednn());
  NodeRun run = map_run(map_cases()[5], 0, 1);
  EXPECT_NE(onednn()->refusal(run, plain_ports(run)).find("channels-last"), std::string::npos);
  run.in[3].shape = run.in[0].shape;
  run.data[3] = Bytes(run.in[3].bytes());
  EXPECT_FALSE(onednn()->prefer(run, ports_from(run, Start::kLast)).has_value());
  EXPECT_NE(std::string(onednn()->abi().last_error()).find("not maps and a factor for each"),
            std::string::npos);
}

}  // namespace
}  // namespace ndtrain
