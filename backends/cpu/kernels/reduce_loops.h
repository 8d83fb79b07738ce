// How a reduction walks its input: neighbouring dims of one kind merged, the work cut into parts
// whose number depends on the reduced extents alone. So the order of a sum depends neither on
// threads nor on how many other sums there are.
#pragma once

#include "backends/cpu/kernels/lanes.h"

namespace ndtrain::cpu {

class ReduceLoops {
 public:
  explicit ReduceLoops(const Node& node);

  int64_t outputs() const { return groups_ * inner_; }
  int64_t reduced() const { return combinations_ * run_; }  // elements per output
  int64_t partials() const { return outputs() * parts_; }

  // One result per part and output: fold(start, term(x, top of the output)) over the part, where
  // `tops` has a number per output, or is null and `top` is 0.
  template <typename T, typename W, typename Term, typename Fold>
  void fold_parts(const T* x, const W* tops, W start, Term term, Fold fold, W* partial) const;

  // y[o] = finish(o, the parts' results folded).
  template <typename W, typename Y, typename Fold, typename Finish>
  void join_parts(const W* partial, Fold fold, Finish finish, Y* y) const;

 private:
  struct Dim {
    int64_t n, stride;
  };
  static int64_t offset(const std::vector<Dim>& dims, int64_t index);

  template <typename T, typename W, typename Term, typename Fold>
  void fold_rows(const T* x, const W* tops, W start, Term term, Fold fold, W* partial) const;
  template <typename T, typename W, typename Term, typename Fold>
  void fold_columns(const T* x, const W* tops, W start, Term term, Fold fold, W* partial) const;

  // Output = [group, inner]. Either inner is 1 and runs of `run_` contiguous elements are folded,
  // or run_ is 1 and `inner_` columns are folded side by side.
  std::vector<Dim> kept_, folded_;  // without the innermost one
  int64_t groups_ = 1, inner_ = 1, combinations_ = 1, run_ = 1;
  int64_t segment_ = 1, segments_ = 1;  // of a run, or of the combinations
  int64_t parts_ = 1;                   // per output
};

inline int64_t ReduceLoops::offset(const std::vector<Dim>& dims, int64_t index) {
  int64_t sum = 0;
  for (size_t d = dims.size(); d-- > 0; index /= dims[d].n) {
    sum += index % dims[d].n * dims[d].stride;
  }
  return sum;
}

template <typename T, typename W, typename Term, typename Fold>
void ReduceLoops::fold_parts(const T* x, const W* tops, W start, Term term, Fold fold,
                             W* partial) const {
  if (inner_ == 1) return fold_rows(x, tops, start, term, fold, partial);
  fold_columns(x, tops, start, term, fold, partial);
}

template <typename T, typename W, typename Term, typename Fold>
void ReduceLoops::fold_rows(const T* x, const W* tops, W start, Term term, Fold fold,
                            W* partial) const {
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, segment_));
  parallel_for(partials(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t o = t / parts_, p = t % parts_, skip = p % segments_ * segment_;
      const T* row = x + offset(kept_, o) + offset(folded_, p / segments_) + skip;
      const W top = tops ? tops[o] : W{};
      partial[t] = fold_row(
          std::min(segment_, run_ - skip), start,
          [=](int64_t i) { return term(widen(row[i]), top); }, fold);
    }
  });
}

template <typename T, typename W, typename Term, typename Fold>
void ReduceLoops::fold_columns(const T* x, const W* tops, W start, Term term, Fold fold,
                               W* partial) const {
  constexpr int64_t kBlock = 512;  // columns whose results fit on the stack
  const int64_t blocks = (inner_ + kBlock - 1) / kBlock;
  const int64_t work = segment_ * std::min(inner_, kBlock);
  const int64_t grain = std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, work));
  parallel_for(groups_ * parts_ * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t part = t / blocks, first = t % blocks * kBlock;
      const int64_t group = part / parts_, n = std::min(kBlock, inner_ - first);
      const int64_t from = part % parts_ * segment_;
      const int64_t to = std::min(combinations_, from + segment_);
      const T* base = x + offset(kept_, group) + first;
      W result[kBlock], top[kBlock];
      for (int64_t i = 0; i < n; ++i) result[i] = start;
      for (int64_t i = 0; i < n; ++i) top[i] = tops ? tops[group * inner_ + first + i] : W{};
      for (int64_t c = from; c < to; ++c) {
        const T* row = base + offset(folded_, c);
        for (int64_t i = 0; i < n; ++i) result[i] = fold(result[i], term(widen(row[i]), top[i]));
      }
      std::copy_n(result, n, partial + part * inner_ + first);
    }
  });
}

template <typename W, typename Y, typename Fold, typename Finish>
void ReduceLoops::join_parts(const W* partial, Fold fold, Finish finish, Y* y) const {
  parallel_for(outputs(), kElementGrain / 8, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const W* p = partial + o / inner_ * parts_ * inner_ + o % inner_;
      W result = *p;
      for (int64_t k = 1; k < parts_; ++k) result = fold(result, p[k * inner_]);
      y[o] = finish(o, result);
    }
  });
}

}  // namespace ndtrain::cpu
