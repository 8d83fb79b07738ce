// What selections take on a link, and how much must be dropped for them to fit (StellaTrain,
// section 4). A goodput is Mb/s (10^6 bits) that a rank sends, and as much it receives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace ndtrain {

struct SelectionSizes {
  std::vector<int64_t> elements;  // of each tensor
  double value_bytes = 4;         // of an element that is sent
  // Likewise; 0 where ranks know each other's indices; none: as selection_codec.h writes indices
  // that are anywhere, expected_index_bytes().
  std::optional<double> index_bytes;
};

// Throws Error: no tensors, a size that is not above 0 (elements: at most
// limits::kSparseElements; index bytes may be 0), not finite.
void validate(const SelectionSizes& sizes);

// Of k random ones of n elements: the least of a bit for each element and of a varint for what is
// left out before each, on average; 0 where all are sent. 1 <= k <= n.
double expected_index_bytes(int64_t n, int64_t k);

// The sum over tensors of 47 + c (index + value bytes), c = max(1, ceil((1 - drop) n)) reckoned in
// double, and 66 for each 1472 of them begun: headers of a message, and of its packets.
double selection_bytes(const SelectionSizes& sizes, double drop);

// In so many seconds of a step. Throws Error unless drop is from 0 to below 1 and seconds above 0.
double goodput_mbps(const SelectionSizes& sizes, double drop, double seconds);

// The least drop whose goodput is at most `mbps`: 0, or by 20 bisections of [0, .999]; .999 where
// none is.
double least_drop(const SelectionSizes& sizes, double seconds, double mbps);
inline constexpr double kMostDrop = 0.999;

// Of so many ranks each sends to all others, so that each of these gets its part of what the link
// can take: 1 - (1 - drop) / (ranks - 1). That is the drop of a training
// (SparseSyncOptions::drop); what it is of the link: at least 0. ranks >= 2, or Error.
double training_drop(double link_drop, int ranks);
double link_drop(double training_drop, int ranks);

}  // namespace ndtrain
