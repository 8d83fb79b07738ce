// What operators that opset 17 has could say only later. Source: ONNX's docs/Changelog.md.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "framework/core/dtype.h"

namespace ndtrain {

inline constexpr int kNever = 1000;  // an opset later than all

// A number as attribute, and the value at which it says nothing.
struct NewAttribute {
  std::string_view op, name;
  int since;
  int64_t neutral;
};

// A text that an attribute may be.
struct NewText {
  std::string_view op, attribute, text;
  int since;
};

std::span<const NewAttribute> new_attributes();
std::span<const NewText> new_texts();

// The first opset, 17 or later, in which `op` takes data of this type.
int opset_of_type(std::string_view op, DType type);

// The IR version that came with an opset from 17 on.
int ir_of_opset(int opset);

}  // namespace ndtrain
