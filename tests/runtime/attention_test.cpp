// FusedAttention and its gradient on every build of the cpu plugin, which no plan has to ask for:
// their examples, and larger cases that reach several blocks of keys and several tasks of a head.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "tests/runtime/kernel_cases.h"

namespace ndtrain {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// One node on every build: within what rounding explains, the same bytes for any threads.
void check_node(const OpDef& def, const std::string& what, const NodeRun& run, double allowed = 0) {
  const std::vector<std::vector<double>> want = reference_of(run);
  ASSERT_FALSE(Plugin::cpu_builds().empty()) << "no cpu plugin in $NDTRAIN_BACKEND_PATH";
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    plugin->set_threads(1);
    const std::vector<Bytes> got = plugin->run(run);
    compare(def, what, run, allowed, want, got);
    if (::testing::Test::HasFailure()) return;
    for (const int threads : {2, 5}) {
      plugin->set_threads(threads);
      const std::vector<Bytes> threaded = plugin->run(run);
      for (size_t k = 0; k < got.size(); ++k) {
        EXPECT_TRUE(threaded.at(k) == got[k]) << what << ": " << threads << " threads matter";
      }
    }
  }
}

bool is_attention(const OpDef& def, const Example&) {
  return def.name == "FusedAttention" || def.name == "FusedAttentionGrad";
}

class AttentionExample : public ::testing::TestWithParam<ExampleCase> {};

TEST_P(AttentionExample, MatchesTheReferenceWithAnyThreads) {
  const ExampleCase& c = GetParam();
  check_node(*c.def, describe(*c.def, c.index), node_of(build_example(*c.def, c.example())),
             c.example().tolerance);
}

INSTANTIATE_TEST_SUITE_P(Every, AttentionExample, ::testing::ValuesIn(example_cases(is_attention)),
                         [](const auto& c) { return name_of(c.param); });

struct Large {
  const char* name;
  int64_t images, heads, queries, keys, depth, width;
  int64_t heads_axis = 1;
  double scale = 1;
  Shape mask = {};  // rank 0: none

  Shape shape(int64_t rows, int64_t n) const {
    return heads_axis == 1 ? Shape{images, heads, rows, n} : Shape{images, rows, heads, n};
  }
  Attrs attrs() const { return {{"scale", scale}, {"heads_axis", heads_axis}}; }
};

std::vector<Large> large_attentions() {
  return {
      {"OneBlock", 2, 3, 197, 197, 64, 64, 2, 0.125},
      {"SeveralBlocks", 1, 2, 70, 600, 20, 36, 1, 0.3},
      {"OneHeadInManyTasks", 1, 1, 300, 300, 32, 32, 1, 2.0},
      {"OneQuery", 2, 2, 1, 530, 48, 16, 2, 0.2},
      {"OddSizes", 1, 3, 33, 41, 7, 5, 2, 1},
      {"MaskOfQueries", 2, 2, 65, 290, 16, 16, 1, 0.5, {2, 1, 65, 290}},
      {"MaskOfKeys", 2, 2, 40, 40, 16, 16, 2, 0.5, {2, 1, 1, 40}},
      {"MaskOfWindows", 6, 3, 49, 49, 32, 32, 2, 0.5, {2, 3, 49, 49}},
  };
}

std::vector<double> numbers(const Large& c, const char* what, const Shape& shape) {
  return example_values(ExampleInput(shape), std::string(c.name) + what);
}

// A node of these inputs in f32.
NodeRun node_with(const char* op, const Attrs& attrs, const std::vector<Shape>& shapes,
                  const std::vector<std::vector<double>>& values, int outputs) {
  Graph g;
  NodeRun run{.op = op};
  std::vector<ValueId> in;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const TensorType type{DType::kF32, shapes[i]};
    in.push_back(g.add_input("x" + std::to_string(i), type));
    run.in.push_back(type);
    run.constant.push_back(false);
    run.data.emplace_back(type.bytes());
    store(values[i].data(), values[i].size(), DType::kF32, run.data.back().data());
  }
  for (const ValueId y : g.add(op, in, attrs, outputs)) run.out.push_back(g.type(y));
  run.attrs = g.nodes()[0].attrs;
  return run;
}

NodeRun forward(const Large& c, const std::vector<double>& mask = {}, int outputs = 2) {
  std::vector<Shape> shapes = {c.shape(c.queries, c.depth), c.shape(c.keys, c.depth),
                               c.shape(c.keys, c.width)};
  std::vector<std::vector<double>> values = {numbers(c, "q", shapes[0]), numbers(c, "k", shapes[1]),
                                             numbers(c, "v", shapes[2])};
  if (c.mask.rank() > 0) {
    shapes.push_back(c.mask);
    values.push_back(mask.empty() ? numbers(c, "mask", c.mask) : mask);
  }
  return node_with("FusedAttention", c.attrs(), shapes, values, outputs);
}

NodeRun backward(const Large& c) {
  const NodeRun f = forward(c);
  const std::vector<std::vector<double>> y = reference_of(f);
  std::vector<Shape> shapes = {f.out[0].shape, f.in[0].shape,  f.in[1].shape,
                               f.in[2].shape,  f.out[0].shape, f.out[1].shape};
  std::vector<std::vector<double>> values = {numbers(c, "dy", shapes[0]),
                                             numbers(c, "q", shapes[1]),
                                             numbers(c, "k", shapes[2]),
                                             numbers(c, "v", shapes[3]),
                                             y[0],
                                             y[1]};
  if (c.mask.rank() > 0) {
    shapes.push_back(c.mask);
    values.push_back(numbers(c, "mask", c.mask));
  }
  return node_with("FusedAttentionGrad", c.attrs(), shapes, values, 3);
}

class LargeAttention : public ::testing::TestWithParam<Large> {};

TEST_P(LargeAttention, MatchesTheReferenceWithAnyThreads) {
  check_node(find_op("FusedAttention"), GetParam().name, forward(GetParam()), 1e-5);
}

TEST_P(LargeAttention, SoDoesItsGradient) {
  check_node(find_op("FusedAttentionGrad"), GetParam().name, backward(GetParam()), 2e-5);
}

INSTANTIATE_TEST_SUITE_P(Cases, LargeAttention, ::testing::ValuesIn(large_attentions()),
                         [](const auto& c) { return std::string(c.param.name); });

// The first block of keys is masked for some queries, all keys are for one.
TEST(MaskedAttention, ABlockMayBeMaskedAndARowWithoutKeysIsNoNumber) {
  const Large c{"Masked", 1, 1, 40, 520, 8, 8, 1, 1, {40, 520}};
  std::vector<double> mask(size_t{40} * 520, 0);
  for (size_t s = 0; s < 40; ++s) {
    const size_t masked = s == 7 ? 520 : s % 2 ? 300 : 0;
    std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(s * 520), masked, kMasked);
  }
  // The logarithm of no sum is another matter.
  const NodeRun run = forward(c, mask, 1);
  EXPECT_TRUE(std::isnan(reference_of(run)[0][size_t{7} * 8]));
  check_node(find_op("FusedAttention"), c.name, run, 1e-5);
}

// Queries, keys and values in one value: the bytes that they have apart, forward and backward.
TEST(PackedAttention, HasTheBytesOfThePartsApart) {
  const Large c{"Packed", 2, 3, 70, 70, 20, 20, 2, 0.5};
  const NodeRun apart = forward(c);
  const auto packed_of = [&](const std::vector<const std::byte*>& parts) {
    Bytes all(static_cast<size_t>(3 * c.shape(c.queries, c.depth).count()) * sizeof(float));
    const size_t row = static_cast<size_t>(c.heads * c.depth) * sizeof(float);
    for (size_t r = 0; r < static_cast<size_t>(c.images * c.queries); ++r) {
      for (size_t p = 0; p < 3; ++p) {
        std::memcpy(all.data() + (3 * r + p) * row, parts[p] + r * row, row);
      }
    }
    return all;
  };
  const Shape of{c.images, c.queries, 3 * c.heads, c.depth};
  const auto pack = [&](NodeRun& run, size_t q, const NodeRun& from) {
    run.in[q].shape = of;
    run.in[q + 1] = run.in[q + 2] = {DType::kNone, {}};
    run.data[q] =
        packed_of({from.data[q].data(), from.data[q + 1].data(), from.data[q + 2].data()});
    run.attrs.set("packed", int64_t{1});
  };
  NodeRun packed = forward(c);
  pack(packed, 0, apart);
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    plugin->set_threads(2);
    const std::vector<Bytes> want = plugin->run(apart), got = plugin->run(packed);
    ASSERT_EQ(got.size(), 2U);
    for (size_t k = 0; k < 2; ++k) EXPECT_TRUE(got[k] == want[k]) << "output " << k;
  }
  NodeRun slopes_apart = backward(c), slopes = backward(c);
  pack(slopes, 1, slopes_apart);
  slopes.out = {{DType::kF32, of}};
  for (const auto& plugin : Plugin::cpu_builds()) {
    SCOPED_TRACE(plugin->path());
    const std::vector<Bytes> want = plugin->run(slopes_apart), got = plugin->run(slopes);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_TRUE(got[0] == packed_of({want[0].data(), want[1].data(), want[2].data()}));
  }
}

// Of an image in a batch, and of heads in an image.
TEST(AttentionBatch, AnImageAloneHasTheBitsItHasInABatch) {
  for (Large c : large_attentions()) {
    if (c.images < 2) continue;
    const NodeRun all = forward(c);
    const int64_t images = std::exchange(c.images, 1);
    if (c.mask.rank() > 0) c.mask = c.mask.with(0, 1);
    for (const auto& plugin : Plugin::cpu_builds()) {
      plugin->set_threads(3);
      const std::vector<Bytes> together = plugin->run(all);
      plugin->set_threads(1);
      for (int64_t i = 0; i < images; ++i) {
        NodeRun one = forward(c);
        for (size_t k = 0; k < one.data.size(); ++k) {
          const size_t size = one.data[k].size();
          const int64_t at = i % all.in[k].shape[0];
          one.data[k] = Bytes(size, all.data[k].data() + static_cast<size_t>(at) * size);
        }
        const std::vector<Bytes> alone = plugin->run(one);
        for (size_t k = 0; k < alone.size(); ++k) {
          const size_t size = alone[k].size();
          EXPECT_TRUE(Bytes(size, together[k].data() + static_cast<size_t>(i) * size) == alone[k])
              << c.name << ", image " << i << ", output " << k << ": " << plugin->path();
        }
      }
    }
  }
}

}  // namespace
}  // namespace ndtrain
