#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/cuda/fake_cublaslt.h"

namespace ndtrain::fake {
namespace {

double get(const void* data, cudaDataType t, int64_t i) {
  switch (t) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[i]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
    default:
      return static_cast<const double*>(data)[i];
  }
}

void put(void* data, cudaDataType t, int64_t i, double x) {
  switch (t) {
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      return;
    case CUDA_R_16F:
      static_cast<__half*>(data)[i] = __float2half_rn(static_cast<float>(x));
      return;
    case CUDA_R_16BF:
      static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(static_cast<float>(x));
      return;
    default:
      static_cast<double*>(data)[i] = x;
  }
}

// As tensor cores read f32: 11 bits are left.
double in_tf32(double x) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  bits = (bits + 0x1000) & ~0x1fffU;
  return std::bit_cast<float>(bits);
}

// Sums of blocks, summed in turn: in which blocks decides the last bits.
template <typename Sum>
Sum dot(const Product& p, int64_t a, int64_t a_step, int64_t b, int64_t b_step, int64_t k) {
  const int64_t block =
      p.algorithm.split > 1 ? 1 + static_cast<int64_t>(p.d.columns) : int64_t{4} << p.algorithm.id;
  const bool rounds = p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto factor = [&](const void* data, cudaDataType t, int64_t i) {
    const double x = get(data, t, i);
    return static_cast<Sum>(rounds ? in_tf32(x) : x);
  };
  Sum sum = 0;
  for (int64_t begin = 0; begin < k; begin += block) {
    Sum part = 0;
    for (int64_t l = begin; l < std::min(k, begin + block); ++l) {
      part +=
          factor(p.a_data, p.a.type, a + l * a_step) * factor(p.b_data, p.b.type, b + l * b_step);
    }
    sum += part;
  }
  return sum;
}

// The tanh approximation, as the real one's.
template <typename Sum>
Sum activated(uint32_t epilogue, Sum x) {
  if (epilogue & CUBLASLT_EPILOGUE_RELU) return std::max(x, Sum(0));
  if (!(epilogue & CUBLASLT_EPILOGUE_GELU)) return x;
  const auto inner = static_cast<Sum>(std::sqrt(2 / M_PI)) * (x + Sum(0.044715) * x * x * x);
  return x / 2 * (1 + std::tanh(inner));
}

template <typename Sum>
void compute_as(const Product& p) {
  const bool at = p.operation.a == CUBLAS_OP_T, bt = p.operation.b == CUBLAS_OP_T;
  const auto k = static_cast<int64_t>(at ? p.a.rows : p.a.columns);
  const auto rows = static_cast<int64_t>(p.d.rows), columns = static_cast<int64_t>(p.d.columns);
  const bool biased = is_biased(p.operation.epilogue);
  for (int64_t batch = 0; batch < p.d.batches; ++batch) {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t a = batch * p.a.step + (at ? i * p.a.ld : i);
        const int64_t b = batch * p.b.step + (bt ? j : j * p.b.ld);
        Sum x = static_cast<Sum>(p.alpha) * dot<Sum>(p, a, at ? 1 : p.a.ld, b, bt ? p.b.ld : 1, k);
        if (p.beta != 0) {
          const int64_t c = batch * p.c.step + j * p.c.ld + i;
          x += static_cast<Sum>(p.beta) * static_cast<Sum>(get(p.c_data, p.c.type, c));
        }
        if (biased) x += static_cast<Sum>(get(p.operation.bias, p.d.type, i));
        x = activated(p.operation.epilogue, x);
        put(p.d_data, p.d.type, batch * p.d.step + j * p.d.ld + i, static_cast<double>(x));
      }
    }
  }
}

}  // namespace

bool is_biased(uint32_t epilogue) { return epilogue & CUBLASLT_EPILOGUE_BIAS; }

const char* misfit(const Operation& o, const Matrix& a, const Matrix& b, const Matrix& c,
                   const Matrix& d) {
  const bool at = o.a == CUBLAS_OP_T, bt = o.b == CUBLAS_OP_T;
  const uint64_t k = at ? a.rows : a.columns;
  if ((at ? a.columns : a.rows) != d.rows) return "rows of A";
  if ((bt ? b.rows : b.columns) != d.columns) return "columns of B";
  if ((bt ? b.columns : b.rows) != k || k == 0 || d.rows == 0 || d.columns == 0) return "the sum";
  if (c.rows != d.rows || c.columns != d.columns || c.type != d.type) return "C";
  for (const Matrix* m : {&a, &b, &c, &d}) {
    if (m->order != CUBLASLT_ORDER_COL) return "an order";
    if (m->ld < static_cast<int64_t>(m->rows)) return "a leading dimension";
    if (m->type != d.type || m->batches != d.batches) return "dtypes or batches";
  }
  if (d.batches > 1 && d.step < d.ld * static_cast<int64_t>(d.columns)) return "the step of D";
  const bool wide = d.type == CUDA_R_64F;
  if (o.scale != (wide ? CUDA_R_64F : CUDA_R_32F)) return "the scale type";
  const bool tf32 = o.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && d.type == CUDA_R_32F;
  if (!tf32 && o.compute != (wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F)) return "compute type";
  if (o.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return nullptr;
  if (wide || (is_biased(o.epilogue) && !o.bias)) return "the epilogue";
  switch (o.epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return nullptr;
    default:
      return "the epilogue";
  }
}

void compute(const Product& p) {
  if (p.d.type == CUDA_R_64F) return compute_as<double>(p);
  compute_as<float>(p);
}

}  // namespace ndtrain::fake
