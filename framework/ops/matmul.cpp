// MatMul: y = a b over the last two dims, the others broadcast (ONNX MatMul, numpy.matmul).
#include "framework/ops/matmul.h"

namespace ndtrain {

MatMulShape matmul_shape(const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0)
    throw Error("inputs ", a, " and ", b, ": scalars do not multiply");
  MatMulShape s;
  const std::vector<int64_t>&x = a.dims(), &y = b.dims();
  s.k = x.back();
  if (a.rank() > 1) {
    s.m = a[-2];
    s.a_batch = Shape(std::vector<int64_t>(x.begin(), x.end() - 2));
  }
  if (b.rank() > 1) {
    s.n = b[-1];
    s.b_batch = Shape(std::vector<int64_t>(y.begin(), y.end() - 2));
  }
  const int64_t inner = b.rank() > 1 ? b[-2] : b[0];
  if (inner != s.k) {
    throw Error("inputs ", a, " and ", b, " do not multiply: inner extents ", s.k, " and ", inner);
  }
  s.batch = broadcast(s.a_batch, s.b_batch, "the batch dims");
  std::vector<int64_t> dims = s.batch.dims();
  if (a.rank() > 1) dims.push_back(s.m);
  if (b.rank() > 1) dims.push_back(s.n);
  s.output = Shape(std::move(dims));
  return s;
}

namespace {

void infer(InferContext& c) {
  require(c, 0, is_wide, "a float dtype or integers of 32 or 64 bits");
  require_same_dtype(c, 0, 1);
  c.out.push_back({c.in[0].dtype, matmul_shape(c.shape(0), c.shape(1)).output});
}

void reference(const ReferenceContext& c) {
  for_each_matmul_product(matmul_shape(c.shape(0), c.shape(1)),
                          [&](int64_t y, int64_t a, int64_t b, int64_t, int64_t) {
                            c.out[0][y] += c.in[0][a] * c.in[1][b];
                          });
}

Shape matrices(const Shape& batch, int64_t rows, int64_t columns) {
  std::vector<int64_t> dims = batch.dims();
  dims.push_back(rows);
  dims.push_back(columns);
  return Shape(std::move(dims));
}

// Of what a Transpose made the value before it: a weight that lies the other way round is read as
// it is, and its turned copy is not kept for the gradient.
ValueId transposed(Graph& g, ValueId v) {
  Ints perm;
  for (int d = 0; d < g.shape(v).rank(); ++d) perm.push_back(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  const auto made = std::ranges::find_if(g.nodes(), [&](const Node& n) {
    return n.outputs[0] == v && n.op == "Transpose" && n.attrs.ints("perm") == perm;
  });
  if (made != g.nodes().end()) return made->inputs[0];
  return g.add1("Transpose", {v}, {{"perm", perm}});
}

// dA = dY B^T, dB = A^T dY on matrices; rank 1 is made rank 2 before and broadcasting undone after.
// A weight shared by the whole batch gets its gradient from one product over all rows at once.
std::vector<ValueId> gradient(GradientContext& c) {
  Graph& g = c.g;
  const Shape a_shape = c.shape(c.x(0)), b_shape = c.shape(c.x(1));
  const MatMulShape s = matmul_shape(a_shape, b_shape);
  const ValueId a = reshape(g, c.x(0), matrices(s.a_batch, s.m, s.k));
  const ValueId b = reshape(g, c.x(1), matrices(s.b_batch, s.k, s.n));
  const ValueId dy = reshape(g, c.dy[0], matrices(s.batch, s.m, s.n));
  std::vector<ValueId> grads = {kNone, kNone};
  if (c.wanted[0]) {
    const ValueId da = g.add1("MatMul", {dy, transposed(g, b)});
    grads[0] = reshape(g, unbroadcast(g, da, matrices(s.a_batch, s.m, s.k)), a_shape);
  }
  if (c.wanted[1] && s.b_batch.rank() == 0) {
    const int64_t rows = s.batch.count() * s.m;
    const ValueId db =
        g.add1("Gemm", {reshape(g, a, {rows, s.k}), reshape(g, dy, {rows, s.n})}, {{"transA", 1}});
    grads[1] = reshape(g, db, b_shape);
  } else if (c.wanted[1]) {
    const ValueId db = g.add1("MatMul", {transposed(g, a), dy});
    grads[1] = reshape(g, unbroadcast(g, db, matrices(s.b_batch, s.k, s.n)), b_shape);
  }
  return grads;
}

int64_t terms(const Attrs&, std::span<const TensorType> in) { return in[0].shape[-1]; }

std::vector<Example> examples() {
  return {
      {{{3, 4}, {4, 5}}},
      {{{2, 3, 4}, {4, 5}}},
      {{{2, 3, 4}, {2, 4, 5}}},
      {{{2, 1, 3, 4}, {3, 4, 2}}},
      {{{3, 4}, {2, 4, 5}}},
      {{{1, 3, 4}, {3, 4, 2}}},
      {{{4}, {4}}},
      {{{4}, {4, 3}}},
      {{{3, 4}, {4}}},
      {{{2, 3, 4}, {4}}},
      {{{4}, {2, 4, 3}}},
      {{{2, 19, 33}, {2, 33, 17}}},
      {{{1, 130}, {130, 40}}},
      {{{2, 0}, {0, 3}}},
      {{{DType::kF64, {3, 4}}, {DType::kF64, {4, 2}}}},
      {.inputs = {{DType::kF16, {3, 4}}, {DType::kF16, {4, 2}}}, .check_gradient = false},
      {.inputs = {{DType::kBF16, {3, 4}}, {DType::kBF16, {4, 2}}}, .check_gradient = false},
      {{ExampleInput::range({3, 4}, -9, 9, DType::kI64),
        ExampleInput::range({4, 2}, -9, 9, DType::kI64)}},
      {{ExampleInput::range({3, 4}, 0, 9, DType::kU32),
        ExampleInput::range({4, 2}, 0, 9, DType::kU32)}},
  };
}

}  // namespace

std::vector<OpDef> matmul_ops() {
  return {{.name = "MatMul",
           .facts = {.onnx = 1, .kind = OpKind::kProduct, .rounding = Rounding::kRounds},
           .min_inputs = 2,
           .max_inputs = 2,
           .infer = infer,
           .reference = reference,
           .gradient = gradient,
           .terms = terms,
           .examples = examples()}};
}

}  // namespace ndtrain
