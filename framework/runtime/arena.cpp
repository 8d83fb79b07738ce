#include "framework/runtime/arena.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ndtrain {

size_t assign_offsets(std::span<Block> blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });

  std::vector<const Block*> placed;  // by offset
  size_t total = 0;
  for (size_t i : order) {
    Block& b = blocks[i];
    const size_t bytes = aligned(std::max<size_t>(b.bytes, 1));
    size_t at = 0;
    for (const Block* other : placed) {
      if (other->last < b.first || b.last < other->first) continue;
      if (at + bytes <= other->offset) break;
      at = std::max(at, other->offset + aligned(std::max<size_t>(other->bytes, 1)));
    }
    b.offset = at;
    total = std::max(total, at + bytes);
    placed.insert(
        std::ranges::upper_bound(placed, at, {}, [](const Block* p) { return p->offset; }), &b);
  }
  return total;
}

}  // namespace ndtrain
