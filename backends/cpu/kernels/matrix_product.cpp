#include "backends/cpu/kernels/matrix_product.h"

#include <cblas.h>

#include "backends/cpu/gemm/packed_constant.h"
#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {
namespace {

constexpr int64_t kStep = 384;           // products between spills
constexpr int64_t kColPanels = 10;       // of a block: packed columns of one step stay in L2
constexpr int64_t kRowFloats = 1 << 18;  // packed rows of a task stay in L2 too
constexpr int64_t kMaxRowPanels = 8;
constexpr int64_t kTasksPerThread = 3;

}  // namespace

bool MatrixProducts::one_b() const {
  return std::all_of(b_at.begin(), b_at.end(), [&](int64_t at) { return at == b_at[0]; });
}

void MatrixProducts::stack() {
  if (products() < 2 || !one_b()) return;
  for (int64_t p = 0; p < products(); ++p) {
    if (a_at[static_cast<size_t>(p)] != p * m * a_row) return;
  }
  m *= products();
  a_at = {0};
  b_at = {b_at[0]};
}

PackedProducts::PackedProducts(MatrixProducts products, const float* b, uint64_t b_id, int slots)
    : p_(std::move(products)), slots_(std::max(slots, 1)) {
  p_.stack();
  packs_ = p_.one_b() ? std::min<int64_t>(1, p_.products()) : p_.products();
  b_floats_ = col_panels(p_.n) * kTileCols * p_.k;
  const int64_t fit = kRowFloats / (kTileRows * std::max<int64_t>(1, p_.k));
  const int64_t chunk_rows = kTileRows * std::clamp<int64_t>(fit, 1, kMaxRowPanels);
  row_chunks_ = std::max<int64_t>(1, ceil_div(p_.m, chunk_rows));
  const int64_t tasks = row_chunks_ * p_.products();
  if (slots_ > 1 && tasks > 0 && tasks < kTasksPerThread * slots_) {
    col_chunks_ = std::clamp<int64_t>(ceil_div(kTasksPerThread * slots_, tasks), 1,
                                      std::max<int64_t>(1, col_panels(p_.n)));
  }
  const int64_t rows = std::min(p_.m, ceil_div(p_.m, row_chunks_));
  rows_floats_ = whole_lines(rows * p_.k);
  if (p_.k > kStep) partial_floats_ = whole_lines(rows * kColPanels * kTileCols);
  if (b) {
    std::ostringstream layout;
    layout << "columns " << packs_ << ' ' << p_.n << ' ' << p_.k << ' ' << p_.b_row << ' '
           << p_.b_col;
    const size_t size = static_cast<size_t>(packs_ * b_floats_) * sizeof(float);
    packed_ = packed_constant(b_id, layout.str(), size,
                              [&](void* to) { pack(b, static_cast<float*>(to)); });
  }
}

size_t PackedProducts::workspace_floats() const {
  const int64_t own = packed_ ? 0 : packs_ * b_floats_;
  return static_cast<size_t>(own + slots_ * (rows_floats_ + partial_floats_));
}

void PackedProducts::pack(const float* b, float* to) const {
  const int64_t panels = col_panels(p_.n), panel_floats = kTileCols * p_.k;
  parallel_for(packs_ * panels, 1 + kGrain / (panel_floats + 1), [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      pack_cols(b + p_.b_at[static_cast<size_t>(at / panels)], p_.b_row, p_.b_col, p_.k, p_.n,
                at % panels, at % panels + 1, to + at * panel_floats);
    }
  });
}

void PackedProducts::run(const float* a, const float* b, float* y, const Epilogue& epilogue,
                         float* workspace) const {
  if (p_.m == 0 || p_.n == 0) return;
  const float* packed = reinterpret_cast<const float*>(packed_.get());
  if (!packed) {
    pack(b, workspace);
    packed = workspace;
    workspace += packs_ * b_floats_;
  }
  parallel_tasks(p_.products() * row_chunks_ * col_chunks_, slots_, [&](int64_t task, int slot) {
    run_task(task, a, packed, y, epilogue, workspace + slot * (rows_floats_ + partial_floats_));
  });
}

// A task: some rows by some columns of one product.
void PackedProducts::run_task(int64_t task, const float* a, const float* b, float* y,
                              const Epilogue& epilogue, float* scratch) const {
  const int64_t col_chunk = task % col_chunks_, row_chunk = task / col_chunks_ % row_chunks_;
  const int64_t product = task / col_chunks_ / row_chunks_;
  const int64_t first = row_chunk * p_.m / row_chunks_, last = (row_chunk + 1) * p_.m / row_chunks_;
  const int64_t panels = col_panels(p_.n);
  const int64_t first_panel = col_chunk * panels / col_chunks_;
  const int64_t last_panel = (col_chunk + 1) * panels / col_chunks_;
  const RowPanels rows(last - first);
  pack_rows(a + p_.a_at[static_cast<size_t>(product)] + first * p_.a_row, p_.a_row, p_.a_col, p_.k,
            rows, 0, rows.count(), scratch);
  const int64_t row = product * p_.m + first;
  const Output output{y + row * p_.n, p_.n, 0, p_.n};
  Epilogue e = epilogue;
  if (e.row_bias) e.row_bias += row;
  if (e.residual) e.residual += row * p_.n;
  if (packs_ > 1) b += product * b_floats_;
  const int64_t steps = std::max<int64_t>(1, ceil_div(p_.k, kStep));
  for (int64_t panel = first_panel; panel < last_panel; panel += kColPanels) {
    const int64_t col = panel * kTileCols;
    const int64_t cols = std::min(p_.n, std::min(last_panel, panel + kColPanels) * kTileCols) - col;
    const GemmBlock block{rows, 0, rows.count(), col, cols, scratch + rows_floats_};
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t k0 = step * p_.k / steps, k1 = (step + 1) * p_.k / steps;
      const float* at = b + (panel * p_.k + k0) * kTileCols;
      multiply(block, {scratch, p_.k, k0, k1, at, p_.k * kTileCols, step == 0, step + 1 == steps},
               output, e);
    }
  }
}

namespace {

constexpr int64_t kRowBlock = 64;

template <typename T>
void plain_rows(const MatrixProducts& p, int64_t rows, const T* a, const T* b, T* y) {
  using Sum = wide_t<T>;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      Sum sum{0};
      for (int64_t l = 0; l < p.k; ++l) {
        sum += static_cast<Sum>(a[i * p.a_row + l * p.a_col]) *
               static_cast<Sum>(b[l * p.b_row + j * p.b_col]);
      }
      y[i * p.n + j] = static_cast<T>(sum);
    }
  }
}

template <>
void plain_rows(const MatrixProducts& p, int64_t rows, const double* a, const double* b,
                double* y) {
  const bool trans_a = p.a_col != 1, trans_b = p.b_col != 1;
  const auto step = [](int64_t s) { return static_cast<blasint>(std::max<int64_t>(1, s)); };
  if (p.k == 0) {
    std::fill(y, y + rows * p.n, 0.0);
    return;
  }
  cblas_dgemm(CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans,
              trans_b ? CblasTrans : CblasNoTrans, static_cast<blasint>(rows),
              static_cast<blasint>(p.n), static_cast<blasint>(p.k), 1.0, a,
              step(trans_a ? p.a_col : p.a_row), b, step(trans_b ? p.b_col : p.b_row), 0.0, y,
              static_cast<blasint>(p.n));
}

}  // namespace

template <typename T>
void plain_products(const MatrixProducts& p, const T* a, const T* b, T* y) {
  if (p.m == 0 || p.n == 0) return;
  const int64_t blocks = ceil_div(p.m, kRowBlock);
  parallel_for(p.products() * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const size_t product = static_cast<size_t>(at / blocks);
      const int64_t row = at % blocks * kRowBlock;
      plain_rows(p, std::min(kRowBlock, p.m - row), a + p.a_at[product] + row * p.a_row,
                 b + p.b_at[product], y + (at / blocks * p.m + row) * p.n);
    }
  });
}

template void plain_products(const MatrixProducts&, const double*, const double*, double*);
template void plain_products(const MatrixProducts&, const int32_t*, const int32_t*, int32_t*);
template void plain_products(const MatrixProducts&, const uint32_t*, const uint32_t*, uint32_t*);
template void plain_products(const MatrixProducts&, const int64_t*, const int64_t*, int64_t*);
template void plain_products(const MatrixProducts&, const uint64_t*, const uint64_t*, uint64_t*);

}  // namespace ndtrain::cpu
