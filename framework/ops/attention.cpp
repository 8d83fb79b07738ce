// FusedAttention: y = softmax(scale q k^T + mask) v, per image and head; what a pass makes of
// MatMul, Softmax, MatMul for devices that have it as one kernel (Vaswani et al., "Attention Is All
// You Need", 2017; Dao et al., "FlashAttention", 2022).
//   q [B, H, S, D], k [B, H, T, D], v [B, H, T, E], mask broadcasting to [M, H, S, T]; M divides B
//   (1 and B are the usual ones), and image i has mask i % M, as the windows of a photo have (Liu
//   et al., "Swin Transformer", 2021)
//   y [B, H, S, E], l [B, H, S]: the logarithms of the sums that the softmax divides by
// With heads_axis 2 all but mask and l have their heads behind the rows: q [B, S, H, D]. Packed,
// the first input is q, k and v behind each other, [B, S, 3 H, D], and the next two are absent.
//
// FusedAttentionGrad: with p = exp(scale q k^T + mask - l) and ds = p * (dy v^T - rowsum(dy * y)):
// dq = scale ds k, dk = scale ds^T q, dv = p^T dy; packed as the inputs are.
#include "framework/ops/common.h"

namespace ndtrain {
namespace {

bool is_packed(const Attrs& a) { return a.flag("packed"); }

// Of a tensor of `rows` rows of `n` numbers for each image and head.
struct Heads {
  int axis;
  int64_t images, heads, rows, n;
  int64_t part = 0, parts = 1;  // of the heads that lie together

  Heads(const Attrs& a, const Shape& s, int64_t of_packed)
      : axis(static_cast<int>(a.i("heads_axis"))) {
    if (axis != 1 && axis != 2) throw Error("heads_axis is ", axis, ", must be 1 or 2");
    if (s.rank() != 4) throw Error("queries, keys and values must be of rank 4, not ", s);
    images = s[0], heads = s[axis], rows = s[3 - axis], n = s[3];
    if (!is_packed(a)) return;
    if (axis != 2 || heads % 3 != 0) throw Error(s, " cannot be queries, keys and values packed");
    heads /= 3, part = of_packed, parts = 3;
  }

  Shape shape() const {
    return axis == 1 ? Shape{images, heads, rows, n} : Shape{images, rows, heads, n};
  }
  Heads with(int64_t more_rows, int64_t width) const {
    Heads h = *this;
    h.rows = more_rows, h.n = width, h.part = 0, h.parts = 1;
    return h;
  }
  int64_t at(int64_t head, int64_t row, int64_t i) const {  // head: of all images
    if (axis == 1) return (head * rows + row) * n + i;
    return (((head / heads * rows + row) * parts + part) * heads + head % heads) * n + i;
  }
};

struct Fit {
  Heads q, k, v, y;

  // Input `first` is q; keys and values follow, or are in it.
  Fit(const Attrs& a, std::span<const TensorType> in, size_t first)
      : q(a, in[first].shape, 0),
        k(a, part(a, in, first, 1), 1),
        v(a, part(a, in, first, 2), 2),
        y(q.with(q.rows, v.n)) {
    if (is_packed(a)) return;
    if (in[first + 1].shape != q.with(k.rows, q.n).shape() ||
        in[first + 2].shape != q.with(k.rows, v.n).shape()) {
      throw Error("queries ", in[first].shape, ", keys ", in[first + 1].shape, " and values ",
                  in[first + 2].shape, " do not fit");
    }
  }
  static const Shape& part(const Attrs& a, std::span<const TensorType> in, size_t first, size_t i) {
    const bool there = first + i < in.size() && in[first + i].dtype != DType::kNone;
    if (there == is_packed(a)) {
      throw Error("packed is ", a.i("packed"), ", but input ", first + i, there ? " is" : " is not",
                  " there");
    }
    return in[there ? first + i : first].shape;
  }
  Shape scores() const { return {q.images, q.heads, q.rows, k.rows}; }
  Shape sums() const { return {q.images, q.heads, q.rows}; }
};

// What a mask broadcasts to: the scores of as many images as have one of their own.
Shape masked(const Shape& mask, const Shape& scores) {
  return mask.rank() == 4 ? scores.with(0, mask[0]) : scores.with(0, 1);
}

void check_mask(const InferContext& c, size_t i, const Shape& scores) {
  if (!c.has(i)) return;
  require_same_dtype(c, 0, i);
  const Shape& mask = c.shape(i);
  const Shape whole = masked(mask, scores);
  if (broadcast(mask, whole, "the mask") != whole) {
    throw Error("a mask of ", mask, " for scores ", scores);
  }
  if (whole[0] == 0 || scores[0] % whole[0] != 0) {
    throw Error("a mask of ", mask, ": its first dim does not divide ", scores[0], " images");
  }
}

void infer(InferContext& c) {
  require(c, 0, is_float, "a float dtype");
  const Fit fit(c.attrs, c.in, 0);
  if (!is_packed(c.attrs)) {
    for (size_t i = 1; i < 3; ++i) require_same_dtype(c, 0, i);
  }
  check_mask(c, 3, fit.scores());
  c.out.push_back({c.in[0].dtype, fit.y.shape()});
  if (c.n_outputs > 1) c.out.push_back({DType::kF32, fit.sums()});
}

// The scores of one query of one head, scaled and masked.
class Scores {
 public:
  Scores(const ReferenceContext& c, size_t first, size_t mask)
      : fit_(c.attrs, c.in_types, first),
        scale_(c.attrs.f("scale")),
        q_(c.in[first]),
        k_(c.in[is_packed(c.attrs) ? first : first + 1]) {
    if (!c.has(mask)) return;
    const Shape from[] = {c.shape(mask)}, whole = masked(from[0], fit_.scores());
    masked_heads_ = whole[0] * whole[1];
    for_each_broadcast(whole, from, [&](int64_t, std::span<const int64_t> at) {
      mask_.push_back(c.in[mask][static_cast<size_t>(at[0])]);
    });
  }

  const Fit& fit() const { return fit_; }
  std::vector<double> row(int64_t head, int64_t s) const {
    std::vector<double> w(static_cast<size_t>(fit_.k.rows));
    for (int64_t t = 0; t < fit_.k.rows; ++t) {
      double dot = 0;
      for (int64_t d = 0; d < fit_.q.n; ++d) {
        dot += q_[fit_.q.at(head, s, d)] * k_[fit_.k.at(head, t, d)];
      }
      w[t] = dot * scale_;
      if (!mask_.empty()) {
        w[t] += mask_[(head % masked_heads_ * fit_.q.rows + s) * fit_.k.rows + t];
      }
    }
    return w;
  }

 private:
  Fit fit_;
  double scale_;
  const std::vector<double>&q_, &k_;
  std::vector<double> mask_;
  int64_t masked_heads_ = 0;  // of all images that have masks of their own
};

void reference(const ReferenceContext& c) {
  const Scores scores(c, 0, 3);
  const Fit& fit = scores.fit();
  const std::vector<double>& v = c.in[is_packed(c.attrs) ? 0 : 2];
  for (int64_t head = 0; head < fit.q.images * fit.q.heads; ++head) {
    for (int64_t s = 0; s < fit.q.rows; ++s) {
      std::vector<double> w = scores.row(head, s);
      double top = -INFINITY, sum = 0;
      for (const double x : w) top = std::max(top, x);
      for (double& x : w) sum += x = std::exp(x - top);
      for (int64_t e = 0; e < fit.v.n; ++e) {
        double& y = c.out[0][fit.y.at(head, s, e)] = 0;
        for (int64_t t = 0; t < fit.k.rows; ++t) y += w[t] / sum * v[fit.v.at(head, t, e)];
      }
      if (c.out.size() > 1) c.out[1][head * fit.q.rows + s] = top + std::log(sum);
    }
  }
}

// Each weight is a sum over the depth, and has a part in every element of its row of y.
int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  const Fit fit(a, in, 0);
  const int64_t n = std::max<int64_t>(fit.v.n, 1);
  return (fit.k.rows * (fit.q.n + n) + n - 1) / n;
}

std::vector<ValueId> gradient(GradientContext& c) {
  if (c.dy.size() > 1 && c.dy[1] != kNone) {
    throw Error("FusedAttention: there is no gradient through the sums of its softmax");
  }
  std::vector<ValueId> grads(c.node.inputs.size(), kNone);
  if (c.dy[0] == kNone) return grads;
  if (c.has(3) && c.wanted[3]) throw Error("FusedAttention: there is no gradient of its mask");
  // Where nobody asked for the sums it is computed once more.
  std::vector<ValueId> of = c.node.outputs;
  if (of.size() == 1) of = c.g.add(c.node.op, c.node.inputs, c.node.attrs, 2);
  const auto x = [&](size_t i) { return c.has(i) ? c.x(i) : kNone; };
  std::vector<ValueId> in = {c.dy[0], c.x(0), x(1), x(2), of[0], of[1]};
  if (c.has(3)) in.push_back(c.x(3));
  const size_t parts = is_packed(c.node.attrs) ? 1 : 3;
  const std::vector<ValueId> d =
      c.g.add("FusedAttentionGrad", std::move(in), c.node.attrs, static_cast<int>(parts));
  for (size_t i = 0; i < parts; ++i) {
    if (c.wanted[i]) grads[i] = d[i];
  }
  return grads;
}

enum GradInput : size_t { kDy, kQ, kK, kV, kY, kSums, kMask };

void infer_grad(InferContext& c) {
  require(c, kDy, is_float, "a float dtype");
  const Fit fit(c.attrs, c.in, kQ);
  const bool packed = is_packed(c.attrs);
  for (size_t i = kQ; i <= kY; ++i) {
    if (!packed || i == kQ || i == kY) require_same_dtype(c, kDy, i);
  }
  if (c.n_outputs != (packed ? 1 : 3)) throw Error("it has ", c.n_outputs, " outputs");
  const TensorType sums{DType::kF32, fit.sums()};
  if (c.shape(kDy) != fit.y.shape() || c.shape(kY) != fit.y.shape() || c.in[kSums] != sums) {
    throw Error("a result ", c.shape(kY), ", its gradient ", c.shape(kDy), " and sums ",
                c.in[kSums], " do not fit queries ", c.shape(kQ), " and values ", c.shape(kV));
  }
  check_mask(c, kMask, fit.scores());
  for (int i = 0; i < c.n_outputs; ++i) c.out.push_back(c.in[kQ + static_cast<size_t>(i)]);
}

void grad_reference(const ReferenceContext& c) {
  const Scores scores(c, kQ, kMask);
  const Fit& fit = scores.fit();
  const double scale = c.attrs.f("scale");
  const bool packed = is_packed(c.attrs);
  const std::vector<double>&q = c.in[kQ], &k = c.in[packed ? kQ : kK], &v = c.in[packed ? kQ : kV];
  std::vector<double>&dq = c.out[0], &dk = c.out[packed ? 0 : 1], &dv = c.out[packed ? 0 : 2];
  for (int64_t head = 0; head < fit.q.images * fit.q.heads; ++head) {
    for (int64_t s = 0; s < fit.q.rows; ++s) {
      const std::vector<double> w = scores.row(head, s);
      const double* dy = c.in[kDy].data() + fit.y.at(head, s, 0);
      const double* y = c.in[kY].data() + fit.y.at(head, s, 0);
      double sum = 0;
      for (int64_t e = 0; e < fit.v.n; ++e) sum += dy[e] * y[e];
      for (int64_t t = 0; t < fit.k.rows; ++t) {
        const double p = std::exp(w[t] - c.in[kSums][head * fit.q.rows + s]);
        double dp = 0;
        for (int64_t e = 0; e < fit.v.n; ++e) {
          dp += dy[e] * v[fit.v.at(head, t, e)];
          dv[fit.v.at(head, t, e)] += p * dy[e];
        }
        const double ds = p * (dp - sum) * scale;
        for (int64_t d = 0; d < fit.q.n; ++d) {
          dq[fit.q.at(head, s, d)] += ds * k[fit.k.at(head, t, d)];
          dk[fit.k.at(head, t, d)] += ds * q[fit.q.at(head, s, d)];
        }
      }
    }
  }
}

// Five products, by the elements of dq.
int64_t grad_terms(const Attrs& a, std::span<const TensorType> in) {
  const Fit fit(a, in, kQ);
  const int64_t n = std::max<int64_t>(fit.q.n, 1);
  return (fit.k.rows * (3 * n + 2 * fit.v.n) + n - 1) / n;
}

ExampleInput of(DType t, Shape s) { return {t, std::move(s)}; }

ExampleInput known(ExampleInput in) {
  in.known = true;
  return in;
}

std::vector<Example> examples() {
  const DType half = DType::kF16, brain = DType::kBF16;
  return {
      {{{2, 3, 5, 8}, {2, 3, 5, 8}, {2, 3, 5, 8}}, {{"scale", 0.35}}},
      {.inputs = {{1, 2, 4, 8}, {1, 2, 7, 8}, {1, 2, 7, 16}, {4, 7}},
       .attrs = {{"scale", 0.5}},
       .check_gradient = false},
      {{of(half, {2, 2, 9, 16}), of(half, {2, 2, 9, 16}), of(half, {2, 2, 9, 16})},
       {{"scale", 0.25}}},
      {{of(brain, {1, 3, 6, 8}), of(brain, {1, 3, 6, 8}), of(brain, {1, 3, 6, 8}),
        of(brain, {1, 1, 6, 6})},
       {{"scale", 0.25}}},
      {{{2, 4, 3, 5}, {2, 6, 3, 5}, {2, 6, 3, 4}, known({2, 1, 1, 6})},
       {{"scale", 0.5}, {"heads_axis", 2}}},
      {.inputs = {{1, 2, 35, 4}, {1, 2, 19, 4}, {1, 2, 19, 3}},
       .attrs = {{"scale", -0.5}},
       .outputs = 2,
       .check_gradient = false},
      {{{6, 2, 3, 4}, {6, 2, 5, 4}, {6, 2, 5, 3}, known({2, 2, 3, 5})}, {{"scale", 0.5}}},
      {{{2, 5, 9, 4}, ExampleInput::absent(), ExampleInput::absent(), known({5, 5})},
       {{"scale", 0.5}, {"heads_axis", 2}, {"packed", 1}}},
  };
}

std::vector<Example> grad_examples() {
  const DType brain = DType::kBF16;
  const Shape s{1, 2, 6, 8};
  return {
      {{{2, 3, 5, 4}, {2, 3, 5, 8}, {2, 3, 7, 8}, {2, 3, 7, 4}, {2, 3, 5, 4}, {2, 3, 5}},
       {{"scale", 0.35}},
       3},
      {{{1, 35, 2, 3},
        {1, 35, 2, 4},
        {1, 19, 2, 4},
        {1, 19, 2, 3},
        {1, 35, 2, 3},
        {1, 2, 35},
        {1, 1, 35, 19}},
       {{"scale", 0.5}, {"heads_axis", 2}},
       3},
      {{{6, 3, 2, 3},
        {6, 3, 2, 4},
        {6, 5, 2, 4},
        {6, 5, 2, 3},
        {6, 3, 2, 3},
        {6, 2, 3},
        {3, 1, 3, 5}},
       {{"scale", 0.5}, {"heads_axis", 2}},
       3},
      {{of(brain, s), of(brain, s), of(brain, s), of(brain, s), of(brain, s), {1, 2, 6}},
       {{"scale", 0.25}},
       3},
      {.inputs = {{2, 7, 2, 4},
                  {2, 7, 6, 4},
                  ExampleInput::absent(),
                  ExampleInput::absent(),
                  {2, 7, 2, 4},
                  {2, 2, 7}},
       .attrs = {{"scale", 0.5}, {"heads_axis", 2}, {"packed", 1}},
       .outputs = 1},
  };
}

}  // namespace

std::vector<OpDef> attention_ops() {
  using Kind = AttrSpec::Kind;
  const std::vector<AttrSpec> attrs = {{"scale", Kind::kFloat, Attr(1.0)},
                                       {"heads_axis", Kind::kInt, Attr(int64_t{1})},
                                       {"packed", Kind::kInt, Attr(int64_t{0})}};
  return {{.name = "FusedAttention",
           .facts = {.kind = OpKind::kProduct},
           .min_inputs = 1,
           .max_inputs = 4,
           .max_outputs = 2,
           .attrs = attrs,
           .infer = infer,
           .reference = reference,
           .gradient = gradient,
           .terms = terms,
           .optional_fusion = always,
           .examples = examples()},
          {.name = "FusedAttentionGrad",
           .facts = {.kind = OpKind::kProduct},
           .min_inputs = 6,
           .max_inputs = 7,
           .min_outputs = 1,
           .max_outputs = 3,
           .attrs = attrs,
           .infer = infer_grad,
           .reference = grad_reference,
           .terms = grad_terms,
           .optional_fusion = always,
           .examples = grad_examples()}};
}

}  // namespace ndtrain
