#include "backends/cuda/dnn/blas.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/memory.h"

// cuBLASLt counts in columns: row-major y = a b is to it y^T = b^T a^T, so its A is our b, and the
// bias runs along its rows. A split sum, or one whose order hangs on the number of rows, is never
// asked for: the reduction scheme is NONE.

namespace ndtrain::cuda {
namespace {

constexpr uint64_t kMostWorkspace = uint64_t{32} << 20;
constexpr int kMostCandidates = 8;
constexpr int kRepeats = 4;
constexpr double kClearly = 0.97;     // of the first suggestion's time, to go against it
constexpr int64_t kUsualStack = 256;  // products, whatever their number

cudaDataType type_of(ndt_dtype t) {
  switch (t) {
    case NDT_F32:
      return CUDA_R_32F;
    case NDT_F16:
      return CUDA_R_16F;
    case NDT_BF16:
      return CUDA_R_16BF;
    case NDT_F64:
      return CUDA_R_64F;
    default:
      unsupported("cuBLASLt is not asked for products of dtype ", plugin::name_of(t));
  }
}

template <typename T>
void set(cublasLtMatmulDescOpaque_t& d, cublasLtMatmulDescAttributes_t name, T value) {
  check(cublasLtMatmulDescSetAttribute(&d, name, &value, sizeof value), "describe a product");
}

template <typename T>
void set(cublasLtMatrixLayoutOpaque_t& d, cublasLtMatrixLayoutAttribute_t name, T value) {
  check(cublasLtMatrixLayoutSetAttribute(&d, name, &value, sizeof value), "describe a matrix");
}

template <typename T>
void set(cublasLtMatmulPreferenceOpaque_t& d, cublasLtMatmulPreferenceAttributes_t name, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(&d, name, &value, sizeof value), "prefer");
}

// Row-major `rows` x `columns`, as columns.
cublasLtMatrixLayoutOpaque_t layout(ndt_dtype t, int64_t rows, int64_t columns, int64_t stack,
                                    int64_t step) {
  cublasLtMatrixLayoutOpaque_t d;
  check(cublasLtMatrixLayoutInit(&d, type_of(t), static_cast<uint64_t>(columns),
                                 static_cast<uint64_t>(rows), columns),
        "describe a matrix");
  if (stack == 1) return d;
  set(d, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(stack));
  set(d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, step);
  return d;
}

struct Description {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t a, b, y;
};

bool a_transposed(const ProductShape& s) { return s.a_col != 1; }
bool b_transposed(const ProductShape& s) { return s.b_col != 1; }

cublasLtEpilogue_t epilogue_of(const BlasProduct& p) {
  switch (p.activation) {
    case Activation::kRelu:
      return p.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh:
      return p.bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    case Activation::kNone:
      break;
  }
  return p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

const char* text_of_activation(Activation a) {
  return a == Activation::kRelu ? " relu" : a == Activation::kGeluTanh ? " gelu" : "";
}

bool in_tf32(const ndt_device& device, const BlasProduct& p) {
  return p.dtype == NDT_F32 && device.allow_tf32;
}

Description describe(const ndt_device& device, const BlasProduct& p, int64_t rows, int64_t stack) {
  const ProductShape& s = p.shape;
  const bool wide = p.dtype == NDT_F64;
  const cublasComputeType_t compute = wide                 ? CUBLAS_COMPUTE_64F
                                      : in_tf32(device, p) ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                           : CUBLAS_COMPUTE_32F;
  Description d;
  check(cublasLtMatmulDescInit(&d.operation, compute, wide ? CUDA_R_64F : CUDA_R_32F),
        "describe a product");
  set(d.operation, CUBLASLT_MATMUL_DESC_TRANSA,
      static_cast<int32_t>(b_transposed(s) ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(d.operation, CUBLASLT_MATMUL_DESC_TRANSB,
      static_cast<int32_t>(a_transposed(s) ? CUBLAS_OP_T : CUBLAS_OP_N));
  set(d.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<uint32_t>(epilogue_of(p)));
  if (p.bias) {
    // Only its alignment counts until it is run.
    set(d.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(p.alignment));
  }
  d.a = a_transposed(s) ? layout(p.dtype, s.k, rows, stack, s.a_step[0])
                        : layout(p.dtype, rows, s.k, stack, s.a_step[0]);
  d.b = b_transposed(s) ? layout(p.dtype, s.n, s.k, stack, s.b_step[0])
                        : layout(p.dtype, s.k, s.n, stack, s.b_step[0]);
  d.y = layout(p.dtype, rows, s.n, stack, rows * s.n);
  return d;
}

std::vector<cublasLtMatmulHeuristicResult_t> candidates(const ndt_device& device,
                                                        const BlasProduct& p, Description& d) {
  cublasLtMatmulPreferenceOpaque_t wanted;
  check(cublasLtMatmulPreferenceInit(&wanted), "prefer");
  set(wanted, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  set(wanted, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  for (const auto which :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(wanted, which, static_cast<uint32_t>(p.alignment));
  }
  std::vector<cublasLtMatmulHeuristicResult_t> found(kMostCandidates);
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(device.blas, &d.operation, &d.b, &d.a, &d.y, &d.y, &wanted,
                                       kMostCandidates, found.data(), &count),
        "ask cuBLASLt for an algorithm");
  found.resize(static_cast<size_t>(count));
  std::erase_if(found, [](const auto& f) { return f.state != CUBLAS_STATUS_SUCCESS; });
  if (found.empty()) unsupported("cuBLASLt has no algorithm for this product");
  return found;
}

// "id.tile.stages.swizzle.option.inner.cluster"
std::string text_of_algorithm(const cublasLtMatmulAlgo_t& algorithm) {
  const auto get = [&](cublasLtMatmulAlgoConfigAttributes_t name, auto value) {
    size_t written = 0;
    check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, name, &value, sizeof value, &written),
          "read an algorithm");
    return std::to_string(value);
  };
  return get(CUBLASLT_ALGO_CONFIG_ID, int32_t{}) + '.' +
         get(CUBLASLT_ALGO_CONFIG_TILE_ID, uint32_t{}) + '.' +
         get(CUBLASLT_ALGO_CONFIG_STAGES_ID, uint32_t{}) + '.' +
         get(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, uint32_t{}) + '.' +
         get(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, uint32_t{}) + '.' +
         get(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, uint16_t{}) + '.' +
         get(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, uint16_t{});
}

// What the product is, but for the number of its rows and the length of its stack.
std::string key_of(const ndt_device& device, const BlasProduct& p) {
  const ProductShape& s = p.shape;
  return text_of("product ", plugin::name_of(p.dtype), in_tf32(device, p) ? " tf32 " : " ",
                 p.usual_rows, 'x', s.k, 'x', s.n, a_transposed(s) ? " at" : "",
                 b_transposed(s) ? " bt" : "", s.rank > 0 ? " stacked" : "", p.bias ? " bias" : "",
                 text_of_activation(p.activation), p.beta != 0 ? " sum" : "",
                 p.alignment < 16 ? " unaligned" : "");
}

struct Times {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;

  Times() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "create a stream");
    check(cudaEventCreate(&begin), "create an event");
    check(cudaEventCreate(&end), "create an event");
  }
  ~Times() {
    if (begin) cudaEventDestroy(begin);
    if (end) cudaEventDestroy(end);
    cudaStreamDestroy(stream);
  }
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;

  // Seconds, the shortest of a few runs.
  template <typename F>
  double of(const F& run) const {
    float best = 0;
    for (int i = 0; i <= kRepeats; ++i) {
      check(cudaEventRecord(begin, stream), "record an event");
      run(stream);
      check(cudaEventRecord(end, stream), "record an event");
      check(cudaEventSynchronize(end), "wait for a product");
      float took = 0;
      check(cudaEventElapsedTime(&took, begin, end), "measure a product");
      if (i == 1 || took < best) best = took;  // the first one warms up
    }
    return best / 1e3;
  }
};

Tuning::Measured fastest(const ndt_device& device, const BlasProduct& p, Description& d,
                         int64_t rows, int64_t stack,
                         const std::vector<cublasLtMatmulHeuristicResult_t>& list) {
  const ProductShape& s = p.shape;
  const size_t size = static_cast<size_t>(plugin::size_of(p.dtype));
  const auto zeros = [&](int64_t count) {
    auto m = std::make_unique<Memory>(device, static_cast<size_t>(count) * size);
    check(cudaMemsetAsync(m->data(), 0, static_cast<size_t>(count) * size, nullptr),
          "clear memory");
    return m;
  };
  const auto a = zeros(stack * rows * s.k), b = zeros(stack * s.k * s.n);
  const auto y = zeros(stack * rows * s.n), bias = zeros(s.n);
  const Memory workspace(device, kMostWorkspace);
  check(cudaStreamSynchronize(nullptr), "clear memory");
  if (p.bias) {
    set(d.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias->data()));
  }
  const Times times;
  const double one_wide = 1, zero_wide = 0;
  const float one = 1, zero = 0;
  const bool wide = p.dtype == NDT_F64;
  size_t best = 0;
  double least = 0, first = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const double took = times.of([&](cudaStream_t stream) {
      check(cublasLtMatmul(device.blas, &d.operation,
                           wide ? static_cast<const void*>(&one_wide) : &one, b->data(), &d.b,
                           a->data(), &d.a, wide ? static_cast<const void*>(&zero_wide) : &zero,
                           y->data(), &d.y, y->data(), &d.y, &list[i].algo, workspace.data(),
                           kMostWorkspace, stream),
            "measure a product");
    });
    if (i == 0) first = took;
    if (i == 0 || took < (best == 0 ? kClearly : 1.0) * least) {
      best = i;
      least = took;
    }
  }
  return {text_of_algorithm(list[best].algo), least, first};
}

// The algorithm to take, and after it those to take where it does not fit.
std::vector<cublasLtMatmulAlgo_t> choose(const ndt_device& device, const BlasProduct& p) {
  const int64_t stack = p.shape.rank > 0 ? kUsualStack : 1;
  Description usual = describe(device, p, p.usual_rows, stack);
  const auto list = candidates(device, p, usual);
  std::vector<cublasLtMatmulAlgo_t> order;
  for (const auto& found : list) order.push_back(found.algo);
  if (!device.tuning) return order;
  const std::string choice =
      device.tuning->choose(key_of(device, p), text_of_algorithm(order.front()),
                            [&] { return fastest(device, p, usual, p.usual_rows, stack, list); });
  std::ranges::stable_partition(
      order, [&](const auto& algorithm) { return text_of_algorithm(algorithm) == choice; });
  return order;
}

}  // namespace

Blas::Blas(const ndt_device& device, const BlasProduct& product) : product_(product) {
  const ProductShape& s = product.shape;
  Description d = describe(device, product, s.m, s.rank > 0 ? s.extent[0] : 1);
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  for (const cublasLtMatmulAlgo_t& algorithm : choose(device, product)) {
    cublasLtMatmulHeuristicResult_t fit{};
    status = cublasLtMatmulAlgoCheck(device.blas, &d.operation, &d.b, &d.a, &d.y, &d.y, &algorithm,
                                     &fit);
    if (status != CUBLAS_STATUS_SUCCESS) continue;
    algorithm_ = algorithm;
    workspace_bytes_ = fit.workspaceSize;
    break;
  }
  check(status, "fit an algorithm of cuBLASLt to the batch");
  operation_ = d.operation;
  a_ = d.a;
  b_ = d.b;
  y_ = d.y;
}

void check_available(const ndt_device& device, const BlasProduct& product) {
  const int64_t stack = product.shape.rank > 0 ? kUsualStack : 1;
  Description d = describe(device, product, product.usual_rows, stack);
  candidates(device, product, d);
}

void Blas::run(ndt_stream& stream, const void* a, const void* b, const void* c, const void* bias,
               void* y, void* workspace) const {
  // Descriptions are plain values: each run has its own.
  cublasLtMatmulDescOpaque_t operation = operation_;
  cublasLtMatrixLayoutOpaque_t la = a_, lb = b_, ly = y_;
  if (product_.bias) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const auto alpha = static_cast<float>(product_.alpha), beta = static_cast<float>(product_.beta);
  const bool wide = product_.dtype == NDT_F64;
  check(cublasLtMatmul(stream.device.blas, &operation,
                       wide ? static_cast<const void*>(&product_.alpha) : &alpha, b, &lb, a, &la,
                       wide ? static_cast<const void*>(&product_.beta) : &beta, c ? c : y, &ly, y,
                       &ly, &algorithm_, workspace, workspace_bytes_, stream.stream),
        "run a product");
}

}  // namespace ndtrain::cuda
