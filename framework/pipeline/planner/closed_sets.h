// The states of the planner's search: sets of nodes that have, with each node, all that it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ndtrain {

// Sets by number: 0 is the empty one, the last one has all nodes, and a set has a larger number
// than those it contains.
class ClosedSets {
 public:
  // `inputs` of each node are nodes. Throws Error where there are more than `most` sets, the empty
  // one not counted.
  ClosedSets(const std::vector<std::vector<int>>& inputs, int most);

  int size() const { return static_cast<int>(words_.size() / per_set_); }
  int last() const { return size() - 1; }
  bool has(int set, int node) const;
  // Whether the larger one has all nodes of the smaller one, and more.
  bool contains(int larger, int smaller) const;
  std::vector<int> between(int before, int set) const;  // nodes of `set` that `before` has not
  std::vector<int> maximal(int set) const;              // nodes that no other one of the set reads

 private:
  using Words = std::vector<uint64_t>;
  std::vector<Words> next_larger(const std::vector<Words>& sets) const;

  int nodes_;
  size_t per_set_;
  std::vector<Words> inputs_;   // of nodes
  std::vector<Words> readers_;  // of nodes
  Words words_;                 // of all sets, one after the other
};

}  // namespace ndtrain
