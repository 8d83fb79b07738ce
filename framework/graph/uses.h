#pragma once

#include <string>
#include <unordered_map>

#include "framework/graph/model.h"

namespace ndtrain {

// Who computes and who reads each value of a graph (`Name` is ValueId) or a model (std::string); a
// snapshot. Nodes go by their index; -1: none. Each value is computed once, before it is read.
template <typename Name>
class Uses {
 public:
  // The caller reads `ends`, behind all nodes. Inputs and outputs that are not there are `absent`.
  Uses(const auto& nodes, const auto& ends, const Name& absent)
      : caller_(static_cast<int>(nodes.size())) {
    for (int i = 0; const auto& n : nodes) {
      for (const Name& v : n.outputs) uses_[v].producer = i;
      for (const Name& v : n.inputs) uses_[v].readers.push_back(i);
      ++i;
    }
    for (const Name& v : ends) uses_[v].readers.push_back(caller_);
    uses_.erase(absent);
  }

  int producer(const Name& v) const { return of(v).producer; }
  // In their order; one that reads `v` twice is there twice.
  const std::vector<int>& readers(const Name& v) const { return of(v).readers; }
  int caller() const { return caller_; }  // as a reader: one past the last node

  int reads(const Name& v) const { return static_cast<int>(readers(v).size()); }
  int last_reader(const Name& v) const { return reads(v) == 0 ? -1 : readers(v).back(); }
  // The node that reads `v` when nobody else does, and it only once.
  int sole_reader(const Name& v) const {
    return reads(v) == 1 && last_reader(v) != caller_ ? last_reader(v) : -1;
  }

 private:
  struct Use {
    int producer = -1;
    std::vector<int> readers = {};
  };

  const Use& of(const Name& v) const {
    const auto it = uses_.find(v);
    return it == uses_.end() ? unused_ : it->second;
  }

  Use unused_;
  int caller_;
  std::unordered_map<Name, Use> uses_;
};

inline Uses<ValueId> uses_of(const Graph& g) { return {g.nodes(), g.outputs(), kNone}; }
// What somebody needs of a model may be more than its outputs.
inline Uses<std::string> uses_of(const Model& m, const auto& ends) { return {m.nodes, ends, ""}; }

}  // namespace ndtrain
