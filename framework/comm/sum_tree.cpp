#include "framework/comm/sum_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "framework/comm/wire_type.h"
#include "framework/core/error.h"

namespace ndtrain {
namespace {

constexpr size_t kBlock = 2048;  // values that are added up at once: a few blocks fit in L1

// Whether the two, neighbours, are the halves of a node.
bool halves(const Subtree& left, const Subtree& right, int leaves) {
  const int width = left.end - left.begin;
  return (width & (width - 1)) == 0 && left.begin % (2 * width) == 0 &&
         right.end == std::min(left.begin + 2 * width, leaves);
}

// From number `at` on: where they lie, or in `room`.
const float* values_of(const Addend& addend, size_t at, std::span<float> room) {
  if (addend.type == DType::kF32) return static_cast<const float*>(addend.values) + at;
  from_wire(addend.values, addend.type, at, room);
  return room.data();
}

void add(const float* left, const float* right, float* to, size_t n) {
#pragma GCC ivdep  // `to` is one of the others, or apart
  for (size_t k = 0; k < n; ++k) to[k] = left[k] + right[k];
}

}  // namespace

std::vector<int> additions_after(std::span<const Subtree> nodes, int leaves) {
  std::vector<int> counts;
  std::vector<Subtree> waiting;
  for (const Subtree& node : nodes) {
    const int expected = waiting.empty() ? 0 : waiting.back().end;
    if (node.begin != expected || node.end <= node.begin) break;
    waiting.push_back(node);
    int count = 0;
    for (; waiting.size() > 1 && halves(waiting[waiting.size() - 2], waiting.back(), leaves);
         ++count) {
      waiting[waiting.size() - 2].end = waiting.back().end;
      waiting.pop_back();
    }
    counts.push_back(count);
  }
  if (counts.size() != nodes.size() || waiting.size() != 1 || waiting[0].end != leaves) {
    throw Error("sum_tree: ", nodes.size(), " addends are not the nodes of a tree of ", leaves,
                " leaves");
  }
  return counts;
}

std::vector<Subtree> subtrees_of(int begin, int end, int leaves) {
  if (begin < 0 || begin > end || end > leaves) {
    throw Error("subtrees_of: leaves ", begin, " to ", end, " of ", leaves);
  }
  std::vector<Subtree> nodes;
  while (begin < end) {
    int width = 1;
    while (begin % (2 * width) == 0 && begin + width < leaves &&
           std::min(begin + 2 * width, leaves) <= end) {
      width *= 2;
    }
    nodes.push_back({begin, std::min(begin + width, leaves)});
    begin = nodes.back().end;
  }
  return nodes;
}

void add_in_tree_order(std::span<const Addend> addends, int leaves, std::span<float> sum) {
  std::vector<Subtree> nodes;
  for (const Addend& a : addends) nodes.push_back(a.node);
  const std::vector<int> counts = additions_after(nodes, leaves);
  using Block = std::array<float, kBlock>;
  // The sums that wait are those of the binary digits of a number of leaves.
  const auto stack = std::make_unique_for_overwrite<Block[]>(
      static_cast<size_t>(std::bit_width(static_cast<unsigned>(leaves))) + 1);
  std::vector<const float*> waiting;  // in the stack's blocks, or where addends lie
  for (size_t at = 0; at < sum.size(); at += kBlock) {
    const size_t n = std::min(kBlock, sum.size() - at);
    for (size_t a = 0; a < addends.size(); ++a) {
      waiting.push_back(values_of(addends[a], at, std::span(stack[waiting.size()]).first(n)));
      for (int i = 0; i < counts[a]; ++i) {
        const float* const right = waiting.back();
        waiting.pop_back();
        const bool last = a + 1 == addends.size() && waiting.size() == 1;
        float* const to = last ? sum.data() + at : stack[waiting.size() - 1].data();
        add(waiting.back(), right, to, n);
        waiting.back() = to;
      }
    }
    if (waiting.back() != sum.data() + at) std::copy_n(waiting.back(), n, sum.data() + at);
    waiting.pop_back();
  }
}

}  // namespace ndtrain
