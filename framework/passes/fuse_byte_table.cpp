// A function between two quantised values, DequantizeLinear, f, QuantizeLinear, as the 256 results
// that it has: ByteTable.
#include <algorithm>
#include <map>

#include "framework/graph/constants.h"
#include "framework/graph/elementwise_steps.h"
#include "framework/passes/linear.h"
#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

bool is_function_of_one(const Matcher& m, int i) {
  const auto operands = std::span(m.node(i).inputs).subspan(1);
  return elementwise_operands(m.node(i).op) == 1 &&
         std::ranges::all_of(operands, [&](ValueId v) { return v == kNone || m.is_fixed(v); });
}

// What every byte of `x`'s dtype becomes on the way through `nodes`, the last of them first.
Tensor results(const Matcher& m, const Linear& x, std::vector<int> nodes) {
  Graph g;
  std::vector<double> bytes(256);
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<double>(i) - (x.dtype == DType::kI8 ? 128 : 0);
  }
  std::map<ValueId, ValueId> now = {
      {x.stored, g.add_constant("", Tensor::from_doubles({x.dtype, {256}}, bytes))}};
  const auto get = [&](ValueId v) {
    if (v == kNone) return kNone;
    if (!now.contains(v)) now[v] = g.add_constant("", m.graph().value(v).data);
    return now.at(v);
  };
  ValueId last = kNone;
  for (; !nodes.empty(); nodes.pop_back()) {
    const Node& n = m.node(nodes.back());
    std::vector<ValueId> in;
    for (const ValueId v : n.inputs) in.push_back(get(v));
    (void)g.add1(n.op, std::move(in), n.attrs);
    const Node copy = g.nodes().back();
    last = g.add_constant("", std::move(run_on_constants(g, copy).at(0)));
    now[n.outputs[0]] = last;
  }
  return g.value(last).data;
}

std::vector<Match> find_tables(const Matcher& m) {
  const P x("x"), swish("Mul", {"x", P("Sigmoid", {"x"})});
  const P f = either({P(is_function_of_one, {x}), swish});
  return find_pattern(
      m, P("QuantizeLinear", {f}, "y"), [&](const Bound& b) -> std::optional<Match> {
        const std::optional<Linear> from = dequantized_bytes(m, b["x"]),
                                    to = quantized_bytes(m, b["y"]);
        if (!from || !to) return {};
        return Match{b.nodes, [=, &m](GraphCopy& copy) {
                       std::vector<int> nodes = b.nodes;
                       nodes.push_back(m.producer(b["x"]));
                       const ValueId stored = copy.get(from->stored);
                       const ValueId table =
                           copy.graph().add_constant("", results(m, *from, std::move(nodes)));
                       return copy.graph().add1("ByteTable", {stored, table});
                     }};
      });
}

}  // namespace

const Rewrite kByteTables{find_tables, Needs::kLayout};

}  // namespace ndtrain
