// How a window slides over a plane, made contiguous. A plane is copied to a stage: padding written
// out, and, where the stride is more than 1, pixels sorted by their remainders (row % stride, col %
// stride) into one phase each. Then tap t of output (y, x) lies at
//   phase_step * tap.phase + (y + tap.row) * width() + x + tap.col,
// so that every tap of a run of outputs reads a contiguous run of pixels.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace ndtrain::cpu {

class TapStage {
 public:
  using Pair = std::array<int64_t, 2>;  // rows, columns
  struct Tap {
    int64_t phase, row, col;
  };

  TapStage(Pair in, Pair kernel, Pair out, Pair stride, Pair dilation, Pair begin);

  const std::vector<Tap>& taps() const { return taps_; }
  int64_t phases() const { return static_cast<int64_t>(phases_.size()); }
  int64_t shift_rows() const { return shift_rows_; }  // rows of a stage beyond the outputs'
  int64_t width() const { return width_; }
  // The input plane itself is its stage.
  bool direct() const { return direct_; }
  // Floats of a stage that serves `rows` rows of outputs.
  int64_t floats(int64_t rows) const { return phases() * (rows + shift_rows_) * width_; }

  // Stages what outputs in rows [first_row, first_row + rows) read of `plane`; the padding is
  // `pad`.
  void fill(const float* plane, int64_t first_row, int64_t rows, float pad, float* to) const;

 private:
  void fill_row(const float* row, int64_t remainder, float pad, float* to) const;

  Pair in_, stride_, begin_;
  std::vector<Tap> taps_;
  std::vector<Pair> phases_;  // remainders
  int64_t shift_rows_ = 0, width_ = 0;
  bool direct_ = false;
};

}  // namespace ndtrain::cpu
