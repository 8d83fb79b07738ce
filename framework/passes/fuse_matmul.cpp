// A MatMul by a matrix, or a Gemm that scales nothing, an Add of one number per column, and a
// function as one FusedMatMul, so that what is multiplied is written once; where that is refused,
// the product and the Add alone.
#include "framework/graph/elementwise_steps.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

bool is_per_column(const Matcher& m, ValueId bias, ValueId y) {
  const Shape &b = m.shape(bias), &s = m.shape(y);
  return b.rank() > 0 && b[-1] == s[-1] && b.count() == s[-1] && b.rank() <= s.rank() &&
         m.dtype(bias) == m.dtype(y);
}

bool is_product(const Matcher& m, int i) {
  if (!m.is(i, "MatMul") && !m.is(i, "Gemm")) return false;
  const Node& n = m.node(i);
  if (m.shape(n.inputs[0]).rank() < 2 || m.shape(n.inputs[1]).rank() != 2) return false;
  if (n.op == "MatMul") return true;
  if (n.attrs.f("alpha") != 1 || n.attrs.flag("transA")) return false;
  const ValueId bias = m.input(i, 2);
  return bias == kNone || (n.attrs.f("beta") == 1 && is_per_column(m, bias, m.result(i)));
}

void add_products(const Matcher& m, int i, std::vector<Match>& all) {
  std::vector<ValueId> in = m.node(i).inputs;
  std::vector<int> nodes = {i};
  Attrs attrs;
  if (m.is(i, "Gemm")) attrs.set("transB", m.node(i).attrs.i("transB"));
  int next = m.reader(m.result(i));
  if (m.input(i, 2) == kNone && m.is(next, "Add")) {
    const ValueId bias = m.input(next, m.input(next, 0) == m.result(i) ? 1 : 0);
    if (is_per_column(m, bias, m.result(i))) {
      in = {in[0], in[1], bias};
      nodes.push_back(next);
      next = m.reader(m.result(next));
    }
  }
  if (next >= 0 && elementwise_operands(m.node(next).op) == 1) {
    Attrs with = attrs;
    with.set("steps", steps_of(m, {next}).text);
    std::vector<int> more = nodes;
    more.push_back(next);
    all.push_back(fused("FusedMatMul", in, with, more));
  }
  if (nodes.size() > 1) all.push_back(fused("FusedMatMul", in, attrs, nodes));
}

std::vector<Match> find_products(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (is_product(m, i)) add_products(m, i, all);
  }
  return all;
}

}  // namespace

const Rewrite kProducts{find_products, Needs::kLayout};

}  // namespace ndtrain
