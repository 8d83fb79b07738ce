// SoftmaxCrossEntropy of logits [N, classes] with label smoothing, weighted per row, and its
// gradient. A row of weight 0 is not looked at, whatever its label.
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/lanes.h"
#include "backends/cpu/kernels/math.h"

namespace ndtrain::cpu {
namespace {

struct Rows {
  int64_t n, classes;
  double smoothing;

  Rows(const Node& node, int logits)
      : n(node.in(logits).dims[0]),
        classes(node.in(logits).dims[1]),
        smoothing(node.f("smoothing")) {
    if (node.in(logits + 1).dtype != NDT_I64) invalid("labels are not i64");
    if (node.in(logits + 2).dtype != NDT_F32) invalid("weights are not f32");
  }

  // Before any thread starts: threads must not throw.
  void check(const int64_t* labels, const float* weights) const {
    for (int64_t i = 0; i < n; ++i) {
      if (weights[i] != 0 && (labels[i] < 0 || labels[i] >= classes)) {
        invalid("label ", labels[i], " of row ", i, " is none of ", classes, " classes");
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
        if (weights[i] == 0) continue;
        const T* row = x + i * rows.classes;
        const auto [top, log_sum] = log_sum_exp<T, W>(row, rows.classes);
        const W t = top;
        const W label = widen(row[labels[i]]) - t - log_sum;
        W mean = 0;
        if (s != 0) {
          mean = sum_row<W>(rows.classes, [=](int64_t c) { return widen(row[c]) - t; }) / classes -
                 log_sum;
        }
        losses[i] = -static_cast<W>(weights[i]) * ((1 - s) * label + s * mean);
      }
    });
    *as<T>(out[0]) = static_cast<T>(sum_row<W>(rows.n, [=](int64_t i) { return losses[i]; }));
  });
  k->workspace_bytes = static_cast<size_t>(rows.n) * sizeof(W);
  return k;
}

// dlogits = dloss * weight * (p - (1 - s) * [c = label] - s / classes).
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
    const W s = static_cast<W>(rows.smoothing), share = s / static_cast<W>(rows.classes);
    parallel_for(rows.n, rows.grain(), [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* row = x + i * rows.classes;
        T* to = dx + i * rows.classes;
        if (weights[i] == 0) {
          std::fill_n(to, rows.classes, static_cast<T>(W{}));
          continue;
        }
        const auto [top, log_sum] = log_sum_exp<T, W>(row, rows.classes);
        const W k = dloss * static_cast<W>(weights[i]), t = top, l = log_sum;
        for (int64_t c = 0; c < rows.classes; ++c) {
          to[c] = static_cast<T>(k * (math::exp(widen(row[c]) - t - l) - share));
        }
        const W p = math::exp(widen(row[labels[i]]) - t - l);
        to[labels[i]] = static_cast<T>(k * (p - (1 - s) - share));
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
