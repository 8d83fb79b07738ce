// SoftmaxCrossEntropy: sum over n and k of weights[n, k] * ce(n, labels[n, k]) with
//   ce(n, l) = (1 - smoothing) * -log p[n, l] + smoothing * mean over classes of -log p[n, c],
// p = softmax(logits): PyTorch's CrossEntropyLoss with label_smoothing and reduction "sum". Labels
// and weights are [N], or [N, K]: a soft label, of which K classes have a part. Weights are not
// negative; they carry the mean (1/N) and mask labels: one of weight 0 may be anything, and a row
// whose weights are all 0 counts for nothing, whatever it holds.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

// logits, labels and weights are inputs `first`, first + 1, first + 2.
void check(const InferContext& c, size_t first) {
  const Shape& logits = c.shape(first);
  if (logits.rank() != 2 || logits[1] < 1) throw Error("logits ", logits, " are not [N, classes]");
  const Shape& labels = c.shape(first + 1);
  if (labels.rank() < 1 || labels.rank() > 2 || labels[0] != logits[0]) {
    throw Error("input ", first + 1, " ", labels, " is not [N] or [N, K] for each row of logits ",
                logits);
  }
  if (c.shape(first + 2) != labels) {
    throw Error("input ", first + 2, " ", c.shape(first + 2), " is not a weight for each label of ",
                labels);
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

// A row that counts: its labels, what each weighs, and log p of every class.
struct Row {
  int64_t number = 0;
  std::span<const double> labels, weights, log_p;
};

template <typename F>
void for_each_row(const ReferenceContext& c, size_t first, const F& f) {
  const int64_t rows = c.shape(first)[0], classes = c.shape(first)[1];
  const std::vector<double>&labels = c.in[first + 1], &weights = c.in[first + 2];
  const size_t of_row = rows > 0 ? labels.size() / static_cast<size_t>(rows) : 0;
  std::vector<double> log_p(classes);
  for (int64_t n = 0; n < rows; ++n) {
    const Row row{.number = n,
                  .labels = std::span(labels).subspan(n * of_row, of_row),
                  .weights = std::span(weights).subspan(n * of_row, of_row),
                  .log_p = log_p};
    if (std::ranges::all_of(row.weights, [](double w) { return w == 0; })) continue;
    for (size_t k = 0; k < of_row; ++k) {
      if (row.weights[k] == 0 || (row.labels[k] >= 0 && row.labels[k] < classes)) continue;
      throw Error("label ", row.labels[k], " of row ", n, " is none of ", classes, " classes");
    }
    const double* x = c.in[first].data() + n * classes;
    const double top = *std::max_element(x, x + classes);
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(x[k] - top);
    for (int64_t k = 0; k < classes; ++k) log_p[k] = x[k] - top - std::log(sum);
    f(row);
  }
}

void reference(const ReferenceContext& c) {
  const double s = c.attrs.f("smoothing");
  for_each_row(c, 0, [&](const Row& row) {
    double mean = 0;
    for (double l : row.log_p) mean += l / static_cast<double>(row.log_p.size());
    for (size_t k = 0; k < row.labels.size(); ++k) {
      if (row.weights[k] == 0) continue;
      const double own = row.log_p[static_cast<size_t>(row.labels[k])];
      c.out[0][0] -= row.weights[k] * ((1 - s) * own + s * mean);
    }
  });
}

// dlogits = dloss * sum over k of weights[k] * (p - (1 - s) * [c = label[k]] - s / classes).
void grad_reference(const ReferenceContext& c) {
  const double s = c.attrs.f("smoothing");
  for_each_row(c, 1, [&](const Row& row) {
    const size_t classes = row.log_p.size();
    for (size_t i = 0; i < classes; ++i) {
      double sum = 0;
      for (size_t k = 0; k < row.labels.size(); ++k) {
        const bool own = row.labels[k] == static_cast<double>(i);
        const double target = (own ? 1 - s : 0) + s / static_cast<double>(classes);
        sum += row.weights[k] * (std::exp(row.log_p[i]) - target);
      }
      c.out[0][static_cast<size_t>(row.number) * classes + i] = c.in[0][0] * sum;
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
  // Two labels of a row, once the same one, once one that is masked.
  const ExampleInput pairs = ExampleInput::given(DType::kI64, {3, 2}, {1, 0, 4, 4, 2, -7});
  ExampleInput shares = ExampleInput::given(DType::kF32, {3, 2}, {0.25, 0.125, 0.5, 0.25, 1, 0});
  const ExampleInput three = ExampleInput::given(DType::kI64, {1, 3}, {700, 3, 999});
  ExampleInput thirds = ExampleInput::given(DType::kF32, {1, 3}, {0.5, 0.25, 0.25});
  weights3.known = mask.known = weights1.known = shares.known = thirds.known = true;
  std::vector<Example> all = {
      {{{3, 5}, labels3, weights3}},
      {{{3, 5}, labels3, weights3}, {{"smoothing", 0.1}}},
      {{{3, 5}, masked, mask}, {{"smoothing", 0.5}}},
      {{{1, 1000}, labels1, weights1}, {{"smoothing", 0.1}}},
      {{ExampleInput::range({3, 5}, -200, 200), labels3, weights3}},
      {{{DType::kF64, {3, 5}}, labels3, weights3}},
      {{{3, 5}, pairs, shares}},
      {{{3, 5}, pairs, shares}, {{"smoothing", 0.1}}},
      {{{1, 1000}, three, thirds}, {{"smoothing", 0.1}}},
      {{{DType::kF64, {3, 5}}, pairs, shares}, {{"smoothing", 0.5}}},
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
