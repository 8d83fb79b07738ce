// From the form an ONNX node has in its opset to the one form it has in a Model: that of opset 21.
// adapt_rules.cpp has the table of what changed when.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/graph/growing_types.h"
#include "framework/onnx/onnx_model.h"
#include "framework/onnx/problems.h"

namespace ndtrain {

// What is known of a value before shapes are inferred. rank < 0: unknown.
struct ValueFact {
  DType dtype = DType::kNone;
  int rank = -1;
};

// One node on its way, and the nodes it takes along.
class Adaptation {
 public:
  Adaptation(OnnxNode n, Model& m, std::map<std::string, ValueFact>& facts,
             std::set<std::string>& names, GrowingTypes& types, Problems& problems)
      : node(std::move(n)),
        model_(m),
        facts_(facts),
        names_(names),
        types_(types),
        problems_(problems) {}

  OnnxNode node;

  bool has_input(size_t i) const { return i < node.inputs.size() && !node.inputs[i].empty(); }
  const std::string& input(size_t i) const { return node.inputs.at(i); }
  void set_input(size_t i, std::string name);
  // The attribute, taken off the node. Another type than T is left for the final check to refuse.
  template <typename T>
  std::optional<T> take(std::string_view name) {
    for (const auto& [key, value] : node.attrs) {
      if (key != name || !std::holds_alternative<T>(value)) continue;
      T v = std::get<T>(value);
      node.attrs.erase(name);
      return v;
    }
    return std::nullopt;
  }
  ValueFact fact(const std::string& value) const;
  // By inferring all shapes up to here, at some batch. Throws Error where that is not possible.
  TensorType type(const std::string& value) { return types_.of(value); }
  // What a value is that no input decides; else null. Valid until a node is added.
  const Tensor* data(const std::string& value) { return types_.data(value); }

  // A new constant's name.
  std::string constant(const Ints& values);
  std::string constant(Tensor value);
  // A rank-0 constant of the dtype of `like`, float where that is not known.
  std::string number(double value, const std::string& like);
  // Appends a node before this one (or, with after(), behind it) and returns its only output.
  std::string before(std::string op, std::vector<std::string> inputs, Attrs attrs = {});
  // The same of a node that has several.
  std::vector<std::string> several_before(std::string op, std::vector<std::string> inputs,
                                          size_t outputs, Attrs attrs = {});
  // From now on this node's output k is a new value, and `op` computes the old name from it.
  void after(size_t k, std::string op, std::vector<std::string> more_inputs = {}, Attrs attrs = {});
  // This node is `op` of `inputs` from now on, with these attributes and its own outputs.
  void become(std::string op, std::vector<std::string> inputs, Attrs attrs = {});
  // Output k of the node, if it is wanted, is `value`, which is computed before it.
  void give(size_t k, const std::string& value);
  void refuse(const std::string& why);
  // Of a model of which something was refused, types may not be known: nothing is said of the node.
  bool refused_before() { return refused_ = !problems_.empty(); }
  bool refused() const { return refused_; }

  std::vector<ModelNode> take_following() { return std::move(following_); }

 private:
  std::string fresh(const std::string& hint);

  Model& model_;
  std::map<std::string, ValueFact>& facts_;
  std::set<std::string>& names_;
  GrowingTypes& types_;
  Problems& problems_;
  std::vector<ModelNode> following_;
  bool refused_ = false;
};

// What to do to nodes of these ops in opsets [since, until].
struct AdaptRule {
  std::vector<std::string_view> ops;  // empty: all
  int since, until;
  void (*apply)(Adaptation&);
};

std::span<const AdaptRule> onnx_rules();       // applied in this order
std::span<const AdaptRule> composite_rules();  // behind these: operators that are others
std::span<const AdaptRule> microsoft_rules();  // nodes of domain com.microsoft

// Attention as products and Softmax, or refused.
void adapt_attention(Adaptation& a);

// The same of what the file of that name is about. They throw Error where types do not fit or are
// not known.
void adapt_einsum(Adaptation& a);
void adapt_group_norm(Adaptation& a);
void adapt_rms_norm(Adaptation& a);
void adapt_lp_norm(Adaptation& a);
void adapt_mean_variance_norm(Adaptation& a);
void adapt_nll_loss(Adaptation& a);
void adapt_cross_entropy_loss(Adaptation& a);
void adapt_swish(Adaptation& a);
void adapt_swi_glu(Adaptation& a);
void adapt_shrink(Adaptation& a);
void adapt_hardmax(Adaptation& a);
void adapt_is_inf(Adaptation& a);
void adapt_global_lp_pool(Adaptation& a);
void adapt_center_crop_pad(Adaptation& a);
void adapt_rotary(Adaptation& a);

// Adds all nodes of `from` (inlined, in order) to `to`, whose inputs and initialisers are there.
// What cannot be expressed is added to `problems`.
void adapt_nodes(const OnnxModel& from, Model& to, Problems& problems);

}  // namespace ndtrain
