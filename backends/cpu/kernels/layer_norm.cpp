// LayerNormalization over the dims from `axis` on, and its gradient. x is [rows, length]; scale and
// bias are laid out as one row first, whatever they broadcast from.
#include <cmath>

#include "backends/cpu/kernels/lanes.h"
#include "backends/cpu/kernels/numbers.h"
#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

struct Rows {
  int64_t count, length;

  explicit Rows(const Node& node, const ndt_tensor_type& x) {
    const int axis = axis_of(node, x.rank);
    count = cpu::count(x, 0, axis);
    length = cpu::count(x, axis, x.rank);
  }
  int64_t grain() const { return std::max<int64_t>(1, kElementGrain / (length + 1)); }
};

// Which element of a scale or bias belongs to each element of a row of x.
class RowIndex {
 public:
  RowIndex(const Node& node, const ndt_tensor_type& x, const ndt_tensor_type& t) : dtype_(t.dtype) {
    const int axis = axis_of(node, x.rank), skip = x.rank - t.rank;
    if (skip < 0) invalid("scale or bias has more dims than the input");
    const std::vector<int64_t> strides = strides_of(dims_of(t));
    at_.assign(1, 0);
    for (int d = 0; d < x.rank; ++d) {
      const int64_t extent = d < skip ? 1 : t.dims[d - skip];
      if (extent != 1 && extent != x.dims[d]) invalid("scale or bias does not broadcast");
      if (d < axis && extent != 1) unsupported("scale or bias varies along dim ", d);
      if (d < axis) continue;
      std::vector<int64_t> wider;
      for (const int64_t base : at_) {
        for (int64_t i = 0; i < x.dims[d]; ++i) {
          wider.push_back(base + (extent == 1 ? 0 : i * strides[d - skip]));
        }
      }
      at_ = std::move(wider);
    }
  }

  template <typename W>
  void lay_out(const void* data, W* row) const {
    for (size_t i = 0; i < at_.size(); ++i) row[i] = number<W>(data, dtype_, at_[i]);
  }

  // Adds a row up to where its elements came from; `sums` is room for the `n` numbers of `data`.
  template <typename W>
  void add_up(const W* row, W* sums, int64_t n, void* data) const {
    std::fill_n(sums, n, W{});
    for (size_t i = 0; i < at_.size(); ++i) sums[at_[i]] += row[i];
    for (int64_t i = 0; i < n; ++i) set_number(data, dtype_, i, sums[i]);
  }

 private:
  ndt_dtype dtype_;
  std::vector<int64_t> at_;
};

template <typename W>
struct Statistics {
  W mean, inv_deviation;
};

template <typename T, typename W>
Statistics<W> statistics(const T* x, int64_t n, W epsilon) {
  const W mean = sum_row<W>(n, [=](int64_t i) { return widen(x[i]); }) / static_cast<W>(n);
  const W var =
      sum_row<W>(n, [=](int64_t i) { return (widen(x[i]) - mean) * (widen(x[i]) - mean); });
  return {mean, 1 / std::sqrt(var / static_cast<W>(n) + epsilon)};
}

template <typename T>
class LayerNorm final : public Kernel {
  using W = wide_t<T>;

 public:
  explicit LayerNorm(const Node& node)
      : rows_(node, node.in(0)),
        epsilon_(static_cast<W>(node.f("epsilon"))),
        scale_(node, node.in(0), node.in(1)) {
    if (node.has(2)) bias_.emplace_back(node, node.in(0), node.in(2));
    for (const int k : {1, 2}) {
      if (node.has_output(k)) stash_[k - 1] = node.out(k).dtype;
    }
    workspace_bytes = static_cast<size_t>(2 * rows_.length) * sizeof(W);
    in_place_inputs = 1;
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    W *scale = as<W>(workspace), *bias = scale + rows_.length;
    scale_.lay_out(in[1], scale);
    if (bias_.empty()) std::fill_n(bias, rows_.length, W{});
    for (const RowIndex& b : bias_) b.lay_out(in[2], bias);
    const T* x = as<T>(in[0]);
    T* y = as<T>(out[0]);
    parallel_for(rows_.count, rows_.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const Statistics<W> s = row(x + r * rows_.length, scale, bias, y + r * rows_.length);
        if (stash_[0]) set_number(out[1], stash_[0], r, s.mean);
        if (stash_[1]) set_number(out[2], stash_[1], r, s.inv_deviation);
      }
    });
  }

 private:
  Statistics<W> row(const T* x, const W* scale, const W* bias, T* y) const {
    const Statistics<W> s = statistics(x, rows_.length, epsilon_);
    const W mean = s.mean, r = s.inv_deviation;
#pragma GCC ivdep
    for (int64_t i = 0; i < rows_.length; ++i) {
      y[i] = static_cast<T>((widen(x[i]) - mean) * r * scale[i] + bias[i]);
    }
    return s;
  }

  Rows rows_;
  W epsilon_;
  RowIndex scale_;
  std::vector<RowIndex> bias_;  // at most one
  ndt_dtype stash_[2] = {NDT_ABSENT, NDT_ABSENT};
};

// With r = 1 / sqrt(var + epsilon), z = (x - mean) * r, h = dy * scale:
// dx = r * (h - mean(h) - z * mean(h * z)), dscale = sum dy * z, dbias = sum dy.
template <typename T>
class LayerNormGrad final : public Kernel {
  using W = wide_t<T>;
  static constexpr int64_t kRowsOfPart = 128, kColumns = 256;

 public:
  explicit LayerNormGrad(const Node& node)
      : rows_(node, node.in(1)),
        parts_((rows_.count + kRowsOfPart - 1) / kRowsOfPart),
        affine_(count(node.in(2))),
        epsilon_(static_cast<W>(node.f("epsilon"))),
        scale_(node, node.in(1), node.in(2)) {
    const int64_t numbers = rows_.length * (1 + 2 * parts_) + affine_ + 2 * rows_.count;
    workspace_bytes = static_cast<size_t>(numbers) * sizeof(W);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const T *dy = as<T>(in[0]), *x = as<T>(in[1]);
    W *scale = as<W>(workspace), *statistic = scale + rows_.length,
      *sums = statistic + 2 * rows_.count, *partial = sums + affine_;
    scale_.lay_out(in[2], scale);
    parallel_for(rows_.count, rows_.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t from = r * rows_.length;
        const Statistics<W> s = statistics(x + from, rows_.length, epsilon_);
        row(dy + from, x + from, scale, s, as<T>(out[0]) + from);
        statistic[2 * r] = s.mean;
        statistic[2 * r + 1] = s.inv_deviation;
      }
    });
    const int64_t blocks = (rows_.length + kColumns - 1) / kColumns;
    parallel_for(parts_ * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        columns(dy, x, statistic, t / blocks, t % blocks * kColumns, partial);
      }
    });
    for (const int k : {0, 1}) {
      W* total = partial + k * rows_.length;
      for (int64_t p = 1; p < parts_; ++p) {
        for (int64_t i = 0; i < rows_.length; ++i) total[i] += total[2 * p * rows_.length + i];
      }
      if (parts_ == 0) std::fill_n(total = scale, rows_.length, W{});
      scale_.add_up(total, sums, affine_, out[1 + k]);
    }
  }

 private:
  void row(const T* dy, const T* x, const W* scale, Statistics<W> s, T* dx) const {
    const int64_t n = rows_.length;
    const W mean = s.mean, r = s.inv_deviation;
    const W h = sum_row<W>(n, [=](int64_t i) { return widen(dy[i]) * scale[i]; });
    const W hz = sum_row<W>(
        n, [=](int64_t i) { return widen(dy[i]) * scale[i] * ((widen(x[i]) - mean) * r); });
    const W mean_h = h / static_cast<W>(n), mean_hz = hz / static_cast<W>(n);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const W z = (widen(x[i]) - mean) * r;
      dx[i] = static_cast<T>(r * (widen(dy[i]) * scale[i] - mean_h - z * mean_hz));
    }
  }

  // Sums of dy * z and dy over the rows of one part, for kColumns columns.
  void columns(const T* dy, const T* x, const W* statistic, int64_t part, int64_t first,
               W* partial) const {
    const int64_t n = std::min(kColumns, rows_.length - first);
    W scale_sum[kColumns] = {}, bias_sum[kColumns] = {};
    const int64_t last = std::min(rows_.count, (part + 1) * kRowsOfPart);
    for (int64_t r = part * kRowsOfPart; r < last; ++r) {
      const W mean = statistic[2 * r], inv_deviation = statistic[2 * r + 1];
      const T *d = dy + r * rows_.length + first, *v = x + r * rows_.length + first;
      for (int64_t i = 0; i < n; ++i) {
        scale_sum[i] += widen(d[i]) * ((widen(v[i]) - mean) * inv_deviation);
        bias_sum[i] += widen(d[i]);
      }
    }
    W* to = partial + 2 * part * rows_.length + first;
    std::copy_n(scale_sum, n, to);
    std::copy_n(bias_sum, n, to + rows_.length);
  }

  Rows rows_;
  int64_t parts_, affine_;
  W epsilon_;
  RowIndex scale_;
};

std::unique_ptr<Kernel> layer_norm_kernel(const Node& node) {
  return for_float(node.in(0).dtype, node.op(), [&]<typename T>() -> std::unique_ptr<Kernel> {
    return std::make_unique<LayerNorm<T>>(node);
  });
}

std::unique_ptr<Kernel> layer_norm_grad_kernel(const Node& node) {
  return for_float(node.in(1).dtype, node.op(), [&]<typename T>() -> std::unique_ptr<Kernel> {
    return std::make_unique<LayerNormGrad<T>>(node);
  });
}

const Registered registered{
    {"LayerNormalization", layer_norm_kernel},
    {"LayerNormalizationGrad", layer_norm_grad_kernel},
};

}  // namespace
}  // namespace ndtrain::cpu
