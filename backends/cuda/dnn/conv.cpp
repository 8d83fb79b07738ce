// Conv and FusedConv: products, residual, bias and clamp as one cuDNN graph; where it has no
// engine for that, the products alone and one kernel of our own for the rest.
#include <cmath>

#include "backends/cuda/dnn/conv_kernel.h"
#include "backends/cuda/layout.h"
#include "backends/plugin/clamp.h"

namespace ndtrain::cuda {
namespace {

enum Input { kX, kW, kBias, kResidual };

struct Epilogue {
  double low = -INFINITY, high = INFINITY;
  const ndt_tensor_type* bias = nullptr;
  const ndt_tensor_type* residual = nullptr;

  bool clamps() const { return std::isfinite(low) || std::isfinite(high); }
  bool empty() const { return !bias && !residual && !clamps(); }
  // cuDNN has Relu with a clip above, of which a lower clip other than 0 is not asked.
  bool fits_relu() const { return !clamps() || low == 0; }
};

Epilogue epilogue_of(const Node& node) {
  Epilogue e;
  if (node.has(kBias)) e.bias = &node.in(kBias);
  if (node.has(kResidual)) e.residual = &node.in(kResidual);
  const std::string_view steps = node.has_attr("steps") ? node.s("steps") : "";
  const std::optional<plugin::Clamp> clamp = plugin::clamp_of(steps);
  if (!clamp) unsupported("no kernel for steps '", steps, "'");
  if (node.has_attr("pool_kernel_shape")) unsupported("a pool behind it");
  e.low = clamp->low;
  e.high = clamp->high;
  const ndt_dtype t = node.in(kX).dtype;
  if (e.bias && e.bias->dtype != t && (e.bias->dtype != NDT_F32 || t == NDT_F64)) {
    unsupported("its bias is ", plugin::name_of(e.bias->dtype));
  }
  if (e.residual && e.residual->dtype != t) unsupported("its residual is of another type");
  return e;
}

ndt_tensor_type bias_type(const AskedConv& a, const Epilogue& e, bool last) {
  ndt_tensor_type t = a.y;
  t.dtype = e.bias->dtype;
  for (int d = 0; d < t.rank; ++d) t.dims[d] = d == 1 ? a.y.dims[1] : 1;
  return laid(t, last);
}

// Bound: x, w, y, then the bias and the residual.
Graph fused_graph(const AskedConv& a, const Epilogue& e, bool last, int64_t images) {
  Graph g;
  const ndt_tensor_type y = laid(a.y, last, images);
  ndt_tensor_type wide = y;
  wide.dtype = a.compute();
  const Graph::Uid x_id = g.bound(laid(a.x, last, images)), w_id = g.bound(laid(a.w, last));
  const Graph::Uid y_id = g.bound(y);
  const Graph::Uid bias = e.bias ? g.bound(bias_type(a, e, last)) : Graph::kNone;
  int left = (e.residual != nullptr) + (e.bias != nullptr) + e.clamps();
  Graph::Uid value = g.between(wide);
  g.convolution(a.pass, a.window, a.compute(), x_id, w_id, value);
  const auto next = [&] { return --left == 0 ? y_id : g.between(wide); };
  const auto add = [&](Graph::Uid other) {
    const Graph::Uid sum = next();
    g.pointwise(CUDNN_POINTWISE_ADD, a.compute(), value, other, sum);
    value = sum;
  };
  if (e.residual) add(g.bound(y));
  if (e.bias) add(bias);
  if (e.clamps()) g.relu(a.compute(), value, next(), e.high);
  return g;
}

std::string key_of_fused(const AskedConv& a, const Epilogue& e, bool last, bool fused) {
  std::string key = key_of(a, last);
  if (!fused) return key;
  if (e.bias) key += text_of(" bias-", plugin::name_of(e.bias->dtype));
  if (e.residual) key += " residual";
  if (e.clamps()) key += std::isfinite(e.high) ? " relu-clipped" : " relu";
  return key;
}

Plan plan_of(ndt_device& device, const AskedConv& a, const Epilogue& e, bool last, bool fused) {
  const PlanningHandle::Lease lease(device);
  const Numerics allowed = numerics_of(device, a);
  Layer layer{.key = key_of_fused(a, e, last, fused),
              .graph =
                  [&](int64_t images) {
                    return fused ? fused_graph(a, e, last, images) : plain_graph(a, last, images);
                  },
              .images = a.x.dims[0],
              .allowed = allowed,
              .fallbacks = fused ? Fallbacks::kNot : Fallbacks::kAlso};
  if (a.x.dtype == NDT_F32 && allowed.tensor_cores) layer.key += " tf32";
  return choose(device, lease.handle(), layer);
}

ConvFinish::Type finish_type(ndt_dtype t) {
  return t == NDT_F16    ? ConvFinish::kF16
         : t == NDT_BF16 ? ConvFinish::kBF16
         : t == NDT_F64  ? ConvFinish::kF64
                         : ConvFinish::kF32;
}

Staged::After after_of(const AskedConv& a, const Epilogue& e, bool last) {
  Staged::After after{.y = 2};
  after.how = {.type = finish_type(a.y.dtype),
               .bias_type = finish_type(e.bias ? e.bias->dtype : a.y.dtype),
               .elements = count(a.y),
               .channels = a.y.dims[1],
               .inner = last ? 1 : count(a.y, 2),
               .low = e.low,
               .high = e.high};
  int port = after.y;
  if (e.bias) after.bias = ++port;
  if (e.residual) after.residual = ++port;
  return after;
}

std::unique_ptr<Kernel> conv_kernel(ndt_device& device, const Node& node, const AskedConv& a,
                                    const Epilogue& e, bool last, bool fused) {
  using Role = Staged::Port::Role;
  Plan plan = plan_of(device, a, e, last, fused);
  std::vector<Staged::Port> ports = {{Role::kInput, kX, a.x, laid(a.x, last)},
                                     weights_port(device, node, kW, a.w, last),
                                     {Role::kOutput, 0, a.y, laid(a.y, last)}};
  if (e.bias) ports.push_back({Role::kInput, kBias, *e.bias, *e.bias});
  if (e.residual) {
    ports.push_back({Role::kInput, kResidual, with_two_spatial_dims(*e.residual), laid(a.y, last)});
  }
  std::optional<Staged::After> after;
  if (!fused && !e.empty()) after = after_of(a, e, last);
  auto kernel = std::make_unique<Staged>(std::move(plan), std::move(ports), after);
  kernel->packed_inputs = packed_bits(node, kW);
  return kernel;
}

// cuDNN's engines for depthwise layers do their products only.
bool may_be_fused(const AskedConv& a) {
  return a.compute() == NDT_F32 && !(a.groups > 1 && a.w.dims[1] == 1);
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv(ndt_device& device, const Node& node) {
  const AskedConv a = ask_conv(ConvPass::kForward, node, node.in(kX), node.in(kW), node.out());
  const Epilogue e = epilogue_of(node);
  return first_layout(a, [&](bool last) {
    if (!e.empty() && e.fits_relu() && may_be_fused(a)) {
      try {
        return conv_kernel(device, node, a, e, last, true);
      } catch (const Unsupported&) {  // then in two steps
      }
    }
    return conv_kernel(device, node, a, e, last, false);
  });
}

void prefer_conv(const ndt_device&, const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const AskedConv a = ask_conv(ConvPass::kForward, node, node.in(kX), node.in(kW), node.out());
  epilogue_of(node);
  if (!layouts_to_try(a).front()) unsupported("cuDNN takes f64 row-major");
  in[kX] = channels_last(in[kX]);
  out[0] = channels_last(out[0]);
  if (node.has(kResidual) && !node.constant(kResidual)) {
    in[kResidual] = channels_last(in[kResidual]);
  }
}

}  // namespace ndtrain::cuda
