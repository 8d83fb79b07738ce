#include "framework/passes/rewrite.h"

#include <algorithm>
#include <map>

namespace ndtrain {
namespace {

// Built in a graph of its own, where what the match reads are inputs and constants.
bool is_accepted(const Graph& g, const Match& match, Needs needs, std::span<const ValueId> varying,
                 const Accepts& accepts) {
  if (needs == Needs::kNothing || !accepts) return true;
  GraphCopy alone(g, GraphCopy::Computed::kInput);
  for (const ValueId v : varying) {
    alone.replace(v, alone.graph().add_input(g.value(v).name, g.type(v)));
  }
  match.build(alone);
  return std::ranges::all_of(alone.graph().nodes(), [&](const Node& n) {
    return !is_optional_fusion(find_op(n.op), n.attrs) || accepts(needs, alone.graph(), n);
  });
}

}  // namespace

ValueId Matcher::input(int i, size_t k) const {
  return k < node(i).inputs.size() ? node(i).inputs[k] : kNone;
}

bool Matcher::is_fixed(ValueId v) const {
  return v != kNone && g_.value(v).data.defined() && !varying_.contains(v);
}

std::optional<double> Matcher::number(ValueId v) const {
  if (!is_fixed(v) || shape(v).count() != 1) return {};
  return g_.value(v).data.to_doubles()[0];
}

Match fused(std::string op, std::vector<ValueId> inputs, Attrs attrs, std::vector<int> nodes) {
  return {std::move(nodes), [=](GraphCopy& to) {
            std::vector<ValueId> in;
            for (const ValueId v : inputs) in.push_back(to.get(v));
            return to.graph().add1(op, std::move(in), attrs);
          }};
}

std::vector<ValueId> translated(std::span<const ValueId> values, std::span<const ValueId> now) {
  std::vector<ValueId> found;
  for (const ValueId v : values) found.push_back(v == kNone ? kNone : now[index(v)]);
  return found;
}

Rewritten rewrite(const Graph& g, const Rewrite& how, std::span<const ValueId> keep,
                  const Accepts& accepts) {
  const Matcher matcher(g, keep);
  std::map<int, Match> by_last;
  std::set<int> gone;
  for (Match& match : how.find(matcher)) {
    const auto is_gone = [&](int i) { return gone.contains(i); };
    if (std::ranges::any_of(match.nodes, is_gone)) continue;
    if (!is_accepted(g, match, how.needs, keep, accepts)) continue;
    gone.insert(match.nodes.begin(), match.nodes.end());
    by_last.emplace(std::ranges::max(match.nodes), std::move(match));
  }
  GraphCopy copy(g);
  copy.keep_inputs();
  for (const ValueId v : keep) copy.get(v);
  for (int i = 0; i < matcher.nodes(); ++i) {
    const auto found = by_last.find(i);
    if (found != by_last.end()) {
      const ValueId was = matcher.result(i), y = found->second.build(copy);
      copy.graph().rename(y, g.value(was).name);
      copy.replace(was, y);
    } else if (!gone.contains(i)) {
      copy.copy(matcher.node(i));
    }
  }
  return {.graph = copy.finish(), .now = copy.now()};
}

}  // namespace ndtrain
