// QuantizeLinear, DequantizeLinear: per tensor, per index of an axis, or per block along it; and
// DynamicQuantizeLinear, from the range of the input.
#include "backends/cpu/kernels/quantize.h"

#include "backends/cpu/kernels/lanes.h"
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

// x as [rows, length]; element i of row r has scale first(r) + i * step.
struct ScaleRows {
  int64_t rows, length, step, total, extent = 1, block = 1, blocks = 1;
  bool single;

  explicit ScaleRows(const Node& node) {
    const ndt_tensor_type &x = node.in(0), &scale = node.in(1);
    single = count(scale) == 1;
    total = count(x);
    if (single) {
      length = 4096;
      rows = (total + length - 1) / length;
      step = 0;
      return;
    }
    const int axis = axis_of(node, x.rank);
    extent = x.dims[axis];
    block = std::max<int64_t>(1, node.i("block_size"));
    blocks = (extent + block - 1) / block;
    length = count(x, axis + 1, x.rank);
    step = node.i("block_size") > 0 ? 1 : 0;
    rows = count(x, 0, axis + 1);
    if (step == 0) {
      if (count(scale) != extent) invalid("scale is not one value per index of axis ", axis);
      if (length == 1) rows /= extent, length = extent, step = 1, extent = 1;
      blocks = 0;
    } else if (count(scale) != rows / extent * blocks * length) {
      invalid("scale is not one value per block");
    }
  }

  int64_t first(int64_t r) const {
    if (single) return 0;
    if (blocks == 0) return r % extent;
    return (r / extent * blocks + r % extent / block) * length;
  }
};

// Scales and zero points in one form, in the workspace: [scales][zero points].
struct Scales {
  PerIndex scale, zero;
  int64_t n;

  explicit Scales(const Node& node) : scale(node, 1), zero(node, 2), n(count(node.in(1))) {
    if (scale.port < 0) invalid("needs a scale");
    if (zero.port >= 0 && zero.n != 1 && zero.n != n) invalid("zero points for other scales");
  }
  size_t bytes() const { return static_cast<size_t>(n) * (sizeof(double) + sizeof(int32_t)); }
  template <typename W>
  void read(const void* const* in, W* scales, int32_t* zeros) const {
    for (int64_t i = 0; i < n; ++i) scales[i] = number<W>(in[1], scale.dtype, i);
    for (int64_t i = 0; i < n; ++i) zeros[i] = zero.zero(in, i);
  }
};

// y[i] = f(x[i], scale, zero point).
template <typename X, typename Y, typename W, typename F>
std::unique_ptr<Kernel> by_scales(const Node& node, F f) {
  const ScaleRows rows(node);
  const Scales scales(node);
  auto k = kernel([rows, scales, f](const void* const* in, void* const* out, void* workspace) {
    W* scale = as<W>(workspace);
    int32_t* zero = reinterpret_cast<int32_t*>(as<double>(workspace) + scales.n);
    scales.read(in, scale, zero);
    const X* x = as<X>(in[0]);
    Y* y = as<Y>(out[0]);
    const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, rows.length));
    parallel_for(rows.rows, grain, [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const X* from = x + r * rows.length;
        Y* to = y + r * rows.length;
        const W* s = scale + rows.first(r);
        const int32_t* z = zero + rows.first(r);
        const int64_t n = std::min(rows.length, rows.total - r * rows.length);
        if (rows.step == 0) {
          const W s0 = *s;
          const int32_t z0 = *z;
          for (int64_t i = 0; i < n; ++i) to[i] = f(from[i], s0, z0);
        } else {
          for (int64_t i = 0; i < n; ++i) to[i] = f(from[i], s[i], z[i]);
        }
      }
    });
  });
  k->workspace_bytes = scales.bytes();
  return k;
}

template <typename X>
std::unique_ptr<Kernel> quantize_from(const Node& node) {
  return for_int(node.out().dtype, "QuantizeLinear", [&]<typename Q>() -> std::unique_ptr<Kernel> {
    if constexpr (sizeof(Q) > 2) {
      unsupported("quantises to ", name_of(node.out().dtype));
    } else {
      return by_scales<X, Q, float>(node, [](X x, float scale, int32_t zero) {
        return quantized<Q>(static_cast<float>(widen(x)) / scale, zero);
      });
    }
  });
}

constexpr int64_t kChunk = 65536;

// The range is made to hold 0, so that 0 is exact.
void dynamic(const float* x, int64_t n, uint8_t* y, float* scale, uint8_t* zero, float* extremes) {
  const int64_t chunks = (n + kChunk - 1) / kChunk;
  parallel_for(chunks, 1, [=](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const float* from = x + c * kChunk;
      const int64_t m = std::min(kChunk, n - c * kChunk);
      const auto at = [=](int64_t i) { return from[i]; };
      extremes[2 * c] = fold_row(m, 0.0f, at, [](float a, float b) { return b < a ? b : a; });
      extremes[2 * c + 1] = fold_row(m, 0.0f, at, [](float a, float b) { return b > a ? b : a; });
    }
  });
  float low = 0, high = 0;
  for (int64_t c = 0; c < chunks; ++c) {
    low = std::min(low, extremes[2 * c]);
    high = std::max(high, extremes[2 * c + 1]);
  }
  const float step = high == low ? 1 : (high - low) / 255.0f;
  const uint8_t z = quantized<uint8_t>(-low / step, 0);
  *scale = step;
  *zero = z;
  parallel_for(n, kElementGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) y[i] = quantized<uint8_t>(x[i] / step, z);
  });
}

std::unique_ptr<Kernel> quantize_kernel(const Node& node) {
  if (node.in(0).dtype == NDT_I32) return quantize_from<int32_t>(node);
  return for_float(node.in(0).dtype, "QuantizeLinear",
                   [&]<typename X>() { return quantize_from<X>(node); });
}

std::unique_ptr<Kernel> dequantize_kernel(const Node& node) {
  return for_float(node.out().dtype, "DequantizeLinear", [&]<typename Y>() {
    return for_int(node.in(0).dtype, "DequantizeLinear", [&]<typename Q>() {
      using W = wide_t<Y>;
      return by_scales<Q, Y, W>(node, [](Q x, W scale, int32_t zero) {
        return static_cast<Y>(static_cast<W>(static_cast<int64_t>(x) - zero) * scale);
      });
    });
  });
}

std::unique_ptr<Kernel> dynamic_quantize_kernel(const Node& node) {
  if (node.in(0).dtype != NDT_F32) unsupported("takes f32, not ", name_of(node.in(0).dtype));
  const int64_t n = count(node.in(0));
  auto k = kernel([n](const void* const* in, void* const* out, void* workspace) {
    dynamic(as<float>(in[0]), n, as<uint8_t>(out[0]), as<float>(out[1]), as<uint8_t>(out[2]),
            as<float>(workspace));
  });
  k->workspace_bytes = static_cast<size_t>(n / kChunk + 1) * 2 * sizeof(float);
  return k;
}

const Registered registered{
    {"QuantizeLinear", quantize_kernel},
    {"DequantizeLinear", dequantize_kernel},
    {"DynamicQuantizeLinear", dynamic_quantize_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
