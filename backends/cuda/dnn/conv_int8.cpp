// ConvInteger, QLinearConv and FusedQLinearConv by this plugin's own kernel.
#include <algorithm>
#include <limits>

#include "backends/cuda/dnn/conv_bytes.h"
#include "backends/cuda/kernel.h"
#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

// Where an op has its ports; -1: nowhere.
struct Ports {
  int x = 0, x_scale = -1, x_zero = -1, w = 1, w_scale = -1, w_zero = -1, y_scale = -1, y_zero = -1;
  int bias = -1, residual = -1, r_scale = -1, r_zero = -1;
};
constexpr Ports kInteger{.x = 0, .x_zero = 2, .w = 1, .w_zero = 3};
constexpr Ports kLinear{.x = 0,
                        .x_scale = 1,
                        .x_zero = 2,
                        .w = 3,
                        .w_scale = 4,
                        .w_zero = 5,
                        .y_scale = 6,
                        .y_zero = 7,
                        .bias = 8,
                        .residual = 9,
                        .r_scale = 10,
                        .r_zero = 11};

bool has(const Node& node, int i) { return i >= 0 && node.has(i); }

bool is_signed(const ndt_tensor_type& t, const char* what) {
  if (t.dtype != NDT_I8 && t.dtype != NDT_U8) {
    unsupported("its ", what, " is ", plugin::name_of(t.dtype), ", not of bytes");
  }
  return t.dtype == NDT_I8;
}

void check_scale(const Node& node, int i) {
  if (i >= 0 && node.in(i).dtype != NDT_F32) {
    unsupported("its scale (input ", i, ") is ", plugin::name_of(node.in(i).dtype));
  }
}

// Image, channel, then three spatial dims, the first of them 1 where there are fewer.
void read_strides(const ndt_tensor_type& t, int64_t* strides, int64_t* dims) {
  strides[0] = t.strides[0];
  strides[1] = t.strides[1];
  const int missing = ByteConv::kSpatial - (t.rank - 2);
  for (int d = 2; d < t.rank; ++d) {
    strides[d + missing] = t.strides[d];
    dims[d - 2 + missing] = t.dims[d];
  }
}

void read_window(const Node& node, int rank, ByteConv& c) {
  const auto spatial = static_cast<size_t>(rank - 2);
  const auto strides = node.ints("strides"), dilations = node.ints("dilations"),
             pads = node.ints("pads");
  if (strides.size() != spatial || dilations.size() != spatial || pads.size() != 2 * spatial) {
    invalid("window attributes are not for ", spatial, " spatial dims");
  }
  const size_t missing = ByteConv::kSpatial - spatial;
  for (size_t d = 0; d < spatial; ++d) {
    c.stride[missing + d] = strides[d];
    c.dilation[missing + d] = dilations[d];
    c.begin[missing + d] = pads[d];
  }
}

void read_activation(const Node& node, ByteConv& c) {
  c.low = -std::numeric_limits<float>::infinity();
  c.high = std::numeric_limits<float>::infinity();
  const std::string_view activation = node.has_attr("activation") ? node.s("activation") : "";
  if (activation == "Relu") {
    c.low = 0;
  } else if (activation == "Clip") {
    c.low = static_cast<float>(node.f("clip_min"));
    c.high = static_cast<float>(node.f("clip_max"));
  } else if (!activation.empty()) {
    unsupported("activation ", activation, " is not Relu or Clip");
  }
}

ByteConv read(const Node& node, const Ports& p) {
  const ndt_tensor_type &x = node.in(p.x), &w = node.in(p.w), &y = node.out();
  if (x.rank < 3 || x.rank > 2 + ByteConv::kSpatial || w.rank != x.rank || y.rank != x.rank) {
    unsupported("its ranks are ", x.rank, ", ", w.rank, " and ", y.rank);
  }
  for (const ndt_tensor_type* t : {&x, &w, &y}) {
    if (!is_row_major(*t) && !is_channels_last(*t)) unsupported("its ports have gaps");
  }
  ByteConv c;
  c.x_signed = is_signed(x, "input");
  c.w_signed = is_signed(w, "weight");
  c.groups = node.i("group");
  c.images = x.dims[0];
  if (c.groups < 1 || w.dims[0] % c.groups || w.dims[1] * c.groups != x.dims[1]) {
    invalid("group ", c.groups, " does not suit ", plugin::describe(w));
  }
  c.in = w.dims[1];
  c.out = w.dims[0] / c.groups;
  read_strides(x, c.x_strides, c.x_dims);
  read_strides(w, c.w_strides, c.taps);
  read_strides(y, c.y_strides, c.y_dims);
  read_window(node, x.rank, c);
  read_activation(node, c);
  c.requantize = p.y_scale >= 0;
  if (c.requantize) {
    c.y_signed = is_signed(y, "output");
    for (const int scale : {p.x_scale, p.w_scale, p.y_scale}) check_scale(node, scale);
    c.w_scale_each = count(node.in(p.w_scale)) > 1;
  }
  c.w_zero_each = has(node, p.w_zero) && count(node.in(p.w_zero)) > 1;
  if (has(node, p.residual)) {
    c.r_signed = is_signed(node.in(p.residual), "residual");
    check_scale(node, p.r_scale);
    if (!is_row_major(node.in(p.residual)) && !is_channels_last(node.in(p.residual))) {
      unsupported("its residual has gaps");
    }
    int64_t dims[ByteConv::kSpatial] = {1, 1, 1};
    read_strides(node.in(p.residual), c.r_strides, dims);
    if (!std::equal(dims, dims + ByteConv::kSpatial, c.y_dims))
      invalid("its residual is not like y");
  }
  return c;
}

std::unique_ptr<Kernel> byte_kernel(const Node& node, const Ports& p) {
  const ByteConv c = read(node, p);
  Ports there = p;
  for (int* i : {&there.x_zero, &there.w_zero, &there.y_zero, &there.bias, &there.residual,
                 &there.r_scale, &there.r_zero}) {
    if (!has(node, *i)) *i = -1;
  }
  return kernel([c, there](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    const auto bytes = [&](int i) { return i < 0 ? nullptr : in[i]; };
    const auto floats = [&](int i) { return static_cast<const float*>(bytes(i)); };
    convolve_bytes(c,
                   {.x = bytes(there.x),
                    .w = bytes(there.w),
                    .x_zero = bytes(there.x_zero),
                    .w_zero = bytes(there.w_zero),
                    .y_zero = bytes(there.y_zero),
                    .x_scale = floats(there.x_scale),
                    .w_scale = floats(there.w_scale),
                    .y_scale = floats(there.y_scale),
                    .r_scale = floats(there.r_scale),
                    .bias = static_cast<const int32_t*>(bytes(there.bias)),
                    .residual = bytes(there.residual),
                    .r_zero = bytes(there.r_zero),
                    .y = out[0]},
                   stream.stream);
  });
}

void prefer_bytes(const Node& node, const Ports& p, ndt_tensor_type* in, ndt_tensor_type* out) {
  (void)read(node, p);
  in[p.x] = channels_last(in[p.x]);
  out[0] = channels_last(out[0]);
  if (has(node, p.residual) && !node.constant(p.residual)) {
    in[p.residual] = channels_last(in[p.residual]);
  }
}

}  // namespace

std::unique_ptr<Kernel> prepare_conv_integer(ndt_device&, const Node& node) {
  return byte_kernel(node, kInteger);
}

std::unique_ptr<Kernel> prepare_qlinear_conv(ndt_device&, const Node& node) {
  return byte_kernel(node, kLinear);
}

void prefer_conv_integer(const ndt_device&, const Node& node, ndt_tensor_type* in,
                         ndt_tensor_type* out) {
  prefer_bytes(node, kInteger, in, out);
}

void prefer_qlinear_conv(const ndt_device&, const Node& node, ndt_tensor_type* in,
                         ndt_tensor_type* out) {
  prefer_bytes(node, kLinear, in, out);
}

}  // namespace ndtrain::cuda
