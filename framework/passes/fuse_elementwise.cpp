#include "framework/passes/fuse_elementwise.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "framework/graph/elementwise_steps.h"

namespace ndtrain {
namespace {

using Kind = ElementwiseOperand::Kind;

class Search {
 public:
  Search(const Graph& g, std::span<const ValueId> varying)
      : g_(g),
        varying_(varying.begin(), varying.end()),
        readers_(g.value_count()),
        group_(g.nodes().size(), -1) {
    for (int i = 0; i < nodes(); ++i) {
      for (ValueId v : node(i).inputs) {
        if (v != kNone) readers_[index(v)].push_back(i);
      }
    }
    for (ValueId v : g.outputs()) readers_[index(v)].push_back(kCaller);
  }

  // The nodes of each group of at least two, in order, by the last of them.
  std::map<int, std::vector<int>> groups() {
    std::map<int, std::vector<int>> all;
    for (int i = nodes(); i-- > 0;) {
      if (!may_be_step(i)) continue;
      const int last = group_of_readers(i);
      group_[static_cast<size_t>(i)] = i;
      if (last >= 0) {
        std::vector<int> joined = all.at(last);
        joined.insert(joined.begin(), i);
        if (fits(joined)) {
          all.at(last) = std::move(joined);
          group_[static_cast<size_t>(i)] = last;
          continue;
        }
      }
      all[i] = {i};
    }
    std::erase_if(all, [](const auto& group) { return group.second.size() < 2; });
    return all;
  }

  // A value that is one number in every run; ±infinity where a limit is not there.
  std::optional<double> number(const Node& n, size_t input) const {
    const ValueId v = input < n.inputs.size() ? n.inputs[input] : kNone;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (v == kNone) return input == 1 ? -kInfinity : kInfinity;
    const Value& value = g_.value(v);
    const bool fixed = value.data.defined() && !varying_.contains(v);
    if (!fixed || value.type.shape.count() != 1) return {};
    return value.data.to_doubles()[0];
  }

  // What the nodes of a group read from elsewhere, besides numbers.
  std::vector<ValueId> inputs(const std::vector<int>& group) const {
    std::vector<ValueId> all;
    std::set<ValueId> made;
    for (const int i : group) {
      const Node& n = node(i);
      for (size_t k = 0; k < n.inputs.size(); ++k) {
        const ValueId v = n.inputs[k];
        if (made.contains(v) || number(n, k) || std::ranges::find(all, v) != all.end()) continue;
        all.push_back(v);
      }
      made.insert(n.outputs[0]);
    }
    return all;
  }

  std::vector<ElementwiseStep> steps(const std::vector<int>& group) const {
    const std::vector<ValueId> from = inputs(group);
    std::map<ValueId, size_t> made;
    std::vector<ElementwiseStep> all;
    for (const int i : group) {
      const Node& n = node(i);
      ElementwiseStep step{.op = n.op, .operands = {}, .attrs = n.attrs};
      for (size_t k = 0; k < elementwise_operands(n.op); ++k) {
        const ValueId v = k < n.inputs.size() ? n.inputs[k] : kNone;
        if (made.contains(v)) {
          step.operands.push_back({Kind::kStep, made.at(v)});
        } else if (const std::optional<double> x = number(n, k)) {
          step.operands.push_back({Kind::kNumber, 0, *x});
        } else {
          const auto at = std::ranges::find(from, v) - from.begin();
          step.operands.push_back({Kind::kInput, static_cast<size_t>(at)});
        }
      }
      made.emplace(n.outputs[0], all.size());
      all.push_back(std::move(step));
    }
    return all;
  }

 private:
  static constexpr int kCaller = -1;  // as a reader

  int nodes() const { return static_cast<int>(g_.nodes().size()); }
  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }
  const TensorType& type(int i) const { return g_.type(node(i).outputs[0]); }

  bool may_be_step(int i) const {
    const Node& n = node(i);
    const DType t = type(i).dtype;
    if (elementwise_operands(n.op) == 0 || n.outputs.size() != 1) return false;
    if (t != DType::kF32 && t != DType::kF16 && t != DType::kBF16) return false;
    int rank = -1;  // of what is no number: a number has none
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (number(n, k)) continue;
      const bool limit = n.op == "Clip" && k > 0;
      if (limit || g_.type(n.inputs[k]).dtype != t) return false;
      rank = std::max(rank, g_.shape(n.inputs[k]).rank());
    }
    return rank == type(i).shape.rank();
  }

  // The one group that all readers of the node are in, if it computes their type; else -1.
  int group_of_readers(int i) const {
    const std::vector<int>& readers = readers_[index(node(i).outputs[0])];
    int last = -1;
    for (const int reader : readers) {
      const int group = reader == kCaller ? -1 : group_[static_cast<size_t>(reader)];
      if (group < 0 || (last >= 0 && group != last)) return -1;
      last = group;
    }
    return last >= 0 && type(i) == type(last) ? last : -1;
  }

  bool fits(const std::vector<int>& group) const {
    const size_t from = inputs(group).size();
    return group.size() <= kMostElementwiseSteps && from > 0 && from <= kMostElementwiseInputs;
  }

  const Graph& g_;
  std::set<ValueId> varying_;
  std::vector<std::vector<int>> readers_;
  std::vector<int> group_;  // by node: the last of its group
};

}  // namespace

Rewritten fuse_elementwise(const Graph& g, std::span<const ValueId> keep, const Offer& accepts) {
  Search search(g, keep);
  std::vector<FusedNode> all;
  for (const auto& [last, group] : search.groups()) {
    FusedNode fused{
        "FusedElementwise", search.inputs(group), {{"steps", text_of(search.steps(group))}}, group};
    if (is_taken(g, fused, keep, accepts)) all.push_back(std::move(fused));
  }
  return with_fused(g, keep, all);
}

}  // namespace ndtrain
