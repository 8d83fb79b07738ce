// FusedQLinearAveragePool and FusedQLinearMul: exact sums and products of bytes, scaled and rounded
// to bytes at once.
#include "backends/cpu/kernels/broadcast.h"
#include "backends/cpu/kernels/pool_window.h"
#include "backends/cpu/kernels/quantize.h"

namespace ndtrain::cpu {
namespace {

enum PoolPort { kPoolXScale = 1, kPoolXZero, kPoolYScale, kPoolYZero };
enum MulPort { kA, kAScale, kAZero, kB, kBScale, kBZero, kMulYScale, kMulYZero };

int32_t known_zero(const Node& node, int port) {
  return static_cast<int32_t>(node.known_single(port, "zero point", 0));
}

struct ByteAverage {
  PoolWindow window;
  std::vector<float> factors;  // of each place of a plane
  int32_t x_zero, y_zero;

  bool whole_planes() const { return window.kernel == window.in && window.out_plane() == 1; }

  template <typename X, typename Y>
  void plane(const X* x, Y* y) const {
    const int64_t cells = window.in_plane();
    if (whole_planes()) {
      int32_t sum = 0;
      for (int64_t i = 0; i < cells; ++i) sum += x[i];
      sum -= static_cast<int32_t>(cells) * x_zero;
      *y = quantized<Y>(static_cast<float>(sum) * factors[0], y_zero);
      return;
    }
    for (int64_t o = 0; o < window.out_plane(); ++o) {
      int32_t sum = 0;
      for_cells(window, o, [&](int64_t i) { sum += x[i] - x_zero; });
      y[o] = quantized<Y>(static_cast<float>(sum) * factors[static_cast<size_t>(o)], y_zero);
    }
  }
};

std::unique_ptr<Kernel> quantized_average_kernel(const Node& node) {
  const PoolWindow w = pool_window(node, node.in(0), node.out());
  constexpr int64_t kMostCells = int64_t{1} << 23;  // sums of bytes fit 32 bits
  if (w.kernel[0] * w.kernel[1] * w.kernel[2] > kMostCells) {
    unsupported("windows of more than ", kMostCells, " cells");
  }
  const float scale = node.known_single(kPoolXScale, "scale of x", 1) /
                      node.known_single(kPoolYScale, "scale of y", 1);
  std::vector<float> factors = w.counts(node.i("count_include_pad", 0) != 0);
  for (float& f : factors) f = scale / f;
  const ByteAverage average{w, std::move(factors), known_zero(node, kPoolXZero),
                            known_zero(node, kPoolYZero)};
  return for_byte(node.in(0).dtype, [&]<typename X>() {
    return for_byte(node.out().dtype, [&]<typename Y>() {
      return kernel([average](const void* const* in, void* const* out, void*) {
        const int64_t cells = average.window.in_plane(), places = average.window.out_plane();
        parallel_for(average.window.planes, kGrain / (cells + 1) + 1,
                     [&](int64_t begin, int64_t end) {
                       for (int64_t p = begin; p < end; ++p) {
                         average.plane(as<X>(in[0]) + p * cells, as<Y>(out[0]) + p * places);
                       }
                     });
      });
    });
  });
}

struct ByteProductOfMaps {
  BroadcastRows rows;
  int32_t a_zero, b_zero, y_zero;
  float factor;

  template <typename A, typename B, typename Y>
  void run(const A* a, const B* b, Y* y) const {
    const int64_t step = rows.advances(1) ? 1 : 0;
    parallel_for(rows.count(), kGrain, [&](int64_t begin, int64_t end) {
      rows.for_each_row(begin, end, [&](int64_t at, const int64_t* from, int64_t n) {
        const A* x = a + from[0];
        const B* by = b + from[1];
        for (int64_t i = 0; i < n; ++i) {
          const int32_t product = (x[i] - a_zero) * (by[i * step] - b_zero);
          y[at + i] = quantized<Y>(static_cast<float>(product) * factor, y_zero);
        }
      });
    });
  }
};

std::unique_ptr<Kernel> quantized_mul_kernel(const Node& node) {
  const ndt_tensor_type operands[] = {node.in(kA), node.in(kB)};
  const ByteProductOfMaps product{BroadcastRows(node.out(), operands), known_zero(node, kAZero),
                                  known_zero(node, kBZero), known_zero(node, kMulYZero),
                                  node.known_single(kAScale, "scale of a", 1) *
                                      node.known_single(kBScale, "scale of b", 1) /
                                      node.known_single(kMulYScale, "scale of y", 1)};
  return for_byte(node.in(kA).dtype, [&]<typename A>() {
    return for_byte(node.in(kB).dtype, [&]<typename B>() {
      return for_byte(node.out().dtype, [&]<typename Y>() {
        return kernel([product](const void* const* in, void* const* out, void*) {
          product.run(as<A>(in[kA]), as<B>(in[kB]), as<Y>(out[0]));
        });
      });
    });
  });
}

const Registered registered{
    {"FusedQLinearAveragePool", quantized_average_kernel},
    {"FusedQLinearMul", quantized_mul_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
