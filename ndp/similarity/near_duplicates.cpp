#include "ndp/similarity/near_duplicates.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace ndtrain::ndp {
namespace {

constexpr int kBits = 64, kLeastPartBits = 8;

// Disjoint sets of photos, each known by its lowest.
class Sets {
 public:
  explicit Sets(size_t photos) : parent_(photos) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t of(size_t i) {
    for (; parent_[i] != i; i = parent_[i]) parent_[i] = parent_[parent_[i]];
    return i;
  }
  void unite(const PhotoPair& p) {
    const size_t a = of(p.first), b = of(p.second);
    parent_[std::max(a, b)] = std::min(a, b);
  }
  std::vector<std::vector<size_t>> of_two_and_more() {
    std::map<size_t, std::vector<size_t>> by_lowest;
    for (size_t i = 0; i < parent_.size(); ++i) {
      if (of(i) != i) by_lowest[of(i)].push_back(i);
    }
    std::vector<std::vector<size_t>> sets;
    for (auto& [lowest, rest] : by_lowest) {
      rest.insert(rest.begin(), lowest);
      sets.push_back(std::move(rest));
    }
    return sets;
  }

 private:
  std::vector<size_t> parent_;
};

// Those within `bits`. No pair is kept: of hashes that are all near there would be too many.
void unite_by_parts(const std::vector<uint64_t>& hashes, int bits, ThreadPool& threads,
                    Sets& sets) {
  const int parts = bits + 1;
  std::vector<Sets> of_parts(static_cast<size_t>(parts), Sets(hashes.size()));
  threads.parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (auto part = static_cast<int>(begin); part < static_cast<int>(end); ++part) {
      const int from = part * kBits / parts, width = (part + 1) * kBits / parts - from;
      const auto key = [&](size_t i) {
        return hashes[i] << (kBits - from - width) >> (kBits - width);
      };
      std::vector<size_t> order(hashes.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, {}, key);
      for (size_t i = 0; i < order.size(); ++i) {
        for (size_t j = i + 1; j < order.size() && key(order[j]) == key(order[i]); ++j) {
          if (std::popcount(hashes[order[i]] ^ hashes[order[j]]) > bits) continue;
          of_parts[static_cast<size_t>(part)].unite({order[i], order[j]});
        }
      }
    }
  });
  for (Sets& of_part : of_parts) {
    for (size_t i = 0; i < hashes.size(); ++i) sets.unite({of_part.of(i), i});
  }
}

}  // namespace

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

std::vector<std::vector<size_t>> groups_within(const std::vector<uint64_t>& hashes, int bits,
                                               ThreadPool& threads) {
  Sets sets(hashes.size());
  std::unordered_map<uint64_t, size_t> places;  // in `different`
  std::vector<uint64_t> different;
  std::vector<size_t> first;  // that has it
  for (size_t i = 0; i < hashes.size(); ++i) {
    const auto [place, is_new] = places.emplace(hashes[i], different.size());
    if (is_new) {
      different.push_back(hashes[i]);
      first.push_back(i);
    } else {
      sets.unite({first[place->second], i});
    }
  }
  Sets near(different.size());
  if (kBits / (bits + 1) >= kLeastPartBits) {
    unite_by_parts(different, bits, threads, near);
  } else {
    for (const PhotoPair& p : pairs_within(different, bits, threads)) near.unite(p);
  }
  for (size_t i = 0; i < different.size(); ++i) sets.unite({first[near.of(i)], first[i]});
  return sets.of_two_and_more();
}

std::vector<std::vector<size_t>> connected(size_t photos, const std::vector<PhotoPair>& pairs) {
  Sets sets(photos);
  for (const PhotoPair& p : pairs) sets.unite(p);
  return sets.of_two_and_more();
}

}  // namespace ndtrain::ndp
