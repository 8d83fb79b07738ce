#include "framework/parallel/rank_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "framework/core/json.h"
#include "tests/comm/rank_threads.h"

namespace ndtrain {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

// The system's, so much ahead.
class AheadClock final : public Clock {
 public:
  explicit AheadClock(nanoseconds ahead) : ahead_(ahead) {}
  nanoseconds monotonic() const override { return system_clock().monotonic() + ahead_; }
  int64_t unix_seconds() const override { return system_clock().unix_seconds(); }
  void sleep(nanoseconds d) override { system_clock().sleep(d); }

 private:
  nanoseconds ahead_;
};

// Half of a round trip, which lasts as long as it does: a second is more.
TEST(RankTrace, FindsByHowMuchAClockIsAhead) {
  comm_tests::run_ranks(3, [&](Communicator& comm) {
    AheadClock clock(seconds(1000) * comm.rank());
    if (comm.rank() != 1) {
      const nanoseconds offset = clock_offset(comm, 2, clock);
      const double expected = comm.rank() == 0 ? 2000e9 : static_cast<double>(offset.count());
      EXPECT_NEAR(static_cast<double>(offset.count()), expected, 1e9);
    }
    comm_tests::carry_out(comm, {.group = comm_tests::first_ranks(3), .name = "end"});
  });
}

TEST(RankTrace, HasSpansOfAllRanksByOneClock) {
  std::string json;
  comm_tests::run_ranks(3, [&](Communicator& comm) {
    const nanoseconds ahead = seconds(1000) * comm.rank();
    AheadClock clock(ahead);
    const nanoseconds begun = ahead + seconds(50 + 10 * comm.rank());
    RankTrace trace;
    trace.add({{"forward \"x\"", begun, begun + seconds(1)}},
              {{"AR1", begun, begun + seconds(1), begun + seconds(3)}});
    const std::string text = trace.collect(comm, clock);
    EXPECT_EQ(text.empty(), comm.rank() != 0);
    if (comm.rank() == 0) json = text;
    comm_tests::carry_out(comm, {.group = comm_tests::first_ranks(3), .name = "end"});
  });
  std::map<int, std::string> rows;
  std::map<std::string, std::pair<double, double>> spans;  // by row and name: from, for
  const Json all = parse_json(json);
  for (const Json& e : all.at("traceEvents")) {
    if (e["name"] == "thread_name") rows[e["tid"]] = e["args"]["name"];
  }
  for (const Json& e : all.at("traceEvents")) {
    if (e["ph"] == "X")
      spans[rows[e["tid"]] + " " + e["name"].get<std::string>()] = {e["ts"], e["dur"]};
  }
  ASSERT_EQ(spans.size(), 6U);
  for (int r = 0; r < 3; ++r) {
    const std::string rank = "rank " + std::to_string(r);
    const auto [computing, computing_for] = spans.at(rank + " computing forward \"x\"");
    EXPECT_NEAR(computing, 10e6 * r, 2e6);
    EXPECT_EQ(computing_for, 1e6);
    const auto [link, link_for] = spans.at(rank + " link AR1");
    EXPECT_NEAR(link, 10e6 * r + 1e6, 2e6);
    EXPECT_EQ(link_for, 2e6);
  }
}

TEST(RankTrace, KeepsTheFirstSpans) {
  std::string json;
  comm_tests::run_ranks(1, [&](Communicator& comm) {
    RankTrace trace;
    for (size_t i = 0; i < RankTrace::kMost + 5; ++i) {
      trace.add({{"s" + std::to_string(i), seconds(i), seconds(i + 1)}}, {});
    }
    json = trace.collect(comm, system_clock());
  });
  EXPECT_NE(json.find("\"s99999\""), std::string::npos);
  EXPECT_EQ(json.find("\"s100000\""), std::string::npos);
}

}  // namespace
}  // namespace ndtrain
