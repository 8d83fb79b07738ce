// Softmax: y = exp(x - max) / sum exp(x - max) along `axis` (ONNX opset 13); LogSoftmax: its
// logarithm.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  same_float_type(c);
  c.shape(0).axis(c.attrs.i("axis"), "axis");
}

// Calls f(start, step, n) for every line along the axis.
template <typename F>
void for_each_line(const ReferenceContext& c, const F& f) {
  const Shape& s = c.shape(0);
  const int axis = s.axis(c.attrs.i("axis"), "axis");
  const int64_t n = s[axis], inner = s.count(axis + 1, s.rank());
  for (int64_t outer = 0; outer < s.count(0, axis); ++outer) {
    for (int64_t i = 0; i < inner; ++i) f(outer * n * inner + i, inner, n);
  }
}

// log(sum exp) of a line, shifted by its maximum so that nothing overflows.
double log_sum_exp(const double* x, int64_t step, int64_t n) {
  double top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < n; ++k) top = std::max(top, x[k * step]);
  for (int64_t k = 0; k < n; ++k) sum += std::exp(x[k * step] - top);
  return top + std::log(sum);
}

void reference(const ReferenceContext& c) {
  for_each_line(c, [&](int64_t start, int64_t step, int64_t n) {
    const double* x = c.in[0].data() + start;
    const double total = log_sum_exp(x, step, n);
    for (int64_t k = 0; k < n; ++k) c.out[0][start + k * step] = std::exp(x[k * step] - total);
  });
}

void log_reference(const ReferenceContext& c) {
  for_each_line(c, [&](int64_t start, int64_t step, int64_t n) {
    const double* x = c.in[0].data() + start;
    const double total = log_sum_exp(x, step, n);
    for (int64_t k = 0; k < n; ++k) c.out[0][start + k * step] = x[k * step] - total;
  });
}

// dx = y * (dy - sum(dy * y)).
void grad_reference(const ReferenceContext& c) {
  for_each_line(c, [&](int64_t start, int64_t step, int64_t n) {
    const double *dy = c.in[0].data() + start, *y = c.in[1].data() + start;
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += dy[k * step] * y[k * step];
    for (int64_t k = 0; k < n; ++k) {
      c.out[0][start + k * step] = y[k * step] * (dy[k * step] - sum);
    }
  });
}

// dx = dy - exp(y) * sum(dy).
void log_grad_reference(const ReferenceContext& c) {
  for_each_line(c, [&](int64_t start, int64_t step, int64_t n) {
    const double *dy = c.in[0].data() + start, *y = c.in[1].data() + start;
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += dy[k * step];
    for (int64_t k = 0; k < n; ++k) {
      c.out[0][start + k * step] = dy[k * step] - std::exp(y[k * step]) * sum;
    }
  });
}

std::vector<ValueId> gradient(GradientContext& c) {
  return {c.g.add1(c.node.op + "Grad", {c.dy[0], c.y()}, c.node.attrs)};
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  return in[0].shape[in[0].shape.axis(a.i("axis"), "axis")];
}

std::vector<Example> examples() {
  return {
      {{{2, 7}}},
      {{{3, 1000}}},
      {{{2, 5, 3}}, {{"axis", 1}}},
      {{{4, 3, 2, 2}}, {{"axis", 0}}},
      {{{2, 3, 4}}, {{"axis", int64_t{-2}}}},
      {{{5, 1}}},
      {{{6}}},
      {{ExampleInput::range({2, 6}, -300, 300)}},
      {{{DType::kF64, {2, 5}}}},
      {.inputs = {{DType::kF16, {2, 5}}}, .check_gradient = false},
      {.inputs = {{DType::kBF16, {2, 5}}}, .check_gradient = false},
  };
}

// y of Softmax lies in (0, 1), y of LogSoftmax below 0.
std::vector<Example> grad_examples(double low, double high) {
  const auto y = [&](Shape s, DType t = DType::kF32) {
    return ExampleInput::range(std::move(s), low, high, t);
  };
  return {
      {{{2, 7}, y({2, 7})}},
      {{{3, 40}, y({3, 40})}},
      {{{2, 5, 3}, y({2, 5, 3})}, {{"axis", 1}}},
      {{{4, 3, 2}, y({4, 3, 2})}, {{"axis", 0}}},
      {{{DType::kF64, {2, 5}}, y({2, 5}, DType::kF64)}},
  };
}

OpDef line_op(std::string_view name, OpFacts facts, int inputs,
              void (*ref)(const ReferenceContext&)) {
  OpDef op{.name = name, .facts = facts, .min_inputs = inputs, .max_inputs = inputs};
  op.attrs = {{"axis", AttrSpec::Kind::kInt, Attr(int64_t{-1})}};
  op.infer = infer;
  op.reference = ref;
  op.gradient = inputs == 1 ? gradient : nullptr;
  op.terms = terms;
  return op;
}

}  // namespace

std::vector<OpDef> softmax_ops() {
  const OpFacts log{.onnx = 1, .rank = RankRule::kFirst, .per_image = each_image_off_axis_0};
  OpFacts plain = log;
  plain.rounding = Rounding::kRounds;
  plain.sign = Sign::kNeverNegative;
  std::vector<OpDef> ops = {line_op("Softmax", plain, 1, reference),
                            line_op("SoftmaxGrad", {}, 2, grad_reference),
                            line_op("LogSoftmax", log, 1, log_reference),
                            line_op("LogSoftmaxGrad", {}, 2, log_grad_reference)};
  ops[0].examples = ops[2].examples = examples();
  // 3000 outputs of about -7 add up to a loss whose differences have too few digits left.
  ops[2].examples[1].check_gradient = false;
  ops[1].examples = grad_examples(0.01, 0.5);
  ops[3].examples = grad_examples(-4, -0.1);
  return ops;
}

}  // namespace ndtrain
