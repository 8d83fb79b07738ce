#include "framework/onnx/opset_changes.h"

#include <algorithm>

#include "framework/onnx/onnx_model.h"

namespace ndtrain {
namespace {

constexpr std::array<NewAttribute, 7> kAttributes = {{{"Cast", "saturate", 19, 1},
                                                      {"CastLike", "saturate", 19, 1},
                                                      {"Resize", "antialias", 18, 0},
                                                      {"LpPool", "ceil_mode", 18, 0},
                                                      {"QuantizeLinear", "saturate", 19, 1},
                                                      {"QuantizeLinear", "block_size", 21, 0},
                                                      {"DequantizeLinear", "block_size", 21, 0}}};

constexpr std::array<NewText, 9> kTexts = {
    {{"Resize", "keep_aspect_ratio_policy", "not_larger", 18},
     {"Resize", "keep_aspect_ratio_policy", "not_smaller", 18},
     {"Resize", "coordinate_transformation_mode", "half_pixel_symmetric", 19},
     {"Resize", "coordinate_transformation_mode", "tf_half_pixel_for_nn", kNever},
     {"ScatterND", "reduction", "min", 18},
     {"ScatterND", "reduction", "max", 18},
     {"ScatterElements", "reduction", "min", 18},
     {"ScatterElements", "reduction", "max", 18},
     {"Pad", "mode", "wrap", 19}}};

// Those that had 16-bit floats but not this one.
constexpr std::array kBf16Since22 =
    std::to_array<std::string_view>({"Acos",          "Acosh",
                                     "Asin",          "Asinh",
                                     "Atan",          "Atanh",
                                     "AveragePool",   "Conv",
                                     "ConvTranspose", "Cos",
                                     "Cosh",          "DeformConv",
                                     "Det",           "Elu",
                                     "EyeLike",       "GlobalAveragePool",
                                     "GlobalMaxPool", "GridSample",
                                     "HardSigmoid",   "HardSwish",
                                     "LpPool",        "InstanceNormalization",
                                     "MaxPool",       "MaxUnpool",
                                     "Mish",          "RoiAlign",
                                     "Round",         "Selu",
                                     "Sin",           "Sinh",
                                     "Softplus",      "Softsign",
                                     "Tan",           "ThresholdedRelu"});

struct NewType {
  std::string_view op;
  DType type;
  int since;
};
constexpr std::array<NewType, 19> kTypes = {{{"Celu", DType::kF16, 28},
                                             {"Celu", DType::kBF16, 28},
                                             {"Celu", DType::kF64, 28},
                                             {"DequantizeLinear", DType::kF16, 19},
                                             {"DequantizeLinear", DType::kBF16, 19},
                                             {"DequantizeLinear", DType::kI16, 21},
                                             {"DequantizeLinear", DType::kU16, 21},
                                             {"OneHot", DType::kBF16, 28},
                                             {"QuantizeLinear", DType::kF16, 19},
                                             {"QuantizeLinear", DType::kBF16, 19},
                                             {"QuantizeLinear", DType::kI16, 21},
                                             {"QuantizeLinear", DType::kU16, 21},
                                             {"Range", DType::kF16, 27},
                                             {"Range", DType::kBF16, 27},
                                             {"ReduceMax", DType::kBool, 20},
                                             {"ReduceMin", DType::kBool, 20},
                                             {"ReverseSequence", DType::kBF16, 28},
                                             {"TopK", DType::kBF16, 24},
                                             {"ConstantOfShape", DType::kBF16, 20}}};

}  // namespace

std::span<const NewAttribute> new_attributes() { return kAttributes; }
std::span<const NewText> new_texts() { return kTexts; }

int opset_of_type(std::string_view op, DType type) {
  if (type == DType::kBF16 && std::ranges::find(kBf16Since22, op) != kBf16Since22.end()) return 22;
  const auto it =
      std::ranges::find_if(kTypes, [&](const NewType& t) { return t.op == op && t.type == type; });
  return it == kTypes.end() ? kLeastExportOpset : it->since;
}

int ir_of_opset(int opset) {
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  if (opset <= 22) return 10;
  if (opset <= 24) return opset - 12;
  return opset <= 27 ? 13 : 14;
}

}  // namespace ndtrain
