// BatchNormalization with running statistics, f32 (bf16: batch_norm.cpp), blocked or channels-last:
// there to keep the layout that convolutions give. What no convolution in front could take up is a
// factor and an offset for each channel; they are computed at every run, as the statistics may be
// bound.
#include <array>
#include <cmath>

#include "backends/onednn/ops.h"

namespace ndtrain::onednn {
namespace {

constexpr int kScale = 1, kBias = 2, kMean = 3, kVar = 4;

// y = factor * x + offset in rows of W lanes.
template <int W>
void rows_of(const float* x, float* y, int64_t rows, const float* factors, const float* offsets) {
  std::array<float, W> factor, offset, row;  // in registers: y might lie over the others
  std::copy_n(factors, W, factor.begin());
  std::copy_n(offsets, W, offset.begin());
  for (int64_t r = 0; r < rows; ++r, x += W, y += W) {
    for (int l = 0; l < W; ++l) row[l] = factor[l] * x[l] + offset[l];
    std::copy_n(row.begin(), W, y);
  }
}

// The same in rows of any width.
void wide_rows(const float* x, float* y, int64_t rows, int64_t width, const float* factors,
               const float* offsets) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
#pragma GCC ivdep  // x and y are equal or apart
    for (int64_t l = 0; l < width; ++l) y[l] = factors[l] * x[l] + offsets[l];
  }
}

class ChannelAffine final : public Kernel {
 public:
  ChannelAffine(const Node& node, Layout layout)
      : images_(node.in(0).dims[0]),
        channels_(node.in(0).dims[1]),
        plane_(node.in(0).dims[2] * node.in(0).dims[3]),
        epsilon_(static_cast<float>(node.f("epsilon"))),
        blocked_(layout == Layout::kBlocked) {
    in_place_inputs = 1;
    workspace_bytes = static_cast<size_t>(2 * lanes()) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    auto* factor = static_cast<float*>(workspace);
    float* offset = factor + lanes();
    prepare(in, factor, offset);
    const auto* x = static_cast<const float*>(in[0]);
    auto* y = static_cast<float*>(out[0]);
    const int64_t b = blocked_ ? block() : channels_, parts = lanes() / b;
    parallel_tasks(images_ * parts, threads(), [&](int64_t task, int) {
      const int64_t at = task * plane_ * b, channel = task % parts * b;
      if (blocked_ && b == 16) {
        rows_of<16>(x + at, y + at, plane_, factor + channel, offset + channel);
      } else if (blocked_ && b == 8) {
        rows_of<8>(x + at, y + at, plane_, factor + channel, offset + channel);
      } else {
        wide_rows(x + at, y + at, plane_, b, factor, offset);
      }
    });
  }

 private:
  // Of all channels, padding included.
  int64_t lanes() const {
    return blocked_ ? (channels_ + block() - 1) / block() * block() : channels_;
  }

  void prepare(const void* const* in, float* factor, float* offset) const {
    const auto of = [&](int i, int64_t c) { return static_cast<const float*>(in[i])[c]; };
    for (int64_t c = 0; c < channels_; ++c) {
      factor[c] = of(kScale, c) / std::sqrt(of(kVar, c) + epsilon_);
      offset[c] = of(kBias, c) - of(kMean, c) * factor[c];
    }
    std::fill(factor + channels_, factor + lanes(), 0.0F);
    std::fill(offset + channels_, offset + lanes(), 0.0F);
  }

  int64_t images_, channels_, plane_;
  float epsilon_;
  bool blocked_;
};

// The layout of what it reads and writes.
Layout check(const Node& node) {
  for (int i = 0; i < node.inputs(); ++i) {
    if (node.in(i).dtype != NDT_F32) unsupported("it is not f32 throughout");
  }
  const ndt_tensor_type &x = node.in(0), &y = node.out();
  if (count(x) == 0) unsupported("it is empty");
  const Layout layout = layout_of(x, "input 0");
  if (layout == Layout::kPlain) unsupported("its input is plain");
  if (!lies(y, layout) || has_gaps(x, layout) || has_gaps(y, layout)) {
    unsupported("its input and output do not lie alike without gaps");
  }
  return layout;
}

}  // namespace

std::unique_ptr<Kernel> prepare_channel_affine(const ndt_device&, const Node& node) {
  return std::make_unique<ChannelAffine>(node, check(node));
}

void prefer_channel_affine(const Node& node, ndt_tensor_type* in, ndt_tensor_type* out) {
  const Layout layout = layout_of(in[0], "input 0");
  if (layout == Layout::kPlain) unsupported("its input is plain");
  set_layout(in[0], layout);
  set_layout(out[0], layout);
  const ndt_node wanted = node.with(in, out);
  check(Node(wanted));
}

}  // namespace ndtrain::onednn
