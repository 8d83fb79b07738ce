// Which stores a job can do without, because others hold the same photos. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "framework/core/hash.h"

namespace ndtrain::tuner {

// The stores that have what a job is for, those that it needs most first: the first `enough` have
// all of it, and more make it faster.
struct StoreCover {
  std::vector<std::string> stores = {};
  size_t enough = 0;
  std::vector<double> photos = {};  // that each of them has; empty: not known
  std::vector<double> speeds = {};  // of each, beside their mean; empty: not known
  double distinct = 0;              // photos of all of them, each once; 0: not known
};

// Of these, as few take part as are as fast but for this share of the time.
inline constexpr double kWorthAStore = 0.01;

// How many of them to look at, rising: from those that are enough to all, at most 16 numbers,
// evenly, of which one job can name its stores or means all. Empty where there are none.
std::vector<int> counts_of(const StoreCover& cover);

// More photos than this, copies counted, are not compared: all stores are taken for needed.
inline constexpr size_t kMostCompared = 1'000'000;

struct HeldPhotos {
  std::string store;
  std::span<const Digest> photos = {};  // each once
  bool known = true;                    // they are what it holds by now: else it may have any
};

// Greedily, as no exact way is fast: first those of which too little is known, then always the one
// with the most photos that none before it has; of as many the first by name.
StoreCover greedy_cover(std::span<const HeldPhotos> held);
// Without looking at photos: all stores, first those of which too little is known.
StoreCover uncompared(std::span<const HeldPhotos> held);

}  // namespace ndtrain::tuner
