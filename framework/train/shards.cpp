#include "framework/train/shards.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>
#include <string>

#include "framework/core/error.h"
#include "framework/core/rng.h"

namespace ndtrain {
namespace {

// `of_ranks`: what each rank's share goes by.
void check_ranks(int shards, std::span<const double> of_ranks) {
  const auto ranks = static_cast<int>(of_ranks.size());
  if (shards < ranks) {
    throw Error(ranks, " ranks but ", shards,
                " shards: a rank has one at least; fix the number of ", "shards when a run begins");
  }
  for (const double s : of_ranks) {
    if (!(s > 0) || !std::isfinite(s)) throw Error("a share of ", s, " is not a positive number");
  }
}

}  // namespace

std::vector<int> shards_of_ranks(int shards, std::span<const double> shares) {
  check_ranks(shards, shares);
  const auto ranks = static_cast<int>(shares.size());
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int> first{0};
  double before = 0;
  for (int r = 1; r <= ranks; ++r) {
    before += shares[static_cast<size_t>(r - 1)];
    const int wanted = static_cast<int>(std::lround(shards * before / all));
    first.push_back(std::clamp(wanted, first.back() + 1, shards - (ranks - r)));
  }
  return first;
}

// Each shard goes to the rank that is done with it first. When the one that is done last took its
// last shard, the others would have been done with one more no sooner: in less time no more shards
// are done than had been given away before.
std::vector<int> fastest_shards(int shards, std::span<const double> shard_s) {
  check_ranks(shards, shard_s);
  std::vector<int> of_ranks(shard_s.size(), 1);
  const auto done_s = [&](size_t r) { return (of_ranks[r] + 1) * shard_s[r]; };
  for (auto left = shards - std::ssize(shard_s); left > 0; --left) {
    size_t soonest = 0;
    for (size_t r = 1; r < of_ranks.size(); ++r) {
      if (done_s(r) < done_s(soonest)) soonest = r;
    }
    ++of_ranks[soonest];
  }
  std::vector<int> first{0};
  for (const int n : of_ranks) first.push_back(first.back() + n);
  return first;
}

uint64_t seed_of_shard(uint64_t seed, int shard) {
  return shard == 0 ? seed : Rng(seed, "shard " + std::to_string(shard)).bits(0);
}

uint64_t seed_of_part(uint64_t seed, int shard, int part) {
  const uint64_t of_shard = seed_of_shard(seed, shard);
  return part == 0 ? of_shard : Rng(of_shard, "part " + std::to_string(part)).bits(0);
}

EpochOrder::EpochOrder(const Data& data, ShardRange own, uint64_t seed, int64_t epoch)
    : data_(data), own_(own) {
  if (data.batch < data.shards) {
    throw Error("a batch of ", data.batch, " is not enough for ", data.shards,
                " shards: each has a row of it at least");
  }
  for (int v = 0; v < data.shards; ++v) {
    steps_ = std::max(steps_, (rows_of(v) + batch_of(v) - 1) / batch_of(v));
  }
  for (int v = own.begin; v < own.end; ++v) {
    const Rng rng(seed_of_shard(seed, v), "shuffle epoch " + std::to_string(epoch));
    orders_.push_back(permutation(rows_of(v), rng));
    for (int64_t& row : orders_.back()) row = row * data.shards + v;
  }
}

int64_t EpochOrder::rows_of(int shard) const {
  return (data_.rows - shard + data_.shards - 1) / data_.shards;
}

int64_t EpochOrder::batch_of(int shard) const {
  return data_.batch / data_.shards + (shard < data_.batch % data_.shards ? 1 : 0);
}

int64_t EpochOrder::row_count(int shard, int64_t step) const {
  const int64_t n =
      std::clamp<int64_t>(rows_of(shard) - step * batch_of(shard), 0, batch_of(shard));
  const bool single = n == 1 && steps_ > 1 && batch_of(shard) > 1;
  return single && data_.no_single_rows ? 0 : n;
}

int64_t EpochOrder::row_count(int64_t step) const {
  int64_t n = 0;
  for (int v = 0; v < data_.shards; ++v) n += row_count(v, step);
  return n;
}

std::span<const int64_t> EpochOrder::rows(int shard, int64_t step) const {
  const auto n = static_cast<size_t>(row_count(shard, step));
  if (n == 0) return {};
  const std::vector<int64_t>& order = orders_[static_cast<size_t>(shard - own_.begin)];
  return std::span(order).subspan(static_cast<size_t>(step * batch_of(shard)), n);
}

}  // namespace ndtrain
