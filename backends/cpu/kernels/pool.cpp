// MaxPool and AveragePool. In f32 the rows of a window are joined first, column by column; then
// what is left slides along rows only: it is staged (tap_stage.h) and the outputs of a plane are
// computed as one long row, whole vectors at a time. The rest takes plain loops.
#include <limits>

#include "backends/cpu/gemm/vec.h"
#include "backends/cpu/kernels/by_way_of.h"
#include "backends/cpu/kernels/pool_window.h"
#include "backends/cpu/kernels/sizes.h"

namespace ndtrain::cpu {
namespace {

constexpr int kVectors = 4;
constexpr int64_t kSlack = kVectors * kLanes;
constexpr int64_t kCellsPerTask = 16384;

struct Max {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  template <typename T>
  static T join(T y, T x) {
    return x > y ? x : y;  // NaN is never the maximum
  }
};

struct Sum {
  static constexpr float kStart = 0;
  template <typename T>
  static T join(T y, T x) {
    return y + x;
  }
};

template <typename Join>
class StagedPool final : public Kernel {
 public:
  // `counts`: what outputs are divided by; empty: nothing.
  StagedPool(const PoolWindow& w, std::vector<float> counts)
      : w_(w),
        taps_(w.row_stage()),
        counts_(std::move(counts)),
        joined_floats_(whole_lines(w.out[1] * w.in[2])),
        stage_floats_(whole_lines(taps_.floats(w.out[1]) + kSlack)),
        result_floats_(whole_lines(w.out[1] * taps_.width() + kSlack)),
        slots_(threads()) {
    workspace_bytes = static_cast<size_t>(slots_ * floats()) * sizeof(float);
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const int64_t cells = w_.in_plane(), outputs = w_.out_plane();
    if (outputs == 0) return;
    const int64_t group = std::max<int64_t>(1, kCellsPerTask / std::max<int64_t>(1, cells));
    parallel_tasks((w_.planes + group - 1) / group, slots_, [&](int64_t task, int slot) {
      float* const joined = as<float>(workspace) + slot * floats();
      float* const stage = joined + joined_floats_;
      float* const results = stage + stage_floats_;
      for (int64_t p = task * group; p < std::min(w_.planes, (task + 1) * group); ++p) {
        join_rows(as<float>(in[0]) + p * cells, joined);
        taps_.fill(joined, 0, w_.out[1], Join::kStart, stage);
        join_taps(stage, results);
        finish(results, as<float>(out[0]) + p * outputs);
      }
    });
  }

 private:
  int64_t floats() const { return joined_floats_ + stage_floats_ + result_floats_; }

  void join_rows(const float* plane, float* to) const {
    for (int64_t r = 0; r < w_.out[1]; ++r, to += w_.in[2]) {
      const int64_t top = r * w_.stride[1] - w_.begin[1], step = w_.dilation[1];
      const int64_t first = top < 0 ? (-top + step - 1) / step : 0;
      const int64_t last = std::min(w_.kernel[1], (w_.in[1] - top + step - 1) / step);
      const float* row = plane + (top + first * step) * w_.in[2];
      int64_t x = 0;
      for (; x + kLanes <= w_.in[2]; x += kLanes) {
        Vec y = splat(Join::kStart);
        for (int64_t k = 0; k < last - first; ++k) {
          y = Join::join(y, load(row + k * step * w_.in[2] + x));
        }
        store(to + x, y);
      }
      for (; x < w_.in[2]; ++x) {
        float y = Join::kStart;
        for (int64_t k = 0; k < last - first; ++k) {
          y = Join::join(y, row[k * step * w_.in[2] + x]);
        }
        to[x] = y;
      }
    }
  }

  void join_taps(const float* stage, float* results) const {
    const int64_t n = (w_.out[1] - 1) * taps_.width() + w_.out[2];
    const int64_t phase_step = taps_.floats(w_.out[1]) / taps_.phases();
    for (int64_t i = 0; i < n; i += kSlack) {
      Vec y[kVectors];
      for (Vec& v : y) v = splat(Join::kStart);
      for (const TapStage::Tap& tap : taps_.taps()) {
        const float* from = stage + tap.phase * phase_step + tap.row * taps_.width() + tap.col + i;
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) y[v] = Join::join(y[v], load(from + v * kLanes));
      }
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) store(results + i + v * kLanes, y[v]);
    }
  }

  void finish(const float* results, float* y) const {
    const float* counts = counts_.data();
    for (int64_t r = 0; r < w_.out[1]; ++r, results += taps_.width(), y += w_.out[2]) {
      if (counts_.empty()) {
        std::copy_n(results, w_.out[2], y);
        continue;
      }
      for (int64_t i = 0; i < w_.out[2]; ++i) y[i] = results[i] / counts[i];
      counts += w_.out[2];
    }
  }

  PoolWindow w_;
  TapStage taps_;
  std::vector<float> counts_;
  int64_t joined_floats_, stage_floats_, result_floats_;
  int slots_;
};

// The flat position of cell i of a plane when its first spatial dim is the innermost.
int64_t column_major(const PoolWindow& w, int64_t i) {
  const int64_t x = i % w.in[2], y = i / w.in[2] % w.in[1], z = i / w.in[2] / w.in[1];
  return (x * w.in[1] + y) * w.in[0] + z;
}

template <typename T>
std::unique_ptr<Kernel> plain_max(const PoolWindow& w, bool indices, bool by_columns) {
  return kernel([=](const void* const* in, void* const* out, void*) {
    const int64_t cells = w.in_plane(), outputs = w.out_plane();
    parallel_for(w.planes, kGrain / (outputs + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * outputs; at < end * outputs; ++at) {
        const int64_t p = at / outputs;
        const T* x = as<T>(in[0]) + p * cells;
        constexpr bool kInt = std::numeric_limits<T>::is_integer;
        T top = kInt ? std::numeric_limits<T>::lowest()
                     : static_cast<T>(-std::numeric_limits<float>::infinity());
        int64_t from = -1;
        for_cells(w, at % outputs, [&](int64_t i) {
          if (x[i] > top || (kInt && from < 0)) {
            top = x[i];
            from = i;
          }
        });
        as<T>(out[0])[at] = top;
        if (!indices) continue;
        const int64_t cell = from < 0 || !by_columns ? from : column_major(w, from);
        as<int64_t>(out[1])[at] = from < 0 ? 0 : p * cells + cell;
      }
    });
  });
}

template <typename T>
std::unique_ptr<Kernel> plain_average(const PoolWindow& w, std::vector<float> counts) {
  return kernel([w, counts = std::move(counts)](const void* const* in, void* const* out, void*) {
    const int64_t cells = w.in_plane(), outputs = w.out_plane();
    parallel_for(w.planes, kGrain / (outputs + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * outputs; at < end * outputs; ++at) {
        const T* x = as<T>(in[0]) + at / outputs * cells;
        wide_t<T> sum = 0;
        for_cells(w, at % outputs, [&](int64_t i) { sum += static_cast<wide_t<T>>(x[i]); });
        const float n = counts[static_cast<size_t>(at % outputs)];
        as<T>(out[0])[at] = static_cast<T>(sum / static_cast<wide_t<T>>(n));
      }
    });
  });
}

std::unique_ptr<Kernel> make_max_pool(const Node& node) {
  const PoolWindow w = pool_window(node, node.in(0), node.out());
  const ndt_dtype t = node.in(0).dtype;
  const bool indices = node.has_output(1), by_columns = node.i("storage_order", 0) != 0;
  if (t == NDT_F32 && w.flat() && !indices) {
    return std::make_unique<StagedPool<Max>>(w, std::vector<float>());
  }
  if (is_half(t) && w.flat() && !indices) return by_way_of_f32(node, make_max_pool);
  if (t == NDT_I8) return plain_max<int8_t>(w, indices, by_columns);
  if (t == NDT_U8) return plain_max<uint8_t>(w, indices, by_columns);
  return for_float(t, node.op(),
                   [&]<typename T>() { return plain_max<T>(w, indices, by_columns); });
}

std::unique_ptr<Kernel> make_average_pool(const Node& node) {
  const PoolWindow w = pool_window(node, node.in(0), node.out());
  std::vector<float> counts = w.counts(node.i("count_include_pad", 0) != 0);
  const ndt_dtype t = node.in(0).dtype;
  if (is_half(t) && w.flat()) return by_way_of_f32(node, make_average_pool);
  if (t == NDT_F32 && w.flat()) return std::make_unique<StagedPool<Sum>>(w, std::move(counts));
  return for_float(t, node.op(),
                   [&]<typename T>() { return plain_average<T>(w, std::move(counts)); });
}

const Registered registered{
    {"MaxPool", make_max_pool},
    {"AveragePool", make_average_pool},
};

}  // namespace
}  // namespace ndtrain::cpu
