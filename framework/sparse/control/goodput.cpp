#include "framework/sparse/control/goodput.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "framework/core/error.h"
#include "framework/core/limits.h"

namespace ndtrain {
namespace {

constexpr double kMessageBytes = 47, kPacketBytes = 66, kPayloadBytes = 1472;
constexpr int kBisections = 20;

int64_t kept(int64_t n, double drop) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil((1 - drop) * static_cast<double>(n))));
}

// Of a varint that says how many elements were left out before one, where each is sent with
// probability p: 1, and 1 more where there are 2^7 of them, 2^14, 2^21, 2^28.
double varint_bytes_expected(double p) {
  double bytes = 1, none = 1 - p;  // no element of a run of 1, 2^7, …
  for (int seven_bits = 0; seven_bits < 4; ++seven_bits) {
    for (int i = 0; i < 7; ++i) none *= none;
    bytes += none;
  }
  return bytes;
}

void check_ranks(int ranks) {
  if (ranks < 2) throw Error("drop: ", ranks, " ranks send nothing to each other");
}

}  // namespace

void validate(const SelectionSizes& sizes) {
  if (sizes.elements.empty()) throw Error("selections: of no tensors");
  for (size_t i = 0; i < sizes.elements.size(); ++i) {
    if (sizes.elements[i] >= 1 && sizes.elements[i] <= limits::kSparseElements) continue;
    throw Error("selections: tensor ", i, " has ", sizes.elements[i], " elements");
  }
  if (!std::isfinite(sizes.value_bytes) || sizes.value_bytes <= 0) {
    throw Error("selections: a value has ", sizes.value_bytes, " bytes");
  }
  const double index_bytes = sizes.index_bytes.value_or(0);
  if (!std::isfinite(index_bytes) || index_bytes < 0) {
    throw Error("selections: an index has ", index_bytes, " bytes");
  }
}

double expected_index_bytes(int64_t n, int64_t k) {
  if (k < 1 || k > n) throw Error("selections: ", k, " of ", n, " elements");
  if (k == n) return 0;
  const auto elements = static_cast<double>(n), sent = static_cast<double>(k);
  return std::min(std::ceil(elements / 8), sent * varint_bytes_expected(sent / elements));
}

double selection_bytes(const SelectionSizes& sizes, double drop) {
  if (!(drop >= 0 && drop < 1)) throw Error("selections: drop is ", drop);
  double sum = 0;
  for (const int64_t n : sizes.elements) {
    const int64_t k = kept(n, drop);
    const auto sent = static_cast<double>(k);
    const double indices =
        sizes.index_bytes ? sent * *sizes.index_bytes : expected_index_bytes(n, k);
    const double message = kMessageBytes + indices + sent * sizes.value_bytes;
    sum += message + kPacketBytes * std::ceil(message / kPayloadBytes);
  }
  return sum;
}

double goodput_mbps(const SelectionSizes& sizes, double drop, double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) throw Error("goodput: of ", seconds, " seconds");
  return 8e-6 * selection_bytes(sizes, drop) / seconds;
}

double least_drop(const SelectionSizes& sizes, double seconds, double mbps) {
  if (goodput_mbps(sizes, 0, seconds) <= mbps) return 0;
  double too_little = 0, enough = kMostDrop;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = too_little + (enough - too_little) / 2;
    (goodput_mbps(sizes, middle, seconds) <= mbps ? enough : too_little) = middle;
  }
  return enough;
}

double training_drop(double link_drop, int ranks) {
  check_ranks(ranks);
  return 1 - (1 - link_drop) / (ranks - 1);
}

double link_drop(double training_drop, int ranks) {
  check_ranks(ranks);
  return std::max(0.0, 1 - (1 - training_drop) * (ranks - 1));
}

}  // namespace ndtrain
