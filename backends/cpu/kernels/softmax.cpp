// Softmax and LogSoftmax along one axis, and their gradients. x is [outer, n, inner]; a row with
// inner 1 is contiguous. Wider ones are gathered into a row of the workspace, so that both have the
// same bits.
#include <limits>

#include "backends/cpu/kernels/lanes.h"
#include "backends/cpu/kernels/math.h"
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

template <typename W>
W max_row(const W* x, int64_t n) {
  return fold_row(
      n, -std::numeric_limits<W>::infinity(), [=](int64_t i) { return x[i]; },
      [](W a, W b) { return a > b ? a : b; });
}

template <typename W>
void softmax_row(const W* x, const W*, W* y, int64_t n) {
  const W top = max_row(x, n);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = math::exp(x[i] - top);
  const W sum = sum_row<W>(n, [=](int64_t i) { return y[i]; });
  const W share = 1 / sum;
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] *= share;
}

template <typename W>
void log_softmax_row(const W* x, const W*, W* y, int64_t n) {
  const W top = max_row(x, n);
  const W total = math::log(sum_row<W>(n, [=](int64_t i) { return math::exp(x[i] - top); }));
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - top) - total;
}

// dx = y * (dy - sum(dy * y)).
template <typename W>
void softmax_grad_row(const W* dy, const W* y, W* dx, int64_t n) {
  const W sum = sum_row<W>(n, [=](int64_t i) { return dy[i] * y[i]; });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (dy[i] - sum);
}

// dx = dy - exp(y) * sum(dy).
template <typename W>
void log_softmax_grad_row(const W* dy, const W* y, W* dx, int64_t n) {
  const W sum = sum_row<W>(n, [=](int64_t i) { return dy[i]; });
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] - math::exp(y[i]) * sum;
}

template <typename W>
using RowFunction = void (*)(const W*, const W*, W*, int64_t);

template <typename T, RowFunction<wide_t<T>> Row>
class LineKernel final : public Kernel {
  using W = wide_t<T>;

 public:
  explicit LineKernel(const Node& node) : inputs_(node.inputs()), slots_(threads()) {
    const ndt_tensor_type& x = node.in(0);
    const int axis = axis_of(node, x.rank);
    outer_ = count(x, 0, axis);
    n_ = x.dims[axis];
    inner_ = count(x, axis + 1, x.rank);
    direct_ = inner_ == 1 && std::is_same_v<T, W>;
    if (!direct_) workspace_bytes = static_cast<size_t>(slots_ * 3 * n_) * sizeof(W);
    in_place_inputs = inputs_ == 2 ? 0b11 : 1;
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const T *a = as<T>(in[0]), *b = as<T>(in[inputs_ - 1]);
    T* y = as<T>(out[0]);
    const int64_t chunk = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, n_));
    if constexpr (std::is_same_v<T, W>) {
      if (direct_) {
        return parallel_for(outer_, chunk, [=, this](int64_t begin, int64_t end) {
          for (int64_t r = begin * n_; r < end * n_; r += n_) Row(a + r, b + r, y + r, n_);
        });
      }
    }
    const int64_t rows = outer_ * inner_;
    parallel_tasks((rows + chunk - 1) / chunk, slots_, [&](int64_t task, int slot) {
      W* line = as<W>(workspace) + slot * 3 * n_;
      for (int64_t r = task * chunk; r < std::min(rows, (task + 1) * chunk); ++r) {
        const int64_t start = r / inner_ * n_ * inner_ + r % inner_;
        by_way_of(line, a + start, b + start, y + start);
      }
    });
  }

 private:
  void by_way_of(W* line, const T* a, const T* b, T* y) const {
    W *first = line, *second = line + n_, *result = line + 2 * n_;
    for (int64_t i = 0; i < n_; ++i) first[i] = widen(a[i * inner_]);
    if (inputs_ == 2) {
      for (int64_t i = 0; i < n_; ++i) second[i] = widen(b[i * inner_]);
    }
    Row(first, second, result, n_);
    for (int64_t i = 0; i < n_; ++i) y[i * inner_] = static_cast<T>(result[i]);
  }

  int inputs_, slots_;
  int64_t outer_, n_, inner_;
  bool direct_;
};

std::unique_ptr<Kernel> softmax_kernel(const Node& node) {
  const std::string_view op = node.op();
  return for_float(node.in(0).dtype, op, [&]<typename T>() -> std::unique_ptr<Kernel> {
    using W = wide_t<T>;
    if (op == "Softmax") return std::make_unique<LineKernel<T, softmax_row<W>>>(node);
    if (op == "LogSoftmax") return std::make_unique<LineKernel<T, log_softmax_row<W>>>(node);
    if (op == "SoftmaxGrad") return std::make_unique<LineKernel<T, softmax_grad_row<W>>>(node);
    return std::make_unique<LineKernel<T, log_softmax_grad_row<W>>>(node);
  });
}

const Registered registered{
    {"Softmax", softmax_kernel, Trait::kPlain},
    {"LogSoftmax", softmax_kernel, Trait::kPlain},
    {"SoftmaxGrad", softmax_kernel},
    {"LogSoftmaxGrad", softmax_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
