#include "framework/pipeline/schedules/replicas.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

std::vector<int64_t> sizes(int64_t batch, int replicas) {
  std::vector<int64_t> n;
  for (int r = 0; r < replicas; ++r) n.push_back(rows_of(batch, r, replicas).size());
  return n;
}

TEST(Replicas, TheLastOnesTakeWhatCannotBeSharedAlike) {
  EXPECT_THAT(sizes(256, 3), ::testing::ElementsAre(85, 85, 86));
  EXPECT_THAT(sizes(256, 7), ::testing::ElementsAre(36, 36, 36, 37, 37, 37, 37));
  EXPECT_THAT(sizes(4, 4), ::testing::ElementsAre(1, 1, 1, 1));
}

TEST(Replicas, HaveTheirRowsOneBehindTheOther) {
  for (int64_t batch = 1; batch <= 70; ++batch) {
    for (int n = 1; n <= batch && n <= 20; ++n) {
      int64_t next = 0;
      for (int r = 0; r < n; ++r) {
        const RowInterval rows = rows_of(batch, r, n);
        EXPECT_EQ(rows.begin, next);
        EXPECT_EQ(rows.size(), (batch + r) / n) << batch << " rows, replica " << r << " of " << n;
        next = rows.end;
      }
      EXPECT_EQ(next, batch);
    }
  }
}

// Against the definition: row by row, who has it and who needs it.
TEST(Replicas, EachRowGoesFromWhoHasItToWhoNeedsIt) {
  const auto owner = [](int64_t row, int64_t batch, int n) {
    int r = 0;
    while (rows_of(batch, r, n).end <= row) ++r;
    return r;
  };
  for (int64_t batch = 1; batch <= 40; ++batch) {
    for (int n = 1; n <= batch && n <= 12; ++n) {
      for (int m = 1; m <= batch && m <= 12; ++m) {
        int64_t next = 0;
        for (const RowTransfer& t : route(batch, n, m)) {
          ASSERT_EQ(t.rows.begin, next) << batch << " rows, " << n << " to " << m;
          ASSERT_LT(t.rows.begin, t.rows.end);
          for (int64_t row = t.rows.begin; row < t.rows.end; ++row) {
            ASSERT_EQ(t.from, owner(row, batch, n));
            ASSERT_EQ(t.to, owner(row, batch, m));
          }
          next = t.rows.end;
        }
        ASSERT_EQ(next, batch);
        ASSERT_LE(route(batch, n, m).size(), static_cast<size_t>(n + m - 1)) << "one for each pair";
      }
    }
  }
}

TEST(Replicas, TransfersOfTwoAndThree) {
  EXPECT_THAT(route(12, 2, 3),
              ::testing::ElementsAre(RowTransfer{0, 0, {0, 4}}, RowTransfer{0, 1, {4, 6}},
                                     RowTransfer{1, 1, {6, 8}}, RowTransfer{1, 2, {8, 12}}));
}

TEST(Replicas, FewerRowsThanReplicasAreRefused) {
  for (const auto& refused : std::vector<std::function<void()>>{[] { (void)rows_of(2, 0, 3); },
                                                                [] { (void)route(2, 3, 1); },
                                                                [] { (void)route(2, 1, 3); }}) {
    EXPECT_THAT(refused, ::testing::ThrowsMessage<Error>(
                             ::testing::HasSubstr("2 rows cannot be shared out among 3 replicas")));
  }
  EXPECT_THROW((void)rows_of(5, 3, 3), Error);
  EXPECT_THROW((void)rows_of(5, -1, 3), Error);
  EXPECT_THROW((void)route(5, 0, 3), Error);
  EXPECT_THROW((void)route(5, 3, 0), Error);
}

}  // namespace
}  // namespace ndtrain
