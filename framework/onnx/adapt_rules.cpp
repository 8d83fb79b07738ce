// What changed between opsets, as a table. Source: ONNX's docs/Changelog.md.
#include <cmath>
#include <limits>

#include "framework/onnx/adapt.h"
#include "framework/onnx/tensor_proto.h"

namespace ndtrain {
namespace {

void erase_consumed_inputs(Adaptation& a) { a.node.attrs.erase("consumed_inputs"); }

void ints_to_input(Adaptation& a, const char* attribute, size_t input) {
  if (const auto values = a.take<Ints>(attribute)) a.set_input(input, a.constant(*values));
}

// Appends ones to the shape of input 1, so that its dimensions meet those of input 0 from `axis`
// on. Ranks are not known yet: the difference is computed, and folded away once shapes are.
void align_second_input(Adaptation& a, int64_t axis) {
  const std::string shape = a.before("Shape", {a.input(1)});
  const std::string rank = a.before("Size", {shape});
  const std::string first_rank = a.before("Size", {a.before("Shape", {a.input(0)})});
  const std::string from = a.constant(Tensor::of<int64_t>(DType::kI64, Shape{}, {axis}));
  std::string ones = a.before("Sub", {a.before("Sub", {first_rank, rank}), from});
  ones = a.before("Reshape", {ones, a.constant({1})});
  ones = a.before("ConstantOfShape", {ones},
                  {{"value", Tensor::of<int64_t>(DType::kI64, Shape{1}, {1})}});
  const std::string target = a.before("Concat", {shape, ones}, {{"axis", int64_t{0}}});
  a.set_input(1, a.before("Reshape", {a.input(1), target}));
}

// broadcast=1 with axis: the second shape is a run of the first, starting at axis.
void legacy_broadcast(Adaptation& a) {
  const auto broadcast = a.take<int64_t>("broadcast");
  const auto axis = a.take<int64_t>("axis");
  if (!broadcast.value_or(0) || !axis) return;
  if (*axis < 0) return a.refuse("a negative broadcast axis is not supported");
  align_second_input(a, *axis);
}

void legacy_prelu(Adaptation& a) {
  const int rank = a.has_input(1) ? a.fact(a.input(1)).rank : -1;
  if (rank <= 1 && a.has_input(1)) align_second_input(a, 1);
}

void cast_to_string(Adaptation& a) {
  const auto to = a.take<std::string>("to");
  if (!to) return;
  std::string name;
  for (char c : *to) name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (int64_t t = 1; t <= 16; ++t) {
    if (onnx_dtype_name(t) == name) return a.node.attrs.set("to", t);
  }
  a.refuse("cannot cast to '" + *to + "'");
}

void translate_dtype(Adaptation& a, const char* attribute) {
  const auto type = a.take<int64_t>(attribute);
  if (!type) return;
  if (*type == 0) {
    a.node.attrs.set(attribute, int64_t{0});
    return;
  }
  try {
    a.node.attrs.set(attribute, static_cast<int64_t>(dtype_from_onnx(*type)));
  } catch (const Error& e) {
    a.node.attrs.set(attribute, int64_t{0});
    a.refuse("attribute " + std::string(attribute) + ": " + e.what());
  }
}

void batch_norm_6(Adaptation& a) { a.node.attrs.erase("is_test"); }

void batch_norm_8(Adaptation& a) {
  if (a.take<int64_t>("spatial").value_or(1) == 0) {
    a.refuse("attribute spatial = 0 (statistics per element) is not supported");
  }
}

// Up to opset 13 more than one output meant training.
void batch_norm_13(Adaptation& a) {
  for (size_t k = 1; k < a.node.outputs.size(); ++k) {
    if (!a.node.outputs[k].empty()) a.node.attrs.set("training_mode", int64_t{1});
  }
}

void dropout_9(Adaptation& a) {
  a.node.attrs.erase("is_test");
  // The mask was of the input's type.
  if (a.node.outputs.size() > 1 && !a.node.outputs[1].empty()) {
    a.after(1, "CastLike", {a.input(0)});
  }
}

// A float constant whatever the input's type: Dropout takes the ratio in any.
void dropout_11(Adaptation& a) {
  const float ratio = static_cast<float>(a.take<double>("ratio").value_or(0.5));
  a.set_input(1, a.constant(Tensor::of<float>(DType::kF32, Shape{}, {ratio})));
}

void clip_10(Adaptation& a) {
  if (const auto min = a.take<double>("min")) a.set_input(1, a.number(*min, a.input(0)));
  if (const auto max = a.take<double>("max")) a.set_input(2, a.number(*max, a.input(0)));
}

void pad_1(Adaptation& a) {
  if (const auto pads = a.take<Ints>("paddings")) a.node.attrs.set("pads", *pads);
}

void pad_10(Adaptation& a) {
  ints_to_input(a, "pads", 1);
  const double value = a.take<double>("value").value_or(0);
  if (value != 0) a.set_input(2, a.number(value, a.input(0)));
}

void slice_9(Adaptation& a) {
  ints_to_input(a, "starts", 1);
  ints_to_input(a, "ends", 2);
  ints_to_input(a, "axes", 3);
}

void split_17(Adaptation& a) {
  if (!a.has_input(1)) {
    a.node.attrs.set("num_outputs", static_cast<int64_t>(a.node.outputs.size()));
  }
}

// Up to opset 12 everything from axis on was one distribution.
void softmax_12(Adaptation& a) {
  const int64_t axis = a.take<int64_t>("axis").value_or(1);
  const int rank = a.fact(a.input(0)).rank;
  a.node.attrs.set("axis", int64_t{-1});
  if (axis == -1 || axis == rank - 1) return;
  const std::string shape = a.before("Shape", {a.input(0)});
  a.set_input(0, a.before("Flatten", {a.input(0)}, {{"axis", axis}}));
  a.after(0, "Reshape", {shape}, {{"allowzero", int64_t{1}}});
}

void selu_5(Adaptation& a) {
  if (!a.node.attrs.has("alpha")) a.node.attrs.set("alpha", double{1.6732f});
  if (!a.node.attrs.has("gamma")) a.node.attrs.set("gamma", double{1.0507f});
}

void concat_3(Adaptation& a) {
  if (!a.node.attrs.has("axis")) a.node.attrs.set("axis", int64_t{1});
}

// An empty list meant all axes, as an absent one does.
void reduce_axes(Adaptation& a) { ints_to_input(a, "axes", 1); }

void dequantize(Adaptation& a) {
  const auto type = a.take<int64_t>("output_dtype");
  if (type.value_or(0) == 0) return;
  try {
    a.after(0, "Cast", {}, {{"to", static_cast<int64_t>(dtype_from_onnx(*type))}});
  } catch (const Error& e) {
    a.refuse(std::string("attribute output_dtype: ") + e.what());
  }
}

void quantize(Adaptation& a) {
  translate_dtype(a, "output_dtype");
  if (a.take<int64_t>("precision").value_or(0) != 0)
    a.refuse("attribute precision is not supported");
}

// How a float is rounded to 8 bits of exponent, which no tensor here has.
void cast_24(Adaptation& a) { a.node.attrs.erase("round_mode"); }

// What 16-bit floats are added up in; others are what they are.
void range_27(Adaptation& a) {
  if (a.take<int64_t>("stash_type").value_or(1) != 1) a.refuse("only stash_type 1 is supported");
}

// Column, row, depth: what DCR has of all channels at a place of the block is of one channel then.
void space_to_depth_28(Adaptation& a) {
  const std::string mode = a.take<std::string>("mode").value_or("DCR");
  if (mode == "DCR" || a.refused_before()) return;
  if (mode != "CRD") return a.refuse("mode is '" + mode + "', must be DCR or CRD");
  const Shape x = a.type(a.input(0)).shape;
  const int64_t block = a.node.attrs.i("blocksize"), channels = x.rank() > 1 ? x[1] : 0;
  Ints from;
  for (int64_t i = 0; i < channels * block * block; ++i) {
    from.push_back(i % (block * block) * channels + i / (block * block));
  }
  a.after(0, "Gather", {a.constant(from)}, {{"axis", int64_t{1}}});
}

// Upsample, and Resize of opset 10: places as they are multiplied, the lower one where it is
// between.
void become_resize(Adaptation& a, std::vector<std::string> inputs) {
  const std::string mode = a.take<std::string>("mode").value_or("nearest");
  a.become("Resize", std::move(inputs),
           {{"mode", mode == "bilinear" ? std::string("linear") : mode},
            {"coordinate_transformation_mode", std::string("asymmetric")},
            {"nearest_mode", std::string("floor")}});
}

std::string scales_of(Adaptation& a, const Floats& scales) {
  return a.constant(
      Tensor::from_doubles({DType::kF32, {static_cast<int64_t>(scales.size())}}, scales));
}

void upsample(Adaptation& a) {
  if (!a.has_input(0)) return a.refuse("has no inputs");
  if (const auto scales = a.take<Floats>("scales"))
    return become_resize(a, {a.input(0), "", scales_of(a, *scales)});
  const auto height = a.take<double>("height_scale"), width = a.take<double>("width_scale");
  if (height && width) {
    return become_resize(a, {a.input(0), "", scales_of(a, {1, 1, *height, *width})});
  }
  if (!a.has_input(1)) return a.refuse("has no scales");
  become_resize(a, {a.input(0), "", a.input(1)});
}

void resize_10(Adaptation& a) {
  if (!a.has_input(0) || !a.has_input(1)) return a.refuse("has no scales");
  become_resize(a, {a.input(0), "", a.input(1)});
}

void grid_sample_19(Adaptation& a) {
  const std::string mode = a.take<std::string>("mode").value_or("bilinear");
  a.node.attrs.set("mode", mode == "bilinear" ? "linear" : mode == "bicubic" ? "cubic" : mode);
}

void roi_align_15(Adaptation& a) {
  a.node.attrs.set("coordinate_transformation_mode", std::string("output_half_pixel"));
}

void top_k_9(Adaptation& a) {
  if (const auto k = a.take<int64_t>("k")) a.set_input(1, a.constant({*k}));
}

void lp_pool_1(Adaptation& a) {
  const auto p = a.take<double>("p");
  if (!p) return;
  if (*p != std::floor(*p)) return a.refuse("p is " + std::to_string(*p) + ", no whole number");
  a.node.attrs.set("p", static_cast<int64_t>(*p));
}

// The names of a cell's functions, for each direction: those that it has when they are not said.
void usual_activations(Adaptation& a) {
  const auto given = a.node.strings.find("activations");
  if (given == a.node.strings.end()) return;
  std::vector<std::string> usual = {"Tanh"};
  if (a.node.op != "RNN") usual.insert(usual.begin(), "Sigmoid");
  if (a.node.op == "LSTM") usual.emplace_back("Tanh");
  for (size_t i = 0; i < given->second.size(); ++i) {
    const std::string &name = given->second[i], &wanted = usual[i % usual.size()];
    if (name != wanted) a.refuse("activation " + name + " is not supported, only " + wanted);
  }
  a.node.strings.erase(given);
}

constexpr int kAll = kMaxOpset;

}  // namespace

std::span<const AdaptRule> onnx_rules() {
  using A = Adaptation;
  static const std::vector<AdaptRule> rules = {
      {{}, 1, 5, erase_consumed_inputs},
      {{"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater"},
       1,
       6,
       legacy_broadcast},
      {{"PRelu"}, 1, 6, legacy_prelu},
      {{"Gemm"}, 1, 6, [](A& a) { a.node.attrs.erase("broadcast"); }},
      {{"Concat"}, 1, 3, concat_3},
      {{"Reshape"}, 1, 4, [](A& a) { ints_to_input(a, "shape", 1); }},
      {{"Selu"}, 1, 5, selu_5},
      {{"Tile"}, 1, 5, [](A& a) { a.refuse("Tile of opset 1 to 5 is not supported"); }},
      {{"Cast"}, 1, 5, cast_to_string},
      {{"Cast", "BitCast"}, 1, kAll, [](A& a) { translate_dtype(a, "to"); }},
      {{"LayerNormalization"}, 1, kAll, [](A& a) { translate_dtype(a, "stash_type"); }},
      {{"BatchNormalization"}, 1, 6, batch_norm_6},
      {{"BatchNormalization"}, 1, 8, batch_norm_8},
      {{"BatchNormalization"}, 1, 13, batch_norm_13},
      {{"Dropout"}, 1, 9, dropout_9},
      {{"Dropout"}, 1, 11, dropout_11},
      {{"Dropout"}, 12, kAll, [](A& a) { a.node.attrs.erase("seed"); }},
      {{"Clip"}, 1, 10, clip_10},
      {{"Pad"}, 1, 1, pad_1},
      {{"Pad"}, 1, 10, pad_10},
      {{"Slice"}, 1, 9, slice_9},
      {{"Split"}, 1, 12, [](A& a) { ints_to_input(a, "split", 1); }},
      {{"Split"}, 1, 17, split_17},
      {{"Squeeze", "Unsqueeze", "ReduceSum"}, 1, 12, reduce_axes},
      {{"ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"},
       1,
       17,
       reduce_axes},
      {{"Softmax", "LogSoftmax", "Hardmax"}, 1, 12, softmax_12},
      {{"QuantizeLinear"}, 1, kAll, quantize},
      {{"DequantizeLinear"}, 1, kAll, dequantize},
      {{"Cast", "CastLike"}, 24, kAll, cast_24},
      {{"Range"}, 27, kAll, range_27},
      {{"SpaceToDepth"}, 28, kAll, space_to_depth_28},
      {{"RNN", "GRU", "LSTM"}, 1, kAll, usual_activations},
      {{"EyeLike"}, 1, kAll, [](A& a) { translate_dtype(a, "dtype"); }},
      {{"Resize"}, 1, 10, resize_10},
      {{"Upsample"}, 1, kAll, upsample},
      {{"GridSample"}, 1, 19, grid_sample_19},
      {{"RoiAlign"}, 1, 15, roi_align_15},
      {{"TopK"}, 1, 9, top_k_9},
      {{"Scatter"}, 1, kAll, [](A& a) { a.node.op = "ScatterElements"; }},
      {{"LpPool", "GlobalLpPool"}, 1, 1, lp_pool_1},
  };
  return rules;
}

}  // namespace ndtrain
