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

// Photos that pairs connect, directly or by others; of two and more, each group in order, by their
// first ones.
std::vector<std::vector<size_t>> connected(size_t photos, const std::vector<PhotoPair>& pairs);

}  // namespace ndtrain::ndp
