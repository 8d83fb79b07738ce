#include "framework/sparse/sync/link_rate.h"

#include <gtest/gtest.h>

namespace ndtrain {
namespace {

using std::chrono::milliseconds;

// `bytes` every so many milliseconds, from `begin` on.
std::vector<LinkRate::Piece> pieces(milliseconds begin, int count, milliseconds every,
                                    int64_t bytes) {
  std::vector<LinkRate::Piece> all;
  for (int i = 0; i < count; ++i) all.push_back({begin + i * every, bytes});
  return all;
}

TEST(LinkRate, IsThatOfWhatWasUnderWayTogether) {
  LinkRate rate;
  EXPECT_EQ(rate.mbps(), 0);
  rate.add(pieces(milliseconds(10), 1, milliseconds(1), 1000));
  EXPECT_EQ(rate.mbps(), 0) << "nobody knows how long it took";
  // 65,536 bytes in 5 ms, then nothing for a while: 105 Mb/s, not the mean of all the time.
  rate.add(pieces(milliseconds(20), 6, milliseconds(5), 65'536));
  rate.add(pieces(milliseconds(420), 6, milliseconds(5), 65'536));
  EXPECT_NEAR(rate.mbps(), 104.86, 0.01);
}

TEST(LinkRate, IsOfTheBestTenthOfASecond) {
  std::vector<LinkRate::Piece> all = pieces(milliseconds(0), 50, milliseconds(10), 10'000);
  const auto fast = pieces(milliseconds(500), 100, milliseconds(2), 10'000);
  all.insert(all.end(), fast.rbegin(), fast.rend());  // in any order
  LinkRate rate;
  rate.add(all);
  EXPECT_NEAR(rate.mbps(), 40, 1e-9);
}

TEST(LinkRate, IsOfTheLastSecond) {
  LinkRate rate;
  rate.add(pieces(milliseconds(200), 6, milliseconds(5), 65'536));
  rate.add(pieces(milliseconds(900), 6, milliseconds(50), 65'536));
  EXPECT_NEAR(rate.mbps(), 104.86, 0.01);
  rate.add(pieces(milliseconds(1100), 6, milliseconds(50), 65'536));
  EXPECT_NEAR(rate.mbps(), 10.486, 0.001);
}

TEST(LinkRate, OfWhatIsDoneAtOnceHasALimit) {
  LinkRate rate;
  rate.add(pieces(milliseconds(3), 4, milliseconds(0), 65'536));
  EXPECT_EQ(rate.mbps(), 0);
  rate.add({{std::chrono::nanoseconds(0), 1 << 20}, {std::chrono::nanoseconds(1), 1 << 20}});
  EXPECT_EQ(rate.mbps(), LinkRate::kMostMbps);
}

}  // namespace
}  // namespace ndtrain
