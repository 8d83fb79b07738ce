// Ranks at sites, some of which die, as a seed draws it: those that are left end up with one model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "framework/core/rng.h"
#include "tests/sparse/sync/mortal_ranks.h"
#include "tests/support/seeds.h"

namespace ndtrain {
namespace {

using namespace testing;  // NOLINT: training_by_ranks.h

struct Drawn {
  NamedWay way;
  std::vector<int64_t> lives;
};

Drawn drawn(uint64_t seed) {
  Rng rng(seed, "sites");
  const auto below = [&](uint64_t n) { return rng.next_below(n); };
  const std::vector<NamedWay> all = ways();
  Drawn d{.way = all[below(all.size())]};
  const uint64_t ranks = 2 + below(kShards - 1), sites = 1 + below(3);
  d.way.sites.clear();
  for (uint64_t r = 0; r < ranks; ++r) {
    const uint64_t site = below(sites + 1);  // the last: by itself
    d.way.sites.push_back(static_cast<int>(site == sites ? sites + r : site));
    const bool dies = r > 0 && below(3) == 0;
    d.lives.push_back(dies ? static_cast<int64_t>(below(250)) : kForever);
  }
  return d;
}

// NDT_SIM_SEEDS=FIRST:COUNT runs others than the usual ones.
TEST(SitesOfSeeds, EndWithOneModelWhoeverDies) {
  log::set_level(log::Level::kError);
  const auto [first, count] = seeds_or(40);
  size_t losses = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Drawn d = drawn(seed);
    SCOPED_TRACE("NDT_SIM_SEEDS=" + std::to_string(seed) + ", " + d.way.name);
    const std::vector<End> ends = mortal(d.way, d.lives);
    for (size_t r = 0; r < ends.size(); ++r) {
      if (d.lives[r] != kForever && ends[r].error != "") continue;
      ASSERT_EQ(ends[r].error, "") << "rank " << r;
      ASSERT_NE(ends[r].bytes, "") << "rank " << r;
      expect_same_parameters(ends[0], ends[r]);
    }
    for (const RegroupedTraining::Loss& loss : ends[0].losses) {
      for (const int r : loss.lost) {
        EXPECT_NE(d.lives[static_cast<size_t>(r)], kForever) << "rank " << r;
      }
      ++losses;
    }
  }
  if (count > 20) {
    EXPECT_GT(losses, count / 5);
  }
  log::set_level(log::Level::kInfo);
}

}  // namespace
}  // namespace ndtrain
