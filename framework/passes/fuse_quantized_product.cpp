// Products of rows of bytes with a constant matrix of bytes, as QDQ writes them, with what follows:
// FusedQLinearMatMul, for devices that have it. Elsewhere the matrix becomes f32 and the product is
// one of f32.
#include <algorithm>

#include "framework/graph/constants.h"
#include "framework/graph/elementwise_steps.h"
#include "framework/passes/linear.h"
#include "framework/passes/passes.h"
#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

bool is_transposed(const Matcher& m, int i) {
  return m.is(i, "Gemm") && m.node(i).attrs.flag("transB");
}

// What the right side of a product is dequantised from, with scales per column.
std::optional<Linear> byte_matrix(const Matcher& m, int i) {
  std::optional<Linear> w = dequantized(m, m.input(i, 1));
  if (!w || !w->is_byte() || !m.is_fixed(w->stored)) return {};
  const Shape& s = m.shape(w->stored);
  const int columns = is_transposed(m, i) ? 0 : 1;
  if (s.rank() != 2) return {};
  if (w->scales.size() != 1 && s.axis(w->axis, "axis") != columns) return {};
  return w;
}

// MatMul, or a Gemm that scales nothing.
bool is_product_of_bytes(const Matcher& m, int i) {
  if (!m.is(i, "MatMul") && !m.is(i, "Gemm")) return false;
  if (m.shape(m.input(i, 0)).rank() < 2 || !dequantized_bytes(m, m.input(i, 0))) return false;
  if (!byte_matrix(m, i)) return false;
  const Attrs& a = m.node(i).attrs;
  return m.is(i, "MatMul") ||
         (a.f("alpha") == 1 && !a.flag("transA") && (m.input(i, 2) == kNone || a.f("beta") == 1));
}

bool is_addend_per_column(const Matcher& m, int i, ValueId bias) {
  const Shape &b = m.shape(bias), &y = m.shape(m.result(i));
  return m.is_fixed(bias) && m.dtype(bias) == DType::kF32 && b.rank() > 0 && b.rank() <= y.rank() &&
         b.count() == y[-1] && b[-1] == y[-1];
}

bool is_unary(const Matcher& m, int i) {
  const Node& n = m.node(i);
  return elementwise_operands(n.op) == 1 && steps_of(m, {i}).inputs.size() == 1;
}

std::optional<Match> product_of_bytes(const Matcher& m, const Bound& b) {
  const int i = m.producer(b["product"]);
  ValueId bias = m.input(i, 2);
  if (b.has("bias") && bias != kNone) return {};
  if (b.has("bias")) bias = b["bias"];
  if (bias != kNone && !is_addend_per_column(m, i, bias)) return {};
  std::optional<Linear> y;
  if (b.has("bytes") && !(y = quantized_bytes(m, b["bytes"]))) return {};
  const Linear x = *dequantized_bytes(m, m.input(i, 0)), w = *byte_matrix(m, i);
  Attrs attrs{{"transB", int64_t{is_transposed(m, i)}}};
  if (b.has("function")) attrs.set("steps", steps_of(m, {m.producer(b["function"])}).text);
  return Match{b.nodes, [=](GraphCopy& to) {
                 std::vector<ValueId> in;
                 add_scaled(x, to, in);
                 add_scaled(w, to, in);
                 if (y) add_scale(*y, to, in);
                 in.resize(8, kNone);
                 in.push_back(to.get(bias));
                 return to.graph().add1("FusedQLinearMatMul", std::move(in), attrs);
               }};
}

std::vector<Match> find_products_of_bytes(const Matcher& m) {
  const P product(is_product_of_bytes, {}, "product"), sum("Add", {product, "bias"});
  const P value = either({P(is_unary, {either({sum, product})}, "function"), sum, product});
  return find_pattern(m, either({P("QuantizeLinear", {value}, "bytes"), value}),
                      [&](const Bound& b) { return product_of_bytes(m, b); });
}

std::vector<Match> find_byte_matrices(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    const bool fixed = std::ranges::all_of(m.node(i).inputs,
                                           [&](ValueId v) { return v == kNone || m.is_fixed(v); });
    if (!m.is(i, "DequantizeLinear") || !fixed || !worth_folding(m.graph(), m.node(i))) continue;
    all.push_back({{i}, [&m, i](GraphCopy& to) {
                     Tensor data = std::move(run_on_constants(m.graph(), m.node(i)).at(0));
                     return to.graph().add_constant("", std::move(data));
                   }});
  }
  return all;
}

}  // namespace

std::vector<ValueId> matrices_of_bytes(const Graph& g) {
  const Matcher m(g);
  std::vector<ValueId> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (is_product_of_bytes(m, i)) all.push_back(byte_matrix(m, i)->stored);
  }
  return all;
}

const Rewrite kQuantizedProducts{find_products_of_bytes, Needs::kLayout};
const Rewrite kByteMatrices{find_byte_matrices};

}  // namespace ndtrain
