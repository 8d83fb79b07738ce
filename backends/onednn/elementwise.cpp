// Functions of one element; Add, Mul and ReluGrad of equal shapes; Mul of maps by one factor for
// each; channels-last, Add and Mul of a constant for each channel: there to keep the layout that
// convolutions give. Plain f32 is left to the cpu plugin, but for functions that are several ops
// there.
#include <cmath>
#include <limits>
#include <map>

#include "backends/onednn/activation.h"
#include "backends/onednn/ops.h"
#include "backends/onednn/sliced.h"

namespace ndtrain::onednn {
namespace {

using Kind = dnnl::algorithm;

Activation clip_of(const Node& node) {
  constexpr float kMost = std::numeric_limits<float>::max();
  const Activation a{Kind::eltwise_clip, node.known_single(1, "lower limit", -kMost),
                     node.known_single(2, "upper limit", kMost)};
  if (!(a.alpha <= a.beta)) unsupported("its limits are ", a.alpha, " and ", a.beta);
  return a;
}

Activation function_of(const Node& node) {
  const auto attr = [&](const char* name) { return static_cast<float>(node.f(name)); };
  if (node.op() == "Clip") return clip_of(node);
  if (node.has_attr("steps")) return activation_of(node).value();
  if (node.op() == "LeakyRelu") return {Kind::eltwise_relu, attr("alpha")};
  if (node.op() == "Elu") return {Kind::eltwise_elu, attr("alpha")};
  if (node.op() == "Gelu") return gelu_of(node);
  static const std::map<std::string_view, Kind> others = {
      {"Relu", Kind::eltwise_relu},
      {"Sigmoid", Kind::eltwise_logistic},
      {"Tanh", Kind::eltwise_tanh},
      {"HardSwish", Kind::eltwise_hardswish},
      {"Add", Kind::binary_add},
      {"Mul", Kind::binary_mul},
      {"ReluGrad", Kind::eltwise_relu_use_dst_for_bwd},
  };
  return {others.at(node.op())};
}

bool binary(const Node& node) {
  return node.op() == "Add" || node.op() == "Mul" || node.op() == "ReluGrad";
}

// The input of a Mul that has one factor for each map of the other; -1: they are alike.
int factors_of(const Node& node) {
  if (node.op() != "Mul" || node.in(0).rank != 4 || node.in(1).rank != 4) return -1;
  for (const int k : {0, 1}) {
    const ndt_tensor_type &factor = node.in(k), &map = node.in(1 - k);
    const auto plane = [](const ndt_tensor_type& t) { return t.dims[2] * t.dims[3]; };
    const bool alike = factor.dims[0] == map.dims[0] && factor.dims[1] == map.dims[1];
    if (alike && plane(factor) == 1 && plane(map) > 1) return k;
  }
  return -1;
}

// The input of an Add or a Mul that is a constant for each channel of the other, an image; -1:
// there is none.
int channels_of(const Node& node) {
  if (node.op() != "Mul" && node.op() != "Add") return -1;
  for (const int k : {0, 1}) {
    const ndt_tensor_type &one = node.in(k), &map = node.in(1 - k);
    if (!node.constant(k) || map.rank != 4 || one.rank < 3 || one.rank > 4) continue;
    if (one.dims[one.rank - 3] == map.dims[1] && count(one) == map.dims[1]) return k;
  }
  return -1;
}

int maps_of(const Node& node) { return factors_of(node) == 0 || channels_of(node) == 0 ? 1 : 0; }

// Inputs that lie as the output does.
int alike_of(const Node& node) { return binary(node) && channels_of(node) < 0 ? 2 : 1; }

void check(const Node& node) {
  check_float(node);
  const ndt_tensor_type &x = node.in(maps_of(node)), &y = node.out();
  if (x.rank < 1 || count(x) == 0) unsupported("it is empty or a scalar");
  if (!binary(node)) return;
  const ndt_tensor_type& other = node.in(1 - maps_of(node));
  if (y.dtype != x.dtype || other.dtype != x.dtype) unsupported("its dtypes differ");
  if (channels_of(node) >= 0) {
    if (layout_of(x, "its images") != Layout::kLast) unsupported("it is not channels-last");
    return;
  }
  if (node.constant(0) || node.constant(1)) unsupported("it has a constant input");
  const bool alike = x.rank == other.rank && std::equal(x.dims, x.dims + x.rank, other.dims);
  if (!alike && factors_of(node) < 0) {
    unsupported("its inputs ", describe(x), " and ", describe(other), " differ in shape");
  }
}

Sliced::Plan plan_of(const Node& node) {
  check(node);
  const int maps = maps_of(node), other = 1 - maps;
  const ndt_tensor_type &x = node.in(maps), &y = node.out();
  const Layout layout = layout_of(x, "its images");
  const bool one_op = !node.has_attr("steps");
  if (one_op && layout == Layout::kPlain && x.dtype == NDT_F32) unsupported("it is plain f32");
  if (!lies(y, layout) || (alike_of(node) == 2 && !lies(node.in(other), layout))) {
    unsupported("its inputs and output do not lie alike");
  }
  const Activation f = function_of(node);
  Sliced::Plan plan{.images = x.dims[0]};
  if (factors_of(node) >= 0) plan.sizes = {1};  // as the library has it: they are all images'
  ndt_tensor_type second = binary(node) ? node.in(other) : x;
  const bool constant = channels_of(node) >= 0;
  if (constant) {
    second = x;
    second.dims[0] = second.dims[2] = second.dims[3] = 1;
    set_layout(second, layout);
  }
  plan.make = [=, two = binary(node)](int64_t images) {
    const Desc desc = desc_of(x, layout, images);
    if (f.kind == Kind::eltwise_relu_use_dst_for_bwd) return relu_back(desc);
    return two ? onednn::binary(f.kind, desc, desc_of(second, layout, constant ? 1 : images))
               : elementwise(f, desc);
  };
  plan.ports.push_back(input_port(maps, x, layout));
  if (binary(node)) plan.ports.push_back(input_port(other, second, layout));
  if (constant) plan.ports.back().step = 0;
  set_output(plan, y, layout);
  return plan;
}

}  // namespace

std::unique_ptr<Kernel> prepare_elementwise(const ndt_device&, const Node& node) {
  auto kernel = std::make_unique<Sliced>(plan_of(node));
  kernel->in_place_inputs = uint64_t{1} << maps_of(node);
  return kernel;
}

void prefer_elementwise(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  check(node);
  const int maps = maps_of(node);
  Layout layout = layout_of(in[maps], "its images");
  const bool second = alike_of(node) == 2 && factors_of(node) < 0;
  if (second && layout == Layout::kPlain) layout = layout_of(in[1 - maps], "its second images");
  set_layout(in[maps], layout);
  if (alike_of(node) == 2) set_layout(in[1 - maps], layout);
  set_layout(out[0], layout);
  const ndt_node wanted = node.with(in, out);
  plan_of(Node(wanted)).make(1);
}

}  // namespace ndtrain::onednn
