// Moving elements without looking at them: to[sum of i_d * to_d] = from[sum of i_d * from_d] for
// every index. Transpose, Slice, Expand, Tile, Concat and the like are all of this form.
#pragma once

#include <array>

#include "backends/cpu/kernels/elementwise.h"

namespace ndtrain::cpu {

class StridedCopy {
 public:
  struct Dim {
    int64_t n, from, to;  // extent; strides in elements, 0 or negative ones allowed in `from`
  };

  // Dims outermost first, in the order of the destination. Offsets and strides in elements.
  StridedCopy(std::span<const Dim> dims, size_t element_bytes, int64_t from_offset = 0,
              int64_t to_offset = 0);

  void run(const void* from, void* to) const;
  int64_t count() const { return count_; }

 private:
  template <typename Word>
  void run_as(const Word* from, Word* to) const;
  template <typename Word>
  void rows(const Word* from, Word* to, int64_t begin, int64_t end) const;
  template <typename Word>
  void tiles(const Word* from, Word* to, int64_t begin, int64_t end) const;
  void choose_form();
  int64_t tiles_along(int d) const;

  bool tiled_ = false;
  size_t element_bytes_;
  int64_t count_ = 1, from_offset_, to_offset_;
  int rank_ = 1;
  std::array<Dim, 2 * NDT_MAX_RANK> dims_{};
};

// Row-major strides of `dims`.
std::vector<int64_t> strides_of(std::span<const int64_t> dims);

inline std::span<const int64_t> dims_of(const ndt_tensor_type& t) {
  return {t.dims, static_cast<size_t>(t.rank)};
}

// An axis of a tensor of this rank, counted from the end when negative.
inline int axis_of(const Node& node, int rank) {
  const int64_t a = node.i("axis");
  if (a < -rank || a >= rank) invalid("axis ", a, " of rank ", rank);
  return static_cast<int>(a < 0 ? a + rank : a);
}

// Plain copy, shared among threads.
void copy_bytes(void* to, const void* from, size_t bytes);
void fill_bytes(void* to, uint8_t value, size_t bytes);

}  // namespace ndtrain::cpu
