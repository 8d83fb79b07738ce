// Two elementwise ops or more of one float type, of which only the last is read by others, as one
// FusedElementwise, as far as they fit into kMostElementwiseSteps and kMostElementwiseInputs: what
// lies between them need not go to memory and back.
#include <algorithm>
#include <limits>
#include <map>

#include "framework/graph/elementwise_steps.h"
#include "framework/passes/rewrites.h"

namespace ndtrain {
namespace {

using Kind = ElementwiseOperand::Kind;

// A limit that is not there is infinite.
std::optional<double> number(const Matcher& m, int i, size_t input) {
  const ValueId v = m.input(i, input);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (v == kNone) return input == 1 ? -kInfinity : kInfinity;
  return m.number(v);
}

bool may_be_step(const Matcher& m, int i) {
  const Node& n = m.node(i);
  const DType t = m.dtype(m.result(i));
  if (elementwise_operands(n.op) == 0 || n.outputs.size() != 1) return false;
  if (t != DType::kF32 && t != DType::kF16 && t != DType::kBF16) return false;
  int rank = -1;  // of what is no number: a number has none
  for (size_t k = 0; k < n.inputs.size(); ++k) {
    if (number(m, i, k)) continue;
    if ((k > 0 && find_op(n.op).facts.clamp) || m.dtype(n.inputs[k]) != t) return false;
    rank = std::max(rank, m.shape(n.inputs[k]).rank());
  }
  return rank == m.shape(m.result(i)).rank();
}

bool fits(const Matcher& m, const std::vector<int>& group) {
  const size_t inputs = steps_of(m, group).inputs.size();
  return group.size() <= kMostElementwiseSteps && inputs > 0 && inputs <= kMostElementwiseInputs;
}

// By the last node of each. A node joins the one group that all its readers are in.
std::map<int, std::vector<int>> groups_of(const Matcher& m) {
  std::map<int, std::vector<int>> groups;
  std::vector<int> group_of(static_cast<size_t>(m.nodes()) + 1, -1);  // the caller is in none
  for (int i = m.nodes(); i-- > 0;) {
    if (!may_be_step(m, i)) continue;
    std::set<int> readers;
    for (const int r : m.readers(m.result(i))) readers.insert(group_of[static_cast<size_t>(r)]);
    const int last = readers.size() == 1 ? *readers.begin() : -1;
    std::vector<int> group = {i};
    if (last >= 0 && m.type(m.result(i)) == m.type(m.result(last))) {
      group.insert(group.end(), groups[last].begin(), groups[last].end());
    }
    if (!fits(m, group)) group = {i};
    group_of[static_cast<size_t>(i)] = group.back();
    groups[group.back()] = std::move(group);
  }
  return groups;
}

std::vector<Match> find_elementwise(const Matcher& m) {
  std::vector<Match> all;
  for (const auto& [last, group] : groups_of(m)) {
    if (group.size() < 2) continue;
    const Steps steps = steps_of(m, group);
    all.push_back(fused("FusedElementwise", steps.inputs, {{"steps", steps.text}}, group));
  }
  return all;
}

}  // namespace

Steps steps_of(const Matcher& m, const std::vector<int>& nodes) {
  std::map<ValueId, size_t> made;
  std::vector<ValueId> inputs;
  std::vector<ElementwiseStep> all;
  for (const int i : nodes) {
    ElementwiseStep step{.op = m.node(i).op, .operands = {}, .attrs = m.node(i).attrs};
    for (size_t k = 0; k < elementwise_operands(step.op); ++k) {
      const ValueId v = m.input(i, k);
      if (made.contains(v)) {
        step.operands.push_back({Kind::kStep, made.at(v)});
      } else if (const std::optional<double> x = number(m, i, k)) {
        step.operands.push_back({Kind::kNumber, 0, *x});
      } else {
        const auto at = static_cast<size_t>(std::ranges::find(inputs, v) - inputs.begin());
        if (at == inputs.size()) inputs.push_back(v);
        step.operands.push_back({Kind::kInput, at});
      }
    }
    made.emplace(m.result(i), all.size());
    all.push_back(std::move(step));
  }
  return {inputs, text_of(all)};
}

const Rewrite kElementwise{find_elementwise, Needs::kLayout};

}  // namespace ndtrain
