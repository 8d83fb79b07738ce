// FusedAttention: y = softmax(scale q k^T + mask) v, per image and head; what a pass makes of
// MatMul, Softmax, MatMul for devices that have it as one kernel (Vaswani et al., "Attention Is All
// You Need", 2017; Dao et al., "FlashAttention", 2022).
//   q [B, H, S, D], k [B, H, T, D], v [B, H, T, E], mask broadcasting to [B, H, S, T]
//   y [B, H, S, E]
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  for (size_t i = 1; i < 3; ++i) require_same_dtype(c, 0, i);
  const Shape &q = c.shape(0), &k = c.shape(1), &v = c.shape(2);
  if (q.rank() != 4 || k != Shape{q[0], q[1], k[-2], q[-1]} ||
      v != Shape{q[0], q[1], k[-2], v[-1]}) {
    throw Error("queries ", q, ", keys ", k, " and values ", v, " do not fit");
  }
  const Shape scores{q[0], q[1], q[2], k[2]};
  if (c.has(3)) {
    require_same_dtype(c, 0, 3);
    if (broadcast(c.shape(3), scores, "the mask") != scores) {
      throw Error("a mask of ", c.shape(3), " for scores ", scores);
    }
  }
  c.out.push_back({c.in[0].dtype, {q[0], q[1], q[2], v[-1]}});
}

// Row `s` of the scores of one head, as weights that add up to one.
std::vector<double> weights(const ReferenceContext& c, int64_t head, int64_t s,
                            const std::vector<double>& mask) {
  const Shape &q = c.shape(0), &k = c.shape(1);
  std::vector<double> w(static_cast<size_t>(k[2]));
  double top = -INFINITY, sum = 0;
  for (int64_t t = 0; t < k[2]; ++t) {
    double dot = 0;
    for (int64_t d = 0; d < q[3]; ++d) {
      dot += c.in[0][(head * q[2] + s) * q[3] + d] * c.in[1][(head * k[2] + t) * q[3] + d];
    }
    w[t] = dot * c.attrs.f("scale");
    if (!mask.empty()) w[t] += mask[(head * q[2] + s) * k[2] + t];
    top = std::max(top, w[t]);
  }
  for (double& x : w) sum += x = std::exp(x - top);
  for (double& x : w) x /= sum;
  return w;
}

void reference(const ReferenceContext& c) {
  const Shape &q = c.shape(0), &k = c.shape(1), &v = c.shape(2);
  std::vector<double> mask;
  if (c.has(3)) {
    const Shape from[] = {c.shape(3)};
    for_each_broadcast({q[0], q[1], q[2], k[2]}, from, [&](int64_t, std::span<const int64_t> at) {
      mask.push_back(c.in[3][static_cast<size_t>(at[0])]);
    });
  }
  for (int64_t head = 0; head < q[0] * q[1]; ++head) {
    for (int64_t s = 0; s < q[2]; ++s) {
      const std::vector<double> w = weights(c, head, s, mask);
      for (int64_t e = 0; e < v[3]; ++e) {
        double& y = c.out[0][(head * q[2] + s) * v[3] + e] = 0;
        for (int64_t t = 0; t < k[2]; ++t) y += w[t] * c.in[2][(head * k[2] + t) * v[3] + e];
      }
    }
  }
}

int64_t terms(const Attrs&, std::span<const TensorType> in) {
  return in[0].shape[3] + in[1].shape[2];
}

std::vector<Example> examples() {
  const auto of = [](DType t, Shape s) { return ExampleInput(t, std::move(s)); };
  const DType half = DType::kF16, brain = DType::kBF16;
  return {
      {{{2, 3, 5, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}}, {{"scale", 0.35}}},
      {{{1, 2, 4, 8}, {1, 2, 7, 8}, {1, 2, 7, 16}, {4, 7}}, {{"scale", 0.5}}},
      {{of(half, {2, 2, 9, 16}), of(half, {2, 2, 9, 16}), of(half, {2, 2, 9, 16})},
       {{"scale", 0.25}}},
      {{of(brain, {1, 3, 6, 8}), of(brain, {1, 3, 6, 8}), of(brain, {1, 3, 6, 8}),
        of(brain, {1, 1, 6, 6})},
       {{"scale", 0.25}}},
  };
}

}  // namespace

std::vector<OpDef> attention_ops() {
  return {{.name = "FusedAttention",
           .min_inputs = 3,
           .max_inputs = 4,
           .attrs = {{"scale", AttrSpec::Kind::kFloat, Attr(1.0)}},
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .optional_fusion = always,
           .examples = examples()}};
}

}  // namespace ndtrain
