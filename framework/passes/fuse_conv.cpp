// Convolutions and what follows them.
#include <algorithm>

#include "framework/graph/elementwise_steps.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

bool is_pooled(const Matcher& m, int i) { return m.node(i).attrs.has("pool_kernel_shape"); }

// What the node `add` adds to `y`, when it can be a residual: `y` is the later of the two.
ValueId residual(const Matcher& m, int add, ValueId y) {
  const ValueId other = m.input(add, m.input(add, 0) == y ? 1 : 0);
  const bool alike = other != y && m.graph().type(other) == m.graph().type(y);
  return alike && m.producer(other) < m.producer(y) ? other : kNone;
}

// Whether it holds `of` within limits that do not change.
bool is_clamp(const Matcher& m, int i, ValueId of) {
  if (i < 0 || !find_op(m.node(i).op).facts.clamp || m.input(i, 0) != of) return false;
  const std::vector<ValueId>& in = m.node(i).inputs;
  return std::all_of(in.begin() + 1, in.end(),
                     [&](ValueId v) { return v == kNone || m.number(v); });
}

// The steps that follow a convolution and alone read its result, and their nodes.
std::string function_of(const Matcher& m, ValueId y, std::vector<int>& nodes) {
  if (const int reader = m.reader(y); reader >= 0) {
    const std::string& op = m.node(reader).op;
    if (elementwise_operands(op) != 1 || find_op(op).facts.clamp) return "";
    nodes.push_back(reader);
    return steps_of(m, {reader}).text;
  }
  const int mul = m.reads(y) == 2 ? m.last_reader(y) : -1;
  if (!m.is(mul, "Mul")) return "";
  const int gate = m.maker(m.input(mul, m.input(mul, 0) == y ? 1 : 0));
  if (!m.is(gate, "Sigmoid") || m.input(gate, 0) != y) return "";
  nodes.insert(nodes.end(), {gate, mul});
  return "Sigmoid x0; Mul x0 y0";
}

bool is_poolable(const Matcher& m, int i) {
  if (!is_conv(m, i) || is_pooled(m, i)) return false;
  const auto fixed = [&](ValueId v) { return v == kNone || m.is_fixed(v); };
  return fixed(m.input(i, 1)) && fixed(m.input(i, 2)) && m.input(i, 3) == kNone;
}

bool is_plain_pool(const Matcher& m, int i) {
  if (!m.is(i, "MaxPool") || m.node(i).outputs.size() != 1) return false;
  const Ints& dilations = m.node(i).attrs.ints("dilations");
  return m.shape(m.input(i, 0)).rank() == 4 &&
         std::ranges::all_of(dilations, [](int64_t d) { return d == 1; });
}

ValueId pooled(const Matcher& m, int conv, int pool, GraphCopy& to) {
  Attrs attrs = m.node(conv).attrs;
  for (const std::string name : {"kernel_shape", "strides", "pads", "ceil_mode"}) {
    attrs.set("pool_" + name, m.node(pool).attrs.at(name));
  }
  std::vector<ValueId> in;
  for (size_t k = 0; k < 3; ++k) in.push_back(to.get(m.input(conv, k)));
  return to.graph().add1("FusedConv", std::move(in), std::move(attrs));
}

std::vector<Match> find_convolutions(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (!m.is(i, "Conv") || m.dtype(m.result(i)) != DType::kF32) continue;
    std::vector<int> nodes = {i};
    std::vector<ValueId> in = m.node(i).inputs;
    Attrs attrs = m.node(i).attrs;
    in.resize(4, kNone);
    int next = m.reader(m.result(i));
    if (m.is(next, "Add")) in[3] = residual(m, next, m.result(i));
    if (in[3] != kNone) {
      nodes.push_back(next);
      next = m.reader(m.result(next));
    }
    if (is_clamp(m, next, m.result(nodes.back()))) {
      attrs.set("steps", steps_of(m, {next}).text);
      nodes.push_back(next);
    }
    if (nodes.size() > 1) all.push_back(fused("FusedConv", in, attrs, nodes));
  }
  return all;
}

std::vector<Match> find_conv_functions(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (!is_conv(m, i)) continue;
    std::vector<int> nodes = {i};
    Attrs attrs = m.node(i).attrs;
    if (is_pooled(m, i) || (attrs.has("steps") && !attrs.s("steps").empty())) continue;
    attrs.set("steps", function_of(m, m.result(i), nodes));
    const std::vector<ValueId>& in = m.node(i).inputs;
    if (nodes.size() == 1 || std::ranges::count(in, kNone) > 0) continue;
    all.push_back(fused("FusedConv", in, attrs, nodes));
  }
  return all;
}

std::vector<Match> find_pooled_convolutions(const Matcher& m) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    if (!is_plain_pool(m, i)) continue;
    const int made = m.maker(m.input(i, 0));
    const bool joined = m.is(made, "Concat") &&
                        m.shape(m.result(made)).axis(m.node(made).attrs.i("axis"), "axis") == 1;
    std::vector<int> convs = {made};
    if (joined) {
      convs.clear();
      for (const ValueId v : m.node(made).inputs) convs.push_back(m.maker(v));
    }
    if (!std::ranges::all_of(convs, [&](int conv) { return is_poolable(m, conv); })) continue;
    std::vector<int> nodes = convs;
    if (joined) nodes.push_back(made);
    nodes.push_back(i);
    all.push_back({std::move(nodes), [=, &m](GraphCopy& to) {
                     std::vector<ValueId> ys;
                     for (const int conv : convs) ys.push_back(pooled(m, conv, i, to));
                     if (!joined) return ys[0];
                     return to.graph().add1("Concat", std::move(ys), m.node(made).attrs);
                   }});
  }
  return all;
}

}  // namespace

const Rewrite kConvolutions{find_convolutions};
const Rewrite kConvFunctions{find_conv_functions, Needs::kLayout};
const Rewrite kPooledConvolutions{find_pooled_convolutions, Needs::kLayout};

}  // namespace ndtrain
