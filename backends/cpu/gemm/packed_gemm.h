// C = A B + epilogue in f32, from packed operands.
//
// The contract: an element of C is a sum over steps of k, in order, of one chain of fused
// multiply-adds each, starting at 0 (of multiplies and adds where the instruction set has no fused
// form). Short chains round less. The caller cuts k by the sizes of a layer alone; then neither an
// element's place nor how C is cut into tiles, blocks and tasks changes a bit of it. OpenBLAS
// promises nothing of the kind.
//
// A lies in row panels of nearly equal height h <= kTileRows, each as [K][h]; B in panels of
// kTileCols columns, each as [k][kTileCols], the last one padded. Tiles are kept in registers over
// one step of k and spilled between steps (the blocking is Goto and van de Geijn's, "Anatomy of
// high-performance matrix multiplication", 2008).
#pragma once

#include <cstdint>
#include <limits>

#include "backends/cpu/gemm/vec.h"

namespace ndtrain::cpu {

class RowPanels {
 public:
  explicit RowPanels(int64_t rows) : rows_(rows), count_((rows + kTileRows - 1) / kTileRows) {}
  int64_t rows() const { return rows_; }
  int64_t count() const { return count_; }
  // The first row of a panel; begin(count()) = rows().
  int64_t begin(int64_t p) const { return count_ ? p * rows_ / count_ : 0; }
  int height(int64_t p) const { return static_cast<int>(begin(p + 1) - begin(p)); }

 private:
  int64_t rows_, count_;
};

inline int64_t col_panels(int64_t cols) { return (cols + kTileCols - 1) / kTileCols; }

// to: (the panels' rows) * k floats. Element (r, i) of A is at a[r * row_step + i * k_step].
void pack_rows(const float* a, int64_t row_step, int64_t k_step, int64_t k, const RowPanels& rows,
               int64_t first_panel, int64_t last_panel, float* to);

// to: (last_panel - first_panel) panels of k * kTileCols floats; element (i, c) of B is at
// b[i * k_step + c * col_step]. Columns from `cols` on are zeros.
void pack_cols(const float* b, int64_t k_step, int64_t col_step, int64_t k, int64_t cols,
               int64_t first_panel, int64_t last_panel, float* to);

// Element (r, c) of C is at base[c / run * run_step + r * row_step + c % run]: a plain matrix has
// run = its columns, a convolution's rows are spread over the images of a batch.
struct Output {
  float* base;
  int64_t run, run_step, row_step;
};

// y = clamp(sum + row_bias[r] + col_bias[c] + residual (laid out as C)).
struct Epilogue {
  const float* row_bias = nullptr;
  const float* col_bias = nullptr;
  const float* residual = nullptr;
  bool clamp = false;
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

// Row r's `n` finished sums go to y[place…] through the epilogue, which is without col_bias.
void finish_row(const float* sums, int64_t n, int64_t r, int64_t place, const Epilogue& epilogue,
                float* y);

// A block of C: some row panels by some columns, made step by step over k.
struct GemmBlock {
  const RowPanels& rows;
  int64_t first_panel, last_panel;
  int64_t first_col, cols;  // columns of C
  // partial_floats(): unused when one step makes the whole sum. Per row panel, per kTileCols
  // columns, rows of kTileCols floats.
  float* partial;

  int64_t partial_floats() const {
    return (rows.begin(last_panel) - rows.begin(first_panel)) * col_panels(cols) * kTileCols;
  }
};

// One range of k.
struct GemmStep {
  const float* a;  // all row panels, each a_k long; this step takes [k0, k1) of them
  int64_t a_k, k0, k1;
  const float* b;  // the block's columns for this range, panels b_step floats apart
  int64_t b_step;
  bool first, last;  // of the sum: begins at zero, ends in C (else in block.partial)
};

void multiply(const GemmBlock& block, const GemmStep& step, const Output& output,
              const Epilogue& epilogue);

}  // namespace ndtrain::cpu
