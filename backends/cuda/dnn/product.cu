#include "backends/cuda/dnn/product.h"
#include "backends/cuda/kernels/grid.h"

namespace ndtrain::cuda {
namespace {

// Where the operands of element `at` of y begin.
struct Element {
  int64_t row, column;
  int64_t a, b;

  NDT_DEVICE Element(const ProductShape& s, int64_t at) {
    column = at % s.n;
    row = at / s.n % s.m;
    a = row * s.a_row;
    b = column * s.b_col;
    int64_t rest = at / (s.n * s.m);
    for (int d = s.rank; d-- > 0;) {
      const int64_t i = rest % s.extent[d];
      rest /= s.extent[d];
      a += i * s.a_step[d];
      b += i * s.b_step[d];
    }
  }
};

template <typename W>
NDT_DEVICE W at(const Spread& s, int64_t row, int64_t column, W none) {
  return s.data ? load<W>(s.data, s.dtype, row * s.row + column * s.col) : none;
}

// T: of a, b and y.
template <typename T, typename W>
__global__ void product(PlainProduct p, int64_t elements, const void* a, const void* b, Spread c,
                        void* y) {
  const ProductShape& s = p.shape;
  for (int64_t i = first_index(); i < elements; i += all_threads()) {
    const Element e(s, i);
    W sum = W(0);
    for (int64_t l = 0; l < s.k; ++l) {
      sum += load_as<W, T>(a, e.a + l * s.a_col) * load_as<W, T>(b, e.b + l * s.b_row);
    }
    const W addend = at<W>(c, e.row, e.column, W(0));
    store_as<T>(y, i, static_cast<W>(p.alpha) * sum + static_cast<W>(p.beta) * addend);
  }
}

template <typename W>
__global__ void spread_out(Spread c, double beta, int64_t m, int64_t n, ndt_dtype dtype, void* y) {
  for (int64_t i = first_index(); i < m * n; i += all_threads()) {
    store<W>(y, dtype, i, static_cast<W>(beta) * at<W>(c, i / n, i % n, W(0)));
  }
}

NDT_DEVICE int32_t requantized(float x, int32_t zero, ndt_dtype dtype) {
  const float low = dtype == NDT_I8 ? -128.0f : 0.0f, high = dtype == NDT_I8 ? 127.0f : 255.0f;
  const float held = x == x ? x : 0.0f;
  const float y = rintf(held) + static_cast<float>(zero);
  return static_cast<int32_t>(y < low ? low : y > high ? high : y);
}

template <typename A, typename B>
__global__ void byte_product(ByteProduct p, int64_t elements, ByteProduct::Operands o) {
  const ProductShape& s = p.shape;
  for (int64_t i = first_index(); i < elements; i += all_threads()) {
    const Element e(s, i);
    const auto a_zero = static_cast<int32_t>(at<int64_t>(o.a_zero, e.row, e.column, 0));
    const auto b_zero = static_cast<int32_t>(at<int64_t>(o.b_zero, e.row, e.column, 0));
    int32_t sum = 0;
    for (int64_t l = 0; l < s.k; ++l) {
      sum += (static_cast<const A*>(o.a)[e.a + l * s.a_col] - a_zero) *
             (static_cast<const B*>(o.b)[e.b + l * s.b_row] - b_zero);
    }
    if (p.y == NDT_I32) {
      static_cast<int32_t*>(o.y)[i] = sum;
      continue;
    }
    const float factor = at<float>(o.a_scale, e.row, e.column, 1) *
                         at<float>(o.b_scale, e.row, e.column, 1) /
                         at<float>(o.y_scale, e.row, e.column, 1);
    const auto zero = static_cast<int32_t>(at<int64_t>(o.y_zero, e.row, e.column, 0));
    static_cast<uint8_t*>(o.y)[i] =
        static_cast<uint8_t>(requantized(static_cast<float>(sum) * factor, zero, p.y));
  }
}

template <typename F>
void for_byte(ndt_dtype t, F f) {
  if (t == NDT_I8) return f(As<int8_t>{});
  f(As<uint8_t>{});
}

}  // namespace

void PlainProduct::run(const void* a_data, const void* b_data, Spread c, void* y_data,
                       cudaStream_t stream) const {
  const int64_t elements = shape.products() * shape.m * shape.n;
  if (elements == 0) return;
  const Extent extent = extent_for(elements);
  const auto start = [&](auto type, auto wide) {
    using T = typename decltype(type)::Type;
    using W = typename decltype(wide)::Type;
    launch(product<T, W>, extent, stream, *this, elements, a_data, b_data, c, y_data);
  };
  switch (y) {
    case NDT_F32:
      return start(As<float>{}, As<float>{});
    case NDT_F16:
      return start(As<F16>{}, As<float>{});
    case NDT_BF16:
      return start(As<BF16>{}, As<float>{});
    case NDT_F64:
      return start(As<double>{}, As<double>{});
    case NDT_I32:
      return start(As<int32_t>{}, As<int64_t>{});
    case NDT_U32:
      return start(As<uint32_t>{}, As<int64_t>{});
    case NDT_I64:
      return start(As<int64_t>{}, As<int64_t>{});
    default:
      return start(As<uint64_t>{}, As<uint64_t>{});
  }
}

void spread(Spread c, double beta, int64_t m, int64_t n, ndt_dtype dtype, void* y,
            cudaStream_t stream) {
  if (m * n == 0) return;
  const Extent extent = extent_for(m * n);
  if (dtype == NDT_F64) {
    launch(spread_out<double>, extent, stream, c, beta, m, n, dtype, y);
  } else {
    launch(spread_out<float>, extent, stream, c, beta, m, n, dtype, y);
  }
}

void ByteProduct::run(const Operands& operands, cudaStream_t stream) const {
  const int64_t elements = shape.products() * shape.m * shape.n;
  if (elements == 0) return;
  for_byte(a, [&](auto of_a) {
    for_byte(b, [&](auto of_b) {
      using A = typename decltype(of_a)::Type;
      using B = typename decltype(of_b)::Type;
      launch(byte_product<A, B>, extent_for(elements), stream, *this, elements, operands);
    });
  });
}

}  // namespace ndtrain::cuda
