#include "backends/cuda/kernels/lanes.h"
#include "backends/cuda/kernels/reduce.h"

namespace ndtrain::cuda {
namespace {

template <typename W>
NDT_DEVICE W joined(Fold fold, W a, W b) {
  switch (fold) {
    case Fold::kAdd:
      return a + b;
    case Fold::kMul:
      return a * b;
    case Fold::kMax:
      return a >= b || a != a ? a : b;
    case Fold::kMin:
      return a <= b || a != a ? a : b;
    case Fold::kMaxNumber:
      return b > a ? b : a;
    default:
      return b < a ? b : a;
  }
}

template <typename W>
NDT_DEVICE W term_of(Term term, W x, W top) {
  switch (term) {
    case Term::kAbs:
      if constexpr (std::is_signed<W>::value) return x < W(0) ? -x : x;
      return x;
    case Term::kSquare:
      return x * x;
    case Term::kExp:
      if constexpr (std::is_floating_point<W>::value) return std::exp(x - top);
      return x;
    default:
      return x;
  }
}

template <typename W>
NDT_DEVICE W finished(Finish finish, W y, int64_t n, W top) {
  // Roots and logarithms of integers are cut back to them.
  using F = std::conditional_t<std::is_floating_point<W>::value, W, double>;
  switch (finish) {
    case Finish::kMean:
      return std::is_integral<W>::value && n == 0 ? W(0) : y / static_cast<W>(n);
    case Finish::kSqrt:
      return narrow<W>(std::sqrt(static_cast<F>(y)));
    case Finish::kLog:
      return narrow<W>(std::log(static_cast<F>(y)));
    case Finish::kFiniteOrZero:
      return y - y == W(0) ? y : W(0);
    case Finish::kLogPlusTop:
      return top + narrow<W>(std::log(static_cast<F>(y)));
    default:
      return y;
  }
}

template <typename W>
struct Work {
  Fold fold;
  Term term;
  Finish finish;
  W start;
  ndt_dtype in, out;
  int across;           // threads that share an output: 1, a warp or a block
  int64_t parts, part;  // in how many the elements are cut, and of how many
  const void* x;
  const W* tops;
  W* partial;  // [parts, outputs]
  void* y;
};

template <typename W>
NDT_DEVICE void finish_output(const Work<W>& w, const Walk& kept, int64_t o, W y, int64_t n) {
  const W top = w.tops ? w.tops[o] : W(0);
  store(w.y, w.out, Position<1>(kept, o).out, finished(w.finish, y, n, top));
}

// T: what x is stored as; void: what its dtype says.
template <typename W, typename T>
__global__ void fold_parts(Work<W> w, Walk kept, Walk folded) {
  __shared__ W shared[kWarps];
  const int64_t outputs = kept.count, tasks = outputs * w.parts;
  const int64_t first = first_index() / w.across, step = all_threads() / w.across;
  const auto fold = [&](W a, W b) { return joined(w.fold, a, b); };
  for (int64_t t = first; t < tasks; t += step) {
    const int64_t p = t / outputs, o = t - p * outputs;
    const int64_t base = Position<1>(kept, o).in[0];
    const int64_t begin = p * w.part + first_index() % w.across;
    const int64_t end = (p + 1) * w.part < folded.count ? (p + 1) * w.part : folded.count;
    const W top = w.tops ? w.tops[o] : W(0);
    W y = w.start;
    for (int64_t i = begin; i < end; i += w.across) {
      const int64_t at = base + Position<1>(folded, i).in[0];
      W x;
      if constexpr (std::is_void<T>::value) {
        x = load<W>(w.x, w.in, at);
      } else {
        x = widen(static_cast<const T*>(w.x)[at]);
      }
      y = fold(y, term_of(w.term, x, top));
    }
    if (w.across == kLanes) y = fold_warp(y, fold);
    if (w.across > kLanes) y = fold_block(y, fold, shared);
    if (first_index() % w.across != 0) continue;
    if (w.parts > 1) {
      w.partial[t] = y;
    } else {
      finish_output(w, kept, o, y, folded.count);
    }
  }
}

template <typename W>
__global__ void join_parts(Work<W> w, Walk kept, int64_t n) {
  for (int64_t o = first_index(); o < kept.count; o += all_threads()) {
    W y = w.partial[o];
    for (int64_t p = 1; p < w.parts; ++p) y = joined(w.fold, y, w.partial[p * kept.count + o]);
    finish_output(w, kept, o, y, n);
  }
}

bool contiguous(const Walk& folded) { return folded.inner().in[0] == 1; }

int across(const Walk& folded) {
  if (!contiguous(folded)) return 1;
  return folded.count <= 32 * kLanes ? kLanes : kBlockThreads;
}

// Elements that a thread takes before the elements of an output are cut in parts.
int64_t parts_of(const Walk& folded) {
  constexpr int64_t kEach = 256, kMostParts = 256;
  const int64_t part = across(folded) * kEach;
  return std::clamp<int64_t>((folded.count + part - 1) / part, 1, kMostParts);
}

template <typename W, typename T>
void start(const Reduction& r, const Work<W>& w, cudaStream_t stream) {
  const int64_t tasks = r.kept.count * w.parts;
  launch(fold_parts<W, T>, extent_for(tasks * w.across), stream, w, r.kept, r.folded);
  if (w.parts > 1) {
    launch(join_parts<W>, extent_for(r.kept.count), stream, w, r.kept, r.folded.count);
  }
}

template <typename W>
Work<W> work_of(const Reduction& r, W from, const void* x, const void* tops, void* partial,
                void* y) {
  const int64_t parts = parts_of(r.folded);
  return {r.fold,
          r.term,
          r.finish,
          from,
          r.in,
          r.out,
          across(r.folded),
          parts,
          (r.folded.count + parts - 1) / parts,
          x,
          static_cast<const W*>(tops),
          static_cast<W*>(partial),
          y};
}

// The index held and its number; `better` of two does not mind their order.
template <typename W>
struct Held {
  W value;
  int64_t at;
};

template <typename W>
NDT_DEVICE Held<W> better(const Held<W>& a, const Held<W>& b, bool want_max, bool last) {
  const bool wins = want_max ? b.value > a.value : b.value < a.value;
  const bool ties = b.value == a.value && (last ? b.at > a.at : b.at < a.at);
  return wins || ties ? b : a;
}

// One warp for each line; every lane begins with the first element, which stays if it is NaN.
template <typename W>
__global__ void arg_extremes(ArgExtreme a, const void* x, int64_t* y) {
  const int64_t step = all_threads() / kLanes;
  for (int64_t o = first_index() / kLanes; o < a.lines.count; o += step) {
    const Position<1> line(a.lines, o);
    Held<W> best = {load<W>(x, a.in, line.in[0]), 0};
    for (int64_t i = lane(); i < a.n; i += kLanes) {
      const Held<W> next = {load<W>(x, a.in, line.in[0] + i * a.step), i};
      best = better(best, next, a.want_max, a.last);
    }
    for (int mask = kLanes / 2; mask > 0; mask /= 2) {
      const Held<W> other = {__shfl_xor_sync(~0u, best.value, mask),
                             __shfl_xor_sync(~0u, best.at, mask)};
      best = better(best, other, a.want_max, a.last);
    }
    if (lane() == 0) y[line.out] = best.at;
  }
}

}  // namespace

size_t Reduction::workspace() const {
  const int64_t parts = parts_of(folded);
  return parts > 1 ? static_cast<size_t>(parts * kept.count) * sizeof(double) : 0;
}

void Reduction::run(const void* x, const void* tops, void* partial, void* y,
                    cudaStream_t stream) const {
  if (kept.count == 0) return;
  const auto work = [&](auto from) { return work_of(*this, from, x, tops, partial, y); };
  switch (computed) {
    case Class::kFloat: {
      const Work<float> w = work(static_cast<float>(start.floating));
      if (in == NDT_F32) return cuda::start<float, float>(*this, w, stream);
      if (in == NDT_F16) return cuda::start<float, F16>(*this, w, stream);
      return cuda::start<float, BF16>(*this, w, stream);
    }
    case Class::kDouble:
      return cuda::start<double, void>(*this, work(start.floating), stream);
    case Class::kSigned:
      return cuda::start<int64_t, void>(*this, work(start.integer), stream);
    case Class::kUnsigned:
      return cuda::start<uint64_t, void>(*this, work(start.natural), stream);
  }
}

void ArgExtreme::run(const void* x, int64_t* y, cudaStream_t stream) const {
  if (lines.count == 0) return;
  const Extent extent = extent_for(lines.count * kLanes);
  switch (computed) {
    case Class::kFloat:
      return launch(arg_extremes<float>, extent, stream, *this, x, y);
    case Class::kDouble:
      return launch(arg_extremes<double>, extent, stream, *this, x, y);
    case Class::kSigned:
      return launch(arg_extremes<int64_t>, extent, stream, *this, x, y);
    case Class::kUnsigned:
      return launch(arg_extremes<uint64_t>, extent, stream, *this, x, y);
  }
}

}  // namespace ndtrain::cuda
