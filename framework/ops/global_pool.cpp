// GlobalAveragePool, GlobalMaxPool: one value per plane of [N, C, …].
#include "framework/ops/common.h"
#include "framework/ops/spatial.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const Shape& x = c.shape(0);
  if (x.rank() < 3) throw Error("input ", x, " has no spatial dims (expected [N, C, …])");
  if (x.count(2, x.rank()) == 0) throw Error("input ", x, " has empty planes");
  c.out.push_back({c.in[0].dtype, shape_of_planes(x[0], x[1], Ints(x.rank() - 2, 1))});
}

int64_t plane(const Shape& x) { return x.count(2, x.rank()); }

void average_reference(const ReferenceContext& c) {
  const int64_t n = plane(c.shape(0));
  for (size_t i = 0; i < c.in[0].size(); ++i) c.out[0][i / n] += c.in[0][i] / n;
}

void max_reference(const ReferenceContext& c) {
  const int64_t n = plane(c.shape(0));
  std::fill(c.out[0].begin(), c.out[0].end(), -INFINITY);
  for (size_t i = 0; i < c.in[0].size(); ++i)
    c.out[0][i / n] = std::max(c.out[0][i / n], c.in[0][i]);
}

std::vector<ValueId> average_gradient(GradientContext& c) {
  const Shape x = c.shape(c.x(0));
  const ValueId share = scalar_like(c.g, 1.0 / static_cast<double>(plane(x)), c.dy[0]);
  return {expand(c.g, c.g.add1("Mul", {c.dy[0], share}), x)};
}

std::vector<ValueId> max_gradient(GradientContext& c) {
  const Shape x = c.shape(c.x(0));
  const Ints kernel(x.dims().begin() + 2, x.dims().end());
  return {c.g.add1("MaxPoolGrad", {c.dy[0], c.x(0)}, {{"kernel_shape", kernel}})};
}

int64_t terms(const Attrs&, std::span<const TensorType> in) { return plane(in[0].shape); }

std::vector<Example> examples(bool distinct) {
  std::vector<Example> all;
  for (const Shape& s : {Shape{1, 3, 5, 4}, Shape{3, 2, 7, 7}, Shape{2, 3, 9}, Shape{1, 2, 3, 2, 4},
                         Shape{2, 5, 1, 1}}) {
    all.push_back({.inputs = {distinct ? ExampleInput::no_ties(s) : ExampleInput(s)}});
  }
  all.push_back({.inputs = {{DType::kF64, {1, 2, 3, 3}}}});
  all.push_back({.inputs = {{DType::kF16, {1, 2, 3, 3}}}, .check_gradient = false});
  all.push_back({.inputs = {{DType::kBF16, {1, 2, 3, 3}}}, .check_gradient = false});
  return all;
}

}  // namespace

std::vector<OpDef> global_pool_ops() {
  return {
      {.name = "GlobalAveragePool",
       .facts = {.onnx = 1,
                 .onnx_later = kBf16Since22,
                 .kind = OpKind::kReduce,
                 .rounding = Rounding::kRounds,
                 .sign = Sign::kAsInputs,
                 .rank = RankRule::kFirst,
                 .per_image = each_image},
       .infer = infer,
       .reference = average_reference,
       .gradient = average_gradient,
       .terms = terms,
       .examples = examples(false)},
      {.name = "GlobalMaxPool",
       .facts = {.onnx = 1,
                 .onnx_later = kBf16Since22,
                 .kind = OpKind::kReduce,
                 .rounding = Rounding::kExact,
                 .sign = Sign::kAsInputs,
                 .rank = RankRule::kFirst,
                 .per_image = each_image},
       .infer = infer,
       .reference = max_reference,
       .gradient = max_gradient,
       .examples = examples(true)},
  };
}

}  // namespace ndtrain
