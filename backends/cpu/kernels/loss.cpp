// SoftmaxCrossEntropy of logits [N, classes] with label smoothing, of weighted labels [N] or [N,
// K], and its gradient. A label of weight 0 is not looked at, nor is a row that has no others.
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/lanes.h"
#include "backends/cpu/kernels/math.h"

namespace ndtrain::cpu {
namespace {

struct Rows {
  int64_t n, classes, labels;  // so many of a row
  double smoothing;

  Rows(const Node& node, int logits)
      : n(node.in(logits).dims[0]),
        classes(node.in(logits).dims[1]),
        labels(node.in(logits + 1).rank == 2 ? node.in(logits + 1).dims[1] : 1),
        smoothing(node.f("smoothing")) {
    if (node.in(logits + 1).dtype != NDT_I64) invalid("labels are not i64");
    if (node.in(logits + 2).dtype != NDT_F32) invalid("weights are not f32");
  }

  // Before any thread starts: threads must not throw.
  void check(const int64_t* label, const float* weight) const {
    for (int64_t i = 0; i < n * labels; ++i) {
      if (weight[i] != 0 && (label[i] < 0 || label[i] >= classes)) {
        invalid("label ", label[i], " of row ", i / labels, " is none of ", classes, " classes");
      }
    }
  }
  int64_t grain() const { return std::max<int64_t>(1, kElementGrain / (4 * classes + 1)); }
};

template <typename W>
struct LogSum {
  W top, log_sum;  // of exp(x - top)
};

template <typename T, typename W>
LogSum<W> log_sum_exp(const T* x, int64_t n) {
  const W top = fold_row(
      n, -std::numeric_limits<W>::infinity(), [=](int64_t i) { return widen(x[i]); },
      [](W a, W b) { return a > b ? a : b; });
  return {top, math::log(sum_row<W>(n, [=](int64_t i) { return math::exp(widen(x[i]) - top); }))};
}

// The weighted labels of a row.
template <typename W>
struct SoftLabel {
  const int64_t* label;
  const float* weight;
  int64_t n;
  W total = 0;

  SoftLabel(const Rows& rows, int64_t row, const int64_t* labels, const float* weights)
      : label(labels + row * rows.labels), weight(weights + row * rows.labels), n(rows.labels) {
    for (int64_t k = 0; k < n; ++k) total += static_cast<W>(weight[k]);
  }

  // Of all of it, what the class has.
  W share(int64_t c) const {
    W own = 0;
    for (int64_t k = 0; k < n; ++k) {
      if (label[k] == c) own += static_cast<W>(weight[k]);
    }
    return own / total;
  }
};

template <typename T>
std::unique_ptr<Kernel> forward(const Node& node) {
  using W = wide_t<T>;
  const Rows rows(node, 0);
  auto k = kernel([rows](const void* const* in, void* const* out, void* workspace) {
    const T* x = as<T>(in[0]);
    const int64_t* labels = as<int64_t>(in[1]);
    const float* weights = as<float>(in[2]);
    W* losses = as<W>(workspace);
    rows.check(labels, weights);
    const W s = static_cast<W>(rows.smoothing), classes = static_cast<W>(rows.classes);
    parallel_for(rows.n, rows.grain(), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        losses[i] = 0;
        const SoftLabel<W> soft(rows, i, labels, weights);
        if (soft.total == 0) continue;
        const T* row = x + i * rows.classes;
        const auto [top, log_sum] = log_sum_exp<T, W>(row, rows.classes);
        const W t = top;
        W mean = 0;
        if (s != 0) {
          mean = sum_row<W>(rows.classes, [=](int64_t c) { return widen(row[c]) - t; }) / classes -
                 log_sum;
        }
        for (int64_t l = 0; l < soft.n; ++l) {
          if (soft.weight[l] == 0) continue;
          const W label = widen(row[soft.label[l]]) - t - log_sum;
          losses[i] -= static_cast<W>(soft.weight[l]) * ((1 - s) * label + s * mean);
        }
      }
    });
    *as<T>(out[0]) = static_cast<T>(sum_row<W>(rows.n, [=](int64_t i) { return losses[i]; }));
  });
  k->workspace_bytes = static_cast<size_t>(rows.n) * sizeof(W);
  return k;
}

// dlogits = dloss * weight * (p - (1 - s) * share of the class - s / classes), where `weight` is of
// all of the row's labels.
template <typename T>
std::unique_ptr<Kernel> backward(const Node& node) {
  using W = wide_t<T>;
  const Rows rows(node, 1);
  return kernel([rows](const void* const* in, void* const* out, void*) {
    const W dloss = widen(*as<T>(in[0]));
    const T* x = as<T>(in[1]);
    const int64_t* labels = as<int64_t>(in[2]);
    const float* weights = as<float>(in[3]);
    T* dx = as<T>(out[0]);
    rows.check(labels, weights);
    const W s = static_cast<W>(rows.smoothing), spread = s / static_cast<W>(rows.classes);
    parallel_for(rows.n, rows.grain(), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* row = x + i * rows.classes;
        T* to = dx + i * rows.classes;
        const SoftLabel<W> soft(rows, i, labels, weights);
        if (soft.total == 0) {
          std::fill_n(to, rows.classes, static_cast<T>(W{}));
          continue;
        }
        const auto [top, log_sum] = log_sum_exp<T, W>(row, rows.classes);
        const W k = dloss * soft.total, t = top, l = log_sum;
        for (int64_t c = 0; c < rows.classes; ++c) {
          to[c] = static_cast<T>(k * (math::exp(widen(row[c]) - t - l) - spread));
        }
        for (int64_t own = 0; own < soft.n; ++own) {
          const int64_t c = soft.label[own];
          if (soft.weight[own] == 0) continue;
          const W p = math::exp(widen(row[c]) - t - l);
          to[c] = static_cast<T>(k * (p - (1 - s) * soft.share(c) - spread));
        }
      }
    });
  });
}

std::unique_ptr<Kernel> cross_entropy_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() { return forward<T>(node); });
}

std::unique_ptr<Kernel> cross_entropy_grad_kernel(const Node& node) {
  return for_float(node.in(1).dtype, node.op(), [&]<typename T>() { return backward<T>(node); });
}

const Registered registered{
    {"SoftmaxCrossEntropy", cross_entropy_kernel},
    {"SoftmaxCrossEntropyGrad", cross_entropy_grad_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
