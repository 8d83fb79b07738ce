// Convolutions and the MaxPool that alone reads them as a FusedConv each, which keeps what is
// pooled in cache.
#include <algorithm>

#include "framework/passes/pattern.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using P = Pattern;

bool is_plain_pool(const Matcher& m, int i) {
  const Node& n = m.node(i);
  return n.op == "MaxPool" && n.outputs.size() == 1 && m.shape(n.inputs[0]).rank() == 4 &&
         std::ranges::all_of(n.attrs.ints("dilations"), [](int64_t d) { return d == 1; });
}

// The convolutions that node `i` joins by channels, each read by it alone; itself if it is no
// Concat.
std::vector<int> parts_of(const Matcher& m, int i) {
  if (!m.is(i, "Concat")) return {i};
  if (m.shape(m.result(i)).axis(m.node(i).attrs.i("axis"), "axis") != 1) return {i};
  std::vector<int> parts;
  for (const ValueId v : m.node(i).inputs) parts.push_back(m.maker(v));
  return parts;
}

bool are_poolable(const Matcher& m, int i) {
  const auto fixed = [&](ValueId v) { return v == kNone || m.is_fixed(v); };
  return std::ranges::all_of(parts_of(m, i), [&](int conv) {
    return is_conv(m, conv) && !m.node(conv).attrs.has("pool_kernel_shape") &&
           fixed(m.input(conv, 1)) && fixed(m.input(conv, 2)) && m.input(conv, 3) == kNone;
  });
}

ValueId pooled(const Matcher& m, int conv, int pool, GraphCopy& to) {
  Attrs attrs = m.node(conv).attrs;
  for (const std::string name : {"kernel_shape", "strides", "pads", "ceil_mode"}) {
    attrs.set("pool_" + name, m.node(pool).attrs.at(name));
  }
  std::vector<ValueId> in;
  for (const ValueId v : m.node(conv).inputs) in.push_back(to.get(v));
  return to.graph().add1("FusedConv", std::move(in), std::move(attrs));
}

std::vector<Match> find_pooled_convolutions(const Matcher& m) {
  const P pattern(is_plain_pool, {P(are_poolable, {}, "made")}, "pool");
  return find_pattern(m, pattern, [&](const Bound& b) {
    const int pool = m.producer(b["pool"]), made = m.producer(b["made"]);
    const std::vector<int> convs = parts_of(m, made);
    Match match{.nodes = b.nodes, .build = [=, &m](GraphCopy& to) {
                  std::vector<ValueId> ys;
                  for (const int conv : convs) ys.push_back(pooled(m, conv, pool, to));
                  return is_conv(m, made)
                             ? ys[0]
                             : to.graph().add1("Concat", std::move(ys), m.node(made).attrs);
                }};
    match.nodes.insert(match.nodes.end(), convs.begin(), convs.end());
    return match;
  });
}

}  // namespace

const Rewrite kPooledConvolutions{find_pooled_convolutions, Needs::kLayout};

}  // namespace ndtrain
