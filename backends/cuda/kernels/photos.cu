#include "backends/cuda/kernels/grid.h"
#include "backends/cuda/kernels/photos.h"

namespace ndtrain::cuda {
namespace {

struct Colours {
  const float *mean, *deviation;

  NDT_DEVICE float normalised(uint8_t x, int c) const {
    return (static_cast<float>(x) / 255.0f - mean[c]) / deviation[c];
  }
};

// 16 bytes are 16 / 3 pixels: the channel of the first is that of its place.
template <typename T>
__global__ void interleaved(Colours colours, int64_t vectors, const uint8_t* x, T* y) {
  constexpr int kSize = 16, kPart = kVectorSize<T>;
  for (int64_t i = first_index(); i < vectors; i += all_threads()) {
    const auto in = reinterpret_cast<const Vector<uint8_t, kSize>*>(x)[i];
    const int first = static_cast<int>(i * kSize % 3);
    NDT_UNROLL
    for (int part = 0; part < kSize / kPart; ++part) {
      Vector<T, kPart> result;
      for_each_lane<kPart>([&](int j) {
        const int k = part * kPart + j;
        result.at[j] = narrow<T>(colours.normalised(in.at[k], (first + k) % 3));
      });
      reinterpret_cast<Vector<T, kPart>*>(y)[i * (kSize / kPart) + part] = result;
    }
  }
}

template <typename T>
__global__ void one_by_one(Colours colours, int64_t begin, int64_t end, const uint8_t* x, T* y) {
  for (int64_t i = begin + first_index(); i < end; i += all_threads()) {
    y[i] = narrow<T>(colours.normalised(x[i], static_cast<int>(i % 3)));
  }
}

template <typename T>
__global__ void planes(Photos p, Colours colours, const uint8_t* x, T* y) {
  for (int64_t i = first_index(); i < p.photos * p.pixels; i += all_threads()) {
    T* to = y + i / p.pixels * 3 * p.pixels + i % p.pixels;
    NDT_UNROLL
    for (int c = 0; c < 3; ++c) to[c * p.pixels] = narrow<T>(colours.normalised(x[i * 3 + c], c));
  }
}

template <typename T>
void start(const Photos& p, const Colours& colours, const uint8_t* x, void* to,
           cudaStream_t stream) {
  T* y = static_cast<T*>(to);
  if (p.planar) {
    return launch(planes<T>, extent_for(p.photos * p.pixels), stream, p, colours, x, y);
  }
  const int64_t n = p.photos * p.pixels * 3, vectors = n / 16;
  if (vectors > 0) launch(interleaved<T>, extent_for(vectors), stream, colours, vectors, x, y);
  if (n % 16 > 0) launch(one_by_one<T>, extent_for(n % 16), stream, colours, vectors * 16, n, x, y);
}

}  // namespace

void Photos::normalise(const uint8_t* x, const float* mean, const float* deviation, void* y,
                       cudaStream_t stream) const {
  if (photos * pixels == 0) return;
  const Colours colours = {mean, deviation};
  if (t == NDT_F16) return start<F16>(*this, colours, x, y, stream);
  if (t == NDT_BF16) return start<BF16>(*this, colours, x, y, stream);
  start<float>(*this, colours, x, y, stream);
}

}  // namespace ndtrain::cuda
