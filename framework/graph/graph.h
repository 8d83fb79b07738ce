// A Graph is an ordered list of nodes over numbered values. Node order is a valid execution order:
// a node's inputs are produced before it. Shapes are static. Graphs are plain values: copy them,
// cut them, send them. Tensors inside are immutable and shared between copies; nothing in here
// points at a device or at a buffer that a run writes to.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/tensor.h"
#include "framework/graph/attrs.h"

namespace ndtrain {

enum class ValueId : int32_t {};
inline constexpr ValueId kNone{-1};  // an optional input or output that is not there
inline size_t index(ValueId v) { return static_cast<size_t>(v); }

enum class ValueKind {
  kInput,     // given at every run
  kParam,     // a weight: has data, and training may change it
  kConstant,  // has data that never changes (shapes, axes, scales written into the model)
  kComputed   // an output of a node
};

struct Value {
  std::string name;
  TensorType type;
  ValueKind kind = ValueKind::kComputed;
  Tensor data;  // kParam: the initial value (may be undefined when only types matter); kConstant:
                // defined
};

struct Node {
  std::string op;
  std::vector<ValueId> inputs;   // may contain kNone
  std::vector<ValueId> outputs;  // never kNone; an output nobody reads is simply unused
  Attrs attrs;
};

class Graph {
 public:
  ValueId add_input(std::string name, TensorType type);
  ValueId add_param(std::string name, TensorType type);
  ValueId add_param(std::string name, Tensor data);
  ValueId add_constant(std::string name, Tensor data);
  // Rank-1 i64, the form in which ops take axes, shapes and the like.
  ValueId add_constant(std::string name, const std::vector<int64_t>& values) {
    return add_constant(std::move(name), Tensor::i64(values));
  }

  // Appends a node, completes its attributes and infers its output types. `outputs` is how many
  // outputs are wanted (0: as few as the op allows). Throws Error naming the op if it is unknown or
  // the inputs or attributes do not fit it.
  std::vector<ValueId> add(std::string op, std::vector<ValueId> inputs, Attrs attrs = {},
                           int outputs = 0);
  ValueId add1(std::string op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return add(std::move(op), std::move(inputs), std::move(attrs)).at(0);
  }
  void mark_output(ValueId v) { outputs_.push_back(v); }
  void set_outputs(std::vector<ValueId> outputs) { outputs_ = std::move(outputs); }
  void rename(ValueId v, std::string name);
  void set_data(ValueId v, Tensor data);  // of a param; throws Error if the type differs

  const Value& value(ValueId v) const { return values_.at(index(v)); }
  const TensorType& type(ValueId v) const { return value(v).type; }
  const Shape& shape(ValueId v) const { return value(v).type.shape; }
  size_t value_count() const { return values_.size(); }
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const ValueId> params() const { return params_; }
  std::span<const ValueId> outputs() const { return outputs_; }
  ValueId find(std::string_view name) const;  // kNone if there is none; linear

 private:
  ValueId new_value(std::string name, TensorType type, ValueKind kind, Tensor data = {});

  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<ValueId> inputs_, params_, outputs_;
};

// mask[v]: value v is one of `roots` or computed from one. The predicate behind differentiate and
// split: what it leaves out is frozen.
std::vector<bool> depends_on(const Graph& g, std::span<const ValueId> roots);

// A copy of `g` under construction: nodes are copied one by one, whatever is asked of it, so that a
// pass only says what it changes. Inputs, params and constants come along when first met.
class GraphCopy {
 public:
  // What becomes of a computed value that is asked for before its node is copied.
  enum class Computed { kError, kInput };
  explicit GraphCopy(const Graph& from, Computed computed = Computed::kError)
      : from_(from), computed_(computed), map_(from.value_count(), kNone) {}

  Graph& graph() { return to_; }
  void copy(const Node& n);  // names are kept
  ValueId get(ValueId v);    // where `v` of the original is now; kNone stays kNone
  bool has(ValueId v) const { return map_[index(v)] != kNone; }
  void replace(ValueId v, ValueId by);  // from now on `v` of the original is `by` of the copy
  void keep_inputs();                   // all of the original's, in its order, whether used or not
  // Where every value of the original is now; kNone for those that nothing needed.
  const std::vector<ValueId>& now() const { return map_; }
  Graph finish();  // marks the original's outputs

 private:
  const Graph& from_;
  const Computed computed_;
  Graph to_;
  std::vector<ValueId> map_;
};

// Without the nodes that no output needs; inputs stay.
Graph remove_dead_nodes(const Graph& g);

}  // namespace ndtrain
