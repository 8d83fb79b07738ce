// What an operator is: its types, its meaning, its derivative, and worked examples. How a device
// computes it is the backends' business.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "framework/core/limits.h"
#include "framework/graph/graph.h"

namespace ndtrain {

// Throws Error when the inputs do not fit. The caller prefixes the op's name.
struct InferContext {
  const Attrs& attrs;
  std::span<const TensorType> in;  // dtype kNone: the optional input is absent
  std::span<const Tensor> known;   // data of inputs known when the graph is built; else undefined
  int n_outputs;                   // as many types go into `out`
  std::vector<TensorType>& out;
  std::vector<Tensor>& out_known;  // optional: out_known[k] defined = output k is this constant

  bool has(size_t i) const { return i < in.size() && in[i].dtype != DType::kNone; }
  const Shape& shape(size_t i) const { return in[i].shape; }
  // The integers of a known input; throws Error saying that input i must be known in advance.
  Ints ints(size_t i) const;
};

// The definition of the op, in double, as plain as it can be written. Integers are exact up to
// 2^53. The interpreter rounds each output to its dtype (see rounded()); f32 stays double.
struct ReferenceContext {
  const Attrs& attrs;
  std::span<const TensorType> in_types, out_types;
  std::span<const std::vector<double>> in;  // empty for an absent input
  std::vector<std::vector<double>>& out;    // sized, zero-filled

  bool has(size_t i) const { return i < in_types.size() && in_types[i].dtype != DType::kNone; }
  const Shape& shape(size_t i) const { return in_types[i].shape; }
  const Shape& out_shape(size_t i = 0) const { return out_types[i].shape; }
  Ints ints(size_t i) const;  // input i as integers
};

struct GradientContext {
  Graph& g;
  const Node& node;
  std::span<const ValueId> dy;   // one per output; kNone where no gradient arrives
  std::span<const bool> wanted;  // one per input: whether its gradient is of use

  ValueId x(size_t i) const { return node.inputs[i]; }
  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != kNone; }
  ValueId y(size_t i = 0) const { return node.outputs[i]; }
  const Shape& shape(ValueId v) const { return g.shape(v); }
  ValueId dy_or_zeros(size_t i);                    // a constant of zeros where no gradient arrives
  ValueId scalar(double v, DType t = DType::kF32);  // a rank-0 constant
};

// A node that is to be made of others, in the graph it stands in.
struct ComposeContext {
  Graph& g;
  const Node& node;

  ValueId x(size_t i) const { return node.inputs[i]; }
  bool has(size_t i) const { return i < node.inputs.size() && node.inputs[i] != kNone; }
  const Shape& shape(size_t i) const { return g.shape(x(i)); }
  const Shape& out_shape(size_t k = 0) const { return g.shape(node.outputs[k]); }
};

// One input of an Example. By default f32, random, ±[0.1, 1] (away from the kinks at 0).
struct ExampleInput {
  TensorType type;
  double low = 0, high = 0;  // when low < high: uniform in [low, high] instead (integers too)
  std::vector<double> values = {};  // when not empty: exactly these
  bool known = false;     // added as a constant: decides shapes or is written into the model
  bool distinct = false;  // a random permutation of evenly spaced values: no ties (max, pools)

  ExampleInput(Shape s) : type{DType::kF32, std::move(s)} {}  // NOLINT: {2,3} is an input
  ExampleInput(std::initializer_list<int64_t> s) : ExampleInput(Shape(s)) {}
  ExampleInput(DType t, Shape s) : type{t, std::move(s)} {}

  static ExampleInput absent() { return {DType::kNone, Shape{}}; }
  static ExampleInput ints(std::vector<int64_t> v);             // known, rank-1 i64
  static ExampleInput scalar(double v, DType t = DType::kF32);  // known, rank 0
  static ExampleInput given(DType t, Shape s, std::vector<double> v);
  static ExampleInput range(Shape s, double low, double high, DType t = DType::kF32);
  static ExampleInput no_ties(Shape s);
};

// Inputs and attributes with which the op is checked (gradient, every backend) and timed.
struct Example {
  std::vector<ExampleInput> inputs;
  Attrs attrs = {};
  int outputs = 0;             // as in Graph::add
  bool check_gradient = true;  // false where the op's gradient does not exist at this example
  double tolerance = 0;        // kernels: 0 = derived from OpDef::terms
};

// How an output comes from the inputs.
enum class OpKind : uint8_t {
  kOther,
  kMap,     // y[i] = f(x0[i], x1[i], ...), inputs broadcast to the output
  kMove,    // each element is one of a data input's: input 0, or every input of a variadic op
  kReduce,  // sums, means or extremes over axes
  kProduct  // sums of products, `terms` to an element
};

// What becomes of the op in a graph of 16-bit floats.
enum class Rounding : uint8_t {
  kWide,    // it stays f32: rounded there, what follows would lose digits, or no kernel does it
  kRounds,  // computed in f32, the result rounded
  kExact    // of 16-bit inputs the result is a 16-bit number
};

enum class Sign : uint8_t {
  kAny,
  kAsInputs,      // not negative where no input is: of a kMove the data, of others all but shapes
  kNeverNegative  // NaN aside
};

// The output's rank.
enum class RankRule : uint8_t { kUnknown, kFirst, kLargest, kTwo };

inline constexpr int kNever = 1000;  // an opset later than all

// What ONNX lets an op be in an opset later than 17 alone (its docs/Changelog.md): of data of a
// type (input 0's or output 0's), with an attribute that is not its default, or with one of this
// text.
struct OnnxLater {
  int since;
  DType type = DType::kNone;
  std::string_view attribute = {}, text = {};
};

// What passes ask about an op. tests/ops/facts_test.cpp holds each against the reference.
struct OpFacts {
  int onnx = 0;                            // the ONNX opset that first had it; 0: none of 28
  std::vector<OnnxLater> onnx_later = {};  // export goes by it
  OpKind kind = OpKind::kOther;
  Rounding rounding = Rounding::kWide;
  uint64_t wide_inputs = 0;  // bit i: kernels take input i in f32 beside 16-bit data
  Sign sign = Sign::kAny;
  RankRule rank = RankRule::kUnknown;  // a kMap: kLargest
  bool own_dtype = false;              // the output need not have input 0's dtype
  bool view = false;                   // of input 0: its elements in its order
  bool commutative = false;            // of two inputs, in either order
  bool clamp = false;                  // input 0 within limits: min(max(x, low), high)
  bool step = false;                   // may be a step of FusedElementwise
  int residual = -1;                   // the input that is added to a product's result
  // Whether each image (index of the first axis) of an output of that rank depends on the same
  // image of the inputs alone; of a kProduct, on input 0's and the residual's. Null: no.
  bool (*per_image)(const Attrs&, int rank) = nullptr;

  bool has_images(int input) const {
    return kind != OpKind::kProduct || input == 0 || input == residual;
  }
};

struct OpDef {
  std::string_view name;
  OpFacts facts = {};
  int min_inputs = 1, max_inputs = 1;
  int min_outputs = 1, max_outputs = 1;
  std::vector<AttrSpec> attrs = {};
  // Makes attributes explicit that follow from others or from the inputs (auto_pad -> pads, an
  // omitted kernel_shape), before infer: nobody behind Graph::add sees the short forms. Null:
  // nothing to do.
  void (*complete)(Attrs&, std::span<const TensorType> in) = nullptr;
  void (*infer)(InferContext&) = nullptr;
  void (*reference)(const ReferenceContext&) = nullptr;
  // One gradient per input (kNone: none), built from other ops. Null: not differentiable.
  std::vector<ValueId> (*gradient)(GradientContext&) = nullptr;
  // Products added up per output element (convolution: C/g * kh * kw): tolerances and FLOPs follow
  // from it. Null: 1.
  int64_t (*terms)(const Attrs&, std::span<const TensorType> in) = nullptr;
  uint64_t shape_inputs = 0;    // bit i: input i decides shapes and must be known in advance
  bool reference_only = false;  // met only in shape arithmetic: folded away, no kernels
  // Makes the outputs of other ops, once shapes are known: what bind() leaves in the node's place,
  // so that no pass, gradient or kernel meets it. Null: the op stays.
  std::vector<ValueId> (*compose)(ComposeContext&) = nullptr;
  // No network's time is in it: where the cpu plugin has no kernel for it, a plan runs the
  // reference, and says so (framework/runtime/reference_kernel.h).
  bool by_reference = false;
  // Of nodes that are made of others for a device that takes them, and that no backend needs to.
  // Null: there are none.
  bool (*optional_fusion)(const Attrs&) = nullptr;
  std::vector<Example> examples = {};
};

inline bool is_optional_fusion(const OpDef& def, const Attrs& attrs) {
  return def.optional_fusion && def.optional_fusion(attrs);
}

// Of these, plugins have no kernels.
inline bool needs_kernel(const OpDef& def) {
  return !def.reference_only && !def.compose && !def.by_reference;
}

// What `node` of `g`, whose op is composed of others, becomes: values made for it alone, of its
// outputs' types. The node itself stays, read by nobody. Throws Error naming the op.
std::vector<ValueId> composed(Graph& g, const Node& node);

// How many of `inputs` inputs are data, of an op whose data inputs are input 0 or all of them.
inline size_t data_inputs(const OpDef& def, size_t inputs) {
  return def.max_inputs == limits::kPorts ? inputs : 1;
}

// The table of ops is empty but for what is added before it is first read, while a program starts:
// framework/ops adds its own. Throws Error when it was read.
using OpSource = std::vector<OpDef> (*)();
bool add_ops(OpSource source);  // true

const OpDef& find_op(std::string_view name);  // throws Error if there is none
const OpDef* try_find_op(std::string_view name);
std::span<const OpDef> all_ops();

// Runs the reference of one node. `in` as in ReferenceContext; outputs rounded to their dtypes.
std::vector<std::vector<double>> run_reference(const OpDef& def, const Attrs& attrs,
                                               std::span<const TensorType> in_types,
                                               std::span<const TensorType> out_types,
                                               std::span<const std::vector<double>> in);

}  // namespace ndtrain
