// The plugin's own graphs, built by its ops, against cuDNN itself for devices that are described to
// it: the fakes of the other tests know what we understand of cuDNN, this is what it does.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>

#include "backends/cuda/layout.h"
#include "backends/cuda/ops.h"
#include "tests/cuda/described_device.h"

namespace ndtrain::cuda {
namespace {

using described::Chip;
using ::testing::AnyOf;
using ::testing::Contains;

constexpr int64_t kImages = 32;

struct Layer2d {
  const char* name;
  int64_t channels, filters, size, window, stride, groups;

  int64_t pad() const { return window / 2; }
  int64_t out_size() const { return (size + 2 * pad() - window) / stride + 1; }
};

constexpr Layer2d kLayers[] = {{"3x3", 64, 64, 56, 3, 1, 1},
                               {"1x1", 256, 64, 56, 1, 1, 1},
                               {"1x1 stride 2", 256, 512, 56, 1, 2, 1},
                               {"7x7 stride 2", 3, 64, 224, 7, 2, 1},
                               {"3x3 of 32 groups", 128, 128, 56, 3, 1, 32},
                               {"3x3 depthwise", 96, 96, 56, 3, 1, 96}};

struct Finishing {
  const char* name;
  bool bias, residual;
  const char* steps;
  double high = 0;

  int64_t operations() const { return 1 + bias + residual + (*steps != 0); }
};

constexpr Finishing kFinishings[] = {{"plain", false, false, ""},
                                     {"bias", true, false, ""},
                                     {"bias relu", true, false, "Relu x0"},
                                     {"bias clip", true, false, "Clip x0 0 6", 6},
                                     {"residual bias relu", true, true, "Relu x0"}};

ndt_tensor_type row(ndt_dtype t, std::vector<int64_t> dims) {
  ndt_tensor_type type{.dtype = t, .rank = static_cast<int32_t>(dims.size())};
  std::copy(dims.begin(), dims.end(), type.dims);
  return row_major(type);
}

ndt_tensor_type image(ndt_dtype t, std::vector<int64_t> dims) {
  return channels_last(row(t, std::move(dims)));
}

struct Conv2d {
  Conv2d(ndt_dtype t, const Layer2d& l)
      : x(image(t, {kImages, l.channels, l.size, l.size})),
        w(image(t, {l.filters, l.channels / l.groups, l.window, l.window})),
        y(image(t, {kImages, l.filters, l.out_size(), l.out_size()})),
        strides(2, l.stride),
        pads(4, l.pad()),
        groups(l.groups),
        attrs{{"strides", 2, strides.data(), 0, nullptr},
              {"dilations", 2, ones.data(), 0, nullptr},
              {"pads", 4, pads.data(), 0, nullptr},
              {"group", 1, &groups, 0, nullptr}} {}
  Conv2d(const Conv2d&) = delete;
  Conv2d& operator=(const Conv2d&) = delete;

  ndt_tensor_type x, w, y;
  std::vector<int64_t> strides, ones{1, 1}, pads;
  int64_t groups;
  std::vector<ndt_attr> attrs;
};

class CudnnLibrary : public ::testing::TestWithParam<const Chip*> {
 protected:
  void SetUp() override {
    const std::string why = described::describe(*GetParam());
    if (!why.empty()) GTEST_SKIP() << why;
    device_.name = GetParam()->name;
    device_.architecture = GetParam()->architecture;
  }

  // Says what came of them all.
  void TearDown() override {
    std::cout << GetParam()->name << ": " << sum_.graphs << " graphs, " << sum_.suggested
              << " engines suggested, " << sum_.allowed << " of them allowed, " << sum_.plans
              << " plans made, " << sum_.unloaded << " that only miss the device\n";
  }

  std::vector<ndt_dtype> types() const {
    std::vector<ndt_dtype> types = {NDT_F16, NDT_F32};
    if (device_.architecture >= 80) types.push_back(NDT_BF16);
    return types;
  }

  // Empty, or why there is no kernel.
  template <typename F>
  std::string attempt(const F& prepare) {
    described::reset();
    std::string why;
    try {
      prepare();
    } catch (const Failure& e) {
      why = e.what();
    }
    const described::Answers& a = described::answers();
    sum_.graphs += a.graphs;
    sum_.suggested += a.suggested;
    sum_.allowed += a.allowed;
    sum_.plans += a.plans;
    sum_.unloaded += a.unloaded;
    return a.unloaded > 0 ? "" : why;
  }

  std::string prepare(const char* op, const std::vector<ndt_tensor_type>& in,
                      const ndt_tensor_type& out, const std::vector<ndt_attr>& attrs,
                      const std::vector<const void*>& constants = {}) {
    const std::vector<uint64_t> ids(constants.size(), 0);
    const ndt_node node{.op = op,
                        .inputs = in.data(),
                        .outputs = &out,
                        .attrs = attrs.data(),
                        .n_inputs = static_cast<int32_t>(in.size()),
                        .n_outputs = 1,
                        .n_attrs = static_cast<int32_t>(attrs.size()),
                        .constants = constants.empty() ? nullptr : constants.data(),
                        .constant_ids = ids.empty() ? nullptr : ids.data()};
    return attempt([&] { (void)find_op(op)->prepare(device_, Node(node)); });
  }

  std::string convolve(ndt_dtype t, const Layer2d& l, const Finishing& f) {
    Conv2d c(t, l);
    std::vector<ndt_tensor_type> in = {c.x, c.w, ndt_tensor_type{}, ndt_tensor_type{}};
    if (f.bias) in[2] = row(t, {l.filters});
    if (f.residual) in[3] = c.y;
    c.attrs.push_back({"steps", -2, nullptr, 0, f.steps});
    return prepare("FusedConv", in, c.y, c.attrs);
  }

  ndt_device device_;
  described::Answers sum_;
};

std::string name_of_chip(const ::testing::TestParamInfo<const Chip*>& chip) {
  return "Sm" + std::to_string(chip.param->architecture);
}

INSTANTIATE_TEST_SUITE_P(Chips, CudnnLibrary,
                         ::testing::Values(&described::kT4, &described::kA100, &described::kH100),
                         name_of_chip);

TEST_P(CudnnLibrary, HasEnginesForConvolutionsAndWhatIsFusedToThem) {
  for (const ndt_dtype t : types()) {
    for (const Layer2d& l : kLayers) {
      for (const Finishing& f : kFinishings) {
        SCOPED_TRACE(text_of(plugin::name_of(t), ' ', l.name, ' ', f.name));
        // Of these the library is only asked for the products: once with something to finish.
        const bool depthwise = l.groups == l.channels;
        if (depthwise && f.bias && !f.residual) continue;
        EXPECT_EQ(convolve(t, l, f), "");
        const int64_t whole = depthwise ? 1 : f.operations();
        // It fuses few clips: where it does not, it makes the products and the plugin the rest.
        const int64_t least = f.high > 0 ? 1 : whole;
        EXPECT_THAT(described::answers().operations, Contains(AnyOf(whole, least)));
      }
    }
  }
}

TEST_P(CudnnLibrary, HasEnginesForGradients) {
  for (const ndt_dtype t : types()) {
    for (const Layer2d& l : kLayers) {
      SCOPED_TRACE(text_of(plugin::name_of(t), ' ', l.name));
      const Conv2d c(t, l);
      EXPECT_EQ(prepare("ConvGradInput", {c.y, c.w}, c.x, c.attrs), "");
      EXPECT_EQ(prepare("ConvGradWeight", {c.x, c.y}, c.w, c.attrs), "");
    }
  }
}

TEST_P(CudnnLibrary, HasEnginesForAttentionFromArchitecture80On) {
  constexpr int64_t kHeads = 12, kTokens = 197, kDepth = 64;
  struct Case {
    ndt_dtype type;
    bool masked;
  };
  for (const Case& c : {Case{NDT_F16, false}, Case{NDT_F16, true}, Case{NDT_BF16, false}}) {
    SCOPED_TRACE(text_of(plugin::name_of(c.type), c.masked ? " masked" : ""));
    const ndt_tensor_type x = row(c.type, {kImages, kHeads, kTokens, kDepth});
    std::vector<ndt_tensor_type> in = {x, x, x};
    if (c.masked) in.push_back(row(c.type, {kTokens, kTokens}));
    const int64_t heads_axis = 1;
    const std::string why = prepare(
        "FusedAttention", in, x,
        {{"scale", -1, nullptr, 0.125, nullptr}, {"heads_axis", 1, &heads_axis, 0, nullptr}});
    EXPECT_EQ(why.empty(), device_.architecture >= 80) << why;
  }
}

TEST_P(CudnnLibrary, HasEnginesForSumsOfBytes) {
  for (const Layer2d& l : kLayers) {
    if (l.groups > 1 || l.channels % 4) continue;
    SCOPED_TRACE(l.name);
    const Conv2d c(NDT_I8, l);
    const std::vector<int8_t> w(static_cast<size_t>(l.filters * l.channels * l.window * l.window));
    ndt_tensor_type y = c.y;
    y.dtype = NDT_I32;
    EXPECT_EQ(
        prepare("ConvInteger", {c.x, row(NDT_I8, {l.filters, l.channels, l.window, l.window})}, y,
                c.attrs, {nullptr, w.data()}),
        "");
  }
}

// The description counts: the library knows what a chip lacks.
TEST_P(CudnnLibrary, HasEnginesForBf16FromArchitecture80On) {
  const std::string why = convolve(NDT_BF16, kLayers[0], kFinishings[0]);
  EXPECT_EQ(why.empty(), device_.architecture >= 80) << why;
}

}  // namespace
}  // namespace ndtrain::cuda
