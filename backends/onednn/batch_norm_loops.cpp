#include "backends/onednn/batch_norm_loops.h"

#include "backends/onednn/block_lanes.inc"

namespace ndtrain::onednn::NDT_ISA {
namespace {

constexpr int64_t kChunk = 256;  // pixels: x and dy of it stay in the first cache

typedef double Doubles __attribute__((vector_size(kBlock * 8)));

Vec load(const ChannelLanes& lanes) { return F32::load(reinterpret_cast<const char*>(lanes.of)); }
void store(ChannelLanes& lanes, Vec v) { F32::store(reinterpret_cast<char*>(lanes.of), v); }
Doubles wide(Vec v) { return __builtin_convertvector(v, Doubles); }
Vec narrow(Doubles v) { return __builtin_convertvector(v, Vec); }
Vec mean_of(Vec sum, int64_t n) { return sum / static_cast<float>(n); }

// body(byte of the first of `n` pixels, n), image after image.
template <typename T, typename F>
void chunks(const BlockPlanes& at, F body) {
  constexpr int64_t kPixel = kBlock * T::kBytes;
  for (int64_t i = 0; i < at.images; ++i) {
    for (int64_t p = 0; p < at.plane; p += kChunk) {
      body(i * at.step + p * kPixel, at.plane - p < kChunk ? at.plane - p : kChunk);
    }
  }
}

// The sum of term(p) over n pixels, in four sums that do not wait for each other.
template <typename F>
Vec sum(int64_t n, F term) {
  Vec a{}, b{}, c{}, d{};
  int64_t p = 0;
  for (; p + 4 <= n; p += 4) {
    a += term(p);
    b += term(p + 1);
    c += term(p + 2);
    d += term(p + 3);
  }
  for (; p < n; ++p) a += term(p);
  return (a + b) + (c + d);
}

// Of what was seen so far: the number of pixels, mean and sum of squares about it.
struct Seen {
  double n = 0;
  Doubles mean{}, squares{};

  void join(double more, Vec mean_of_more, Vec squares_of_more) {
    const Doubles delta = wide(mean_of_more) - mean;
    const double all = n + more;
    mean += delta * (more / all);
    squares += wide(squares_of_more) + delta * delta * (n * more / all);
    n = all;
  }
  void to(BatchMoments& m) const {
    store(m.mean, narrow(mean));
    store(m.var, narrow(squares / n));
  }
};

template <typename T>
struct Loops {
  static constexpr int64_t kPixel = kBlock * T::kBytes;

  static void moments(const BlockPlanes& at, const void* x, BatchMoments* found) {
    Seen seen;
    chunks<T>(at, [&](int64_t from, int64_t n) {
      const char* const p = static_cast<const char*>(x) + from;
      const Vec mean = mean_of(sum(n, [=](int64_t i) { return T::load(p + i * kPixel); }), n);
      seen.join(static_cast<double>(n), mean, sum(n, [=](int64_t i) {
                  const Vec d = T::load(p + i * kPixel) - mean;
                  return d * d;
                }));
    });
    seen.to(*found);
  }

  static void scale(const BlockPlanes& at, const void* x, void* y, const ChannelLanes& mean,
                    const ChannelLanes& factor, const ChannelLanes& bias) {
    const Vec m = load(mean), f = load(factor), b = load(bias);
    chunks<T>(at, [=](int64_t from, int64_t n) {
      const char* const p = static_cast<const char*>(x) + from;
      char* const to = static_cast<char*>(y) + from;
      for (int64_t i = 0; i < n; ++i) {
        T::store(to + i * kPixel, (T::load(p + i * kPixel) - m) * f + b);
      }
    });
  }

  static void slopes(const BlockPlanes& at, const void* dy, const void* x, BatchSlopes* found) {
    Seen seen;
    Doubles shift{}, slope{};  // sums of dy, and of dy * x
    chunks<T>(at, [&](int64_t from, int64_t n) {
      const char* const p = static_cast<const char*>(x) + from;
      const char* const q = static_cast<const char*>(dy) + from;
      const Vec mean = mean_of(sum(n, [=](int64_t i) { return T::load(p + i * kPixel); }), n);
      const Vec of_dy = sum(n, [=](int64_t i) { return T::load(q + i * kPixel); });
      const Vec both = sum(
          n, [=](int64_t i) { return T::load(q + i * kPixel) * (T::load(p + i * kPixel) - mean); });
      seen.join(static_cast<double>(n), mean, sum(n, [=](int64_t i) {
                  const Vec d = T::load(p + i * kPixel) - mean;
                  return d * d;
                }));
      shift += wide(of_dy);
      slope += wide(both) + wide(mean) * wide(of_dy);
    });
    seen.to(found->x);
    store(found->shift, narrow(shift / seen.n));
    store(found->slope, narrow((slope - seen.mean * shift) / seen.n));
  }

  static void back(const BlockPlanes& at, const void* dy, const void* x, void* dx,
                   const BatchSlopes& found, const ChannelLanes& factor) {
    const Vec mean = load(found.x.mean), f = load(factor);
    const Vec shift = load(found.shift), slope = load(found.slope);
    chunks<T>(at, [=](int64_t from, int64_t n) {
      const char* const p = static_cast<const char*>(x) + from;
      const char* const q = static_cast<const char*>(dy) + from;
      char* const to = static_cast<char*>(dx) + from;
      for (int64_t i = 0; i < n; ++i) {
        const Vec d = T::load(q + i * kPixel) - shift - (T::load(p + i * kPixel) - mean) * slope;
        T::store(to + i * kPixel, f * d);
      }
    });
  }

  static constexpr BatchNormLoops kAll = {moments, scale, slopes, back};
};

}  // namespace

const BatchNormLoops* batch_norm_loops(ndt_dtype t) {
  if (t == NDT_F32) return &Loops<F32>::kAll;
  return t == NDT_BF16 ? &Loops<Bf16>::kAll : nullptr;
}

}  // namespace ndtrain::onednn::NDT_ISA
