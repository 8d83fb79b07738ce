#pragma once

#include <vector>

#include "framework/graph/graph.h"

namespace ndtrain {

// Who produces and who reads each value of a graph; a snapshot.
class Uses {
 public:
  explicit Uses(const Graph& g)
      : producer_(g.value_count(), -1), consumer_(g.value_count(), -1), count_(g.value_count(), 0) {
    for (size_t i = 0; i < g.nodes().size(); ++i) {
      for (ValueId v : g.nodes()[i].outputs) producer_[index(v)] = static_cast<int>(i);
      for (ValueId v : g.nodes()[i].inputs) {
        if (v == kNone) continue;
        ++count_[index(v)];
        consumer_[index(v)] = static_cast<int>(i);
      }
    }
    for (ValueId v : g.outputs()) {
      ++count_[index(v)];
      consumer_[index(v)] = -1;
    }
  }

  int producer(ValueId v) const { return v == kNone ? -1 : producer_[index(v)]; }  // node or -1
  // Reads by nodes, plus one per time it is an output of the graph.
  int count(ValueId v) const { return count_[index(v)]; }
  bool only_once(ValueId v) const { return count(v) == 1; }
  int last_consumer(ValueId v) const {
    return consumer_[index(v)];
  }  // node; -1: the caller or none

 private:
  std::vector<int> producer_, consumer_, count_;
};

}  // namespace ndtrain
