#include "backends/cpu/kernels/strided_copy.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kTile = 32;  // a tile's edge: two tiles of words of 8 bytes fit the L1 cache
constexpr int64_t kChunk = kElementGrain * 4;

typedef uint32_t Quad __attribute__((vector_size(16)));
typedef uint32_t LooseQuad __attribute__((vector_size(16), aligned(4), may_alias));

// b[i][j] = a[j][i] of 4 x 4, in registers.
void transpose4(const uint32_t* a, int64_t a_step, uint32_t* b, int64_t b_step) {
  Quad row[4], pair[4];
  for (int i = 0; i < 4; ++i) row[i] = *reinterpret_cast<const LooseQuad*>(a + i * a_step);
  for (int i = 0; i < 2; ++i) {
    pair[2 * i] = __builtin_shuffle(row[2 * i], row[2 * i + 1], Quad{0, 4, 1, 5});
    pair[2 * i + 1] = __builtin_shuffle(row[2 * i], row[2 * i + 1], Quad{2, 6, 3, 7});
  }
  for (int i = 0; i < 2; ++i) {
    const Quad low = __builtin_shuffle(pair[i], pair[i + 2], Quad{0, 1, 4, 5});
    const Quad high = __builtin_shuffle(pair[i], pair[i + 2], Quad{2, 3, 6, 7});
    *reinterpret_cast<LooseQuad*>(b + 2 * i * b_step) = low;
    *reinterpret_cast<LooseQuad*>(b + (2 * i + 1) * b_step) = high;
  }
}

// to[i * to_step + j] = from[i + j * from_step] for i < m, j < n.
template <typename Word>
void transpose(const Word* from, int64_t from_step, Word* to, int64_t to_step, int64_t m,
               int64_t n) {
  int64_t whole_m = 0, whole_n = 0;
  if constexpr (sizeof(Word) == 4) {
    whole_m = m / 4 * 4, whole_n = n / 4 * 4;
    for (int64_t i = 0; i < whole_m; i += 4) {
      for (int64_t j = 0; j < whole_n; j += 4) {
        transpose4(from + i + j * from_step, from_step, to + i * to_step + j, to_step);
      }
    }
  }
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = i < whole_m ? whole_n : 0; j < n; ++j) {
      to[i * to_step + j] = from[i + j * from_step];
    }
  }
}

// One row: runs, fills and plain strides.
template <typename Word>
void copy_row(const Word* from, int64_t from_step, Word* to, int64_t to_step, int64_t n) {
  if (to_step == 1 && from_step == 1) {
    if (n >= 16) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(Word));
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = from[i];
    }
  } else if (to_step == 1 && from_step == 0) {
    std::fill_n(to, n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
  }
}

}  // namespace

StridedCopy::StridedCopy(std::span<const Dim> dims, size_t element_bytes, int64_t from_offset,
                         int64_t to_offset)
    : element_bytes_(element_bytes), from_offset_(from_offset), to_offset_(to_offset) {
  std::vector<Dim> kept;
  for (const Dim& d : dims) {
    count_ *= d.n;
    if (d.n == 1) continue;
    if (!kept.empty() && kept.back().from == d.from * d.n && kept.back().to == d.to * d.n) {
      kept.back() = {kept.back().n * d.n, d.from, d.to};
    } else {
      kept.push_back(d);
    }
  }
  if (kept.empty()) kept.push_back({1, 1, 1});
  if (kept.size() > dims_.size()) unsupported("moves along ", kept.size(), " dims");
  rank_ = static_cast<int>(kept.size());
  std::copy(kept.begin(), kept.end(), dims_.begin());
  if (count_ > 0) choose_form();
}

// Where one side is contiguous along one dim and the other along another, tiles of the two keep
// both in cache: those dims go last.
void StridedCopy::choose_form() {
  const Dim& last = dims_[rank_ - 1];
  if (last.to != 1 || last.from == 1 || last.from == 0 || last.n < 4) return;
  for (int d = 0; d < rank_ - 1; ++d) {
    if (dims_[d].from != 1 || dims_[d].n < 4) continue;
    std::rotate(dims_.begin() + d, dims_.begin() + d + 1, dims_.begin() + rank_ - 1);
    tiled_ = true;
    return;
  }
}

int64_t StridedCopy::tiles_along(int d) const { return (dims_[d].n + kTile - 1) / kTile; }

void StridedCopy::run(const void* from, void* to) const {
  if (count_ == 0) return;
  for_word(element_bytes_, [&]<typename Word>() {
    run_as(as<Word>(from) + from_offset_, as<Word>(to) + to_offset_);
  });
}

template <typename Word>
void StridedCopy::run_as(const Word* from, Word* to) const {
  if (!tiled_) {
    return parallel_for(count_, kChunk, [=, this](int64_t b, int64_t e) { rows(from, to, b, e); });
  }
  int64_t n = tiles_along(rank_ - 2) * tiles_along(rank_ - 1);
  for (int d = 0; d < rank_ - 2; ++d) n *= dims_[d].n;
  const int64_t grain = std::max<int64_t>(1, kChunk * n / count_);
  parallel_for(n, grain, [=, this](int64_t b, int64_t e) { tiles(from, to, b, e); });
}

// Elements [begin, end) in the order of the dims.
template <typename Word>
void StridedCopy::rows(const Word* from, Word* to, int64_t begin, int64_t end) const {
  int64_t at[2 * NDT_MAX_RANK];
  const int last = rank_ - 1;
  for (int64_t d = last, rest = begin; d >= 0; rest /= dims_[d].n, --d) {
    at[d] = rest % dims_[d].n;
    from += at[d] * dims_[d].from;
    to += at[d] * dims_[d].to;
  }
  const Dim& row = dims_[last];
  while (true) {
    const int64_t n = std::min(row.n - at[last], end - begin);
    copy_row(from, row.from, to, row.to, n);
    begin += n;
    if (begin >= end) return;
    from -= at[last] * row.from;
    to -= at[last] * row.to;
    at[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      from += dims_[d].from;
      to += dims_[d].to;
      if (++at[d] < dims_[d].n) break;
      from -= dims_[d].n * dims_[d].from;
      to -= dims_[d].n * dims_[d].to;
      at[d] = 0;
    }
  }
}

template <typename Word>
void StridedCopy::tiles(const Word* from, Word* to, int64_t begin, int64_t end) const {
  const Dim &a = dims_[rank_ - 2], &b = dims_[rank_ - 1];
  const int64_t a_tiles = tiles_along(rank_ - 2), b_tiles = tiles_along(rank_ - 1);
  for (int64_t t = begin; t < end; ++t) {
    const int64_t i = t / b_tiles % a_tiles * kTile, j = t % b_tiles * kTile;
    const Word* x = from + i + j * b.from;
    Word* y = to + i * a.to + j;
    int64_t rest = t / b_tiles / a_tiles;
    for (int d = rank_ - 3; d >= 0; --d) {
      x += rest % dims_[d].n * dims_[d].from;
      y += rest % dims_[d].n * dims_[d].to;
      rest /= dims_[d].n;
    }
    transpose(x, b.from, y, a.to, std::min(kTile, a.n - i), std::min(kTile, b.n - j));
  }
}

std::vector<int64_t> strides_of(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t d = dims.size(); d-- > 0; stride *= dims[d]) strides[d] = stride;
  return strides;
}

void copy_bytes(void* to, const void* from, size_t bytes) {
  if (to == from) return;
  parallel_for(static_cast<int64_t>(bytes), kChunk * 4, [=](int64_t begin, int64_t end) {
    std::memcpy(as<char>(to) + begin, as<char>(from) + begin, static_cast<size_t>(end - begin));
  });
}

void fill_bytes(void* to, uint8_t value, size_t bytes) {
  parallel_for(static_cast<int64_t>(bytes), kChunk * 4, [=](int64_t begin, int64_t end) {
    std::memset(as<char>(to) + begin, value, static_cast<size_t>(end - begin));
  });
}

}  // namespace ndtrain::cpu
