// SoftmaxCrossEntropy: sum over n of weights[n] * ce(n) with
//   ce(n) = (1 - smoothing) * -log p[n, label[n]] + smoothing * mean over classes of -log p[n, c],
// p = softmax(logits): PyTorch's CrossEntropyLoss with label_smoothing and reduction "sum". Weights
// carry the mean (1/N) and mask rows: a row of weight 0 counts for nothing, whatever it holds.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// logits, labels and weights are inputs `first`, first + 1, first + 2.
void check(const InferContext& c, size_t first) {
  const Shape& logits = c.shape(first);
  if (logits.rank() != 2 || logits[1] < 1) throw Error("logits ", logits, " are not [N, classes]");
  for (size_t i = first + 1; i < first + 3; ++i) {
    if (c.shape(i) != Shape{logits[0]}) {
      throw Error("input ", i, " ", c.shape(i), " is not one value for each row of logits ",
                  logits);
    }
  }
  require(c, first, is_float, "a float dtype");
  require(
      c, first + 1, [](DType t) { return t == DType::kI64; }, "i64");
  require(
      c, first + 2, [](DType t) { return t == DType::kF32; }, "f32");
  const double s = c.attrs.f("smoothing");
  if (!(s >= 0 && s <= 1)) throw Error("smoothing is ", s, ", expected 0 to 1");
}

void infer(InferContext& c) {
  check(c, 0);
  c.out.push_back({c.in[0].dtype, {}});
}

void infer_grad(InferContext& c) {
  check(c, 1);
  require_same_dtype(c, 0, 1);
  if (c.shape(0).rank() != 0) throw Error("gradient ", c.shape(0), " is not a scalar");
  c.out.push_back(c.in[1]);
}

// Calls f(row, weight, label, log p of the row) for every row that counts.
template <typename F>
void for_each_row(const ReferenceContext& c, size_t first, const F& f) {
  const int64_t rows = c.shape(first)[0], classes = c.shape(first)[1];
  std::vector<double> log_p(classes);
  for (int64_t n = 0; n < rows; ++n) {
    const double weight = c.in[first + 2][n], label = c.in[first + 1][n];
    if (weight == 0) continue;
    if (!(label >= 0 && label < classes)) {
      throw Error("label ", label, " of row ", n, " is none of ", classes, " classes");
    }
    const double* x = c.in[first].data() + n * classes;
    const double top = *std::max_element(x, x + classes);
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(x[k] - top);
    for (int64_t k = 0; k < classes; ++k) log_p[k] = x[k] - top - std::log(sum);
    f(n, weight, static_cast<int64_t>(label), std::span<const double>(log_p));
  }
}

void reference(const ReferenceContext& c) {
  const double s = c.attrs.f("smoothing");
  for_each_row(c, 0, [&](int64_t, double weight, int64_t label, std::span<const double> log_p) {
    double mean = 0;
    for (double l : log_p) mean += l / static_cast<double>(log_p.size());
    c.out[0][0] -= weight * ((1 - s) * log_p[label] + s * mean);
  });
}

// dlogits = dloss * weight * (p - (1 - s) * [k = label] - s / classes).
void grad_reference(const ReferenceContext& c) {
  const double s = c.attrs.f("smoothing");
  for_each_row(c, 1, [&](int64_t n, double weight, int64_t label, std::span<const double> log_p) {
    const int64_t classes = static_cast<int64_t>(log_p.size());
    for (int64_t k = 0; k < classes; ++k) {
      const double target = (k == label ? 1 - s : 0) + s / static_cast<double>(classes);
      c.out[0][n * classes + k] = c.in[0][0] * weight * (std::exp(log_p[k]) - target);
    }
  });
}

std::vector<ValueId> gradient(GradientContext& c) {
  if (!c.wanted[0]) return {kNone, kNone, kNone};
  const ValueId dx =
      c.g.add1("SoftmaxCrossEntropyGrad", {c.dy[0], c.x(0), c.x(1), c.x(2)}, c.node.attrs);
  return {dx, kNone, kNone};
}

int64_t terms(const Attrs&, std::span<const TensorType> in) { return in[0].shape.count(); }
int64_t grad_terms(const Attrs&, std::span<const TensorType> in) { return in[1].shape[1]; }

std::vector<Example> examples(bool grad) {
  const ExampleInput labels3 = ExampleInput::given(DType::kI64, {3}, {1, 0, 4});
  ExampleInput weights3 = ExampleInput::given(DType::kF32, {3}, {0.25, 0.5, 1});
  // The label of a masked row may be anything.
  const ExampleInput masked = ExampleInput::given(DType::kI64, {3}, {-7, 2, 99});
  ExampleInput mask = ExampleInput::given(DType::kF32, {3}, {0, 0.5, 0});
  const ExampleInput labels1 = ExampleInput::given(DType::kI64, {1}, {700});
  ExampleInput weights1 = ExampleInput::given(DType::kF32, {1}, {1});
  weights3.known = mask.known = weights1.known = true;
  std::vector<Example> all = {
      {{{3, 5}, labels3, weights3}},
      {{{3, 5}, labels3, weights3}, {{"smoothing", 0.1}}},
      {{{3, 5}, masked, mask}, {{"smoothing", 0.5}}},
      {{{1, 1000}, labels1, weights1}, {{"smoothing", 0.1}}},
      {{ExampleInput::range({3, 5}, -200, 200), labels3, weights3}},
      {{{DType::kF64, {3, 5}}, labels3, weights3}},
  };
  if (grad) {
    for (Example& e : all) {
      ExampleInput dloss(e.inputs[0].type.dtype, Shape{});
      e.inputs.insert(e.inputs.begin(), dloss);
    }
  }
  return all;
}

}  // namespace

std::vector<OpDef> loss_ops() {
  const std::vector<AttrSpec> attrs = {{"smoothing", AttrSpec::Kind::kFloat, Attr(0.0)}};
  return {
      {.name = "SoftmaxCrossEntropy",
       .min_inputs = 3,
       .max_inputs = 3,
       .attrs = attrs,
       .infer = infer,
       .reference = reference,
       .gradient = gradient,
       .terms = terms,
       .examples = examples(false)},
      {.name = "SoftmaxCrossEntropyGrad",
       .min_inputs = 4,
       .max_inputs = 4,
       .attrs = attrs,
       .infer = infer_grad,
       .reference = grad_reference,
       .terms = grad_terms,
       .examples = examples(true)},
  };
}

}  // namespace ndtrain
