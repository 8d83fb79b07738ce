// Convolution, residual addition and activation as one node. A chain is emitted where its last node
// stood, when everything it reads is there.
#include <limits>
#include <map>

#include "framework/graph/uses.h"
#include "framework/passes/passes.h"

namespace ndtrain {
namespace {

struct Chain {
  int conv = -1;
  ValueId residual = kNone;
  int activation = -1;
  int last = -1;
};

class Fuser {
 public:
  explicit Fuser(const Graph& g) : g_(g), uses_(g), in_chain_(g.nodes().size(), false) {}

  Graph run() {
    find_chains();
    GraphCopy copy(g_);
    copy.keep_inputs();
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const auto chain = by_last_.find(static_cast<int>(i));
      if (chain != by_last_.end()) {
        emit(copy, chain->second);
      } else if (!in_chain_[i]) {
        copy.copy(g_.nodes()[i]);
      }
    }
    return copy.finish();
  }

 private:
  const Node& node(int i) const { return g_.nodes()[static_cast<size_t>(i)]; }

  // The node that alone reads `v`, if it is `op`; else -1.
  int sole_consumer(ValueId v) const { return uses_.only_once(v) ? uses_.last_consumer(v) : -1; }

  bool is_activation(int i) const {
    if (i < 0) return false;
    const Node& n = node(i);
    if (n.op == "Relu") return true;
    if (n.op != "Clip") return false;
    for (size_t k = 1; k < n.inputs.size(); ++k) {
      if (n.inputs[k] != kNone && !g_.value(n.inputs[k]).data.defined()) return false;
    }
    return true;
  }

  // The operand of `add` that is not `v`, when it can be a residual: `v` is the later of the two.
  ValueId residual_of(const Node& add, ValueId v) const {
    const ValueId other = add.inputs[0] == v ? add.inputs[1] : add.inputs[0];
    if (other == v || g_.type(other) != g_.type(v)) return kNone;
    return uses_.producer(other) < uses_.producer(v) ? other : kNone;
  }

  void find_chains() {
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      if (g_.nodes()[i].op != "Conv" || g_.type(g_.nodes()[i].outputs[0]).dtype != DType::kF32) {
        continue;
      }
      Chain c{.conv = static_cast<int>(i), .last = static_cast<int>(i)};
      int next = sole_consumer(node(c.last).outputs[0]);
      if (next >= 0 && node(next).op == "Add") {
        c.residual = residual_of(node(next), node(c.last).outputs[0]);
        if (c.residual != kNone) {
          c.last = next;
          next = sole_consumer(node(c.last).outputs[0]);
        }
      }
      if (is_activation(next) && node(next).inputs[0] == node(c.last).outputs[0]) {
        c.activation = c.last = next;
      }
      if (c.last == c.conv) continue;
      for (int n : {c.conv, c.last, c.activation}) {
        if (n >= 0) in_chain_[static_cast<size_t>(n)] = true;
      }
      if (c.residual != kNone) {
        in_chain_[static_cast<size_t>(uses_.last_consumer(node(c.conv).outputs[0]))] = true;
      }
      by_last_.emplace(c.last, c);
    }
  }

  double bound(const Node& clip, size_t input, double otherwise) const {
    if (input >= clip.inputs.size() || clip.inputs[input] == kNone) return otherwise;
    return g_.value(clip.inputs[input]).data.to_doubles().at(0);
  }

  void emit(GraphCopy& copy, const Chain& c) const {
    const Node& conv = node(c.conv);
    Attrs attrs = conv.attrs;
    if (c.activation >= 0) {
      const Node& act = node(c.activation);
      attrs.set("activation", act.op);
      if (act.op == "Clip") {
        constexpr double kLargest = std::numeric_limits<float>::max();
        attrs.set("clip_min", bound(act, 1, -kLargest));
        attrs.set("clip_max", bound(act, 2, kLargest));
      }
    }
    std::vector<ValueId> in;
    for (ValueId v : conv.inputs) in.push_back(copy.get(v));
    in.resize(3, kNone);
    in.push_back(copy.get(c.residual));
    const ValueId y = copy.graph().add1("FusedConv", std::move(in), std::move(attrs));
    const ValueId was = node(c.last).outputs[0];
    copy.graph().rename(y, g_.value(was).name);
    copy.replace(was, y);
  }

  const Graph& g_;
  Uses uses_;
  std::vector<bool> in_chain_;
  std::map<int, Chain> by_last_;
};

}  // namespace

Graph fuse_convolutions(const Graph& g) { return Fuser(g).run(); }

}  // namespace ndtrain
