// LinearAttention: attention whose memory is a matrix S [keys, values] for each head, which every
// step of a sequence changes and a query reads. With decay g and rate b, where the update rule has
// them,
//   S = exp(g) S;  v' = b (v - k^T S), else v;  S = S + k v'^T;  y = scale q^T S
// Queries, keys, values, decay and rate are [N, steps, heads width], of which a head of keys and
// values may serve several of queries. In a graph the steps are nodes. Source: ONNX's
// docs/Operators.md.
#include "framework/ops/common.h"
#include "framework/ops/time_steps.h"

namespace ndtrain {
namespace {

using Kind = AttrSpec::Kind;

constexpr size_t kQuery = 0, kKey = 1, kValue = 2, kState = 3, kDecay = 4, kRate = 5;

struct Heads {
  int64_t images, steps, queries, heads;  // heads: of keys and values
  int64_t keys, values;                   // widths of a head
  int64_t decays = 1, rates = 1;          // of a head: 1 or `keys`; of an image: 1 or `heads`
  double scale;
  bool decaying, correcting;

  int64_t group() const { return queries / heads; }
  Shape state() const { return {images, heads, keys, values}; }
};

// `c` has has(i) and shape(i) of the inputs.
template <typename Context>
Heads heads_of(const Attrs& a, const Context& c) {
  const Shape &q = c.shape(kQuery), &v = c.shape(kValue);
  Heads h{.images = q[0],
          .steps = q[1],
          .queries = a.i("q_num_heads"),
          .heads = a.i("kv_num_heads"),
          .scale = a.f("scale")};
  h.keys = q[2] / h.queries;
  h.values = v[2] / h.heads;
  if (h.scale == 0) h.scale = 1 / std::sqrt(static_cast<double>(h.keys));
  const std::string& rule = a.s("update_rule");
  h.decaying = rule.starts_with("gated");
  h.correcting = rule.ends_with("delta");
  if (c.has(kDecay)) h.decays = c.shape(kDecay)[2] / h.heads;
  if (c.has(kRate)) h.rates = c.shape(kRate)[2];
  return h;
}

void check(const InferContext& c) {
  const int64_t queries = c.attrs.i("q_num_heads"), heads = c.attrs.i("kv_num_heads");
  const std::string& rule = c.attrs.s("update_rule");
  for (const size_t i : {kQuery, kKey, kValue, kDecay, kRate}) {
    if (!c.has(i)) continue;
    require(c, i, is_float, "a float dtype");
    if (c.shape(i).rank() != 3) throw Error("input ", i, " is ", c.in[i], ", must be of rank 3");
  }
  require_same_dtype(c, kQuery, kKey);
  require_same_dtype(c, kQuery, kValue);
  if (heads < 1 || queries < 1 || queries % heads != 0 || c.shape(kQuery)[2] % queries != 0 ||
      c.shape(kQuery)[2] == 0 || c.shape(kValue)[2] % heads != 0) {
    throw Error(queries, " heads of queries ", c.in[kQuery], " do not share ", heads,
                " heads of keys and values ", c.in[kValue]);
  }
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta") {
    throw Error("update_rule is '", rule, "', must be linear, gated, delta or gated_delta");
  }
  const bool decaying = rule.starts_with("gated"), correcting = rule.ends_with("delta");
  if (c.has(kDecay) != decaying || c.has(kRate) != correcting) {
    throw Error("update_rule ", rule, decaying ? " needs" : " has no", " decay and",
                correcting ? " needs" : " has no", " beta");
  }
}

void infer(InferContext& c) {
  check(c);
  const Heads h = heads_of(c.attrs, c);
  check_steps_of(h.steps);
  const auto expect = [&](size_t i, const Shape& shape) {
    if (c.has(i) && c.shape(i) != shape) throw Error("input ", i, " is ", c.in[i], ", not ", shape);
  };
  expect(kKey, {h.images, h.steps, h.heads * h.keys});
  expect(kValue, {h.images, h.steps, h.heads * h.values});
  expect(kState, h.state());
  expect(kDecay, {h.images, h.steps, h.heads * (h.decays == 1 ? 1 : h.keys)});
  expect(kRate, {h.images, h.steps, h.rates == 1 ? 1 : h.heads});
  const DType t = c.in[kQuery].dtype;
  c.out = {{t, {h.images, h.steps, h.queries * h.values}},
           {c.has(kState) ? c.in[kState].dtype : t, h.state()}};
}

// One step of head `head` of an image on its state; `row` is the step's number among all images'.
void update(const ReferenceContext& c, const Heads& h, int64_t row, int64_t head, double* state) {
  const double* k = c.in[kKey].data() + (row * h.heads + head) * h.keys;
  const double* v = c.in[kValue].data() + (row * h.heads + head) * h.values;
  for (int64_t i = 0; i < h.keys * h.values && h.decaying; ++i) {
    const int64_t at = (row * h.heads + head) * h.decays + i / h.values % h.decays;
    state[i] *= std::exp(c.in[kDecay][static_cast<size_t>(at)]);
  }
  for (int64_t m = 0; m < h.values; ++m) {
    double value = v[m];
    if (h.correcting) {
      for (int64_t d = 0; d < h.keys; ++d) value -= state[d * h.values + m] * k[d];
      value *= c.in[kRate][static_cast<size_t>(row * h.rates + head % h.rates)];
    }
    for (int64_t d = 0; d < h.keys; ++d) state[d * h.values + m] += k[d] * value;
  }
}

void reference(const ReferenceContext& c) {
  const Heads h = heads_of(c.attrs, c);
  std::vector<double>& states = c.out[1];
  if (c.has(kState)) states = c.in[kState];
  const int64_t size = h.keys * h.values;
  for (int64_t row = 0; row < h.images * h.steps; ++row) {
    const int64_t image = row / h.steps;
    for (int64_t head = 0; head < h.heads; ++head) {
      update(c, h, row, head, states.data() + (image * h.heads + head) * size);
    }
    for (int64_t i = 0; i < h.queries * h.values; ++i) {
      const int64_t query = i / h.values, m = i % h.values;
      const double* q = c.in[kQuery].data() + (row * h.queries + query) * h.keys;
      const double* s = states.data() + (image * h.heads + query / h.group()) * size;
      double sum = 0;
      for (int64_t d = 0; d < h.keys; ++d) sum += q[d] * s[d * h.values + m];
      c.out[0][row * h.queries * h.values + i] = h.scale * sum;
    }
  }
}

// The steps of input i, each [N, heads, rows, columns], in the type that the states are kept in.
std::vector<ValueId> steps_by_head(ComposeContext& c, size_t i, DType t, const Ints& shape) {
  Graph& g = c.g;
  const ValueId by_step = g.add1("Transpose", {cast(g, c.x(i), t)}, {{"perm", Ints{1, 0, 2}}});
  std::vector<ValueId> steps = steps_of(g, by_step);
  for (ValueId& s : steps) s = reshape(g, s, Shape(shape));
  return steps;
}

std::vector<ValueId> compose(ComposeContext& c) {
  Graph& g = c.g;
  const Heads h = heads_of(c.node.attrs, c);
  const DType own = g.type(c.x(kQuery)).dtype, t = is_half(own) ? DType::kF32 : own;
  const auto by_head = [&](size_t i, Ints shape) {
    return c.has(i) ? steps_by_head(c, i, t, shape) : std::vector<ValueId>{};
  };
  const auto q = by_head(kQuery, {h.images, h.heads, h.group(), h.keys});
  const auto k = by_head(kKey, {h.images, h.heads, h.keys, 1});
  const auto v = by_head(kValue, {h.images, h.heads, 1, h.values});
  const auto decay = by_head(kDecay, {h.images, h.heads, h.decays, 1});
  const auto rate = by_head(kRate, {h.images, h.rates, 1, 1});
  const ValueId scale = scalar_like(g, h.scale, q[0]);
  ValueId state =
      c.has(kState) ? cast(g, c.x(kState), t) : expand(g, scalar_like(g, 0, q[0]), h.state());
  std::vector<ValueId> read;
  for (size_t i = 0; i < q.size(); ++i) {
    if (h.decaying) state = g.add1("Mul", {state, g.add1("Exp", {decay[i]})});
    ValueId value = v[i];
    if (h.correcting) {
      const ValueId row = reshape(g, k[i], Shape{h.images, h.heads, 1, h.keys});
      value = g.add1("Sub", {value, g.add1("MatMul", {row, state})});
      value = g.add1("Mul", {rate[i], value});
    }
    state = g.add1("Add", {state, g.add1("Mul", {k[i], value})});
    const ValueId y = g.add1("Mul", {g.add1("MatMul", {q[i], state}), scale});
    read.push_back(reshape(g, y, Shape{h.images, h.queries * h.values}));
  }
  const ValueId y = g.add1("Transpose", {stacked(g, read)}, {{"perm", Ints{1, 0, 2}}});
  return {cast(g, y, own), cast(g, state, g.type(c.node.outputs[1]).dtype)};
}

int64_t terms(const Attrs& a, std::span<const TensorType> in) {
  const int64_t width = in[kQuery].shape[2] / a.i("q_num_heads");
  return width * in[kQuery].shape[1];
}

std::vector<Example> examples() {
  using E = ExampleInput;
  const auto rule = [](const char* name, int64_t queries = 2) {
    return Attrs{{"update_rule", name}, {"q_num_heads", queries}, {"kv_num_heads", int64_t{2}}};
  };
  const E none = E::absent(), x{2, 3, 4}, state{2, 2, 2, 3}, v{2, 3, 6};
  Attrs scaled = rule("gated_delta");
  scaled.set("scale", 0.3);
  return {{{x, x, v}, rule("linear"), 2},
          {{x, x, v, state, {2, 3, 4}}, rule("gated"), 2},
          {{{2, 3, 8}, x, v, none, none, {2, 3, 2}}, rule("delta", 4), 2},
          {{x, x, v, state, {2, 3, 2}, {2, 3, 1}}, scaled, 2},
          {{{DType::kF64, {1, 1, 4}}, {DType::kF64, {1, 1, 4}}, {DType::kF64, {1, 1, 2}}},
           rule("linear"),
           2}};
}

}  // namespace

std::vector<OpDef> linear_attention_ops() {
  return {{.name = "LinearAttention",
           .facts = {.onnx = 27, .rank = RankRule::kFirst},
           .min_inputs = 3,
           .max_inputs = 6,
           .min_outputs = 2,
           .max_outputs = 2,
           .attrs = {{"chunk_size", Kind::kInt, Attr(int64_t{64})},
                     {.name = "kv_num_heads", .kind = Kind::kInt, .required = true},
                     {.name = "q_num_heads", .kind = Kind::kInt, .required = true},
                     {"scale", Kind::kFloat, Attr(0.0)},
                     {"update_rule", Kind::kString, Attr("gated_delta")}},
           .infer = infer,
           .reference = reference,
           .terms = terms,
           .compose = compose,
           .examples = examples()}};
}

}  // namespace ndtrain
