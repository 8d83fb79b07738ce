#include "framework/passes/pattern.h"

#include <algorithm>
#include <cmath>

namespace ndtrain {
namespace {

using Then = std::function<bool()>;  // whether the rest of the pattern holds

// Depth first, and back where the rest does not hold.
class Search {
 public:
  explicit Search(const Matcher& m) : m_(m) {}

  bool at(const Pattern& p, ValueId v, const Then& then) {
    if (p.number) return is_number(v, *p.number) && then();
    if (!p.op.empty()) return node(p, m_.producer(v), then);
    if (p.inputs.empty()) return bind(p.name, v, then);
    return std::ranges::any_of(p.inputs, [&](const Pattern& one) { return at(one, v, then); });
  }

  // Nobody else reads what its nodes compute, but for the last of them.
  bool is_closed(int last) const {
    const auto reads = [&](ValueId v) {
      int64_t all = 0;
      for (const int i : bound.nodes) all += std::ranges::count(m_.node(i).inputs, v);
      return all;
    };
    return std::ranges::all_of(bound.nodes, [&](int i) {
      return i == last || std::ranges::all_of(m_.node(i).outputs,
                                              [&](ValueId v) { return reads(v) == m_.reads(v); });
    });
  }

  Bound bound;

 private:
  bool is_number(ValueId v, double wanted) const {
    const std::optional<double> is = m_.number(v);
    return is && std::abs(*is - wanted) <= 1e-6 * std::abs(wanted);
  }

  bool bind(const std::string& name, ValueId v, const Then& then) {
    if (name.empty()) return then();
    const auto [it, fresh] = bound.values.emplace(name, v);
    if (it->second == v && then()) return true;
    if (fresh) bound.values.erase(it);
    return false;
  }

  bool node(const Pattern& p, int i, const Then& then) {
    if (!m_.is(i, p.op) || m_.node(i).inputs.size() != p.inputs.size()) return false;
    bound.nodes.push_back(i);
    const bool holds = bind(p.name, m_.result(i), [&] {
      return inputs(p, i, 0, false, then) ||
             (find_op(p.op).facts.commutative && inputs(p, i, 0, true, then));
    });
    if (!holds) bound.nodes.pop_back();
    return holds;
  }

  bool inputs(const Pattern& p, int i, size_t k, bool swapped, const Then& then) {
    if (k == p.inputs.size()) return then();
    return at(p.inputs[k], m_.input(i, swapped ? 1 - k : k),
              [&] { return inputs(p, i, k + 1, swapped, then); });
  }

  const Matcher& m_;
};

}  // namespace

std::vector<Match> find_pattern(const Matcher& m, const Pattern& pattern,
                                const std::function<std::optional<Match>(const Bound&)>& make) {
  std::vector<Match> all;
  for (int i = 0; i < m.nodes(); ++i) {
    Search search(m);
    search.at(pattern, m.result(i), [&] {
      std::optional<Match> found;
      if (search.is_closed(i)) found = make(search.bound);
      if (found) all.push_back(std::move(*found));
      return found.has_value();
    });
  }
  return all;
}

}  // namespace ndtrain
