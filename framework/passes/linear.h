// What rewrites of quantised graphs read of a QuantizeLinear or a DequantizeLinear.
#pragma once

#include <optional>
#include <vector>

#include "framework/passes/rewrite.h"

namespace ndtrain {

// What one has beside its f32 side, all but `stored` constant.
struct Linear {
  ValueId stored, scale, zero;  // `zero` may be kNone
  DType dtype;                  // of `stored`
  int64_t axis;
  std::vector<double> scales;  // one, or one for each index of the axis
  double zero_point;

  bool is_byte() const { return dtype == DType::kI8 || dtype == DType::kU8; }
  bool has_one_scale() const { return scales.size() == 1 && scales[0] > 0; }
  double scale_of(size_t index) const { return scales[scales.size() == 1 ? 0 : index]; }
  bool is_alike(const Linear& other) const {
    return scales == other.scales && zero_point == other.zero_point && dtype == other.dtype;
  }
};

// Of node `i`, whose other side is `stored`.
std::optional<Linear> linear(const Matcher& m, int i, ValueId stored);
// What `v` is dequantised from.
std::optional<Linear> dequantized(const Matcher& m, ValueId v);
// Where that is bytes of one scale.
std::optional<Linear> dequantized_bytes(const Matcher& m, ValueId v);
// What `v`, made by a QuantizeLinear, is: bytes of one scale.
std::optional<Linear> quantized_bytes(const Matcher& m, ValueId v);

// Inputs of a fused op: the scale, and a zero point that is there, which the op demands; and before
// them what is stored.
void add_scale(const Linear& l, GraphCopy& to, std::vector<ValueId>& in);
void add_scaled(const Linear& l, GraphCopy& to, std::vector<ValueId>& in);

}  // namespace ndtrain
