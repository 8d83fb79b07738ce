#include "backends/cuda/kernels/elementwise.h"
#include "backends/cuda/kernels/hot.h"

namespace ndtrain::cuda {
namespace {

struct Operands {
  const void* in[kMostInputs];
  ndt_dtype dtype[kMostInputs];
  void* out;
  ndt_dtype out_dtype;
};

template <typename W>
NDT_DEVICE W value_of(Function f, W p, W q, W r, W s, int n, W a, W b) {
  using namespace function;  // NOLINT(google-build-using-namespace): the list is written in them
#define HOT_NUMBER(name, expression) NUMBER(name, expression)
#define HOT_FLOAT(name, expression) FLOAT(name, expression)
#define NUMBER(name, expression) \
  case Function::k##name:        \
    return expression;
#define FLOAT(name, expression)                       \
  case Function::k##name:                             \
    if constexpr (std::is_floating_point<W>::value) { \
      return expression;                              \
    } else {                                          \
      return p;                                       \
    }
  switch (f) {
#include "backends/cuda/kernels/functions.inc"
  }
#undef FLOAT
#undef NUMBER
#undef HOT_FLOAT
#undef HOT_NUMBER
  return p;
}

// Any dtypes, one element at a time.
template <typename W>
__global__ void walked(Operands o, Numbers f, Walk walk) {
  const W a = static_cast<W>(f.a), b = static_cast<W>(f.b);
  for (int64_t i = first_index(); i < walk.count; i += all_threads()) {
    const Position<kMostInputs> at(walk, i);
    W v[kMostInputs] = {};
    NDT_UNROLL
    for (int k = 0; k < kMostInputs; ++k) {
      if (k < f.n) v[k] = load<W>(o.in[k], o.dtype[k], at.in[k]);
    }
    store(o.out, o.out_dtype, at.out, value_of(f.function, v[0], v[1], v[2], v[3], f.n, a, b));
  }
}

// Element i of the walk is a whole vector of the output; an operand that does not advance along it
// (bit of `single`) is one number for all of it.
template <typename T>
__global__ void vectors(Operands o, Numbers f, Walk walk, unsigned single) {
  constexpr int kSize = kVectorSize<T>;
  using Elements = Vector<T, kSize>;
  for (int64_t i = first_index(); i < walk.count; i += all_threads()) {
    const Position<kMostInputs> at(walk, i);
    float v[kMostInputs][kSize] = {};
    NDT_UNROLL
    for (int k = 0; k < kMostInputs; ++k) {
      if (k >= f.n) continue;
      const T* from = static_cast<const T*>(o.in[k]) + at.in[k];
      if (single >> k & 1) {
        const float x = widen(*from);
        for_each_lane<kSize>([&](int j) { v[k][j] = x; });
      } else {
        const Elements x = *reinterpret_cast<const Elements*>(from);
        for_each_lane<kSize>([&](int j) { v[k][j] = widen(x.at[j]); });
      }
    }
    float y[kSize];
    apply(f, v, y);
    Elements packed;
    for_each_lane<kSize>([&](int j) { packed.at[j] = narrow<T>(y[j]); });
    *reinterpret_cast<Elements*>(static_cast<T*>(o.out) + at.out) = packed;
  }
}

template <typename From, typename To>
__global__ void converted(const From* from, To* to, int64_t vectors) {
  constexpr int kSize = 8;
  using In = Vector<From, kSize>;
  using Out = Vector<To, kSize>;
  for (int64_t i = first_index(); i < vectors; i += all_threads()) {
    const In x = reinterpret_cast<const In*>(from)[i];
    Out y;
    for_each_lane<kSize>([&](int j) { y.at[j] = narrow<To>(widen(x.at[j])); });
    reinterpret_cast<Out*>(to)[i] = y;
  }
}

void run_walked(Class computed, const Operands& o, const Numbers& f, const Walk& walk,
                cudaStream_t stream) {
  if (walk.count == 0) return;
  const Extent extent = extent_for(walk.count);
  switch (computed) {
    case Class::kFloat:
      return launch(walked<float>, extent, stream, o, f, walk);
    case Class::kDouble:
      return launch(walked<double>, extent, stream, o, f, walk);
    case Class::kSigned:
      return launch(walked<int64_t>, extent, stream, o, f, walk);
    case Class::kUnsigned:
      return launch(walked<uint64_t>, extent, stream, o, f, walk);
  }
}

template <typename T>
bool run_vectors(const Operands& o, const Numbers& f, const Walk& walk, cudaStream_t stream) {
  Walk by_vector = walk;
  unsigned single = 0;
  if (!in_vectors(by_vector, f.n, kVectorSize<T>, single)) return false;
  launch(vectors<T>, extent_for(by_vector.count), stream, o, f, by_vector, single);
  const int64_t done = by_vector.count * kVectorSize<T>;
  if (done < walk.count) run_walked(Class::kFloat, o, f, rest_of(walk, done), stream);
  return true;
}

bool run_hot(const Elementwise& e, const Operands& o, const Numbers& f, cudaStream_t stream) {
  if (!is_hot(f.function)) return false;
  for (int k = 0; k < f.n; ++k) {
    if (o.dtype[k] != o.out_dtype) return false;
  }
  switch (e.computed == Class::kFloat ? o.out_dtype : NDT_ABSENT) {
    case NDT_F32:
      return run_vectors<float>(o, f, e.walk, stream);
    case NDT_F16:
      return run_vectors<F16>(o, f, e.walk, stream);
    case NDT_BF16:
      return run_vectors<BF16>(o, f, e.walk, stream);
    default:
      return false;
  }
}

template <typename From, typename To>
bool run_converted(const Elementwise& e, const Operands& o, cudaStream_t stream) {
  const int64_t vectors = e.walk.count / 8;
  if (vectors == 0) return false;
  launch(converted<From, To>, extent_for(vectors), stream, static_cast<const From*>(o.in[0]),
         static_cast<To*>(o.out), vectors);
  const Numbers f = {Function::kSame, 1, 0, 0};
  run_walked(e.computed, o, f, rest_of(e.walk, vectors * 8), stream);
  return true;
}

// Between f32 and 16 bits, where both lie alike.
bool run_cast(const Elementwise& e, const Operands& o, cudaStream_t stream) {
  const Walk::Dim& dim = e.walk.dims[0];
  const bool flat = e.walk.rank == 1 && dim.out == 1 && dim.in[0] == 1 && e.walk.out_start == 0 &&
                    e.walk.in_start[0] == 0;
  if (e.function != Function::kSame || !flat) return false;
  const ndt_dtype from = o.dtype[0], to = o.out_dtype;
  if (from == NDT_F32 && to == NDT_F16) return run_converted<float, F16>(e, o, stream);
  if (from == NDT_F32 && to == NDT_BF16) return run_converted<float, BF16>(e, o, stream);
  if (from == NDT_F16 && to == NDT_F32) return run_converted<F16, float>(e, o, stream);
  if (from == NDT_BF16 && to == NDT_F32) return run_converted<BF16, float>(e, o, stream);
  return false;
}

}  // namespace

void Elementwise::run(const void* const* data, void* to, cudaStream_t stream) const {
  Operands o{};
  for (int k = 0; k < inputs; ++k) {
    o.in[k] = data[k];
    o.dtype[k] = in[k];
  }
  o.out = to;
  o.out_dtype = out;
  const Numbers f = {function, inputs, a, b};
  if (walk.count == 0 || run_cast(*this, o, stream) || run_hot(*this, o, f, stream)) return;
  run_walked(computed, o, f, walk, stream);
}

}  // namespace ndtrain::cuda
