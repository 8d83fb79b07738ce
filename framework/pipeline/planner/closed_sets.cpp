#include "framework/pipeline/planner/closed_sets.h"

#include <set>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr int kBits = 64;

size_t word_of(int node) { return static_cast<size_t>(node / kBits); }
uint64_t bit_of(int node) { return uint64_t{1} << (node % kBits); }

}  // namespace

ClosedSets::ClosedSets(const std::vector<std::vector<int>>& inputs, int most)
    : nodes_(static_cast<int>(inputs.size())), per_set_(inputs.size() / kBits + 1) {
  inputs_.assign(inputs.size(), Words(per_set_));
  readers_ = inputs_;
  for (int n = 0; n < nodes_; ++n) {
    for (const int i : inputs[static_cast<size_t>(n)]) {
      inputs_[static_cast<size_t>(n)][word_of(i)] |= bit_of(i);
      readers_[static_cast<size_t>(i)][word_of(n)] |= bit_of(n);
    }
  }
  std::vector<Words> sets = {Words(per_set_)};
  for (int size = 0; size <= nodes_; ++size) {
    for (const Words& s : sets) words_.insert(words_.end(), s.begin(), s.end());
    if (last() > most) {
      throw Error("plan: more than ", most, " states (sets of nodes that can be computed first), ",
                  last(), " of them with at most ", size, " of ", nodes_,
                  " nodes; --compress-branches makes fewer, --states N allows more");
    }
    sets = next_larger(sets);
  }
}

std::vector<ClosedSets::Words> ClosedSets::next_larger(const std::vector<Words>& sets) const {
  std::set<Words> larger;
  for (const Words& s : sets) {
    for (int n = 0; n < nodes_; ++n) {
      bool ready = (s[word_of(n)] & bit_of(n)) == 0;
      for (size_t w = 0; ready && w < per_set_; ++w) {
        ready = (inputs_[static_cast<size_t>(n)][w] & ~s[w]) == 0;
      }
      if (!ready) continue;
      Words with = s;
      with[word_of(n)] |= bit_of(n);
      larger.insert(std::move(with));
    }
  }
  return {larger.begin(), larger.end()};
}

bool ClosedSets::has(int set, int node) const {
  return (words_[static_cast<size_t>(set) * per_set_ + word_of(node)] & bit_of(node)) != 0;
}

bool ClosedSets::contains(int larger, int smaller) const {
  const uint64_t* l = &words_[static_cast<size_t>(larger) * per_set_];
  const uint64_t* s = &words_[static_cast<size_t>(smaller) * per_set_];
  for (size_t w = 0; w < per_set_; ++w) {
    if ((s[w] & ~l[w]) != 0) return false;
  }
  return larger != smaller;
}

std::vector<int> ClosedSets::between(int before, int set) const {
  std::vector<int> nodes;
  for (int n = 0; n < nodes_; ++n) {
    if (has(set, n) && !has(before, n)) nodes.push_back(n);
  }
  return nodes;
}

std::vector<int> ClosedSets::maximal(int set) const {
  std::vector<int> nodes;
  for (int n = 0; n < nodes_; ++n) {
    bool read = false;
    for (size_t w = 0; w < per_set_; ++w) {
      read |= (readers_[static_cast<size_t>(n)][w] &
               words_[static_cast<size_t>(set) * per_set_ + w]) != 0;
    }
    if (has(set, n) && !read) nodes.push_back(n);
  }
  return nodes;
}

}  // namespace ndtrain
