// In which precision a model's frozen part computes: declared in its metadata, so that it travels
// with the model and everybody computes the same function.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/graph/model.h"

namespace ndtrain {

enum class Precision { kF32, kBF16, kF16, kInt8 };

std::string_view name_of(Precision p);             // "f32", "bf16", "f16", "int8"
Precision precision_named(std::string_view name);  // throws Error if there is none

// Metadata keys. The second names the values, one a line, behind which a model is f32 again: the
// features of one that was trained. Without it all of the model has the declared precision.
inline constexpr const char* kPrecisionKey = "ndtrain.precision";
inline constexpr const char* kPrecisionUntilKey = "ndtrain.precision_until";

Precision declared_precision(const Model& model);  // f32 where nothing is declared
std::vector<std::string> precision_until(const Model& model);
void declare_precision(Model& model, Precision p, std::span<const std::string> until = {});

}  // namespace ndtrain
