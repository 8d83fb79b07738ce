// Sliding windows over the spatial dims of [N, C, spatial…]: what convolutions and pools share.
#pragma once

#include <vector>

#include "framework/graph/op.h"

namespace ndtrain {

// One value per spatial dim.
struct Window {
  Ints in, kernel, out;               // extents
  Ints stride, dilation, begin, end;  // begin, end: padding before and after

  int rank() const { return static_cast<int>(in.size()); }
  int64_t in_count() const { return product(in); }
  int64_t taps() const { return product(kernel); }
  int64_t out_count() const { return product(out); }
  // What the kernel covers of dim d, gaps included.
  int64_t span(int d) const { return (kernel[d] - 1) * dilation[d] + 1; }

 private:
  static int64_t product(const Ints& v);
};

// The attributes auto_pad, dilations, kernel_shape, pads and strides, and `more`.
std::vector<AttrSpec> window_attrs(std::vector<AttrSpec> more = {});

// For OpDef::complete. Fills in strides, dilations and pads, resolves auto_pad to "NOTSET" and pads
// (which makes ceil_mode 0, as in ONNX), and sets kernel_shape to `kernel` when it is missing. `x`
// is the shape the window slides over. Throws Error when the attributes do not fit it.
void complete_window(Attrs& a, const Shape& x, const Ints& kernel = {});

// From complete attributes. Throws Error: lengths, values out of range (limits::kWindow), a kernel
// that does not fit the padded input.
Window window_of(const Attrs& a, const Shape& x);

// Dims 0 and 1, then `spatial`.
Shape shape_of_planes(int64_t n, int64_t channels, const Ints& spatial);

// All dims but 1: what a sum per channel is taken over.
Ints all_but_channels(const Shape& x);

// Calls f(output position, tap, input position), flat within one plane, for every tap that does not
// lie in the padding. For one output position the taps come in row-major order.
template <typename F>
void for_each_tap(const Window& w, const F& f, int d = 0, int64_t o = 0, int64_t k = 0,
                  int64_t i = 0) {
  if (d == w.rank()) return f(o, k, i);
  for (int64_t out = 0; out < w.out[d]; ++out) {
    for (int64_t tap = 0; tap < w.kernel[d]; ++tap) {
      const int64_t at = out * w.stride[d] + tap * w.dilation[d] - w.begin[d];
      if (at < 0 || at >= w.in[d]) continue;
      for_each_tap(w, f, d + 1, o * w.out[d] + out, k * w.kernel[d] + tap, i * w.in[d] + at);
    }
  }
}

}  // namespace ndtrain
