#include "framework/onnx/lower.h"

#include <algorithm>
#include <array>
#include <optional>

#include "framework/graph/op.h"
#include "framework/onnx/own_functions.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {
namespace {

// Whether the opset that is written has it.
bool is_onnx(std::string_view op) {
  const OpDef* def = try_find_op(op);
  return def && def->facts.onnx > 0 && def->facts.onnx <= kExportOpset;
}

// Attributes that opset 17 does not know, and the value at which they say nothing.
struct NewAttribute {
  std::string_view op, name;
  int64_t neutral;
};
constexpr std::array<NewAttribute, 7> kNewAttributes = {{{"Cast", "saturate", 1},
                                                         {"Resize", "antialias", 0},
                                                         {"LpPool", "ceil_mode", 0},
                                                         {"CastLike", "saturate", 1},
                                                         {"QuantizeLinear", "saturate", 1},
                                                         {"QuantizeLinear", "block_size", 0},
                                                         {"DequantizeLinear", "block_size", 0}}};

class Lowering {
 public:
  Lowering(const Model& from, OnnxModel& to, Problems& problems)
      : from_(from), to_(to), problems_(problems) {}

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
    } else if (!is_onnx(n.op)) {
      problems_.add(describe(n), ": opset ", kExportOpset, " has no operator ", n.op);
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
    for (const char* name : {"to", "stash_type", "dtype"}) {
      if (n.attrs.has(name) && n.attrs.i(name) == 0) {
        n.attrs.erase(name);
      } else if (n.attrs.has(name)) {
        n.attrs.set(name, dtype_to_onnx(static_cast<DType>(n.attrs.i(name))));
      }
    }
    for (const NewAttribute& a : kNewAttributes) {
      if (n.op != a.op || !n.attrs.has(a.name)) continue;
      if (n.attrs.i(a.name) != a.neutral) refuse(n, a.name);
      n.attrs.erase(a.name);
    }
    if (n.op == "QuantizeLinear") quantize(n);
    if (n.op == "AveragePool" || n.op == "LpPool") plain_dilations(n);
    if (n.op == "Resize") resize(n);
    if (n.op == "GridSample") grid_sample(n);
    if (n.op == "ScatterND" || n.op == "ScatterElements") scatter(n);
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

  void quantize(OnnxNode& n) {
    if (!n.attrs.has("output_dtype")) return;
    const auto type = static_cast<DType>(n.attrs.i("output_dtype"));
    n.attrs.erase("output_dtype");
    // The zero point states it, else it is u8.
    if (type != DType::kNone && type != DType::kU8 && !has(n, 2)) refuse(n, "output_dtype");
  }

  void plain_dilations(OnnxNode& n) {
    if (!n.attrs.has("dilations")) return;
    const Ints& d = n.attrs.ints("dilations");
    if (std::ranges::any_of(d, [](int64_t v) { return v != 1; })) refuse(n, "dilations");
    n.attrs.erase("dilations");
  }

  void refuse_value(const OnnxNode& n, const char* attribute) {
    problems_.add(describe(n), ": opset ", kExportOpset, " has no ", attribute, " ",
                  n.attrs.s(attribute));
  }

  void resize(OnnxNode& n) {
    if (n.attrs.has("axes")) refuse(n, "axes");
    if (n.attrs.has("keep_aspect_ratio_policy")) {
      if (n.attrs.s("keep_aspect_ratio_policy") != "stretch") refuse(n, "keep_aspect_ratio_policy");
      n.attrs.erase("keep_aspect_ratio_policy");
    }
    constexpr const char* kWhere = "coordinate_transformation_mode";
    if (!n.attrs.has(kWhere)) return;
    const std::string& where = n.attrs.s(kWhere);
    if (where == "half_pixel_symmetric" || where == "tf_half_pixel_for_nn") refuse_value(n, kWhere);
  }

  void grid_sample(OnnxNode& n) {
    if (!n.attrs.has("mode")) return;
    const std::string mode = n.attrs.s("mode");
    if (mode == "linear") n.attrs.set("mode", std::string("bilinear"));
    if (mode == "cubic") n.attrs.set("mode", std::string("bicubic"));
  }

  void scatter(OnnxNode& n) {
    if (!n.attrs.has("reduction")) return;
    const std::string& how = n.attrs.s("reduction");
    if (how == "min" || how == "max") refuse_value(n, "reduction");
  }

  // Up to opset 17 parts were equal or listed: see normalise().
  void split(OnnxNode& n) { n.attrs.erase("num_outputs"); }

  void pad(OnnxNode& n) {
    if (n.attrs.has("mode") && n.attrs.s("mode") == "wrap") {
      problems_.add(describe(n), ": opset ", kExportOpset, " has no mode wrap");
    }
    if (has(n, 3)) {
      problems_.add(describe(n), ": opset ", kExportOpset, " has no axes, and they are not known");
    }
  }

  // Up to opset 17 axes were an attribute.
  void reduce(OnnxNode& n) {
    const bool noop = n.attrs.has("noop_with_empty_axes") && n.attrs.flag("noop_with_empty_axes");
    n.attrs.erase("noop_with_empty_axes");
    const std::optional<Ints> axes = has(n, 1) ? known(n, 1) : Ints{};
    if (noop || !axes) {
      problems_.add(describe(n), ": opset ", kExportOpset, " needs axes that are known");
      return;
    }
    n.inputs.resize(1);
    if (!axes->empty()) n.attrs.set("axes", *axes);
  }

  const Model& from_;
  OnnxModel& to_;
  Problems& problems_;
  std::map<std::string, Tensor> constants_;
};

}  // namespace

void lower_nodes(const Model& from, OnnxModel& to, Problems& problems) {
  Lowering(from, to, problems).run();
}

}  // namespace ndtrain
