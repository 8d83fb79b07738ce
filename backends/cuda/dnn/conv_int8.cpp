// ConvInteger, QLinearConv and FusedQLinearConv: sums by cuDNN where it makes them, else by this
// plugin's own kernel.
#include "backends/cuda/dnn/conv_int8.h"

#include <algorithm>
#include <limits>

#include "backends/cuda/layout.h"
#include "backends/plugin/clamp.h"

namespace ndtrain::cuda {
namespace {

constexpr BytePorts kInteger{.x = 0, .x_zero = 2, .w = 1, .w_zero = 3};
constexpr BytePorts kLinear{.x = 0,
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

void read_limits(const Node& node, ByteConv& c) {
  const std::string_view steps = node.has_attr("steps") ? node.s("steps") : "";
  const std::optional<plugin::Clamp> clamp = plugin::clamp_of(steps);
  if (!clamp) unsupported("no kernel for steps '", steps, "'");
  c.low = static_cast<float>(clamp->low);
  c.high = static_cast<float>(clamp->high);
}

ByteConv read(const Node& node, const BytePorts& p) {
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
  read_limits(node, c);
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

BytePorts only_there(const Node& node, BytePorts p) {
  for (int* i : {&p.x_zero, &p.w_zero, &p.y_zero, &p.bias, &p.residual, &p.r_scale, &p.r_zero}) {
    if (!has(node, *i)) *i = -1;
  }
  return p;
}

std::unique_ptr<Kernel> byte_kernel(ndt_device& device, const Node& node, const BytePorts& p) {
  const ByteConv c = read(node, p);
  const BytePorts there = only_there(node, p);
  try {
    return sums_by_cudnn(device, node, c, there);
  } catch (const Unsupported&) {  // then by our own kernel
  }
  return kernel([c, there](ndt_stream& stream, const void* const* in, void* const* out, void*) {
    convolve_bytes(c, data_of(there, in, out), stream.stream);
  });
}

void prefer_bytes(const Node& node, const BytePorts& p, ndt_tensor_type* in, ndt_tensor_type* out) {
  (void)read(node, p);
  in[p.x] = channels_last(in[p.x]);
  out[0] = channels_last(out[0]);
  if (has(node, p.residual) && !node.constant(p.residual)) {
    in[p.residual] = channels_last(in[p.residual]);
  }
}

}  // namespace

ByteConvData data_of(const BytePorts& p, const void* const* in, void* const* out) {
  const auto bytes = [&](int i) { return i < 0 ? nullptr : in[i]; };
  const auto floats = [&](int i) { return static_cast<const float*>(bytes(i)); };
  return {.x = bytes(p.x),
          .w = bytes(p.w),
          .x_zero = bytes(p.x_zero),
          .w_zero = bytes(p.w_zero),
          .y_zero = bytes(p.y_zero),
          .x_scale = floats(p.x_scale),
          .w_scale = floats(p.w_scale),
          .y_scale = floats(p.y_scale),
          .r_scale = floats(p.r_scale),
          .bias = static_cast<const int32_t*>(bytes(p.bias)),
          .residual = bytes(p.residual),
          .r_zero = bytes(p.r_zero),
          .y = out[0]};
}

std::unique_ptr<Kernel> prepare_conv_integer(ndt_device& device, const Node& node) {
  return byte_kernel(device, node, kInteger);
}

std::unique_ptr<Kernel> prepare_qlinear_conv(ndt_device& device, const Node& node) {
  return byte_kernel(device, node, kLinear);
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
