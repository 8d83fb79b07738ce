// Which of many photos are almost the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "framework/core/thread_pool.h"

namespace ndtrain::ndp {

// Two of the photos, by their numbers; first < second.
struct PhotoPair {
  size_t first = 0, second = 0;
  bool operator==(const PhotoPair&) const = default;
};

// All pairs whose hashes differ in no more than `bits`, by a look at each pair; in the order of
// their numbers.
std::vector<PhotoPair> pairs_within(const std::vector<uint64_t>& hashes, int bits,
                                    ThreadPool& threads);

// Photos whose hashes differ in no more than `bits`, directly or by way of others; as connected().
// For 7 bits and fewer only those are compared that are the same in one of bits + 1 parts, as all
// such pairs are (multi-index hashing: Norouzi, Punjani, Fleet, "Fast Search in Hamming Space with
// Multi-Index Hashing", 2012). Memory is of the photos alone; time is that of all pairs where all
// hashes have a part in common.
std::vector<std::vector<size_t>> groups_within(const std::vector<uint64_t>& hashes, int bits,
                                               ThreadPool& threads);

// Photos that pairs connect, directly or by others; of two and more, each group in order, by their
// first ones.
std::vector<std::vector<size_t>> connected(size_t photos, const std::vector<PhotoPair>& pairs);

}  // namespace ndtrain::ndp
