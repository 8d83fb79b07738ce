#include "framework/onnx/lower.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>

#include "framework/onnx/own_functions.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {
namespace {

// Ops that exist in opset 17 and that we may have.
const std::set<std::string_view>& onnx_ops() {
  static const std::set<std::string_view> ops = {"Abs",
                                                 "Acos",
                                                 "Acosh",
                                                 "Add",
                                                 "And",
                                                 "ArgMax",
                                                 "ArgMin",
                                                 "Asin",
                                                 "Asinh",
                                                 "Atan",
                                                 "Atanh",
                                                 "AveragePool",
                                                 "BatchNormalization",
                                                 "Cast",
                                                 "CastLike",
                                                 "Ceil",
                                                 "Celu",
                                                 "Clip",
                                                 "Concat",
                                                 "Constant",
                                                 "ConstantOfShape",
                                                 "Conv",
                                                 "ConvInteger",
                                                 "Cos",
                                                 "Cosh",
                                                 "CumSum",
                                                 "DepthToSpace",
                                                 "DequantizeLinear",
                                                 "Div",
                                                 "Dropout",
                                                 "DynamicQuantizeLinear",
                                                 "Elu",
                                                 "Equal",
                                                 "Erf",
                                                 "Exp",
                                                 "Expand",
                                                 "EyeLike",
                                                 "Flatten",
                                                 "Floor",
                                                 "Gather",
                                                 "GatherElements",
                                                 "GatherND",
                                                 "Gemm",
                                                 "GlobalAveragePool",
                                                 "GlobalMaxPool",
                                                 "Greater",
                                                 "GreaterOrEqual",
                                                 "HardSigmoid",
                                                 "HardSwish",
                                                 "Hardmax",
                                                 "Identity",
                                                 "InstanceNormalization",
                                                 "IsInf",
                                                 "IsNaN",
                                                 "LRN",
                                                 "LayerNormalization",
                                                 "LeakyRelu",
                                                 "Less",
                                                 "LessOrEqual",
                                                 "Log",
                                                 "LogSoftmax",
                                                 "MatMul",
                                                 "MatMulInteger",
                                                 "Max",
                                                 "MaxPool",
                                                 "Mean",
                                                 "Min",
                                                 "Mod",
                                                 "Mul",
                                                 "Neg",
                                                 "NonZero",
                                                 "Not",
                                                 "OneHot",
                                                 "Or",
                                                 "PRelu",
                                                 "Pad",
                                                 "Pow",
                                                 "QLinearConv",
                                                 "QLinearMatMul",
                                                 "QuantizeLinear",
                                                 "Range",
                                                 "Reciprocal",
                                                 "ReduceL1",
                                                 "ReduceL2",
                                                 "ReduceLogSum",
                                                 "ReduceLogSumExp",
                                                 "ReduceMax",
                                                 "ReduceMean",
                                                 "ReduceMin",
                                                 "ReduceProd",
                                                 "ReduceSum",
                                                 "ReduceSumSquare",
                                                 "Relu",
                                                 "Reshape",
                                                 "Round",
                                                 "ScatterElements",
                                                 "ScatterND",
                                                 "Selu",
                                                 "Shape",
                                                 "Shrink",
                                                 "Sigmoid",
                                                 "Sign",
                                                 "Sin",
                                                 "Sinh",
                                                 "Size",
                                                 "Slice",
                                                 "Softmax",
                                                 "Softplus",
                                                 "Softsign",
                                                 "SpaceToDepth",
                                                 "Split",
                                                 "Sqrt",
                                                 "Squeeze",
                                                 "Sub",
                                                 "Sum",
                                                 "Tan",
                                                 "Tanh",
                                                 "ThresholdedRelu",
                                                 "Tile",
                                                 "TopK",
                                                 "Transpose",
                                                 "Trilu",
                                                 "Unsqueeze",
                                                 "Where",
                                                 "Xor"};
  return ops;
}

// Attributes that opset 17 does not know, and the value at which they say nothing.
struct NewAttribute {
  std::string_view op, name;
  int64_t neutral;
};
constexpr std::array<NewAttribute, 5> kNewAttributes = {{{"Cast", "saturate", 1},
                                                         {"CastLike", "saturate", 1},
                                                         {"QuantizeLinear", "saturate", 1},
                                                         {"QuantizeLinear", "block_size", 0},
                                                         {"DequantizeLinear", "block_size", 0}}};

class Lowering {
 public:
  Lowering(const Model& from, const TypeOf& type_of, OnnxModel& to, Problems& problems)
      : from_(from), type_of_(type_of), to_(to), problems_(problems) {}

  void run() {
    for (const ModelNode& n : from_.nodes) {
      if (n.op == "Constant" && n.attrs.has("value") && !n.outputs.empty()) {
        constants_[n.outputs[0]] = n.attrs.tensor("value");
      }
      add(n);
    }
  }

 private:
  void add(const ModelNode& from) {
    OnnxNode n;
    n.op = from.op;
    n.inputs = from.inputs;
    n.outputs = from.outputs;
    n.attrs = from.attrs;
    n.opset = kExportOpset;
    if (const OwnFunction* own = own_function_for(from)) {
      call(*own, n);
    } else if (!onnx_ops().contains(n.op)) {
      problems_.add(describe(n), ": ONNX has no operator ", n.op);
      return;
    } else {
      plain(n);
    }
    while (!n.inputs.empty() && n.inputs.back().empty()) n.inputs.pop_back();
    to_.nodes.push_back(std::move(n));
  }

  void call(const OwnFunction& own, OnnxNode& n) {
    n.domain = kOwnDomain;
    n.op = own.name;
    n.attrs = {};
    const bool there = std::ranges::any_of(
        to_.functions, [&](const OnnxFunction& f) { return f.name == own.name; });
    if (!there) to_.functions.push_back(own.body());
    to_.opsets[kOwnDomain] = 1;
  }

  void plain(OnnxNode& n) {
    drop_unset(n);
    for (const char* name : {"to", "stash_type"}) {
      if (n.attrs.has(name)) {
        n.attrs.set(name, dtype_to_onnx(static_cast<DType>(n.attrs.i(name))));
      }
    }
    for (const NewAttribute& a : kNewAttributes) {
      if (n.op != a.op || !n.attrs.has(a.name)) continue;
      if (n.attrs.i(a.name) != a.neutral) refuse(n, a.name);
      n.attrs.erase(a.name);
    }
    if (n.op == "QuantizeLinear") quantize(n);
    if (n.op == "AveragePool") average_pool(n);
    if (n.op == "Split") split(n);
    if (n.op == "Pad") pad(n);
    if (n.op.starts_with("Reduce") && n.op != "ReduceSum") reduce(n);
  }

  // "" and {} stand for absent inside a Model.
  static void drop_unset(OnnxNode& n) {
    if (n.op == "Constant") return;
    std::vector<std::string> unset;
    for (const auto& [name, value] : n.attrs) {
      const Ints* ints = std::get_if<Ints>(&value);
      const std::string* text = std::get_if<std::string>(&value);
      if ((ints && ints->empty()) || (text && text->empty())) unset.push_back(name);
    }
    for (const std::string& name : unset) n.attrs.erase(name);
    // What auto_pad decides must not be said twice.
    const bool automatic = n.attrs.has("auto_pad") && n.attrs.s("auto_pad") != "NOTSET";
    if (automatic) n.attrs.erase("pads");
  }

  void refuse(const OnnxNode& n, std::string_view attribute) {
    problems_.add(describe(n), ": opset ", kExportOpset, " has no attribute ", attribute);
  }

  // The values of input i where the model states them.
  std::optional<Ints> known(const OnnxNode& n, size_t i) const {
    const std::string& name = n.inputs[i];
    for (const auto* list : {&from_.initialisers, &constants_}) {
      const auto it = list->find(name);
      if (it != list->end() && !is_float(it->second.type().dtype)) return it->second.to_ints();
    }
    return std::nullopt;
  }

  static bool has(const OnnxNode& n, size_t i) {
    return i < n.inputs.size() && !n.inputs[i].empty();
  }

  std::string constant(const OnnxNode& n, const Ints& values) {
    std::string name = n.outputs.at(0) + "/constant";
    while (from_.initialisers.contains(name) || to_.initialisers.contains(name)) name += "'";
    to_.initialisers.emplace(name, Tensor::i64(values));
    return name;
  }

  void quantize(OnnxNode& n) {
    if (!n.attrs.has("output_dtype")) return;
    const auto type = static_cast<DType>(n.attrs.i("output_dtype"));
    n.attrs.erase("output_dtype");
    // The zero point states it, else it is u8.
    if (type != DType::kNone && type != DType::kU8 && !has(n, 2)) refuse(n, "output_dtype");
  }

  void average_pool(OnnxNode& n) {
    if (!n.attrs.has("dilations")) return;
    const Ints& d = n.attrs.ints("dilations");
    if (std::ranges::any_of(d, [](int64_t v) { return v != 1; })) refuse(n, "dilations");
    n.attrs.erase("dilations");
  }

  // Up to opset 17 parts were equal or listed.
  void split(OnnxNode& n) {
    const bool counted = n.attrs.has("num_outputs");
    n.attrs.erase("num_outputs");
    if (has(n, 1) || !counted) return;
    const TensorType* type = type_of_(n.inputs.at(0));
    if (type == nullptr) return;
    const int64_t axis = n.attrs.has("axis") ? n.attrs.i("axis") : 0;
    const int64_t extent = type->shape[static_cast<int>(axis)];
    const auto parts = static_cast<int64_t>(n.outputs.size());
    const int64_t part = (extent + parts - 1) / parts;
    if (part * parts == extent) return;
    Ints sizes(n.outputs.size(), part);
    sizes.back() = extent - part * (parts - 1);
    if (sizes.back() < 0) {
      problems_.add(describe(n), ": cannot split ", extent, " into ", parts, " parts");
      return;
    }
    n.inputs.resize(1);
    n.inputs.push_back(constant(n, sizes));
  }

  void pad(OnnxNode& n) {
    if (n.attrs.has("mode") && n.attrs.s("mode") == "wrap") {
      problems_.add(describe(n), ": opset ", kExportOpset, " has no mode wrap");
    }
    if (!has(n, 3)) return;
    const std::optional<Ints> pads = known(n, 1), axes = known(n, 3);
    const TensorType* type = type_of_(n.inputs.at(0));
    if (!pads || !axes || type == nullptr || pads->size() != 2 * axes->size()) {
      problems_.add(describe(n), ": opset ", kExportOpset, " has no axes, and they are not known");
      return;
    }
    const auto rank = static_cast<size_t>(type->shape.rank());
    Ints all(2 * rank, 0);
    for (size_t i = 0; i < axes->size(); ++i) {
      const auto axis = static_cast<size_t>(type->shape.axis((*axes)[i], "Pad"));
      all[axis] = (*pads)[i];
      all[axis + rank] = (*pads)[i + axes->size()];
    }
    n.inputs[1] = constant(n, all);
    n.inputs.resize(3);
  }

  // Up to opset 17 axes were an attribute.
  void reduce(OnnxNode& n) {
    const bool noop = n.attrs.has("noop_with_empty_axes") && n.attrs.flag("noop_with_empty_axes");
    n.attrs.erase("noop_with_empty_axes");
    Ints axes;
    if (has(n, 1)) {
      const std::optional<Ints> values = known(n, 1);
      if (!values) {
        problems_.add(describe(n), ": opset ", kExportOpset, " needs axes that are known");
        return;
      }
      axes = *values;
    }
    n.inputs.resize(1);
    if (!axes.empty()) {
      n.attrs.set("axes", axes);
    } else if (noop) {
      no_reduction(n);
    }
  }

  void no_reduction(OnnxNode& n) {
    n.attrs = {};
    if (n.op == "ReduceL1" || n.op == "ReduceL2") {
      n.op = "Abs";
    } else if (n.op == "ReduceLogSum") {
      n.op = "Log";
    } else if (n.op == "ReduceSumSquare") {
      n.op = "Mul";
      n.inputs.push_back(n.inputs[0]);
    } else {
      n.op = "Identity";
    }
  }

  const Model& from_;
  const TypeOf& type_of_;
  OnnxModel& to_;
  Problems& problems_;
  std::map<std::string, Tensor> constants_;
};

}  // namespace

void lower_nodes(const Model& from, const TypeOf& type_of, OnnxModel& to, Problems& problems) {
  Lowering(from, type_of, to, problems).run();
}

}  // namespace ndtrain
