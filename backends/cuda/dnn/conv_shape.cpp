#include "backends/cuda/dnn/conv_shape.h"

#include "backends/cuda/layout.h"

namespace ndtrain::cuda {
namespace {

using plugin::text_of;
using plugin::unsupported;

std::vector<int64_t> two_of(std::span<const int64_t> values, size_t spatial, int64_t single) {
  if (values.size() != spatial) {
    plugin::invalid("window attributes are not for ", spatial, " spatial dims");
  }
  std::vector<int64_t> v(values.begin(), values.end());
  if (spatial == 1) v.insert(v.begin(), single);
  return v;
}

void check_lies(const ndt_tensor_type& t) {
  if (is_row_major(t) || is_channels_last(t)) return;
  unsupported(plugin::describe(t), " lies neither row-major nor channels-last");
}

void append_spatial(std::string& s, const ndt_tensor_type& t) {
  for (int d = 2; d < t.rank; ++d) s += (d > 2 ? "x" : "") + std::to_string(t.dims[d]);
}

void append(std::string& s, const char* what, const std::vector<int64_t>& values) {
  s += ' ';
  s += what;
  for (const int64_t v : values) s += (s.back() == *what ? "" : ",") + std::to_string(v);
}

}  // namespace

ndt_tensor_type with_two_spatial_dims(const ndt_tensor_type& t) {
  if (t.rank != 3) return t;
  ndt_tensor_type wide = t;
  wide.rank = 4;
  wide.dims[3] = t.dims[2];
  wide.strides[3] = t.strides[2];
  wide.dims[2] = 1;
  wide.strides[2] = t.dims[2] * t.strides[2];
  return wide;
}

AskedConv ask_conv(ConvPass pass, const Node& node, const ndt_tensor_type& x,
                   const ndt_tensor_type& w, const ndt_tensor_type& y) {
  if (x.rank < 3 || x.rank > 5 || w.rank != x.rank || y.rank != x.rank) {
    unsupported("its ranks are ", x.rank, ", ", w.rank, " and ", y.rank);
  }
  for (const ndt_tensor_type* t : {&x, &w, &y}) {
    (void)data_type(t->dtype);
    check_lies(*t);
    if (plugin::count(*t) == 0) unsupported("it is empty");
  }
  if (w.dtype != x.dtype || y.dtype != x.dtype) unsupported("its types differ");
  const auto spatial = static_cast<size_t>(x.rank - 2);
  const auto pads = node.ints("pads");
  if (pads.size() != 2 * spatial) plugin::invalid(pads.size(), " pads");
  AskedConv a{.pass = pass, .groups = node.i("group")};
  a.window = {.strides = two_of(node.ints("strides"), spatial, 1),
              .dilations = two_of(node.ints("dilations"), spatial, 1),
              .begin = two_of(pads.first(spatial), spatial, 0),
              .end = two_of(pads.last(spatial), spatial, 0)};
  a.x = with_two_spatial_dims(x);
  a.w = with_two_spatial_dims(w);
  a.y = with_two_spatial_dims(y);
  if (a.groups < 1 || w.dims[0] % a.groups || w.dims[1] * a.groups != x.dims[1]) {
    plugin::invalid("group ", a.groups, " does not suit ", plugin::describe(w));
  }
  return a;
}

std::vector<bool> layouts_to_try(const AskedConv& a) {
  if (a.x.dtype == NDT_F64) return {false};
  return {true, false};
}

ndt_tensor_type laid(const ndt_tensor_type& t, bool last) {
  return last ? channels_last(t) : row_major(t);
}

ndt_tensor_type laid(const ndt_tensor_type& t, bool last, int64_t images) {
  ndt_tensor_type other = t;
  other.dims[0] = images;
  return laid(other, last);
}

Graph plain_graph(const AskedConv& a, bool last, int64_t images) {
  Graph g;
  const Graph::Uid x = g.bound(laid(a.x, last, images)), w = g.bound(laid(a.w, last));
  g.convolution(a.pass, a.window, a.compute(), x, w, g.bound(laid(a.y, last, images)));
  return g;
}

std::string key_of(const AskedConv& a, bool last) {
  std::string s = a.pass == ConvPass::kForward ? "conv "
                  : a.pass == ConvPass::kInput ? "conv-input "
                                               : "conv-weight ";
  s += plugin::name_of(a.x.dtype);
  s += text_of(' ', a.x.dims[1], '>', a.y.dims[1], ' ');
  append_spatial(s, a.x);
  s += '>';
  append_spatial(s, a.y);
  s += ' ';
  append_spatial(s, a.w);
  append(s, "g", {a.groups});
  append(s, "s", a.window.strides);
  append(s, "d", a.window.dilations);
  append(s, "p", a.window.begin);
  append(s, "q", a.window.end);
  return s + (last ? " channels-last" : " row-major");
}

}  // namespace ndtrain::cuda
