// What the onednn plugin promises beyond its results: bits that do not depend on batch or threads,
// outputs with gaps, shared weights, several streams at once.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tests/runtime/onednn_cases.h"

namespace ndtrain {
namespace {

NodeRun frozen(const Batched& c, int64_t first, int64_t batch, DType t = DType::kF32) {
  NodeRun run = batch_of(c, first, batch, t);
  freeze(run);
  return run;
}

// Larger than an example: channels that fill blocks and some that do not.
std::vector<Batched> onednn_cases() {
  std::vector<Batched> cases = batched_cases();
  const Ints p1 = {1, 1, 1, 1}, s2 = {2, 2};
  const Attrs relu{{"pads", p1}, {"steps", "Relu x0"}};
  cases.push_back({"FusedBlocks",
                   "FusedConv",
                   {{1, 64, 14, 14}, {64, 64, 3, 3}, {64}, {1, 64, 14, 14}},
                   relu,
                   {3}});
  cases.push_back({"FusedWide",
                   "FusedConv",
                   {{1, 32, 9, 9}, {128, 32, 1, 1}, {128}, {1, 128, 9, 9}},
                   {{"steps", "Relu x0"}},
                   {3}});
  cases.push_back({"GroupsOfFour",
                   "Conv",
                   {{1, 64, 9, 9}, {64, 4, 3, 3}, {64}},
                   {{"pads", p1}, {"group", 16}}});
  cases.push_back({"GroupsOfBlocks",
                   "Conv",
                   {{1, 64, 9, 9}, {64, 32, 3, 3}, {64}},
                   {{"pads", p1}, {"group", 2}}});
  cases.push_back({"WideDepthwise",
                   "Conv",
                   {{1, 96, 14, 14}, {96, 1, 3, 3}, {96}},
                   {{"pads", p1}, {"strides", s2}, {"group", 96}}});
  const Attrs max{{"steps", "Relu x0"},
                  {"pool_kernel_shape", Ints{3, 3}},
                  {"pool_strides", s2},
                  {"pool_pads", Ints{0, 0, 1, 1}},
                  {"pool_ceil_mode", 0}};
  Attrs of_photo = max;
  of_photo.set("strides", s2);
  cases.push_back({"PooledPhoto", "FusedConv", {{1, 3, 97, 101}, {40, 3, 3, 3}, {40}}, of_photo});
  cases.push_back({"PooledWhole", "FusedConv", {{1, 16, 20, 21}, {64, 16, 1, 1}, {64}}, max});
  const Attrs swish{{"steps", "Sigmoid x0; Mul x0 y0"}}, hard{{"steps", "HardSwish x0"}};
  Attrs padded = swish, depthwise = hard, gelu = padded;
  padded.set("pads", p1);
  padded.set("strides", s2);
  depthwise.set("group", 40);
  gelu.set("steps", "Gelu x0 approximate=none");
  cases.push_back({"SwishPoints",
                   "FusedConv",
                   {{1, 32, 9, 9}, {128, 32, 1, 1}, {128}, {1, 128, 9, 9}},
                   swish,
                   {3}});
  cases.push_back({"Swish", "FusedElementwise", {{1, 20, 9, 5}}, swish});
  cases.push_back({"SwishFilter", "FusedConv", {{1, 64, 15, 14}, {64, 64, 3, 3}}, padded});
  cases.push_back({"SwishDeep", "FusedConv", {{1, 512, 7, 7}, {256, 512, 1, 1}}, swish});
  cases.push_back({"HardDepthwise", "FusedConv", {{1, 40, 9, 9}, {40, 1, 3, 3}, {40}}, depthwise});
  cases.push_back({"GeluPoints", "FusedConv", {{1, 40, 9, 9}, {96, 40, 1, 1}, {96}}, gelu});
  cases.push_back({"BatchNorm",
                   "BatchNormalization",
                   {{1, 40, 7, 9}, {40}, {40}, {40}, {40}},
                   {{"epsilon", 3.0}}});
  cases.push_back({"MulByPixels", "Mul", {{1, 32, 6, 6}, {1, 32, 1, 1}}, {}, {1}});
  cases.push_back({"PixelsByMaps", "Mul", {{1, 20, 1, 1}, {1, 20, 9, 5}}, {}, {1}});
  cases.push_back({"MulByChannels", "Mul", {{1, 40, 9, 5}, {40, 1, 1}}});
  cases.push_back({"AddToChannels", "Add", {{1, 20, 9, 5}, {1, 20, 1, 1}}});
  for (const char* op : {"Relu", "HardSwish", "Sigmoid", "Tanh", "Gelu"}) {
    cases.push_back({op, op, {{1, 20, 9, 5}}});
  }
  cases.push_back({"MatMulImages", "MatMul", {{1, 197, 96}, {96, 80}}});
  cases.push_back({"MatMulHeads", "MatMul", {{1, 12, 37, 64}, {1, 12, 64, 37}}, {}, {1}});
  const Shape heads = {1, 3, 37, 64};
  const Attrs by_heads{{"scale", 0.3}, {"heads_axis", int64_t{1}}, {"packed", int64_t{0}}},
      by_rows{{"scale", -0.2}, {"heads_axis", int64_t{2}}, {"packed", int64_t{1}}};
  cases.push_back({"AttentionMaskedByKeys",
                   "FusedAttention",
                   {heads, {1, 3, 50, 64}, {1, 3, 50, 24}, {3, 37, 50}},
                   by_heads,
                   {1, 2}});
  cases.push_back({"AttentionMaskedByQueries",
                   "FusedAttention",
                   {heads, {1, 3, 50, 64}, {1, 3, 50, 24}, {37, 1}},
                   by_heads,
                   {1, 2}});
  cases.push_back({"AttentionOfRows", "FusedAttention", {{1, 49, 9, 32}}, by_rows});
  cases.push_back({"AttentionOfWindows",
                   "FusedAttention",
                   {{2, 3, 37, 32}, {2, 3, 37, 32}, {2, 3, 37, 32}, {2, 3, 37, 37}},
                   by_heads,
                   {1, 2}});
  cases.push_back({"MatMulColumns", "MatMul", {{1, 512}, {512, 1000}}});
  cases.push_back({"SoftmaxOfHeads", "Softmax", {{1, 3, 37, 37}}, {{"axis", -1}}});
  cases.push_back({"MatMulGelu",
                   "FusedMatMul",
                   {{1, 197, 96}, {96, 80}, {80}},
                   {{"steps", "Gelu x0 approximate=none"}}});
  cases.push_back({"MatMulRelu",
                   "FusedMatMul",
                   {{1, 96}, {80, 96}, {80}},
                   {{"steps", "Relu x0"}, {"transB", 1}}});
  cases.push_back({"Softmax", "Softmax", {{1, 50, 37}}, {{"axis", -1}}});
  cases.push_back({"SoftmaxRows", "Softmax", {{1, 70}}, {{"axis", -1}}});
  cases.push_back({"LayerNorm", "LayerNormalization", {{1, 50, 96}, {96}, {96}}, {{"axis", -1}}});
  cases.push_back({"LeakyRelu", "LeakyRelu", {{1, 32, 6, 6}}, {{"alpha", 0.2}}});
  cases.push_back({"Add", "Add", {{1, 20, 9, 5}, {1, 20, 9, 5}}, {}, {1}});
  cases.push_back({"Mul", "Mul", {{1, 32, 6, 6}, {1, 32, 6, 6}}, {}, {1}});
  cases.push_back(
      {"Concat", "Concat", {{1, 32, 6, 6}, {1, 16, 6, 6}, {1, 20, 6, 6}}, {{"axis", 1}}, {1, 2}});
  // Winograd: pixels that fill no tiles, an odd number of blocks, and images of few tiles.
  const Attrs uneven{{"pads", Ints{2, 0, 1, 1}}, {"steps", "Clip x0 -0.5 0.5"}};
  cases.push_back({"TilesUneven", "FusedConv", {{1, 32, 14, 11}, {48, 32, 3, 3}, {48}}, uneven});
  cases.push_back({"TilesMany", "Conv", {{1, 16, 41, 38}, {16, 16, 3, 3}}, {{"pads", p1}}});
  cases.push_back({"TilesTwo", "Conv", {{1, 64, 3, 5}, {160, 64, 3, 3}, {160}}, {{"pads", p1}}});
  // Here the library changes how it sums between one, two and three images, and later.
  cases.push_back({"Deep", "Conv", {{1, 512, 7, 7}, {512, 512, 3, 3}, {512}}, {{"pads", p1}}});
  cases.push_back({"Uneven", "Conv", {{1, 448, 8, 8}, {384, 448, 3, 3}}, {{"pads", p1}}});
  cases.push_back({"Narrow", "Conv", {{1, 1024, 7, 8}, {64, 1024, 3, 3}}, {{"pads", p1}}});
  cases.push_back({"DeepPoints", "Conv", {{1, 520, 7, 7}, {2064, 520, 1, 1}}});
  return cases;
}

bool taken(const Batched& c, DType t) {
  if (!onednn()) return false;
  const NodeRun run = frozen(c, 0, 1, t);
  for (const Start start : kStarts) {
    if (onednn()->prefer(run, ports_from(run, start))) return true;
  }
  return false;
}

struct Typed {
  Batched c;
  DType t;
};

std::vector<Typed> typed_cases() {
  std::vector<Typed> cases;
  for (const Batched& c : onednn_cases()) {
    cases.push_back({c, DType::kF32});
    if (c.inputs[0].count() < 20000) cases.push_back({c, DType::kBF16});
  }
  return cases;
}

class OnednnBatchTest : public ::testing::TestWithParam<Typed> {};

TEST_P(OnednnBatchTest, AnImageAloneHasTheBitsItHasInAnyBatchWithAnyThreads) {
  const auto& [c, t] = GetParam();
  if (!onednn()) return;
  for (const Start start : kStarts) {
    SCOPED_TRACE("from layout " + std::to_string(static_cast<int>(start)));
    onednn()->set_threads(1);
    std::vector<Bytes> alone;
    // Rows come in larger groups, and so do images of a convolution with heavy weights.
    const bool heavy = c.op == std::string_view("Conv") && c.inputs[1].count() > (1 << 19);
    for (int64_t i = 0; i < (heavy || c.inputs[0].rank() == 2 ? 22 : 8); ++i) {
      const NodeRun one = frozen(c, i, 1, t);
      const auto ports = onednn()->prefer(one, ports_from(one, start));
      if (!ports) break;
      alone.push_back(std::move(onednn()->run(one, *ports).at(0)));
    }
    for (const int threads : {2, 3, 5}) {
      if (alone.empty()) break;
      onednn()->set_threads(threads);
      const NodeRun one = frozen(c, 0, 1, t);
      const auto ports = onednn()->prefer(one, ports_from(one, start));
      ASSERT_TRUE(ports.has_value());
      EXPECT_TRUE(onednn()->run(one, *ports).at(0) == alone[0])
          << c.name << ", one image, " << threads << " threads";
    }
    for (const int64_t batch : {2, 3, 5, 8, 22}) {
      for (const int threads : {1, 2}) {
        if (alone.size() < static_cast<size_t>(batch)) continue;
        onednn()->set_threads(threads);
        const NodeRun run = frozen(c, 0, batch, t);
        const auto ports = onednn()->prefer(run, ports_from(run, start));
        ASSERT_TRUE(ports.has_value()) << "taken alone, refused in a batch of " << batch;
        const Bytes together = std::move(onednn()->run(run, *ports).at(0));
        const size_t size = alone[0].size();
        for (int64_t i = 0; i < batch; ++i) {
          EXPECT_TRUE(Bytes(size, together.data() + static_cast<size_t>(i) * size) ==
                      alone[static_cast<size_t>(i)])
              << c.name << ", image " << i << " of " << batch << ", " << threads << " threads";
        }
      }
    }
  }
}

TEST_P(OnednnBatchTest, MatchesTheReference) {
  const auto& [c, t] = GetParam();
  if (!onednn()) return;
  const NodeRun run = frozen(c, 1, 2, t);
  const auto want = reference_of(run);
  for (const Start start : kStarts) {
    onednn()->set_threads(2);
    const auto ports = onednn()->prefer(run, ports_from(run, start));
    const double allowed = t == DType::kBF16 ? 0.01 : 2e-5;
    if (ports) compare(find_op(c.op), c.name, run, allowed, want, onednn()->run(run, *ports));
  }
}

TEST_P(OnednnBatchTest, GivesEveryOfSeveralStreamsAtOnceTheSameBits) {
  if (!onednn()) return;
  NodeRun run = frozen(GetParam().c, 0, 5, GetParam().t);
  run.streams = 4;
  onednn()->set_threads(2);
  for (const Start start : kStarts) {
    const auto ports = onednn()->prefer(run, ports_from(run, start));
    if (ports) onednn()->run(run, *ports);
  }
}

TEST_P(OnednnBatchTest, LeavesGapsAfterImagesAsTheyAre) {
  const auto& [c, t] = GetParam();
  if (!onednn() || std::string_view(c.op).find("Conv") == std::string_view::npos) return;
  NodeRun run = frozen(c, 0, 3, t);
  run.in_place = true;
  onednn()->set_threads(2);
  for (const Start start : kStarts) {
    auto ports = onednn()->prefer(run, ports_from(run, start));
    if (!ports) continue;
    const std::vector<Bytes> whole = onednn()->run(run, *ports);
    ndt_tensor_type& y = ports->out[0];
    if (y.channel_block > 1) {
      y.strides[0] += 3 * y.strides[1];
    } else {
      for (const int d : {0, 2, 3}) y.strides[d] = y.strides[d] / y.dims[1] * (y.dims[1] + 32);
    }
    EXPECT_TRUE(onednn()->run(run, *ports).at(0) == whole.at(0)) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, OnednnBatchTest, ::testing::ValuesIn(typed_cases()),
                         [](const auto& c) {
                           return c.param.c.name + std::string(name_of(c.param.t));
                         });

TEST(Onednn, TakesTheLayersItIsFor) {
  // A dilated pool; a depthwise multiplier where blocks are of 16.
  const std::set<std::string> others = {"MaxPoolPadded", "DepthwiseStrided"};
  const std::set<std::string> of_products = {"Gemm", "MatMul", "FusedMatMul"};
  if (!onednn()) return;
  const bool native = std::string(onednn()->abi().numerics).find("bf16") != std::string::npos;
  for (const Batched& c : onednn_cases()) {
    if (others.count(c.name) != 0) continue;
    if (std::string(c.op) == "FusedAttention") {
      EXPECT_FALSE(taken(c, DType::kF32)) << c.name;
      EXPECT_EQ(taken(c, DType::kBF16), native) << c.name;
      continue;
    }
    const bool product = of_products.contains(c.op);
    EXPECT_EQ(taken(c, DType::kF32), channel_block() == 16 || !product) << c.name;
    const bool moves = std::string(c.op) == "Concat";
    if (product && !native) continue;
    EXPECT_EQ(taken(c, DType::kBF16), channel_block() == 16 || moves) << c.name;
  }
}

NodeRun reorder_of(const Shape& shape, DType t) {
  NodeRun run{.op = "Reorder", .in = {{t, shape}}, .out = {{t, shape}}, .constant = {false}};
  run.data.emplace_back(run.in[0].bytes());
  for (size_t i = 0; i < run.data[0].size(); ++i) {
    run.data[0].data()[i] = static_cast<std::byte>(i * 37 % 113);  // no NaN in any dtype
  }
  return run;
}

ndt_tensor_type laid(ndt_tensor_type t, Start start) {
  if (start == Start::kBlocked) make_blocked(t, channel_block());
  if (start == Start::kLast) make_last(t);
  return t;
}

TEST(OnednnReorder, MovesEveryDtypeBetweenEveryTwoLayouts) {
  if (!onednn()) return;
  for (const Shape& shape : {Shape{3, 32, 5, 7}, Shape{2, 3, 9, 4}, Shape{1, 40, 1, 1}}) {
    for (const DType t :
         {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8, DType::kI8}) {
      for (const Start from : kStarts) {
        for (const Start to : kStarts) {
          const NodeRun run = reorder_of(shape, t);
          Ports ports = plain_ports(run);
          ports.in[0] = laid(ports.in[0], from);
          ports.out[0] = laid(ports.out[0], to);
          const std::vector<Bytes> got = onednn()->run(run, ports);
          ASSERT_EQ(got.size(), 1u);
          EXPECT_TRUE(got[0] == run.data[0]) << name_of(t) << shape << ' ' << static_cast<int>(from)
                                             << " to " << static_cast<int>(to);
        }
      }
    }
  }
}

TEST(OnednnReorder, WritesIntoTheImagesOfALargerTensor) {
  if (!onednn()) return;
  const NodeRun run = reorder_of({3, 32, 4, 4}, DType::kF32);
  for (const Start to : {Start::kPlain, Start::kBlocked}) {
    Ports ports = plain_ports(run);
    ports.out[0] = laid(ports.out[0], to);
    ports.out[0].strides[0] *= 2;
    const std::vector<Bytes> got = onednn()->run(run, ports);
    ASSERT_EQ(got.size(), 1u);
    EXPECT_TRUE(got[0] == run.data[0]);
  }
}

// 1 by 1 as the library lays them out, 3 by 3 as Winograd transforms them.
class OnednnWeights : public ::testing::TestWithParam<int64_t> {};

TEST_P(OnednnWeights, AreOneCopyForKernelsOfDifferentBatch) {
  if (!onednn()) return;
  const Batched c = {"Shared", "Conv", {{1, 32, 9, 9}, {32, 32, GetParam(), GetParam()}}};
  NodeRun one = frozen(c, 0, 1), many = frozen(c, 0, 4);
  one.first_id = many.first_id = 77;
  const auto ports = onednn()->prefer(one, ports_from(one, Start::kBlocked));
  ASSERT_TRUE(ports.has_value());
  const std::vector<Bytes> want =
      onednn()->run(many, *onednn()->prefer(many, ports_from(many, Start::kBlocked)));
  std::memset(many.data[1].data(), 0, many.data[1].size());
  const std::vector<Bytes> alone =
      onednn()->run(many, *onednn()->prefer(many, ports_from(many, Start::kBlocked)));
  EXPECT_FALSE(alone.at(0) == want.at(0)) << "weights outlive the kernels that use them";
  const Plugin::Held held = onednn()->hold(one, *ports);
  const std::vector<Bytes> shared =
      onednn()->run(many, *onednn()->prefer(many, ports_from(many, Start::kBlocked)));
  EXPECT_TRUE(shared.at(0) == want.at(0)) << "a second copy was packed";
}

INSTANTIATE_TEST_SUITE_P(Kernels, OnednnWeights, ::testing::Values(1, 3),
                         [](const auto& side) { return "Of" + std::to_string(side.param); });

}  // namespace
}  // namespace ndtrain
