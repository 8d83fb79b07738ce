#include "framework/comm/link_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "framework/comm/memory_transport.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using ::testing::ElementsAre;

// Three ranks whose links take 10 ms and carry 1 MB/s, in a time that the test moves.
class Links : public ::testing::Test {
 protected:
  Links() {
    for (auto& inner : memory_transports(3)) {
      ranks_.push_back(
          over_link(std::move(inner), {.latency_s = 0.01, .bytes_per_s = 1e6}, clock_));
    }
  }

  Transport& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }

  void send(int from, int to, size_t bytes) {
    at(from).send(to, 1, std::span(sent_).first(bytes));
    expect(from, to, 1, bytes);
  }
  void send_bulk(int from, int to, size_t bytes) {
    at(from).send_bulk(to, 2, std::span(sent_).first(bytes));
    expect(from, to, 2, bytes);
  }
  // When what was sent so far came, in the order of send().
  std::vector<nanoseconds> arrivals() {
    for (int step = 0; step < 100; ++step) {
      // Twice, since what one rank sends in the first round another may take in the second.
      for (int r : {0, 1, 2, 0, 1, 2}) poll(r);
      clock_.advance(1ms);
    }
    return arrivals_;
  }

  ManualClock clock_;

 private:
  void expect(int from, int to, uint64_t tag, size_t bytes) {
    const auto request = at(to).receive(from, tag, std::span(received_).first(bytes));
    places_[{to, request}] = arrivals_.size();
    arrivals_.push_back(-1ms);
  }

  void poll(int rank) {
    std::vector<Transport::Done> done;
    at(rank).poll(done, 0ns);
    for (const Transport::Done& d : done) {
      EXPECT_TRUE(d.status.ok()) << d.status.message();
      const auto place = places_.find({rank, d.request});
      if (place != places_.end()) arrivals_[place->second] = clock_.monotonic();
    }
  }

  std::vector<std::byte> sent_ = std::vector<std::byte>(50'000), received_ = sent_;
  std::vector<std::unique_ptr<Transport>> ranks_;
  std::map<std::pair<int, Transport::Request>, size_t> places_;
  std::vector<nanoseconds> arrivals_;
};

TEST_F(Links, AMessageTakesLatencyAndItsBytesOverBandwidth) {
  send(0, 1, 20'000);
  EXPECT_THAT(arrivals(), ElementsAre(30ms));
}

TEST_F(Links, BytesOfADirectionWaitForEachOtherButNotTheirLatencies) {
  send(0, 1, 5'000);
  send(0, 1, 10'000);
  send(0, 1, 0);
  EXPECT_THAT(arrivals(), ElementsAre(15ms, 25ms, 25ms));
}

TEST_F(Links, DirectionsAndPairsDoNot) {
  send(0, 1, 30'000);
  send(1, 0, 20'000);
  send(0, 2, 10'000);
  send(2, 1, 5'000);
  EXPECT_THAT(arrivals(), ElementsAre(40ms, 30ms, 20ms, 15ms));
}

TEST_F(Links, WhatIsUrgentOvertakesBulkThatHasNotBegunToLeave) {
  send_bulk(0, 1, 10'000);  // leaves at once
  clock_.advance(5ms);
  send_bulk(0, 1, 20'000);
  send_bulk(0, 1, 10'000);
  send(0, 1, 3'000);
  send(0, 1, 2'000);
  EXPECT_THAT(arrivals(), ElementsAre(20ms, 45ms, 55ms, 23ms, 25ms));
}

TEST_F(Links, ALinkThatHasBeenIdleIsFree) {
  send(0, 1, 10'000);
  clock_.advance(60ms);
  send(0, 1, 10'000);
  // The first could go before the clock moved, but nobody polled until now.
  EXPECT_THAT(arrivals(), ElementsAre(60ms, 80ms));
}

TEST_F(Links, WhatIsUnderWayEndsWithItsGeneration) {
  const int both[] = {0, 1};
  const std::byte message[4] = {};
  const auto sent = at(0).send(1, 1, message);
  at(0).begin_generation(1, both);
  std::vector<Transport::Done> done;
  at(0).poll(done, 0ns);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].request, sent);
  EXPECT_EQ(done[0].status.code(), Code::kCancelled);
}

TEST(LinkModel, RefusesWhatIsNoLink) {
  EXPECT_THROW(over_link(std::move(memory_transports(1)[0]), {.latency_s = -1}), Error);
  EXPECT_THROW(over_link(std::move(memory_transports(1)[0]), {.bytes_per_s = -1}), Error);
}

}  // namespace
}  // namespace ndtrain::comm_tests
