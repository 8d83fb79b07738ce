#include "tests/cuda/fake_cublaslt.h"

#include <cstring>
#include <vector>

#include "tests/cuda/fake_cudart.h"

using namespace ndtrain::fake;  // NOLINT(google-build-using-namespace): the C functions below

struct cublasLtContext {};

namespace {

constexpr uint32_t kWorkspacePerId = 256;

template <typename T, typename Opaque>
T& in(Opaque* opaque) {
  static_assert(sizeof(T) <= sizeof(Opaque));
  return *reinterpret_cast<T*>(opaque);
}

template <typename T, typename Opaque>
const T& in(const Opaque* opaque) {
  return *reinterpret_cast<const T*>(opaque);
}

template <typename T>
cublasStatus_t set(T& member, const void* value, size_t bytes) {
  if (!value || bytes != sizeof member) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&member, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
cublasStatus_t get(T value, void* to, size_t bytes, size_t* written) {
  if (bytes != sizeof value) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, &value, bytes);
  *written = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

size_t size_of(cudaDataType t) { return t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : 2; }

// From the first element to the last.
size_t extent(const Matrix& m) {
  const int64_t elements = (m.batches - 1) * m.step + static_cast<int64_t>(m.columns - 1) * m.ld +
                           static_cast<int64_t>(m.rows);
  return static_cast<size_t>(elements) * size_of(m.type);
}

double scalar(const void* value, cudaDataType t) {
  return t == CUDA_R_64F ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
}

cublasStatus_t status_of(cudaError_t error) {
  return error == cudaSuccess                 ? CUBLAS_STATUS_SUCCESS
         : error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
         : error == cudaErrorNotSupported     ? CUBLAS_STATUS_NOT_SUPPORTED
                                              : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  if (note({"cublasLtCreate"})) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size,
                                                 cudaDataType type, uint64_t rows, uint64_t columns,
                                                 int64_t ld) {
  if (size < sizeof(Matrix)) return CUBLAS_STATUS_ALLOC_FAILED;
  new (layout) Matrix{.type = type, .rows = rows, .columns = columns, .ld = ld};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, size_t bytes) {
  Matrix& m = in<Matrix>(layout);
  switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return set(m.order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(m.batches, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(m.step, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size,
                                               cublasComputeType_t compute, cudaDataType_t scale) {
  if (size < sizeof(Operation)) return CUBLAS_STATUS_ALLOC_FAILED;
  new (desc) Operation{.compute = compute, .scale = scale};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  Operation& o = in<Operation>(desc);
  switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(o.a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(o.b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(o.epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(o.bias, value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t wanted,
                                                     size_t size) {
  if (size < sizeof(Preference)) return CUBLAS_STATUS_ALLOC_FAILED;
  new (wanted) Preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wanted,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t bytes) {
  Preference& p = in<Preference>(wanted);
  switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(p.workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(p.reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(p.alignment[name - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int asked,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* count) {
  *count = 0;
  if (const cudaError_t error = note({"cublasLtMatmulAlgoGetHeuristic"})) return status_of(error);
  const Matrix& y = in<Matrix>(d);
  if (misfit(in<Operation>(desc), in<Matrix>(a), in<Matrix>(b), in<Matrix>(c), y)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Preference& p = in<Preference>(wanted);
  std::vector<Algorithm> list;
  if (p.reductions != CUBLASLT_REDUCTION_SCHEME_NONE) list.push_back({3, 2, 0});
  const bool large = y.columns * static_cast<uint64_t>(y.batches) > 16;
  for (const int32_t id : {large ? 2 : 0, 1, large ? 0 : 2}) {
    list.push_back({id, 1, kWorkspacePerId * static_cast<uint32_t>(id)});
  }
  for (const Algorithm& algorithm : list) {
    if (*count == asked || algorithm.workspace > p.workspace) continue;
    cublasLtMatmulHeuristicResult_t& r = results[(*count)++];
    r = {};
    in<Algorithm>(&r.algo) = algorithm;
    r.workspaceSize = algorithm.workspace;
    r.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (misfit(in<Operation>(desc), in<Matrix>(a), in<Matrix>(b), in<Matrix>(c), in<Matrix>(d))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  result->workspaceSize = in<Algorithm>(algorithm).workspace;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void* value, size_t bytes, size_t* written) {
  switch (name) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return get(in<Algorithm>(algorithm).id, value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
      return get(static_cast<int32_t>(in<Algorithm>(algorithm).split), value, bytes, written);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID:
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID:
      return get(uint16_t{0}, value, bytes, written);
    default:
      return get(uint32_t{0}, value, bytes, written);
  }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const Operation& o = in<Operation>(desc);
  const Product p{.operation = o,
                  .a = in<Matrix>(a_layout),
                  .b = in<Matrix>(b_layout),
                  .c = in<Matrix>(c_layout),
                  .d = in<Matrix>(d_layout),
                  .algorithm = in<Algorithm>(algorithm),
                  .alpha = scalar(alpha, o.scale),
                  .beta = scalar(beta, o.scale),
                  .a_data = a,
                  .b_data = b,
                  .c_data = c,
                  .d_data = d};
  if (misfit(o, p.a, p.b, p.c, p.d)) return CUBLAS_STATUS_INVALID_VALUE;
  if (workspace_bytes < p.algorithm.workspace) return CUBLAS_STATUS_INVALID_VALUE;
  const bool there = is_device(a, extent(p.a)) && is_device(b, extent(p.b)) &&
                     is_device(d, extent(p.d)) && (p.beta == 0 || is_device(c, extent(p.c))) &&
                     (!is_biased(o.epilogue) || is_device(o.bias, p.d.rows * size_of(p.d.type))) &&
                     (workspace_bytes == 0 || is_device(workspace, workspace_bytes));
  if (!there) return CUBLAS_STATUS_INVALID_VALUE;
  return status_of(enqueue(stream, "cublasLtMatmul", [p] { compute(p); }));
}
