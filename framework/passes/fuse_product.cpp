// A product, what is added to it and a function of the sum as one node, so that what is multiplied
// is written once: FusedConv and FusedMatMul.
#include <algorithm>

#include "framework/graph/elementwise_steps.h"
#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

// What may follow a product; the addend and the function are optional, but not both.
struct Epilogue {
  std::string fused;  // the op that has them all
  P::Is product, function;
  size_t addend;  // the input of `fused` that is added
  bool (*may_be_added)(const Matcher&, int product, ValueId addend);
};

Attrs attrs_for(const std::string& op, const Node& n) {
  Attrs attrs;
  for (const AttrSpec& s : find_op(op).attrs) {
    if (n.attrs.has(s.name)) attrs.set(std::string(s.name), n.attrs.at(s.name));
  }
  return attrs;
}

std::string step_of(const Matcher& m, const Bound& b) {
  return b.has("function") ? steps_of(m, {m.producer(b["function"])}).text : "";
}

std::vector<Match> find_epilogues(const Matcher& m, const Epilogue& e) {
  const P product(e.product, {}, "product"), sum("Add", {product, "addend"});
  const P whole = either({P(e.function, {either({sum, product})}, "function"), sum});
  return find_pattern(m, whole, [&](const Bound& b) -> std::optional<Match> {
    const int i = m.producer(b["product"]);
    std::vector<ValueId> in = m.node(i).inputs;
    in.resize(e.addend + 1, kNone);
    if (b.has("addend")) {
      if (in.back() != kNone || !e.may_be_added(m, i, b["addend"])) return {};
      in.back() = b["addend"];
    }
    Attrs attrs = attrs_for(e.fused, m.node(i));
    attrs.set("steps", step_of(m, b));
    return fused(e.fused, std::move(in), std::move(attrs), b.nodes);
  });
}

// Whether it holds its input within limits that do not change.
bool is_clamp(const Matcher& m, int i) {
  const std::span<const ValueId> in(m.node(i).inputs);
  const auto is_limit = [&](ValueId v) { return v == kNone || m.number(v); };
  return find_op(m.node(i).op).facts.clamp && std::ranges::all_of(in.subspan(1), is_limit);
}

bool is_function(const Matcher& m, int i) { return elementwise_operands(m.node(i).op) == 1; }

bool is_f32_conv(const Matcher& m, int i) {
  return m.is(i, "Conv") && m.dtype(m.result(i)) == DType::kF32;
}

// Of two convolutions that are added the later one takes the sum.
bool is_residual(const Matcher& m, int conv, ValueId v) {
  return m.type(v) == m.type(m.result(conv)) && m.producer(v) < conv;
}

bool is_per_column(const Matcher& m, int product, ValueId bias) {
  const ValueId y = m.result(product);
  const Shape &b = m.shape(bias), &s = m.shape(y);
  return bias != y && b.rank() > 0 && b[-1] == s[-1] && b.count() == s[-1] &&
         b.rank() <= s.rank() && m.dtype(bias) == m.dtype(y);
}

// By a matrix: MatMul, or a Gemm that scales nothing.
bool is_product_of_rows(const Matcher& m, int i) {
  const Node& n = m.node(i);
  if (n.op != "MatMul" && n.op != "Gemm") return false;
  if (m.shape(n.inputs[0]).rank() < 2 || m.shape(n.inputs[1]).rank() != 2) return false;
  if (n.op == "MatMul") return true;
  if (n.attrs.f("alpha") != 1 || n.attrs.flag("transA")) return false;
  const ValueId bias = m.input(i, 2);
  return bias == kNone || (n.attrs.f("beta") == 1 && is_per_column(m, i, bias));
}

std::vector<Match> find_convolutions(const Matcher& m) {
  return find_epilogues(m, {"FusedConv", is_f32_conv, is_clamp, 3, is_residual});
}

std::vector<Match> find_products(const Matcher& m) {
  return find_epilogues(m, {"FusedMatMul", is_product_of_rows, is_function, 2, is_per_column});
}

bool has_no_function(const Matcher& m, int i) {
  const Attrs& a = m.node(i).attrs;
  return is_conv(m, i) && !a.has("pool_kernel_shape") &&
         (!a.has("steps") || a.s("steps").empty()) &&
         std::ranges::count(m.node(i).inputs, kNone) == 0;
}

bool is_more_than_clamp(const Matcher& m, int i) {
  return is_function(m, i) && !find_op(m.node(i).op).facts.clamp;
}

std::vector<Match> find_conv_functions(const Matcher& m) {
  const P conv(has_no_function, {}, "conv"), swish("Mul", {conv, P("Sigmoid", {"conv"})}, "swish");
  const P whole = either({P(is_more_than_clamp, {conv}, "function"), swish});
  return find_pattern(m, whole, [&](const Bound& b) {
    const Node& n = m.node(m.producer(b["conv"]));
    Attrs attrs = n.attrs;
    attrs.set("steps", b.has("swish") ? "Sigmoid x0; Mul x0 y0" : step_of(m, b));
    return fused("FusedConv", n.inputs, std::move(attrs), b.nodes);
  });
}

}  // namespace

const Rewrite kConvolutions{find_convolutions};
const Rewrite kProducts{find_products, Needs::kLayout};
const Rewrite kConvFunctions{find_conv_functions, Needs::kLayout};

}  // namespace ndtrain
