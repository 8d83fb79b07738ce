// ConvInteger, MatMulInteger: products of bytes summed in i32. QLinearMatMul: those sums times
// x_scale * w_scale / y_scale, rounded and saturated. Sums are made on the stack, a block of
// neighbouring outputs at a time, so that the innermost loop is over contiguous memory.
#include "backends/cpu/kernels/quantize.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kBlock = 256;

// Where a product finds its operands, and how a sum becomes an output.
struct Ports {
  int x, w;
  PerIndex x_zero, w_zero, x_scale, w_scale, y_scale, y_zero;
  bool linear;

  explicit Ports(const Node& node)
      : x(0),
        w(node.op().starts_with("QLinear") ? 3 : 1),
        x_zero(node, 2),
        w_zero(node, w == 3 ? 5 : 3),
        x_scale(node, w == 3 ? 1 : -1),
        w_scale(node, w == 3 ? 4 : -1),
        y_scale(node, w == 3 ? 6 : -1),
        y_zero(node, w == 3 ? 7 : -1),
        linear(w == 3) {}
};

template <typename Y>
void store_sums(const Ports& p, const void* const* in, const int32_t* sum, int64_t n, int64_t row,
                int64_t column, int64_t column_step, Y* y) {
  if constexpr (std::is_same_v<Y, int32_t>) {
    std::copy_n(sum, n, y);
  } else {
    const float x_scale = p.x_scale.scale(in, row), y_scale = p.y_scale.scale(in, 0);
    const int32_t zero = p.y_zero.zero(in, 0);
    for (int64_t i = 0; i < n; ++i) {
      const float factor = x_scale * p.w_scale.scale(in, column + i * column_step) / y_scale;
      y[i] = quantized<Y>(static_cast<float>(sum[i]) * factor, zero);
    }
  }
}

struct ConvGeometry {
  int64_t images, groups, in_channels, out_channels, h, w, kh, kw, oh, ow;  // channels per group
  int64_t stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1, pad_h = 0, pad_w = 0;

  ConvGeometry(const Node& node, const Ports& p) {
    const ndt_tensor_type &x = node.in(p.x), &k = node.in(p.w), &y = node.out();
    const int spatial = x.rank - 2;
    if (spatial < 1 || spatial > 2) unsupported("convolves along ", spatial, " dims");
    groups = node.i("group");
    if (groups < 1 || y.dims[1] % groups != 0) invalid("group is ", groups);
    images = x.dims[0];
    in_channels = k.dims[1];
    out_channels = y.dims[1] / groups;
    const bool plane = spatial == 2;
    h = plane ? x.dims[2] : 1, w = x.dims[x.rank - 1];
    kh = plane ? k.dims[2] : 1, kw = k.dims[k.rank - 1];
    oh = plane ? y.dims[2] : 1, ow = y.dims[y.rank - 1];
    const auto strides = node.ints("strides"), dilations = node.ints("dilations"),
               pads = node.ints("pads");
    if (strides.size() != size_t(spatial) || dilations.size() != size_t(spatial) ||
        pads.size() != size_t(2 * spatial)) {
      invalid("strides, dilations and pads are not complete");
    }
    stride_w = strides[spatial - 1], dilation_w = dilations[spatial - 1], pad_w = pads[spatial - 1];
    if (plane) stride_h = strides[0], dilation_h = dilations[0], pad_h = pads[0];
  }
};

// sum[i] += sum over one kernel plane, for outputs (row, first + i).
template <typename X, typename W>
void add_plane(const ConvGeometry& g, const X* x, int32_t x_zero, const W* w, int32_t w_zero,
               int64_t row, int64_t first, int64_t n, int32_t* sum) {
  for (int64_t r = 0; r < g.kh; ++r) {
    const int64_t in_row = row * g.stride_h - g.pad_h + r * g.dilation_h;
    if (in_row < 0 || in_row >= g.h) continue;
    for (int64_t c = 0; c < g.kw; ++c) {
      const int32_t weight = w[r * g.kw + c] - w_zero;
      const int64_t shift = c * g.dilation_w - g.pad_w;  // input column of output column 0
      // Outputs o with 0 <= o * stride + shift < width.
      int64_t begin = shift < 0 ? (-shift + g.stride_w - 1) / g.stride_w : 0;
      int64_t end = g.w > shift ? (g.w - shift - 1) / g.stride_w + 1 : 0;
      begin = std::max(begin, first);
      end = std::min(end, first + n);
      const X* from = x + in_row * g.w + shift;
      for (int64_t o = begin; o < end; ++o) {
        sum[o - first] += weight * (from[o * g.stride_w] - x_zero);
      }
    }
  }
}

template <typename X, typename W>
std::unique_ptr<Kernel> conv(const Node& node, const Ports& p) {
  const ConvGeometry g(node, p);
  const int64_t channels = g.groups * g.out_channels;
  return kernel([g, p, channels](const void* const* in, void* const* out, void*) {
    const int64_t work = g.ow * g.in_channels * g.kh * g.kw;
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, work));
    // A task is one output row of one channel.
    parallel_for(g.images * channels * g.oh, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = t % g.oh, m = t / g.oh % channels, image = t / g.oh / channels;
        const int64_t group = m / g.out_channels;
        const int32_t x_zero = p.x_zero.zero(in, 0), w_zero = p.w_zero.zero(in, m);
        for (int64_t first = 0; first < g.ow; first += kBlock) {
          const int64_t n = std::min(kBlock, g.ow - first);
          int32_t sum[kBlock];
          std::fill_n(sum, n, 0);
          for (int64_t c = 0; c < g.in_channels; ++c) {
            const int64_t plane = (image * g.groups + group) * g.in_channels + c;
            add_plane(g, as<X>(in[p.x]) + plane * g.h * g.w, x_zero,
                      as<W>(in[p.w]) + (m * g.in_channels + c) * g.kh * g.kw, w_zero, row, first, n,
                      sum);
          }
          std::copy_n(sum, n, as<int32_t>(out[0]) + t * g.ow + first);
        }
      }
    });
  });
}

// NumPy's matmul: offsets of the matrices of every member of the batch.
struct MatMulGeometry {
  int64_t m = 1, n = 1, k = 1, batch = 1;
  std::vector<int64_t> a, b;

  MatMulGeometry(const ndt_tensor_type& x, const ndt_tensor_type& w, const ndt_tensor_type& y) {
    if (x.rank < 1 || w.rank < 1) invalid("a scalar is no matrix");
    k = x.dims[x.rank - 1];
    m = x.rank > 1 ? x.dims[x.rank - 2] : 1;
    n = w.rank > 1 ? w.dims[w.rank - 1] : 1;
    const int rank = y.rank - (x.rank > 1) - (w.rank > 1);
    batch = count(y, 0, rank);
    for (int64_t i = 0; i < batch; ++i) {
      a.push_back(offset(x, y, rank, i) * m * k);
      b.push_back(offset(w, y, rank, i) * k * n);
    }
  }

 private:
  // Which matrix of `t` belongs to member `i` of a batch shaped like the first dims of `y`.
  static int64_t offset(const ndt_tensor_type& t, const ndt_tensor_type& y, int rank, int64_t i) {
    int64_t at = 0, stride = 1;
    const int own = t.rank - 2;
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t place = i % y.dims[d];
      i /= y.dims[d];
      const int e = d - (rank - own);
      if (e < 0) continue;
      if (t.dims[e] != 1) at += place * stride;
      stride *= t.dims[e];
    }
    return at;
  }
};

template <typename X, typename W, typename Y>
std::unique_ptr<Kernel> matmul(const Node& node, const Ports& p) {
  const MatMulGeometry g(node.in(p.x), node.in(p.w), node.out());
  return kernel([g, p](const void* const* in, void* const* out, void*) {
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, g.n * g.k));
    // A task is one row of the output.
    parallel_for(g.batch * g.m, grain, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = t % g.m;
        const X* a = as<X>(in[p.x]) + g.a[t / g.m] + row * g.k;
        const W* b = as<W>(in[p.w]) + g.b[t / g.m];
        const int32_t a_zero = p.x_zero.zero(in, row);
        for (int64_t first = 0; first < g.n; first += kBlock) {
          const int64_t n = std::min(kBlock, g.n - first);
          int32_t sum[kBlock] = {}, zero[kBlock];
          for (int64_t j = 0; j < n; ++j) zero[j] = p.w_zero.zero(in, first + j);
          for (int64_t l = 0; l < g.k; ++l) {
            const int32_t v = a[l] - a_zero;
            const W* from = b + l * g.n + first;
            for (int64_t j = 0; j < n; ++j) sum[j] += v * (from[j] - zero[j]);
          }
          store_sums(p, in, sum, n, row, first, 1, as<Y>(out[0]) + t * g.n + first);
        }
      }
    });
  });
}

std::unique_ptr<Kernel> quantized_product_kernel(const Node& node) {
  const Ports p(node);
  return for_byte(node.in(p.x).dtype, [&]<typename X>() {
    return for_byte(node.in(p.w).dtype, [&]<typename W>() {
      if (node.op() == "ConvInteger") return conv<X, W>(node, p);
      if (!p.linear) return matmul<X, W, int32_t>(node, p);
      return for_byte(node.out().dtype, [&]<typename Y>() { return matmul<X, W, Y>(node, p); });
    });
  });
}

const Registered registered{
    {"QLinearMatMul", quantized_product_kernel},
    {"ConvInteger", quantized_product_kernel},
    {"MatMulInteger", quantized_product_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
