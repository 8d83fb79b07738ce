#include "ndp/similarity/near_duplicates.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>

namespace ndtrain::ndp {

std::vector<PhotoPair> pairs_within(const std::vector<uint64_t>& hashes, int bits,
                                    ThreadPool& threads) {
  constexpr size_t kBlock = 256;
  const size_t blocks = (hashes.size() + kBlock - 1) / kBlock;
  std::vector<std::vector<PhotoPair>> found(blocks);
  threads.parallel_for(static_cast<int64_t>(blocks), 1, [&](int64_t begin, int64_t end) {
    for (auto b = static_cast<size_t>(begin); b < static_cast<size_t>(end); ++b) {
      const size_t until = std::min(hashes.size(), (b + 1) * kBlock);
      for (size_t i = b * kBlock; i < until; ++i) {
        for (size_t j = i + 1; j < hashes.size(); ++j) {
          if (std::popcount(hashes[i] ^ hashes[j]) <= bits) found[b].push_back({i, j});
        }
      }
    }
  });
  std::vector<PhotoPair> all;
  for (const auto& of_block : found) std::ranges::copy(of_block, std::back_inserter(all));
  return all;
}

std::vector<std::vector<size_t>> connected(size_t photos, const std::vector<PhotoPair>& pairs) {
  std::vector<size_t> parent(photos);
  std::iota(parent.begin(), parent.end(), size_t{0});
  const auto root_of = [&](size_t i) {
    for (; parent[i] != i; i = parent[i]) parent[i] = parent[parent[i]];
    return i;
  };
  for (const PhotoPair& p : pairs) {
    const size_t a = root_of(p.first), b = root_of(p.second);
    parent[std::max(a, b)] = std::min(a, b);
  }
  std::map<size_t, std::vector<size_t>> by_root;
  for (size_t i = 0; i < photos; ++i) by_root[root_of(i)].push_back(i);
  std::vector<std::vector<size_t>> groups;
  for (auto& [root, group] : by_root) {
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace ndtrain::ndp
