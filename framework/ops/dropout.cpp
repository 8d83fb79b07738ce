// Dropout at inference, or with a ratio of 0: the identity. In training, passes replace it by a
// product with DropoutMask, which is a function of (seed, step, stream, element) alone: the same at
// every place and with any number of threads, another at every step.
#include "framework/core/rng.h"
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  require(c, 1, is_float, "a float dtype");
  if (c.has(1) && c.shape(1).count() != 1) throw Error("ratio ", c.shape(1), " is not a scalar");
  if (c.has(2)) {
    if (c.in[2].dtype != DType::kBool || c.shape(2).count() != 1) {
      throw Error("training_mode is ", c.in[2], ", expected a bool scalar");
    }
    const bool drops_nothing = c.has(1) && c.known[1].defined() && c.known[1].to_doubles()[0] == 0;
    if (c.ints(2)[0] != 0 && !drops_nothing) {
      throw Error("training_mode is true; use to_training for training");
    }
  }
  c.out.push_back(c.in[0]);
  if (c.n_outputs > 1) c.out.push_back({DType::kBool, c.shape(0)});
}

void reference(const ReferenceContext& c) {
  c.out[0] = c.in[0];
  if (c.out.size() > 1) c.out[1].assign(c.in[0].size(), 1.0);
}

std::vector<ValueId> gradient(GradientContext& c) {
  std::vector<ValueId> grads(c.node.inputs.size(), kNone);
  grads[0] = c.dy[0];
  return grads;
}

void infer_mask(InferContext& c) {
  if (c.in[0] != TensorType{DType::kI64, {2}}) {
    throw Error("seed is ", c.in[0], ", expected i64[2]: seed and step");
  }
  const double ratio = c.attrs.f("ratio");
  if (!(ratio >= 0 && ratio < 1)) throw Error("ratio is ", ratio, ", expected 0 to below 1");
  c.out.push_back({DType::kF32, Shape(c.attrs.ints("shape"))});
}

void mask_reference(const ReferenceContext& c) {
  const double ratio = c.attrs.f("ratio");
  const Ints seed = c.ints(0);
  const uint64_t stream = static_cast<uint64_t>(c.attrs.i("stream"));
  const Rng rng(static_cast<uint64_t>(seed[0]), stream ^ (static_cast<uint64_t>(seed[1]) << 20));
  for (size_t i = 0; i < c.out[0].size(); ++i) {
    c.out[0][i] = rng.uniform(i) < ratio ? 0 : 1 / (1 - ratio);
  }
}

ExampleInput seed(double value, double step) {
  return ExampleInput::given(DType::kI64, {2}, {value, step});
}

}  // namespace

std::vector<OpDef> dropout_ops() {
  using Kind = AttrSpec::Kind;
  const ExampleInput no = ExampleInput::scalar(0, DType::kBool);
  const ExampleInput yes = ExampleInput::scalar(1, DType::kBool);
  const ExampleInput half = ExampleInput::scalar(0.5), none = ExampleInput::scalar(0);
  return {
      {.name = "Dropout",
       .facts = {.onnx = 1, .rank = RankRule::kFirst},
       .min_inputs = 1,
       .max_inputs = 3,
       .max_outputs = 2,
       .attrs = {{"seed", Kind::kInt}},
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .shape_inputs = 1 << 2,
       .examples = {{{{7}}},
                    {{{2, 3, 4}, half}, {}, 2},
                    {{{3, 5}, half, no}, {}, 2},
                    {{{DType::kF64, {3, 5}}, ExampleInput::absent(), no}},
                    {{{3, 5}, none, yes}}}},
      {.name = "DropoutMask",
       .facts = {.own_dtype = true},
       .attrs = {{"ratio", Kind::kFloat, {}, true},
                 {"shape", Kind::kInts, {}, true},
                 {"stream", Kind::kInt, Attr(int64_t{0})}},
       .infer = infer_mask,
       .reference = mask_reference,
       .examples = {{{seed(0, 0)}, {{"ratio", 0.5}, {"shape", Ints{67}}}},
                    {{seed(17, 3)}, {{"ratio", 0.1}, {"shape", Ints{3, 4, 5}}, {"stream", 2}}},
                    {{seed(4e15, 100000)}, {{"ratio", 0.9}, {"shape", Ints{2, 9}}, {"stream", 7}}},
                    {{seed(1, 1)}, {{"ratio", 0.0}, {"shape", Ints{2, 2}}}}}},
  };
}

}  // namespace ndtrain
