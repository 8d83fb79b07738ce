// BatchNormalizationGrad: back through the statistics of the batch. With n values per channel,
// r = 1 / sqrt(var + epsilon) and z = (x - mean) * r: dbias = sum dy, dscale = sum dy * z,
// dx = scale * r * (dy - dbias / n - z * dscale / n).
// InstanceNormalization: the same per plane of each image (ONNX opset 6).
#include "framework/ops/batch_norm.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  require(c, 2, is_float, "a float dtype");
  const Shape& x = c.shape(1);
  if (c.in[0] != c.in[1]) throw Error("inputs 0 and 1 differ: ", c.in[0], " and ", c.in[1]);
  if (x.rank() < 2 || x.count() == 0) throw Error("input ", x, " is not [N, C, …] or is empty");
  if (c.shape(2) != Shape{x[1]}) {
    throw Error("scale ", c.shape(2), " is not one value for each of ", x[1], " channels");
  }
  c.out.push_back(c.in[1]);
  c.out.insert(c.out.end(), 2, c.in[2]);
}

void reference(const ReferenceContext& c) {
  const Shape& x = c.shape(1);
  const std::vector<double>&dy = c.in[0], &scale = c.in[2];
  const BatchStatistics s = batch_statistics(x, c.in[1], c.attrs.f("epsilon"));
  const auto z = [&](int64_t i, int64_t k) {
    return (c.in[1][i] - s.mean[k]) * s.inv_deviation[k];
  };
  std::vector<double>&dscale = c.out[1], &dbias = c.out[2];
  for_each_in_channels(x, [&](int64_t i, int64_t k) {
    dbias[k] += dy[i];
    dscale[k] += dy[i] * z(i, k);
  });
  const double n = static_cast<double>(x.count() / x[1]);
  for_each_in_channels(x, [&](int64_t i, int64_t k) {
    c.out[0][i] = scale[k] * s.inv_deviation[k] * (dy[i] - dbias[k] / n - z(i, k) * dscale[k] / n);
  });
}

int64_t terms(const Attrs&, std::span<const TensorType> in) {
  const Shape& x = in[1].shape;
  return x.count() / std::max<int64_t>(1, x[1]);
}

// Every plane of x [N, C, …] as a channel of its own.
Shape planes(const Shape& x) { return Shape{1, x[0] * x[1], x.count(2, x.rank())}; }

void infer_instance(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const Shape& x = c.shape(0);
  if (x.rank() < 3 || x.count() == 0) throw Error("input ", x, " is not [N, C, …] or is empty");
  for (size_t i : {1, 2}) {
    require_same_dtype(c, 0, i);
    if (c.shape(i) != Shape{x[1]}) {
      throw Error("input ", i, " ", c.shape(i), " is not one value for each of ", x[1],
                  " channels");
    }
  }
  c.out.push_back(c.in[0]);
}

void instance_reference(const ReferenceContext& c) {
  const Shape p = planes(c.shape(0));
  const int64_t channels = c.shape(0)[1];
  const BatchStatistics s = batch_statistics(p, c.in[0], c.attrs.f("epsilon"));
  for_each_in_channels(p, [&](int64_t i, int64_t k) {
    c.out[0][i] = (c.in[0][i] - s.mean[k]) * s.inv_deviation[k] * c.in[1][k % channels] +
                  c.in[2][k % channels];
  });
}

std::vector<ValueId> instance_gradient(GradientContext& c) {
  Graph& g = c.g;
  const Shape x = c.shape(c.x(0)), p = planes(x), per_image{x[0], x[1]}, flat{p[1]};
  const ValueId scale = reshape(g, expand(g, c.x(1), per_image), flat);
  const std::vector<ValueId> d =
      g.add("BatchNormalizationGrad", {reshape(g, c.dy[0], p), reshape(g, c.x(0), p), scale},
            {{"epsilon", c.node.attrs.f("epsilon")}}, 3);
  std::vector<ValueId> grads(3, kNone);
  if (c.wanted[0]) grads[0] = reshape(g, d[0], x);
  for (size_t i : {1, 2}) {
    if (c.wanted[i]) grads[i] = unbroadcast(g, reshape(g, d[i], per_image), Shape{x[1]});
  }
  return grads;
}

int64_t instance_terms(const Attrs&, std::span<const TensorType> in) {
  return planes(in[0].shape)[2];
}

std::vector<Example> grad_examples() {
  std::vector<Example> all;
  for (const Shape& s : {Shape{2, 3, 4, 5}, Shape{1, 4, 3, 3}, Shape{6, 3}, Shape{3, 2, 5}}) {
    all.push_back({.inputs = {s, s, Shape{s[1]}}});
  }
  const DType d = DType::kF64;
  all.push_back(
      {.inputs = {{d, {2, 3, 4, 4}}, {d, {2, 3, 4, 4}}, {d, {3}}}, .attrs = {{"epsilon", 0.1}}});
  return all;
}

}  // namespace

std::vector<OpDef> batch_norm_grad_ops() {
  const std::vector<AttrSpec> attrs = {{"epsilon", AttrSpec::Kind::kFloat, Attr(1e-5)}};
  return {
      {.name = "BatchNormalizationGrad",
       .min_inputs = 3,
       .max_inputs = 3,
       .min_outputs = 3,
       .max_outputs = 3,
       .attrs = attrs,
       .infer = infer,
       .reference = reference,
       .terms = terms,
       .examples = grad_examples()},
      {.name = "InstanceNormalization",
       .facts = {.onnx = 1,
                 .onnx_later = kBf16Since22,
                 .rank = RankRule::kFirst,
                 .per_image = each_image},
       .min_inputs = 3,
       .max_inputs = 3,
       .attrs = attrs,
       .infer = infer_instance,
       .reference = instance_reference,
       .gradient = instance_gradient,
       .terms = instance_terms,
       .examples = {{{{2, 3, 4, 5}, {3}, {3}}},
                    {{{1, 2, 9}, {2}, {2}}, {{"epsilon", 0.1}}},
                    {{{3, 2, 2, 3, 2}, {2}, {2}}},
                    {{{DType::kF64, {2, 3, 4}}, {DType::kF64, {3}}, {DType::kF64, {3}}}}}},
  };
}

}  // namespace ndtrain
