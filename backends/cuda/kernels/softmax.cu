#include "backends/cuda/kernels/lanes.h"
#include "backends/cuda/kernels/softmax.h"

namespace ndtrain::cuda {
namespace {

template <typename T>
__global__ void softmax_rows(Softmax kind, Lines lines, const T* a, const T* b, T* y) {
  using W = Wide<T>;
  __shared__ W shared[kWarps];
  const Team<W> team{shared, wide_for(lines.n)};
  const int64_t n = lines.n, step = lines.inner;
  for (int64_t r = team.first_row(); r < lines.rows; r += team.teams()) {
    const int64_t base = r / step * n * step + r % step;
    const auto in = [&](int64_t i) { return widen(a[base + i * step]); };
    const auto result = [&](int64_t i) { return widen(b[base + i * step]); };
    const auto put = [&](int64_t i, W v) { y[base + i * step] = narrow<T>(v); };
    if (kind == Softmax::kSoftmaxGrad) {  // dx = y * (dy - sum(dy * y))
      const W sum = team.sum(n, [&](int64_t i) { return in(i)*result(i); });
      team.each(n, [&](int64_t i) { put(i, result(i) * (in(i)-sum)); });
    } else if (kind == Softmax::kLogSoftmaxGrad) {  // dx = dy - exp(y) * sum(dy)
      const W sum = team.sum(n, in);
      team.each(n, [&](int64_t i) { put(i, in(i)-std::exp(result(i)) * sum); });
    } else {
      const W top = team.highest(n, in);
      const W sum = team.sum(n, [&](int64_t i) { return std::exp(in(i)-top); });
      if (kind == Softmax::kSoftmax) {
        const W share = W(1) / sum;
        team.each(n, [&](int64_t i) { put(i, std::exp(in(i)-top) * share); });
      } else {
        const W total = std::log(sum);
        team.each(n, [&](int64_t i) { put(i, (in(i)-top) - total); });
      }
    }
  }
}

NDT_DEVICE bool is_class(int64_t label, int64_t classes) { return label >= 0 && label < classes; }

// One block: the first row that counts and whose label is none of the classes.
__global__ void check_labels(CrossEntropy c, const int64_t* labels, const float* weights,
                             Fault* fault) {
  __shared__ int64_t shared[kWarps];
  const int64_t count = c.rows * c.of_row;
  int64_t first = count;
  for (int64_t i = threadIdx.x; i < count && first == count; i += kBlockThreads) {
    if (weights[i] != 0 && !is_class(labels[i], c.classes)) first = i;
  }
  first = fold_block(
      first, [](int64_t a, int64_t b) { return a < b ? a : b; }, shared);
  if (threadIdx.x != 0 || first == count || fault->is_set) return;
  fault->label = labels[first];
  fault->row = first / c.of_row;
  fault->classes = c.classes;
  fault->is_set = 1;
}

// The weighted labels of a row.
template <typename W>
struct SoftLabel {
  const int64_t* label;
  const float* weight;
  int64_t n;
  W total = 0;

  NDT_DEVICE SoftLabel(const CrossEntropy& c, int64_t row, const int64_t* labels,
                       const float* weights)
      : label(labels + row * c.of_row), weight(weights + row * c.of_row), n(c.of_row) {
    for (int64_t k = 0; k < n; ++k) total += static_cast<W>(weight[k]);
  }

  NDT_DEVICE bool known(int64_t classes) const {
    for (int64_t k = 0; k < n; ++k) {
      if (weight[k] != 0 && !is_class(label[k], classes)) return false;
    }
    return true;
  }

  // Of all of it, what the class has.
  NDT_DEVICE W share(int64_t c) const {
    W own = 0;
    for (int64_t k = 0; k < n; ++k) own += label[k] == c ? static_cast<W>(weight[k]) : W(0);
    return own / total;
  }
};

template <typename T>
__global__ void losses_of_rows(CrossEntropy c, const T* x, const int64_t* labels,
                               const float* weights, Wide<T>* losses) {
  using W = Wide<T>;
  __shared__ W shared[kWarps];
  const Team<W> team{shared, wide_for(c.classes)};
  const W s = static_cast<W>(c.smoothing);
  for (int64_t r = team.first_row(); r < c.rows; r += team.teams()) {
    const bool first = team.self() == 0;
    const SoftLabel<W> soft(c, r, labels, weights);
    if (first) losses[r] = 0;
    if (soft.total == W(0)) continue;
    const T* row = x + r * c.classes;
    const auto in = [&](int64_t i) { return widen(row[i]); };
    const W top = team.highest(c.classes, in);
    const W log_sum = std::log(team.sum(c.classes, [&](int64_t i) { return std::exp(in(i)-top); }));
    const W centre = team.sum(c.classes, [&](int64_t i) { return in(i)-top; });
    if (!first) continue;
    const W mean = s == W(0) ? W(0) : centre / static_cast<W>(c.classes) - log_sum;
    if (!soft.known(c.classes)) losses[r] = W(NAN);
    for (int64_t k = 0; k < soft.n && !std::isnan(losses[r]); ++k) {
      if (soft.weight[k] == 0) continue;
      const W label = in(soft.label[k]) - top - log_sum;
      losses[r] -= static_cast<W>(soft.weight[k]) * ((W(1) - s) * label + s * mean);
    }
  }
}

// One block, in a fixed order.
template <typename T>
__global__ void sum_of_losses(int64_t rows, const Wide<T>* losses, T* loss) {
  using W = Wide<T>;
  __shared__ W shared[kWarps];
  const Team<W> team{shared, true};
  const W sum = team.sum(rows, [&](int64_t i) { return losses[i]; });
  if (threadIdx.x == 0) *loss = narrow<T>(sum);
}

// dlogits = dloss * weight * (p - (1 - s) * share of the class - s / classes), where `weight` is of
// all of the row's labels.
template <typename T>
__global__ void gradients_of_rows(CrossEntropy c, const T* dloss, const T* x, const int64_t* labels,
                                  const float* weights, T* dx) {
  using W = Wide<T>;
  __shared__ W shared[kWarps];
  const Team<W> team{shared, wide_for(c.classes)};
  const W s = static_cast<W>(c.smoothing), spread = s / static_cast<W>(c.classes);
  for (int64_t r = team.first_row(); r < c.rows; r += team.teams()) {
    const T* row = x + r * c.classes;
    T* to = dx + r * c.classes;
    const SoftLabel<W> soft(c, r, labels, weights);
    if (soft.total == W(0)) {
      team.each(c.classes, [&](int64_t i) { to[i] = narrow<T>(W(0)); });
      continue;
    }
    const auto in = [&](int64_t i) { return widen(row[i]); };
    const W top = team.highest(c.classes, in);
    const W log_sum = std::log(team.sum(c.classes, [&](int64_t i) { return std::exp(in(i)-top); }));
    const W k = soft.known(c.classes) ? widen(*dloss) * soft.total : W(NAN);
    team.each(c.classes, [&](int64_t i) {
      const W p = std::exp(in(i)-top - log_sum);
      to[i] = narrow<T>(k * (p - (W(1) - s) * soft.share(i) - spread));
    });
  }
}

}  // namespace

void softmax(Softmax kind, ndt_dtype t, const Lines& lines, const void* a, const void* b, void* y,
             cudaStream_t stream) {
  if (lines.rows == 0 || lines.n == 0) return;
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(softmax_rows<T>, rows_extent(lines.rows, lines.n), stream, kind, lines,
           static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(y));
  });
}

void CrossEntropy::loss(const void* x, const int64_t* labels, const float* weights, void* losses,
                        void* loss, Fault* fault, cudaStream_t stream) const {
  launch(check_labels, Extent{1, kBlockThreads}, stream, *this, labels, weights, fault);
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    auto* of_rows = static_cast<Wide<T>*>(losses);
    launch(losses_of_rows<T>, rows_extent(rows, classes), stream, *this, static_cast<const T*>(x),
           labels, weights, of_rows);
    launch(sum_of_losses<T>, Extent{1, kBlockThreads}, stream, rows, of_rows,
           static_cast<T*>(loss));
  });
}

void CrossEntropy::gradient(const void* dloss, const void* x, const int64_t* labels,
                            const float* weights, void* dx, Fault* fault,
                            cudaStream_t stream) const {
  if (rows == 0) return;
  launch(check_labels, Extent{1, kBlockThreads}, stream, *this, labels, weights, fault);
  for_float(t, [&](auto type) {
    using T = typename decltype(type)::Type;
    launch(gradients_of_rows<T>, rows_extent(rows, classes), stream, *this,
           static_cast<const T*>(dloss), static_cast<const T*>(x), labels, weights,
           static_cast<T*>(dx));
  });
}

}  // namespace ndtrain::cuda
