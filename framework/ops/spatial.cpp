#include "framework/ops/spatial.h"

#include <algorithm>

#include "framework/core/limits.h"

namespace ndtrain {
namespace {

void check(const Attrs& a, std::string_view name, size_t length, int64_t low) {
  const Ints& values = a.ints(name);
  if (values.size() != length) {
    throw Error(name, " has ", values.size(), " values, expected ", length);
  }
  for (int64_t v : values) {
    if (v < low || v > limits::kWindow) {
      throw Error(name, " has the value ", v, ", expected ", low, " to ", limits::kWindow);
    }
  }
}

int spatial_rank(const Shape& x) {
  if (x.rank() < 3) throw Error("input ", x, " has no spatial dims (expected [N, C, …])");
  for (int d = 2; d < x.rank(); ++d) {
    if (x[d] == 0) throw Error("input ", x, " has an empty spatial dim");
  }
  return x.rank() - 2;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

// SAME: as many outputs as strides fit into the input; the padding is split evenly, the odd cell
// goes to the end (UPPER) or the beginning (LOWER).
Ints same_pads(const Attrs& a, const Shape& x, bool upper) {
  const Ints& kernel = a.ints("kernel_shape");
  const Ints& stride = a.ints("strides");
  const Ints& dilation = a.ints("dilations");
  const size_t rank = kernel.size();
  Ints pads(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t in = x[static_cast<int>(d) + 2], out = (in - 1) / stride[d] + 1;
    const int64_t span = (kernel[d] - 1) * dilation[d] + 1;
    const int64_t pad = std::max<int64_t>(0, (out - 1) * stride[d] + span - in);
    pads[d] = upper ? pad / 2 : pad - pad / 2;
    pads[rank + d] = pad - pads[d];
  }
  return pads;
}

}  // namespace

int64_t Window::product(const Ints& v) {
  int64_t n = 1;
  for (int64_t x : v) n *= x;
  return n;
}

std::vector<AttrSpec> window_attrs(std::vector<AttrSpec> more) {
  std::vector<AttrSpec> specs = {{"auto_pad", AttrSpec::Kind::kString, Attr("NOTSET")},
                                 {"dilations", AttrSpec::Kind::kInts},
                                 {"kernel_shape", AttrSpec::Kind::kInts},
                                 {"pads", AttrSpec::Kind::kInts},
                                 {"strides", AttrSpec::Kind::kInts}};
  specs.insert(specs.end(), more.begin(), more.end());
  return specs;
}

void complete_window(Attrs& a, const Shape& x, const Ints& kernel) {
  const size_t rank = static_cast<size_t>(spatial_rank(x));
  if (!a.has("kernel_shape")) {
    if (kernel.empty()) throw Error("kernel_shape is missing");
    a.set("kernel_shape", kernel);
  }
  if (!a.has("strides")) a.set("strides", Ints(rank, 1));
  if (!a.has("dilations")) a.set("dilations", Ints(rank, 1));
  check(a, "kernel_shape", rank, 1);
  check(a, "strides", rank, 1);
  check(a, "dilations", rank, 1);
  const std::string mode = a.has("auto_pad") ? a.s("auto_pad") : "NOTSET";
  if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    a.set("pads", same_pads(a, x, mode == "SAME_UPPER"));
  } else if (mode == "VALID") {
    a.set("pads", Ints(2 * rank, 0));
  } else if (mode != "NOTSET") {
    throw Error("auto_pad is '", mode, "', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  } else if (!a.has("pads")) {
    a.set("pads", Ints(2 * rank, 0));
  }
  if (mode != "NOTSET" && a.has("ceil_mode")) a.set("ceil_mode", int64_t{0});
  a.set("auto_pad", "NOTSET");
}

Window window_of(const Attrs& a, const Shape& x) {
  const int rank = spatial_rank(x);
  const size_t n = static_cast<size_t>(rank);
  check(a, "kernel_shape", n, 1);
  check(a, "strides", n, 1);
  check(a, "dilations", n, 1);
  check(a, "pads", 2 * n, 0);
  Window w;
  w.in.assign(x.dims().begin() + 2, x.dims().end());
  w.kernel = a.ints("kernel_shape");
  w.stride = a.ints("strides");
  w.dilation = a.ints("dilations");
  const Ints& pads = a.ints("pads");
  w.begin.assign(pads.begin(), pads.begin() + rank);
  w.end.assign(pads.begin() + rank, pads.end());
  Shape taps(w.kernel);  // refuses a product that overflows
  const bool ceil_mode = a.has("ceil_mode") && a.flag("ceil_mode");
  for (int d = 0; d < rank; ++d) {
    const int64_t padded = w.in[d] + w.begin[d] + w.end[d], room = padded - w.span(d);
    int64_t out = floor_div(room + (ceil_mode ? w.stride[d] - 1 : 0), w.stride[d]) + 1;
    if (out < 1) {
      throw Error("kernel of ", w.kernel[d], " with dilation ", w.dilation[d], " covers ",
                  w.span(d), " cells of spatial dim ", d, ", which has ", padded, " with padding");
    }
    if (ceil_mode && (out - 1) * w.stride[d] >= w.in[d] + w.begin[d]) --out;
    w.out.push_back(out);
  }
  return w;
}

Shape shape_of_planes(int64_t n, int64_t channels, const Ints& spatial) {
  Ints dims = {n, channels};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return Shape(std::move(dims));
}

Ints all_but_channels(const Shape& x) {
  Ints axes = {0};
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  return axes;
}

}  // namespace ndtrain
