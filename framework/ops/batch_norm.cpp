// BatchNormalization: y = (x - mean) / sqrt(var + epsilon) * scale + bias per channel of [N, C, …]
// (ONNX opset 15). With training_mode the statistics are the batch's (population variance), and
// running' = momentum * running + (1 - momentum) * batch.
#include "framework/ops/batch_norm.h"

namespace ndtrain {

BatchStatistics batch_statistics(const Shape& x, const std::vector<double>& values,
                                 double epsilon) {
  BatchStatistics s;
  s.mean.assign(x[1], 0.0);
  s.var = s.mean;
  const double n = static_cast<double>(x.count() / std::max<int64_t>(1, x[1]));
  for_each_in_channels(x, [&](int64_t i, int64_t c) { s.mean[c] += values[i] / n; });
  for_each_in_channels(x, [&](int64_t i, int64_t c) {
    const double d = values[i] - s.mean[c];
    s.var[c] += d * d / n;
  });
  for (double v : s.var) s.inv_deviation.push_back(1 / std::sqrt(v + epsilon));
  return s;
}

namespace {

void infer(InferContext& c) {
  for (size_t i = 0; i < 5; ++i) require(c, i, is_float, "a float dtype");
  const Shape& x = c.shape(0);
  if (x.rank() < 2) throw Error("input ", x, " has no channels (expected [N, C, …])");
  for (size_t i = 1; i < 5; ++i) {
    if (c.shape(i) != Shape{x[1]}) {
      throw Error("input ", i, " ", c.shape(i), " is not one value for each of ", x[1],
                  " channels");
    }
  }
  require_same_dtype(c, 1, 2);
  require_same_dtype(c, 3, 4);
  const bool training = c.attrs.flag("training_mode");
  if (!training && c.n_outputs > 1) {
    throw Error(c.n_outputs, " outputs, but running statistics come only with training_mode");
  }
  if (training && x.count() == 0) throw Error("input ", x, " is an empty batch to train on");
  c.out.push_back(c.in[0]);
  for (int k = 1; k < c.n_outputs; ++k) c.out.push_back(c.in[3]);
}

void reference(const ReferenceContext& c) {
  const double epsilon = c.attrs.f("epsilon"), momentum = c.attrs.f("momentum");
  BatchStatistics s;
  if (c.attrs.flag("training_mode")) {
    s = batch_statistics(c.shape(0), c.in[0], epsilon);
    for (size_t k = 1; k < c.out.size(); ++k) {
      const std::vector<double>& batch = k == 1 ? s.mean : s.var;
      for (size_t i = 0; i < batch.size(); ++i) {
        c.out[k][i] = momentum * c.in[k + 2][i] + (1 - momentum) * batch[i];
      }
    }
  } else {
    s.mean = c.in[3];
    for (double v : c.in[4]) s.inv_deviation.push_back(1 / std::sqrt(v + epsilon));
  }
  for_each_in_channels(c.shape(0), [&](int64_t i, int64_t k) {
    c.out[0][i] = (c.in[0][i] - s.mean[k]) * s.inv_deviation[k] * c.in[1][k] + c.in[2][k];
  });
}

std::vector<ValueId> training_gradient(GradientContext& c) {
  for (size_t k = 1; k < c.dy.size(); ++k) {
    if (c.dy[k] != kNone) throw Error("there is no gradient through the running statistics");
  }
  std::vector<ValueId> grads(5, kNone);
  if (c.dy[0] == kNone) return grads;
  const std::vector<ValueId> d = c.g.add("BatchNormalizationGrad", {c.dy[0], c.x(0), c.x(1)},
                                         {{"epsilon", c.node.attrs.f("epsilon")}}, 3);
  for (size_t i = 0; i < 3; ++i) {
    if (c.wanted[i]) grads[i] = d[i];
  }
  return grads;
}

// With r = 1 / sqrt(var + epsilon) and k = scale * r: dx = dy * k, dbias = sum dy, dscale =
// r * sum dy (x - mean), dmean = -k * dbias, dvar = -r^2 / 2 * scale * dscale.
std::vector<ValueId> inference_gradient(GradientContext& c) {
  Graph& g = c.g;
  const DType t = g.type(c.x(0)).dtype;
  const Shape x = c.shape(c.x(0));
  Shape per_channel = shape_of_planes(1, x[1], Ints(x.rank() - 2, 1));
  const auto mul = [&](ValueId a, ValueId b) { return g.add1("Mul", {a, b}); };
  const auto sum = [&](ValueId v) {
    const ValueId axes = g.add_constant("", all_but_channels(x));
    return g.add1("ReduceSum", {v, axes}, {{"keepdims", 0}});
  };
  const auto as_input = [&](ValueId v, size_t i) { return cast(g, v, g.type(c.x(i)).dtype); };
  const ValueId scale = cast(g, c.x(1), t), mean = cast(g, c.x(3), t), var = cast(g, c.x(4), t);
  const ValueId epsilon = scalar_like(g, c.node.attrs.f("epsilon"), var);
  const ValueId r = g.add1("Reciprocal", {g.add1("Sqrt", {g.add1("Add", {var, epsilon})})});
  const ValueId k = mul(scale, r);

  std::vector<ValueId> grads(5, kNone);
  if (c.wanted[0]) grads[0] = mul(c.dy[0], reshape(g, k, per_channel));
  if (c.wanted[2] || c.wanted[3]) {
    const ValueId dbias = sum(c.dy[0]);
    if (c.wanted[2]) grads[2] = as_input(dbias, 2);
    if (c.wanted[3]) grads[3] = as_input(g.add1("Neg", {mul(k, dbias)}), 3);
  }
  if (c.wanted[1] || c.wanted[4]) {
    const ValueId centred = g.add1("Sub", {c.x(0), reshape(g, mean, per_channel)});
    const ValueId dscale = mul(r, sum(mul(c.dy[0], centred)));
    if (c.wanted[1]) grads[1] = as_input(dscale, 1);
    if (c.wanted[4]) {
      const ValueId minus_half = scalar_like(g, -0.5, r);
      grads[4] = as_input(mul(mul(mul(r, r), minus_half), mul(scale, dscale)), 4);
    }
  }
  return grads;
}

std::vector<ValueId> gradient(GradientContext& c) {
  return c.node.attrs.flag("training_mode") ? training_gradient(c) : inference_gradient(c);
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  const Shape& x = in[0].shape;
  return a.flag("training_mode") ? x.count() / std::max<int64_t>(1, x[1]) : 1;
}

Example example(Shape x, Attrs attrs, int outputs, DType t = DType::kF32) {
  const Shape c{x[1]};
  ExampleInput mean(t, c), var = ExampleInput::range(c, 0.2, 2, t);
  // What y does not depend on in training cannot have its gradient checked.
  mean.known = var.known = attrs.has("training_mode");
  const bool halves = is_half(t);
  return {.inputs = {{t, x}, {t, c}, {t, c}, mean, var},
          .attrs = std::move(attrs),
          .outputs = outputs,
          .check_gradient = !halves && outputs <= 1};
}

std::vector<Example> examples() {
  const Attrs train{{"training_mode", 1}};
  const Attrs slow{{"training_mode", 1}, {"momentum", 0.99}, {"epsilon", 1e-3}};
  std::vector<Example> all = {
      example({2, 3, 4, 5}, {}, 1),
      example({1, 4, 3, 3}, {{"epsilon", 1e-2}}, 1),
      example({3, 5}, {}, 1),
      example({2, 3, 7}, {}, 1),
      example({1, 2, 3, 2, 2}, {}, 1),
      example({2, 3, 4, 4}, {}, 1, DType::kF64),
      example({2, 3, 4, 4}, {}, 1, DType::kF16),
      example({2, 3, 4, 5}, train, 1),
      example({2, 3, 4, 5}, train, 3),
      example({1, 4, 3, 3}, slow, 3),
      example({6, 3}, train, 1),
      example({3, 2, 5}, slow, 1),
      example({2, 3, 4, 4}, train, 3, DType::kF64),
  };
  Example mixed = example({2, 3, 4, 4}, {}, 1, DType::kF16);
  for (size_t i = 1; i < 5; ++i) mixed.inputs[i].type.dtype = DType::kF32;
  all.push_back(mixed);
  mixed.inputs[0].type.dtype = DType::kBF16;
  all.push_back(std::move(mixed));
  return all;
}

bool each_image_untrained(const Attrs& attrs, int) { return !attrs.flag("training_mode"); }

}  // namespace

std::vector<OpDef> batch_norm_ops() {
  using Kind = AttrSpec::Kind;
  return {{.name = "BatchNormalization",
           .facts = {.onnx = 1,
                     .rounding = Rounding::kRounds,
                     .wide_inputs = 0b11110,
                     .rank = RankRule::kFirst,
                     .per_image = each_image_untrained},
           .min_inputs = 5,
           .max_inputs = 5,
           .max_outputs = 3,
           .attrs = {{"epsilon", Kind::kFloat, Attr(1e-5)},
                     {"momentum", Kind::kFloat, Attr(0.9)},
                     {"training_mode", Kind::kInt, Attr(int64_t{0})}},
           .infer = infer,
           .reference = reference,
           .gradient = gradient,
           .terms = terms,
           .examples = examples()}};
}

}  // namespace ndtrain
