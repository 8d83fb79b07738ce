// Conv and FusedConv, f32 and bf16: blocked in and out; few input channels are read plain.
#include "backends/onednn/conv_shape.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"
#include "backends/onednn/weights.h"

namespace ndtrain::onednn {
namespace {

constexpr int kBias = 2, kResidual = 3;
constexpr int64_t kMostImages = 4;  // in a slice: more was not faster

bool few_channels(const ConvShape& s) { return s.groups == 1 && s.in <= 3; }

std::optional<Activation> activation_of(const Node& node) {
  if (!node.has_attr("activation") || node.s("activation").empty()) return {};
  if (node.s("activation") == "Relu") return Activation{dnnl::algorithm::eltwise_relu};
  if (node.s("activation") == "Clip") {
    return Activation{dnnl::algorithm::eltwise_clip, static_cast<float>(node.f("clip_min")),
                      static_cast<float>(node.f("clip_max"))};
  }
  unsupported("activation ", node.s("activation"), " is not Relu or Clip");
}

// A blocked tensor of `images`, of `channels` that may reach into its padding lanes.
Desc blocked_desc(ndt_tensor_type t, int64_t channels, int64_t images) {
  t.dims[1] = channels;
  return desc_of(t, Layout::kBlocked, images);
}

// What the library is asked for; `images` and how the weights lie are left open.
struct Asked {
  ConvShape shape;
  Convolution how;
  ndt_tensor_type x, y;
  Layout from;

  PrimitivePtr make(int64_t images, const Desc& weights) const {
    Convolution c = how;
    c.src = from == Layout::kPlain
                ? desc_of(x, from, images)
                : blocked_desc(x, shape.groups / shape.merged * shape.wide_in, images);
    c.dst = desc_of(y, Layout::kBlocked, images);
    c.weights = weights;
    return convolution(c);
  }
  PrimitivePtr make(int64_t images) const {
    return make(images, any_desc(shape.as_asked(), x.dtype));
  }
};

Asked asked(const Node& node) {
  check_float(node);
  Asked a{.shape = conv_shape(node, node.in(1)),
          .x = node.in(0),
          .y = node.out(),
          .from = layout_of(node.in(0), "input 0")};
  if (layout_of(a.y, "output 0") != Layout::kBlocked) unsupported("its output is not blocked");
  if (a.from == Layout::kBlocked) {
    fill_blocks(a.shape);
  } else if (a.from != Layout::kPlain || !few_channels(a.shape)) {
    unsupported("its input is not blocked");
  }
  a.how = {.strides = a.shape.strides,
           .dilations = a.shape.dilations,
           .begin = a.shape.begin,
           .end = a.shape.end,
           .finish = {.sum = node.has(kResidual), .activation = activation_of(node)}};
  if (node.has(kBias)) a.how.bias = plain_desc({a.y.dims[1]}, node.in(kBias).dtype);
  if (node.has(kResidual) && !lies(node.in(kResidual), Layout::kBlocked)) {
    unsupported("its residual does not lie as its output");
  }
  return a;
}

// Where Winograd is faster, measured in slices of four on two processors with AVX-512: not with few
// channels, nor with few tiles, nor where the transformed images of a layer do not stay in cache.
bool worth_winograd(const Asked& a) {
  const ConvShape& s = a.shape;
  const int64_t height = a.y.dims[2], width = a.y.dims[3];
  if (a.x.dtype != NDT_F32 || !has_avx512() || s.groups > 1 || s.height != 3 || s.width != 3) {
    return false;
  }
  if (s.strides != Dims{1, 1} || s.dilations != Dims{0, 0}) return false;
  const int64_t channels = std::min(s.in, s.out);
  return channels >= (height * width > 60 * 60 ? 64 : 32) && std::min(height, width) >= 7;
}

// How the weights lie, and the sizes of a slice that go with it. The library's Winograd sums in an
// order that depends on the images at once, and so does the form of its weights: equal forms gave
// equal bits, others did not, in all of the layers tried.
struct Chosen {
  Desc weights;
  std::vector<int64_t> sizes;
};

std::vector<int64_t> sizes_for(const Asked& a, const Desc& weights) {
  std::vector<int64_t> sizes;
  for (int64_t images = 1; images <= kMostImages; ++images) {
    try {
      a.make(images, weights);
      sizes.push_back(images);
    } catch (const Unsupported&) {  // then without this size
    }
  }
  return sizes;
}

// Decides between the algorithms, by layer and never by batch.
Chosen choose(Asked& a) {
  if (worth_winograd(a)) {
    a.how.winograd = true;
    try {
      const Desc weights = a.make(2)->desc(DNNL_ARG_WEIGHTS);
      return {weights, sizes_for(a, weights)};
    } catch (const Unsupported&) {
      a.how.winograd = false;
    }
  }
  const Desc weights = a.make(1)->desc(DNNL_ARG_WEIGHTS);
  return {weights, sizes_for(a, weights)};
}

std::shared_ptr<const Packed> weights_of(const Node& node, const Asked& a, const Desc& wanted) {
  const void* data = node.need_constant(1, "weight");
  std::vector<std::byte> wide;
  return packed_weights(node.constant_id(1), plain_desc(a.shape.as_asked(), a.x.dtype), wanted,
                        [&]() -> const void* {
                          if (!a.shape.changed()) return data;
                          wide = a.shape.widened(data, static_cast<size_t>(size_of(a.x.dtype)));
                          return wide.data();
                        });
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv(const ndt_device&, const Node& node) {
  Asked a = asked(node);
  const Chosen chosen = choose(a);
  const auto weights = weights_of(node, a, chosen.weights);
  Sliced::Plan plan{.images = a.x.dims[0], .sizes = chosen.sizes};
  plan.make = [=](int64_t images) { return a.make(images, chosen.weights); };
  plan.ports.push_back(input_port(0, a.x, a.from));
  plan.ports.push_back({Sliced::Port::Role::kFixed, 1, 0, weights->data()});
  plan.keep.push_back(weights);
  if (node.has(kBias)) plan.ports.push_back({Sliced::Port::Role::kInput, kBias});
  set_output(plan, a.y, Layout::kBlocked);
  if (node.has(kResidual)) {
    plan.residual = kResidual;
    plan.residual_step = input_port(kResidual, node.in(kResidual), Layout::kBlocked).step;
  }
  auto kernel = std::make_unique<Sliced>(std::move(plan));
  kernel->packed_inputs = 1 << 1;
  if (node.has(kResidual)) kernel->in_place_inputs = 1 << kResidual;
  return kernel;
}

void prefer_conv(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  check_float(node);
  const bool few = few_channels(conv_shape(node, node.in(1)));
  node.need_constant(1, "weight");
  set_layout(in[0], few ? Layout::kPlain : Layout::kBlocked);
  set_layout(out[0], Layout::kBlocked);
  if (node.has(kResidual)) set_layout(in[kResidual], Layout::kBlocked);
  if (node.constant(kResidual)) unsupported("its residual is constant");
  const ndt_node wanted = node.with(in, out);
  asked(Node(wanted)).make(1);
}

}  // namespace ndtrain::onednn
