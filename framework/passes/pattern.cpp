#include "framework/passes/pattern.h"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ndtrain {
namespace {

bool is_number(const Matcher& m, ValueId v, double wanted) {
  const std::optional<double> is = m.number(v);
  return is && std::abs(*is - wanted) <= 1e-6 * std::abs(wanted);
}

// Appends every way to read `v` as `p` that agrees with what is bound before.
void find_ways(const Matcher& m, const Pattern& p, ValueId v, Bound b, std::vector<Bound>& all) {
  if (p.number && !is_number(m, v, *p.number)) return;
  if (!p.name.empty() && b.values.emplace(p.name, v).first->second != v) return;
  if (!p.is && p.inputs.empty()) return all.push_back(std::move(b));
  if (!p.is) {
    for (const Pattern& one : p.inputs) find_ways(m, one, v, b, all);
    return;
  }
  const int i = m.producer(v);
  if (i < 0 || m.result(i) != v || !p.is(m, i)) return;
  if (m.node(i).inputs.size() < p.inputs.size()) return;
  b.nodes.push_back(i);
  const size_t orders = find_op(m.node(i).op).facts.commutative ? 2 : 1;  // of two inputs
  for (size_t swapped = 0; swapped < orders; ++swapped) {
    std::vector<Bound> ways = {b};
    for (size_t k = 0; k < p.inputs.size(); ++k) {
      std::vector<Bound> longer;
      for (Bound& way : ways) {
        find_ways(m, p.inputs[k], m.input(i, k ^ swapped), std::move(way), longer);
      }
      ways = std::move(longer);
    }
    std::ranges::move(ways, std::back_inserter(all));
  }
}

// Nobody else reads what the nodes compute, but for the first of them.
bool is_closed(const Matcher& m, const std::vector<int>& nodes) {
  const auto reads = [&](ValueId v) {
    int64_t all = 0;
    for (const int i : nodes) all += std::ranges::count(m.node(i).inputs, v);
    return all;
  };
  return std::all_of(nodes.begin() + 1, nodes.end(), [&](int i) {
    return std::ranges::all_of(m.node(i).outputs,
                               [&](ValueId v) { return reads(v) == m.reads(v); });
  });
}

}  // namespace

std::vector<Match> find_pattern(const Matcher& m, const Pattern& pattern,
                                const std::function<std::optional<Match>(const Bound&)>& make) {
  std::vector<Match> all;
  for (int i = m.nodes(); i-- > 0;) {
    std::vector<Bound> ways;
    find_ways(m, pattern, m.result(i), {}, ways);
    for (const Bound& b : ways) {
      std::optional<Match> found = is_closed(m, b.nodes) ? make(b) : std::nullopt;
      if (!found) continue;
      all.push_back(std::move(*found));
      break;
    }
  }
  return all;
}

}  // namespace ndtrain
