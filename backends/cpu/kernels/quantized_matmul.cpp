// FusedQLinearMatMul by a constant i8 matrix: exact sums, then scale, bias, function and rounding
// of a few rows while they are in cache. Zero points are part of what is added to the sums.
#include <numbers>

#include "backends/cpu/gemm/byte_product.h"
#include "backends/cpu/gemm/packed_constant.h"
#include "backends/cpu/kernels/math.h"
#include "backends/cpu/kernels/quantize.h"
#include "backends/plugin/clamp.h"

namespace ndtrain::cpu {
namespace {

enum MatMulPort { kX, kXScale, kXZero, kW, kWScale, kWZero, kYScale, kYZero, kBias };

float gelu_by_erf(float x) {
  return x * (0.5F * (1 + math::erf(x * static_cast<float>(1 / std::numbers::sqrt2))));
}

float gelu_by_tanh(float x) {
  constexpr auto kRoot = static_cast<float>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  return 0.5F * x * (1 + math::tanh(kRoot * (x + 0.044715F * x * x * x)));
}

// What is done to a sum, by column: columns are filled up to whole panels.
struct Finish {
  std::vector<int32_t> shift;  // less the zero point of x times the column's sum
  std::vector<float> factor, bias;
  float low, high, y_scale = 1;
  int32_t y_zero = 0;
};

class QuantizedMatMul final : public Kernel {
 public:
  explicit QuantizedMatMul(const Node& node)
      : n_(node.out().dims[node.out().rank - 1]),
        k_(node.in(kX).dims[node.in(kX).rank - 1]),
        product_(k_, n_),
        y_(node.out().dtype),
        slots_(threads()) {
    rows_ = n_ == 0 ? 0 : count(node.out()) / n_;
    flip_ = node.in(kX).dtype == NDT_I8 ? 0x80 : 0;
    read_function(node);
    read_columns(node);
    pack(node);
    workspace_bytes = static_cast<size_t>(slots_) * slot_bytes();
  }

  void run(const void* const* in, void* const* out, void* workspace) const override {
    const int64_t blocks = (rows_ + kBlockRows - 1) / kBlockRows;
    const int64_t each = panels_of_task(blocks);
    const int64_t across = (product_.panels() + each - 1) / each;
    parallel_tasks(blocks * across, slots_, [&](int64_t task, int slot) {
      std::byte* const staged = as<std::byte>(workspace) + static_cast<size_t>(slot) * slot_bytes();
      const int64_t row = task / across * kBlockRows, first = task % across * each;
      const int64_t end = std::min(row + kBlockRows, rows_);
      for (int64_t r = row; r < end; r += kByteRows) {
        product_.stage(as<uint8_t>(in[kX]) + r * k_, std::min<int64_t>(kByteRows, end - r), flip_,
                       staged_rows(staged, r - row));
      }
      const int64_t last = std::min(first + each, product_.panels());
      for (int64_t panel = first; panel < last; ++panel) {
        for (int64_t r = row; r < end; r += kByteRows) {
          alignas(64) int32_t sums[kByteRows][kByteCols];
          product_.multiply(staged_rows(staged, r - row), packed_.get(), panel, sums);
          for (int64_t i = r; i < std::min(r + kByteRows, end); ++i) {
            finish(sums[i - r], i, panel * kByteCols, out[0]);
          }
        }
      }
    });
  }

 private:
  enum class Function { kClamp, kGelu, kGeluTanh };
  // A panel serves as many while it is in cache.
  static constexpr int64_t kBlockRows = int64_t{8} * kByteRows;

  std::byte* staged_rows(std::byte* staged, int64_t row) const {
    return staged + static_cast<size_t>(row / kByteRows) * product_.rows_bytes();
  }

  // All columns, so that rows are staged once; fewer where there are few rows to share.
  int64_t panels_of_task(int64_t blocks) const {
    const int64_t tasks = int64_t{4} * slots_;
    if (blocks >= tasks) return product_.panels();
    return std::max<int64_t>(1, product_.panels() / tasks);
  }
  size_t slot_bytes() const {
    return (kBlockRows / kByteRows * product_.rows_bytes() + 63) / 64 * 64;
  }

  void read_function(const Node& node) {
    const std::string_view steps = node.s("steps", "");
    const std::optional<plugin::Clamp> clamp = plugin::clamp_of(steps);
    if (steps == "Gelu x0 approximate=none") {
      function_ = Function::kGelu;
    } else if (steps == "Gelu x0 approximate=tanh") {
      function_ = Function::kGeluTanh;
    } else if (!clamp) {
      unsupported("steps '", steps, "'");
    }
    finish_.low = clamp ? static_cast<float>(clamp->low) : -std::numeric_limits<float>::infinity();
    finish_.high = clamp ? static_cast<float>(clamp->high) : std::numeric_limits<float>::infinity();
  }

  void read_columns(const Node& node) {
    const ndt_tensor_type& w = node.in(kW);
    if (w.dtype != NDT_I8) unsupported("its matrix is ", name_of(w.dtype));
    for_byte(node.in(kX).dtype, []<typename>() {});
    if (y_ != NDT_F32) for_byte(y_, []<typename>() {});
    const bool transposed = node.i("transB", 0) != 0;
    if (k_ > kMostBytesSummed) unsupported("sums of ", k_, " products may not fit 32 bits");
    if (w.rank != 2 || w.dims[transposed ? 1 : 0] != k_ || w.dims[transposed ? 0 : 1] != n_) {
      invalid("its matrix does not fit");
    }
    k_step_ = transposed ? 1 : n_;
    col_step_ = transposed ? k_ : 1;
    if (node.has(kWZero)) {
      for (const float zero : node.known(kWZero, "zero point of its matrix")) {
        if (zero != 0) unsupported("the zero point of its matrix is ", zero, ", not 0");
      }
    }
    const std::vector<float> scales = node.known(kWScale, "scale of its matrix");
    const float x_scale = node.known_single(kXScale, "scale of x", 1);
    const auto x_zero = static_cast<int32_t>(node.known_single(kXZero, "zero point of x", 0));
    finish_.y_scale = node.known_single(kYScale, "scale of y", 1);
    finish_.y_zero = static_cast<int32_t>(node.known_single(kYZero, "zero point of y", 0));
    std::vector<float> bias(static_cast<size_t>(n_), 0.0F);
    if (node.has(kBias)) bias = node.known(kBias, "bias");
    const auto* values = as<int8_t>(node.need_constant(kW, "matrix"));
    const auto padded = static_cast<size_t>(product_.panels() * kByteCols);
    finish_.shift.resize(padded);
    finish_.factor.resize(padded);
    finish_.bias.resize(padded);
    for (int64_t c = 0; c < n_; ++c) {
      int32_t sum = 0;
      for (int64_t i = 0; i < k_; ++i) sum += values[i * k_step_ + c * col_step_];
      const auto at = static_cast<size_t>(c);
      finish_.shift[at] = -(x_zero + (flip_ ? 128 : 0)) * sum;
      finish_.factor[at] = x_scale * scales[scales.size() == 1 ? 0 : at];
      finish_.bias[at] = bias[at];
    }
  }

  void pack(const Node& node) {
    packed_ = packed_constant(
        node.constant_id(kW), product_.layout() + (k_step_ == 1 ? " transposed" : ""),
        product_.packed_bytes(), [&](void* to) {
          product_.pack(as<int8_t>(node.need_constant(kW, "matrix")), k_step_, col_step_, to);
        });
    packed_inputs = uint64_t{1} << kW;
  }

  void finish(const int32_t* sums, int64_t row, int64_t first, void* out) const {
    float values[kByteCols];
    for (int c = 0; c < kByteCols; ++c) {
      const auto at = static_cast<size_t>(first + c);
      values[c] =
          static_cast<float>(sums[c] + finish_.shift[at]) * finish_.factor[at] + finish_.bias[at];
    }
    if (function_ == Function::kGelu) {
      for (float& v : values) v = gelu_by_erf(v);
    } else if (function_ == Function::kGeluTanh) {
      for (float& v : values) v = gelu_by_tanh(v);
    } else {
      for (float& v : values) v = math::within(v, finish_.low, finish_.high);
    }
    const int64_t n = std::min<int64_t>(kByteCols, n_ - first), at = row * n_ + first;
    if (y_ == NDT_F32) {
      std::copy_n(values, n, as<float>(out) + at);
    } else {
      for_byte(y_, [&]<typename Q>() {
        Q rounded[kByteCols];
        for (int c = 0; c < kByteCols; ++c) {
          rounded[c] = quantized<Q>(values[c] / finish_.y_scale, finish_.y_zero);
        }
        std::copy_n(rounded, n, as<Q>(out) + at);
      });
    }
  }

  int64_t n_, k_, rows_ = 0, k_step_ = 0, col_step_ = 0;
  ByteProduct product_;
  ndt_dtype y_;
  int slots_;
  uint8_t flip_ = 0;
  Function function_ = Function::kClamp;
  Finish finish_;
  std::shared_ptr<const std::byte[]> packed_;
};

std::unique_ptr<Kernel> quantized_matmul_kernel(const Node& node) {
  return std::make_unique<QuantizedMatMul>(node);
}

const Registered registered{{"FusedQLinearMatMul", quantized_matmul_kernel}};

}  // namespace
}  // namespace ndtrain::cpu
