// Broadcasting as rows: the output is walked in memory order, and within a row (the innermost
// merged dim) every input either advances by one element or stands still. Equal shapes, scalars,
// rows, columns and channels all become one, two or three dims of this form.
#pragma once

#include <array>

#include "backends/cpu/kernels/elementwise.h"

namespace ndtrain::cpu {

class BroadcastRows {
 public:
  BroadcastRows(const ndt_tensor_type& out, std::span<const ndt_tensor_type> inputs);

  int64_t count() const { return count_; }
  int inputs() const { return inputs_; }
  bool advances(int input) const { return row_step(input) != 0; }
  // Bit i: input i has the output's elements in the output's order.
  uint64_t whole_inputs() const { return whole_inputs_; }

  // f(first element of the output, first element of each input, elements) for each row, or part of
  // a row, of output elements [begin, end).
  template <typename F>
  void for_each_row(int64_t begin, int64_t end, F&& f) const;

 private:
  int64_t step(int dim, int input) const { return steps_[dim * inputs_ + input]; }
  int64_t row_step(int input) const { return step(rank_ - 1, input); }

  int rank_ = 1, inputs_;
  int64_t count_;
  std::array<int64_t, NDT_MAX_RANK> dims_{1};
  std::vector<int64_t> steps_;  // in elements, per dim and input
  uint64_t whole_inputs_ = 0;
};

template <typename F>
void BroadcastRows::for_each_row(int64_t begin, int64_t end, F&& f) const {
  if (begin >= end) return;
  int64_t at[NDT_MAX_RANK], offset[NDT_MAX_PORTS] = {};
  for (int64_t d = rank_ - 1, rest = begin; d >= 0; rest /= dims_[d], --d) {
    at[d] = rest % dims_[d];
    for (int i = 0; i < inputs_; ++i) offset[i] += at[d] * step(static_cast<int>(d), i);
  }
  const int last = rank_ - 1;
  while (true) {
    const int64_t n = std::min(dims_[last] - at[last], end - begin);
    f(begin, static_cast<const int64_t*>(offset), n);
    begin += n;
    if (begin >= end) return;
    for (int i = 0; i < inputs_; ++i) offset[i] -= at[last] * row_step(i);
    at[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      for (int i = 0; i < inputs_; ++i) offset[i] += step(d, i);
      if (++at[d] < dims_[d]) break;
      for (int i = 0; i < inputs_; ++i) offset[i] -= at[d] * step(d, i);
      at[d] = 0;
    }
  }
}

// z = f(x, y) with broadcasting; x and y of one dtype.
template <typename X, typename Z, typename F>
std::unique_ptr<Kernel> broadcast2(const Node& node, F f) {
  const ndt_tensor_type types[] = {node.in(0), node.in(1)};
  if (types[0].dtype != types[1].dtype) invalid("inputs of two dtypes");
  const BroadcastRows rows(node.out(), types);
  auto k = kernel([rows, f](const void* const* in, void* const* out, void*) {
    const X *x = as<X>(in[0]), *y = as<X>(in[1]);
    Z* z = as<Z>(out[0]);
    const bool x_moves = rows.advances(0), y_moves = rows.advances(1);
    parallel_for(rows.count(), kElementGrain, [&](int64_t begin, int64_t end) {
      rows.for_each_row(begin, end, [=](int64_t to, const int64_t* from, int64_t n) {
        const X *a = x + from[0], *b = y + from[1];
        Z* c = z + to;
        if (x_moves && y_moves) {
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) c[i] = static_cast<Z>(f(widen(a[i]), widen(b[i])));
        } else if (x_moves) {
          const auto b0 = widen(*b);
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) c[i] = static_cast<Z>(f(widen(a[i]), b0));
        } else {
          const auto a0 = widen(*a);
#pragma GCC ivdep
          for (int64_t i = 0; i < n; ++i) c[i] = static_cast<Z>(f(a0, widen(b[i])));
        }
      });
    });
  });
  if (sizeof(X) == sizeof(Z)) k->in_place_inputs = rows.whole_inputs();
  return k;
}

}  // namespace ndtrain::cpu
