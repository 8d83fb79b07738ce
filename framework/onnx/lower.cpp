#include "framework/onnx/lower.h"

#include <algorithm>
#include <optional>

#include "framework/graph/op.h"
#include "framework/onnx/own_functions.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {
namespace {

class Lowering {
 public:
  Lowering(const Model& from, ValueTypes& types, int opset, OnnxModel& to, Problems& problems)
      : from_(from), types_(types), opset_(opset), to_(to), problems_(problems) {}

  void run() {
    for (const ModelNode& n : from_.nodes) {
      if (n.op == "Constant" && n.attrs.has("value") && !n.outputs.empty()) {
        constants_[n.outputs[0]] = n.attrs.tensor("value");
      }
      add(n);
    }
  }

  int least() const { return least_; }

 private:
  void add(const ModelNode& from) {
    OnnxNode n;
    n.op = from.op;
    n.inputs = from.inputs;
    n.outputs = from.outputs;
    n.attrs = from.attrs;
    n.opset = opset_;
    const OpDef* def = try_find_op(n.op);
    if (const OwnFunction* own = own_function_for(from, opset_)) {
      call(*own, n, *def);
    } else if (def == nullptr || def->facts.onnx == 0) {
      problems_.add(describe(n), ": no opset has an operator ", n.op);
      return;
    } else if (!needs(n, def->facts.onnx, "operator ", n.op)) {
      return;
    } else {
      plain(n, *def);
    }
    while (!n.inputs.empty() && n.inputs.back().empty()) n.inputs.pop_back();
    to_.nodes.push_back(std::move(n));
  }

  // That n is written in `since` or later, for this of it.
  template <typename... Parts>
  bool needs(const OnnxNode& n, int since, const Parts&... what) {
    if (opset_ >= since) return true;
    if (since == kNever) {
      problems_.add(describe(n), ": no opset from ", kLeastExportOpset, " on has ", what...);
      return false;
    }
    least_ = std::max(least_, since);
    problems_.add(describe(n), ": opset ", opset_, " has no ", what..., "; --opset ", since,
                  " has it");
    return false;
  }

  void call(const OwnFunction& own, OnnxNode& n, const OpDef& def) {
    check_type(n, def);
    n.domain = kOwnDomain;
    n.op = own.name;
    n.attrs = {};
    const bool there = std::ranges::any_of(
        to_.functions, [&](const OnnxFunction& f) { return f.name == own.name; });
    if (!there) to_.functions.push_back(own.body(opset_));
    to_.opsets[kOwnDomain] = 1;
  }

  void plain(OnnxNode& n, const OpDef& def) {
    check_type(n, def);
    drop_unset(n);
    name_dtypes(n);
    for (const OnnxLater& later : def.facts.onnx_later) check_attribute(n, def, later);
    if (n.op == "QuantizeLinear") quantize(n);
    if (n.op == "AveragePool") plain_dilations(n, 19);
    if (n.op == "LpPool") plain_dilations(n, 18);
    if (n.op == "Resize") resize(n);
    if (n.op == "GridSample") grid_sample(n);
    if (n.op == "Split") split(n);
    // ONNX has no TopK without indices; import leaves out what nobody reads.
    if (n.op == "TopK" && n.outputs.size() == 1) n.outputs.push_back(n.outputs[0] + "/indices");
    if (n.op == "Pad" && has(n, 3)) needs(n, 18, "axes, and they are not known");
    if (n.op.starts_with("Reduce") && n.op != "ReduceSum") reduce(n);
  }

  // Data of input 0, and what comes of it.
  void check_type(const OnnxNode& n, const OpDef& def) {
    std::vector<std::string> values = {n.outputs.empty() ? "" : n.outputs[0]};
    if (!n.inputs.empty()) values.push_back(n.inputs[0]);
    for (const std::string& value : values) {
      const TensorType* type = value.empty() ? nullptr : types_.find(value);
      if (type == nullptr) continue;
      for (const OnnxLater& later : def.facts.onnx_later) {
        if (later.type != type->dtype) continue;
        if (!needs(n, later.since, n.op, " of ", name_of(type->dtype))) return;
      }
    }
  }

  void check_attribute(OnnxNode& n, const OpDef& def, const OnnxLater& later) {
    const std::string name(later.attribute);
    if (name.empty() || !n.attrs.has(name) || opset_ >= later.since) return;
    if (!later.text.empty()) {
      if (n.attrs.s(name) == later.text) needs(n, later.since, name, " ", later.text);
      return;
    }
    const auto spec = std::ranges::find(def.attrs, later.attribute, &AttrSpec::name);
    if (n.attrs.i(name) != std::get<int64_t>(*spec->fallback)) {
      needs(n, later.since, "attribute ", name);
    }
    n.attrs.erase(name);
  }

  // As ONNX numbers types, where they are said.
  static void name_dtypes(OnnxNode& n) {
    for (const char* name : {"to", "stash_type", "dtype", "output_dtype"}) {
      if (!n.attrs.has(name)) continue;
      const auto type = static_cast<DType>(n.attrs.i(name));
      if (type == DType::kNone) {
        n.attrs.erase(name);
      } else {
        n.attrs.set(name, dtype_to_onnx(type));
      }
    }
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
    if (!n.attrs.has("output_dtype") || opset_ >= 21) return;
    const int64_t type = n.attrs.i("output_dtype");
    n.attrs.erase("output_dtype");
    // The zero point states it, else it is u8.
    if (type != dtype_to_onnx(DType::kU8) && !has(n, 2)) needs(n, 21, "attribute output_dtype");
  }

  void plain_dilations(OnnxNode& n, int since) {
    if (!n.attrs.has("dilations") || opset_ >= since) return;
    const Ints& d = n.attrs.ints("dilations");
    if (std::ranges::any_of(d, [](int64_t v) { return v != 1; })) {
      needs(n, since, "attribute dilations");
    }
    n.attrs.erase("dilations");
  }

  void resize(OnnxNode& n) {
    if (opset_ >= 18) return;
    if (n.attrs.has("axes")) needs(n, 18, "attribute axes");
    n.attrs.erase("keep_aspect_ratio_policy");
  }

  void grid_sample(OnnxNode& n) {
    const TensorType* x = types_.find(n.inputs.at(0));
    if (x && x->shape.rank() != 4) needs(n, 20, "GridSample of other than four dimensions");
    if (!n.attrs.has("mode") || opset_ >= 20) return;
    const std::string mode = n.attrs.s("mode");
    if (mode == "linear") n.attrs.set("mode", std::string("bilinear"));
    if (mode == "cubic") n.attrs.set("mode", std::string("bicubic"));
  }

  // Up to opset 17 parts were equal or listed: see normalise().
  void split(OnnxNode& n) {
    n.attrs.erase("num_outputs");
    if (opset_ < 18 || has(n, 1)) return;
    n.attrs.set("num_outputs", static_cast<int64_t>(n.outputs.size()));
  }

  // Up to opset 17 axes were an attribute.
  void reduce(OnnxNode& n) {
    if (opset_ >= 18) return;
    const bool noop = n.attrs.has("noop_with_empty_axes") && n.attrs.flag("noop_with_empty_axes");
    n.attrs.erase("noop_with_empty_axes");
    const std::optional<Ints> axes = has(n, 1) ? known(n, 1) : Ints{};
    if (noop || !axes) {
      needs(n, 18, "axes that are computed");
      return;
    }
    n.inputs.resize(1);
    if (!axes->empty()) n.attrs.set("axes", *axes);
  }

  const Model& from_;
  ValueTypes& types_;
  const int opset_;
  int least_ = kLeastExportOpset;
  OnnxModel& to_;
  Problems& problems_;
  std::map<std::string, Tensor> constants_;
};

}  // namespace

void lower_nodes(const Model& from, ValueTypes& types, int opset, OnnxModel& to,
                 Problems& problems) {
  Lowering(from, types, opset, to, problems).run();
}

int least_opset(const Model& from, ValueTypes& types) {
  OnnxModel unused;
  Problems problems;
  Lowering lowering(from, types, kLeastExportOpset, unused, problems);
  lowering.run();
  return lowering.least();
}

}  // namespace ndtrain
