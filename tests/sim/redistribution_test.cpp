// Every store gets every byte of the last version, by the fewest bytes.
#include "tests/sim/redistribution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "framework/core/log.h"
#include "ndp/deltas/delta.h"
#include "tests/support/seeds.h"

namespace ndtrain {
using namespace ndp;

namespace {

using sim::Bug;
using sim::Redistribution;

constexpr uint64_t kVersions = 8;
constexpr int kRedistributionFaults = 10;

uint64_t delta_bytes(uint64_t from, uint64_t to) {
  return make_delta(Redistribution::head(from), Redistribution::head(to)).or_throw().bytes.size();
}

TEST(Redistribution, AStoreTwentyVersionsBehindGetsNoMoreThanTheBestChain) {
  log::set_level(log::Level::kOff);
  // From 4 to 5, 9 to 10 and so on all weights change.
  for (const uint64_t last : {uint64_t{2}, uint64_t{4}, uint64_t{21}}) {
    Redistribution r(7);
    r.run_with_one_away(last);
    ASSERT_TRUE(r.violations().empty()) << r.violations().front();
    uint64_t chain = 0;
    for (uint64_t v = 1; v < last; ++v) chain += delta_bytes(v, v + 1);
    const uint64_t one = delta_bytes(1, last), full = Redistribution::head(last).size();
    fmt::print("from version 1 to {:2}: {} bytes sent; full {}, chain {}, one delta {}\n", last,
               r.bytes_sent(2), full, chain, one);
    EXPECT_LE(r.bytes_sent(2), std::min({full, chain, one}));
    EXPECT_GT(r.bytes_sent(2), 0U);
  }
}

TEST(Redistribution, EndsOnVerifiedBytesWhateverGoesWrong) {
  log::set_level(log::Level::kOff);
  const auto [first, count] = testing::seeds_or(300);
  uint64_t ways = 0, chains = 0, failures = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Redistribution r(seed);
    r.run(kVersions, kRedistributionFaults);
    std::string text;
    for (const std::string& line : r.story()) text += line + "\n";
    if (count == 1) fmt::print("{}", text);
    ASSERT_TRUE(r.violations().empty())
        << text << r.violations().front() << "\nNDT_SIM_SEEDS=" << seed
        << " sim_test --gtest_filter=Redistribution.Ends*";
    ways += r.ways();
    chains += r.chains();
    failures += r.failures();
  }
  fmt::print("{} seeds of {} versions: {} ways, {} of them chains; {} failed\n", count, kVersions,
             ways, chains, failures);
  if (count < 100) return;
  EXPECT_GT(ways, count);
  EXPECT_GT(chains, 0U);
  EXPECT_GT(failures, 0U);
}

TEST(Redistribution, AStoreThatDoesNotVerifyIsFound) {
  log::set_level(log::Level::kOff);
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Redistribution r(seed, Bug::kDeltaUnverified);
    r.run(kVersions, kRedistributionFaults);
    if (r.violations().empty()) continue;
    fmt::print("seed {}: {}\n", seed, r.violations().front());
    return;
  }
  FAIL() << "not found in 500 seeds";
}

}  // namespace
}  // namespace ndtrain
