// Fusion: several nodes of a graph become one, or a few. Every such rewrite finds its own places,
// and one driver does the rest.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/graph/op.h"
#include "framework/graph/uses.h"

namespace ndtrain {

// What a rewrite asks about a graph, which must outlive it. Nodes go by their index; -1: none.
class Matcher {
 public:
  // What the values `varying` hold may change from run to run.
  explicit Matcher(const Graph& g, std::span<const ValueId> varying = {})
      : g_(g), uses_(uses_of(g)), varying_(varying.begin(), varying.end()) {}

  const Graph& graph() const { return g_; }
  int nodes() const { return static_cast<int>(g_.nodes().size()); }
  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }
  bool is(int i, std::string_view op) const { return i >= 0 && node(i).op == op; }
  ValueId input(int i, size_t k) const;  // kNone where there is none
  ValueId result(int i) const { return node(i).outputs[0]; }

  const Shape& shape(ValueId v) const { return g_.shape(v); }
  const TensorType& type(ValueId v) const { return g_.type(v); }
  DType dtype(ValueId v) const { return type(v).dtype; }
  bool is_fixed(ValueId v) const;                 // has data that no run changes
  std::optional<double> number(ValueId v) const;  // of one element that is fixed
  int producer(ValueId v) const { return uses_.producer(v); }
  const std::vector<int>& readers(ValueId v) const { return uses_.readers(v); }  // as in Uses
  int reads(ValueId v) const { return uses_.reads(v); }
  int maker(ValueId v) const { return reads(v) == 1 ? producer(v) : -1; }  // for one reader alone

 private:
  const Graph& g_;
  Uses<ValueId> uses_;
  std::set<ValueId> varying_;
};

// Nodes that go, and what comes for them where the last of them stood.
struct Match {
  std::vector<int> nodes;
  std::function<ValueId(GraphCopy&)> build;  // gives what the last of them computed
};

// One node for all of them.
Match fused(std::string op, std::vector<ValueId> inputs, Attrs attrs, std::vector<int> nodes);

// What a device must have for the nodes that are built and that no backend has to take: a kernel
// of its own, or else of the device that it falls back to, or a layout that it likes for them (of a
// device without layouts: a kernel).
enum class Needs { kNothing, kKernel, kAnyKernel, kLayout };

struct Rewrite {
  // Of matches that overlap, the first that is accepted stands.
  std::vector<Match> (*find)(const Matcher&);
  Needs needs = Needs::kNothing;
};

// Whether a device has what `n`, a node of `g`, needs. Constants in `g` have their data.
using Accepts = std::function<bool(Needs, const Graph& g, const Node& n)>;

struct Rewritten {
  Graph graph;
  std::vector<ValueId> now;  // by value of the original; kNone: nothing needs it any more
};

std::vector<ValueId> translated(std::span<const ValueId> values, std::span<const ValueId> now);

// All of `keep` stay values of the result, and may change from run to run. Without `accepts`
// nothing is asked.
Rewritten rewrite(const Graph& g, const Rewrite& how, std::span<const ValueId> keep = {},
                  const Accepts& accepts = {});

}  // namespace ndtrain
