#include "backends/cuda/kernels/chain.h"
#include "backends/cuda/kernels/hot.h"

namespace ndtrain::cuda {
namespace {

struct Addresses {
  const void* in[kMostInputs];
  void* out;
};

// Every index is written out, so that slots are registers and not memory.
template <int kSize>
NDT_DEVICE void copy(const float (&from)[kSize], float (&to)[kSize]) {
  for_each_lane<kSize>([&](int i) { to[i] = from[i]; });
}

template <int kSize>
NDT_DEVICE void read(const float (&slots)[kChainSlots][kSize], int slot, float number,
                     float (&to)[kSize]) {
  switch (slot) {
    case 0:
      return copy(slots[0], to);
    case 1:
      return copy(slots[1], to);
    case 2:
      return copy(slots[2], to);
    case 3:
      return copy(slots[3], to);
    case 4:
      return copy(slots[4], to);
    case 5:
      return copy(slots[5], to);
    case 6:
      return copy(slots[6], to);
    case 7:
      return copy(slots[7], to);
    default:
      for_each_lane<kSize>([&](int i) { to[i] = number; });
  }
}

template <int kSize>
NDT_DEVICE void write(float (&slots)[kChainSlots][kSize], int slot, const float (&from)[kSize]) {
  switch (slot) {
    case 4:
      return copy(from, slots[4]);
    case 5:
      return copy(from, slots[5]);
    case 6:
      return copy(from, slots[6]);
    default:
      return copy(from, slots[7]);
  }
}

// slots[0 …] hold the inputs; `result` is the last step's.
template <int kSize>
NDT_DEVICE void follow(const Chain& chain, float (&slots)[kChainSlots][kSize],
                       float (&result)[kSize]) {
  for (int k = 0; k < chain.steps; ++k) {
    const Chain::Step& step = chain.step[k];
    float v[kMostInputs][kSize] = {};
    NDT_UNROLL
    for (int i = 0; i < kMostStepOperands; ++i) read(slots, step.from[i], step.number[i], v[i]);
    apply(Numbers{step.function, kMostStepOperands, step.a, step.b}, v, result);
    write(slots, step.to, result);
  }
}

template <typename T>
__global__ void by_element(Chain chain, Addresses a) {
  for (int64_t i = first_index(); i < chain.walk.count; i += all_threads()) {
    const Position<kMostInputs> at(chain.walk, i);
    float slots[kChainSlots][1] = {}, y[1] = {};
    NDT_UNROLL
    for (int k = 0; k < kMostInputs; ++k) {
      if (k < chain.inputs) slots[k][0] = load_as<float, T>(a.in[k], at.in[k]);
    }
    follow(chain, slots, y);
    store_as<T>(a.out, at.out, y[0]);
  }
}

// Element i of the walk is a whole vector of the output; see in_vectors().
template <typename T>
__global__ void by_vector(Chain chain, Addresses a, unsigned single) {
  constexpr int kSize = kVectorSize<T>;
  using Elements = Vector<T, kSize>;
  for (int64_t i = first_index(); i < chain.walk.count; i += all_threads()) {
    const Position<kMostInputs> at(chain.walk, i);
    float slots[kChainSlots][kSize] = {}, y[kSize] = {};
    NDT_UNROLL
    for (int k = 0; k < kMostInputs; ++k) {
      if (k >= chain.inputs) continue;
      const T* from = static_cast<const T*>(a.in[k]) + at.in[k];
      if (single >> k & 1) {
        const float x = widen(*from);
        for_each_lane<kSize>([&](int j) { slots[k][j] = x; });
      } else {
        const Elements x = *reinterpret_cast<const Elements*>(from);
        for_each_lane<kSize>([&](int j) { slots[k][j] = widen(x.at[j]); });
      }
    }
    follow(chain, slots, y);
    Elements packed;
    for_each_lane<kSize>([&](int j) { packed.at[j] = narrow<T>(y[j]); });
    *reinterpret_cast<Elements*>(static_cast<T*>(a.out) + at.out) = packed;
  }
}

template <typename T>
void run_as(const Chain& chain, const Addresses& a, cudaStream_t stream) {
  Chain part = chain;
  unsigned single = 0;
  int64_t done = 0;
  if (in_vectors(part.walk, chain.inputs, kVectorSize<T>, single)) {
    launch(by_vector<T>, extent_for(part.walk.count), stream, part, a, single);
    done = part.walk.count * kVectorSize<T>;
    if (done == chain.walk.count) return;
  }
  part.walk = done > 0 ? rest_of(chain.walk, done) : chain.walk;
  launch(by_element<T>, extent_for(part.walk.count), stream, part, a);
}

}  // namespace

void Chain::run(const void* const* data, void* to, cudaStream_t stream) const {
  if (walk.count == 0) return;
  Addresses a{};
  for (int k = 0; k < inputs; ++k) a.in[k] = data[k];
  a.out = to;
  switch (dtype) {
    case NDT_F16:
      return run_as<F16>(*this, a, stream);
    case NDT_BF16:
      return run_as<BF16>(*this, a, stream);
    default:
      return run_as<float>(*this, a, stream);
  }
}

}  // namespace ndtrain::cuda
