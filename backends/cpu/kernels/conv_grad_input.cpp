// ConvGradInput: dx[n,c,i] = sum of dy[n,m,o] * w[m,c,t] over all (m, o, t) that read x[n,c,i].
//
// With stride 1 that is a convolution of dy with the flipped, transposed weights. With other
// strides the products w^T dy are made first, per tap, and then added up where they belong
// (col2im).
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/conv_plain.h"
#include "backends/cpu/kernels/conv_product.h"
#include "backends/cpu/kernels/plain_loops.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kRows = 288;     // (channel, tap) pairs of a task, about
constexpr int64_t kColumns = 320;  // outputs of a block

ConvGeometry transposed(const ConvGeometry& g) {
  ConvGeometry t = g;
  std::swap(t.in_channels, t.out_channels);
  std::swap(t.in, t.out);
  t.out_image_step = t.all_out() * t.out_plane();
  for (size_t d = 0; d < 3; ++d) t.begin[d] = g.dilation[d] * (g.kernel[d] - 1) - g.begin[d];
  return t;
}

class Unstrided final : public Kernel {
 public:
  Unstrided(const ConvGeometry& g, bool less_memory)
      : g_(g), conv_(conv_product(transposed(g), threads(), less_memory)) {
    flipped_ = static_cast<size_t>(g.all_out() * g.terms());
    workspace_bytes = (conv_->scratch_floats() + conv_->packed_floats() + flipped_) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    float* const scratch = as<float>(workspace);
    float* const packed = scratch + conv_->scratch_floats();
    float* const flipped = packed + conv_->packed_floats();
    const float* w = as<float>(in[1]);
    const int64_t taps = g_.taps(), pairs = g_.all_out() * g_.in_channels;
    // [group, m, c, t] to [group, c, m, flipped t]: rows of the packing are the input channels.
    parallel_for(pairs, kGrain / taps + 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const int64_t c = p % g_.in_channels, m = p / g_.in_channels % g_.out_channels;
        const int64_t group = p / g_.in_channels / g_.out_channels;
        float* to = flipped + ((group * g_.in_channels + c) * g_.out_channels + m) * taps;
        std::reverse_copy(w + p * taps, w + (p + 1) * taps, to);
      }
    });
    conv_->pack(flipped, packed);
    conv_->run(packed, as<float>(in[0]), as<float>(out[0]), {}, scratch);
  }

 private:
  ConvGeometry g_;
  std::unique_ptr<ConvProduct> conv_;
  size_t flipped_;
};

class Strided final : public Kernel {
 public:
  explicit Strided(const ConvGeometry& g)
      : g_(g),
        chunk_(std::clamp<int64_t>(kRows / g.taps(), 1, std::max<int64_t>(1, g.in_channels))),
        chunks_((g.in_channels + chunk_ - 1) / chunk_),
        rows_(chunk_ * g.taps()),
        cols_(std::min(kColumns, col_panels(g.out_plane()) * kTileCols)),
        slots_(threads()) {
    const int64_t packed_rows = rows_ * g.out_channels;
    per_slot_ = packed_rows + cols_ * g.out_channels + rows_ * cols_;
    workspace_bytes = static_cast<size_t>(slots_ * per_slot_) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    parallel_tasks(g_.images * g_.groups * chunks_, slots_, [&](int64_t task, int slot) {
      run_task(task, as<float>(in[0]), as<float>(in[1]), as<float>(out[0]),
               as<float>(workspace) + slot * per_slot_);
    });
  }

 private:
  // A task: some channels of one image, which nobody else writes.
  void run_task(int64_t task, const float* dy, const float* w, float* dx, float* scratch) const {
    const int64_t c0 = task % chunks_ * chunk_, c1 = std::min(g_.in_channels, c0 + chunk_);
    const int64_t group = task / chunks_ % g_.groups, image = task / chunks_ / g_.groups;
    const int64_t plane = g_.out_plane(), m0 = group * g_.out_channels;
    dy += (image * g_.all_out() + m0) * plane;
    dx += (image * g_.all_in() + group * g_.in_channels + c0) * g_.in_plane();
    std::fill(dx, dx + (c1 - c0) * g_.in_plane(), 0.0f);
    const RowPanels rows((c1 - c0) * g_.taps());
    float* const b = scratch + rows_ * g_.out_channels;
    float* const products = b + cols_ * g_.out_channels;
    pack_rows(w + m0 * g_.terms() + c0 * g_.taps(), 1, g_.terms(), g_.out_channels, rows, 0,
              rows.count(), scratch);
    for (int64_t o = 0; o < plane; o += cols_) {
      const int64_t n = std::min(cols_, plane - o), k = g_.out_channels;
      pack_cols(dy + o, plane, 1, k, n, 0, col_panels(n), b);
      const GemmBlock block{rows, 0, rows.count(), 0, n, nullptr};
      multiply(block, {scratch, k, 0, k, b, k * kTileCols, true, true}, {products, n, 0, n}, {});
      for (int64_t r = 0; r < rows.rows(); ++r) {
        add_tap(products + r * n, o, n, r % g_.taps(), dx + r / g_.taps() * g_.in_plane());
      }
    }
  }

  // Outputs [o, o + n) of tap t onto one channel of dx.
  void add_tap(const float* products, int64_t o, int64_t n, int64_t t, float* dx) const {
    const int64_t dy = t / g_.kernel[2] * g_.dilation[1] - g_.begin[1];
    const int64_t dx0 = t % g_.kernel[2] * g_.dilation[2] - g_.begin[2];
    for (int64_t done = 0; done < n;) {
      const int64_t row = (o + done) / g_.out[2], first = (o + done) % g_.out[2];
      const int64_t length = std::min(n - done, g_.out[2] - first);
      const int64_t y = row * g_.stride[1] + dy;
      for (int64_t i = 0; y >= 0 && y < g_.in[1] && i < length; ++i) {
        const int64_t x = (first + i) * g_.stride[2] + dx0;
        if (x >= 0 && x < g_.in[2]) dx[y * g_.in[2] + x] += products[done + i];
      }
      done += length;
    }
  }

  ConvGeometry g_;
  int64_t chunk_, chunks_;  // channels of a task, tasks per group
  int64_t rows_, cols_;
  int slots_;
  int64_t per_slot_ = 0;
};

template <typename T>
std::unique_ptr<Kernel> plain_gradient(const ConvGeometry& g) {
  return kernel([g](const void* const* in, void* const* out, void*) {
    conv_plain_grad_input<T>(g, as<T>(in[0]), as<T>(in[1]), as<T>(out[0]));
  });
}

std::unique_ptr<Kernel> make_conv_grad_input(const Node& node) {
  if (is_half(node.in(0).dtype)) return by_way_of_f32(node, make_conv_grad_input);
  const ConvGeometry g = conv_geometry(node, node.out(), node.in(1), node.in(0));
  if (node.in(0).dtype != node.in(1).dtype) unsupported("mixed dtypes");
  if (node.in(0).dtype == NDT_F64) {
    say_plain_loops(node);
    return plain_gradient<double>(g);
  }
  if (node.in(0).dtype != NDT_F32) unsupported("no such dtype");
  if (!g.flat()) return plain_gradient<float>(g);
  if (g.stride[1] == 1 && g.stride[2] == 1)
    return std::make_unique<Unstrided>(g, node.less_memory());
  return std::make_unique<Strided>(g);
}

const Registered registered{{"ConvGradInput", make_conv_grad_input}};

}  // namespace
}  // namespace ndtrain::cpu
