// Ranks over a plugin, where its library does what libraries do: it is late, fails, and cannot take
// back what it has begun. What every Transport promises is in transport_test.cpp.
#include "framework/comm/plugin_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "framework/comm/frame.h"
#include "tests/comm/rank_threads.h"
#include "tests/comm/tree_oracle.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

constexpr size_t kLong = 2'500'000;  // bytes, which are three of the fake's messages

class PluginTransportTest : public ::testing::Test {
 protected:
  explicit PluginTransportTest(const PluginOptions& options = {.silence = 20s, .farewell = 20ms})
      : ranks_(plugin_transports(world_, 2, options)) {}

  // How the request of `rank` ended; kNotFound when it has not in a long time.
  Status end_of(size_t rank, Transport::Request request, bool others_too = true) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    while (std::chrono::steady_clock::now() < until) {
      for (size_t r = 0; r < ranks_.size(); ++r) {
        if (!ranks_[r] || (r != rank && !others_too)) continue;
        std::vector<Transport::Done> done;
        ranks_[r]->poll(done, 0ms);
        for (const Transport::Done& d : done) ended_.insert({{r, d.request}, d.status});
      }
      if (const auto it = ended_.find({rank, request}); it != ended_.end()) return it->second;
    }
    return {Code::kNotFound, "it has not ended"};
  }

  const FakeWorld world_ = FakeWorld(2);
  Ranks ranks_;
  std::map<std::pair<size_t, Transport::Request>, Status> ended_;  // of each rank
  const Bytes sent_ = Bytes(kLong, std::byte(7));
  Bytes got_ = Bytes(kLong);
};

TEST_F(PluginTransportTest, ALongMessageIsMovedInPiecesOnlyWhenItIsAwaited) {
  const auto send = ranks_[0]->send(1, 9, sent_);
  for (int i = 0; i < 100; ++i) {
    std::vector<Transport::Done> done;
    ranks_[0]->poll(done, 0ms);
    ranks_[1]->poll(done, 0ms);
    ASSERT_TRUE(done.empty());
  }
  EXPECT_EQ(world_.messages(), 1) << "what announces it";
  EXPECT_TRUE(end_of(1, ranks_[1]->receive(0, 9, got_)).ok());
  EXPECT_TRUE(end_of(0, send).ok());
  EXPECT_EQ(world_.messages(), 4);
  EXPECT_EQ(got_, sent_);
}

TEST_F(PluginTransportTest, LongAndShortMessagesOfATagKeepTheirOrder) {
  const Bytes little(3, std::byte(1));
  Bytes first(3), last(3);
  ranks_[0]->send(1, 9, little);
  ranks_[0]->send(1, 9, sent_);
  ranks_[0]->send(1, 9, little);
  const auto one = ranks_[1]->receive(0, 9, first), two = ranks_[1]->receive(0, 9, got_),
             three = ranks_[1]->receive(0, 9, last);
  EXPECT_TRUE(end_of(1, one).ok() && end_of(1, two).ok() && end_of(1, three).ok());
  EXPECT_EQ(first, little);
  EXPECT_EQ(got_, sent_);
  EXPECT_EQ(last, little);
}

TEST_F(PluginTransportTest, WhatFailsInTheLibraryEndsAllRequestsInItsWords) {
  const auto receive = ranks_[1]->receive(0, 9, got_);
  world_.set({.breaks = true});
  const Status s = end_of(1, receive);
  EXPECT_EQ(s.code(), Code::kIo);
  EXPECT_THAT(s.message(), AllOf(HasSubstr("rank 0 (here)"), HasSubstr("fake: the fake was told")));
  EXPECT_EQ(end_of(1, ranks_[1]->send(0, 9, got_)).code(), Code::kIo);
  ranks_.clear();
  EXPECT_EQ(world_.closed(), 0);
  EXPECT_EQ(world_.abandoned(), 2);
}

TEST_F(PluginTransportTest, ASendThatTheLibraryRefusesIsNoMessage) {
  world_.set({.refuses_sends = true});
  const Status s = end_of(0, ranks_[0]->send(1, 9, sent_));
  EXPECT_EQ(s.code(), Code::kIo);
  EXPECT_THAT(s.message(), HasSubstr("fake: the fake was told"));
}

TEST_F(PluginTransportTest, APayloadOfAnotherLengthIsCorrupt) {
  for (const FakeFaults& faults : {FakeFaults{.cut = true}, FakeFaults{.truncated = true}}) {
    const FakeWorld world(2);
    ranks_ = plugin_transports(world, 2);
    world.set(faults);
    ranks_[0]->send(1, 9, sent_);
    const Status s = end_of(1, ranks_[1]->receive(0, 9, got_));
    EXPECT_EQ(s.code(), Code::kCorrupt) << faults.cut;
    EXPECT_THAT(s.message(), HasSubstr("rank 0"));
  }
}

TEST_F(PluginTransportTest, ADamagedFrameIsCorrupt) {
  const FakeWorld world(2);
  ndt_comm* const raw = world.join(0);
  const auto rank = plugin_transport(FakeWorld::plugin(), world.join(1), {.farewell = 20ms});
  Bytes frame = sealed_frame({.kind = FrameHeader::Kind::kPart, .tag = 9, .total = 3}, Bytes(3));
  frame.back() ^= std::byte(1);
  ASSERT_EQ(FakeWorld::plugin().send(raw, 1, 0, frame.data(), frame.size(), nullptr, 1),
            NDT_COMM_OK);
  std::vector<Transport::Done> done;
  Bytes into(3);
  rank->receive(0, 9, into);
  rank->poll(done, 20s);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status.code(), Code::kCorrupt);
  EXPECT_THAT(done[0].status.message(), AllOf(HasSubstr("rank 0"), HasSubstr("message 9")));
  FakeWorld::plugin().abandon(raw);
}

TEST_F(PluginTransportTest, RanksThatLeaveTogetherEndTheLibraryInGoodOrder) {
  ranks_.clear();
  const FakeWorld world(2);
  ranks_ = plugin_transports(world, 2, {.farewell = 20s});
  std::thread other([&] { ranks_[1].reset(); });
  ranks_[0].reset();
  other.join();
  EXPECT_EQ(world.closed(), 2);
  EXPECT_EQ(world.abandoned(), 0);
}

TEST_F(PluginTransportTest, WhatIsUnderWayIsTakenBeforeItIsCancelled) {
  const auto send = ranks_[0]->send(1, 9, sent_);
  std::thread canceller([&] { ranks_[0]->cancel(); });
  const Status received = end_of(1, ranks_[1]->receive(0, 9, got_), /*others_too=*/false);
  canceller.join();
  EXPECT_TRUE(received.ok());
  EXPECT_EQ(end_of(0, send).code(), Code::kCancelled);
}

TEST_F(PluginTransportTest, ALongMessageOfAnEarlierGenerationIsTakenAndDropped) {
  const int both[] = {0, 1};
  const auto old = ranks_[0]->send(1, 9, sent_);
  std::atomic<bool> begun = false;
  std::thread behind([&] {
    ranks_[0]->begin_generation(1, both);
    begun = true;
  });
  ranks_[1]->begin_generation(1, both);
  Bytes fresh(2), into(2);
  const auto receive = ranks_[1]->receive(0, 9, into);
  std::vector<Transport::Done> done;
  while (!begun) ranks_[1]->poll(done, 1ms);
  behind.join();
  EXPECT_TRUE(done.empty());
  EXPECT_EQ(end_of(0, old).code(), Code::kCancelled);
  ranks_[0]->send(1, 9, fresh);
  EXPECT_TRUE(end_of(1, receive).ok());
}

class SilentRank : public PluginTransportTest {
 protected:
  SilentRank() : PluginTransportTest({.silence = 200ms, .farewell = 20ms}) {}
};

TEST_F(SilentRank, IsLost) {
  const Status s = end_of(0, ranks_[0]->receive(1, 9, got_), /*others_too=*/false);
  EXPECT_EQ(s.code(), Code::kCancelled);
  EXPECT_THAT(s.message(), AllOf(HasSubstr("rank 1"), HasSubstr("silent for 200 ms")));
}

TEST_F(SilentRank, InTheMiddleOfAMessageIsTheEndOfTheLibrary) {
  const Status s = end_of(0, ranks_[0]->send(1, 9, sent_), /*others_too=*/false);
  EXPECT_EQ(s.code(), Code::kCancelled);
  EXPECT_THAT(s.message(), HasSubstr("silent for 200 ms"));
  EXPECT_EQ(world_.abandoned(), 1) << "its memory is nobody's any more";
}

TEST_F(SilentRank, IsOneThatNothingWasToBeSaidToNeither) {
  Bytes into(1);
  const auto receive = ranks_[0]->receive(1, 9, into);
  const auto until = std::chrono::steady_clock::now() + 600ms;
  while (std::chrono::steady_clock::now() < until) {
    std::vector<Transport::Done> done;
    for (auto& rank : ranks_) rank->poll(done, 1ms);
    ASSERT_TRUE(done.empty()) << "both say that they are alive";
  }
  ranks_[1]->send(0, 9, Bytes(1));
  EXPECT_TRUE(end_of(0, receive).ok());
}

TEST(PluginTransport, NeedsMemoryOfTheHostAndTags) {
  const FakeWorld world(3);
  ndt_comm_plugin of_a_device = FakeWorld::plugin(), in_order = FakeWorld::plugin();
  of_a_device.device_memory = 1;
  in_order.tags = 0;
  EXPECT_THROW(plugin_transport(of_a_device, world.join(0)), Error);
  EXPECT_THROW(plugin_transport(in_order, world.join(1)), Error);
  EXPECT_EQ(world.abandoned(), 2);
}

TEST(PluginTransport, CollectivesOfALibraryThatHasNoneAreRefused) {
  const FakeWorld world(2);
  run_ranks(plugin_transports(world, 2, {}), {}, [](Communicator& comm) {
    EXPECT_FALSE(comm.has_collectives());
    std::vector<float> data(4);
    CommOp op{.kind = CommOp::Kind::kAllReduce, .group = first_ranks(2), .name = "AR 3"};
    op.data = data;
    op.native = true;
    const auto why = [&] {
      try {
        comm.enqueue(op);
      } catch (const Error& e) {
        return std::string(e.what());
      }
      return std::string();
    };
    EXPECT_THAT(why(), AllOf(HasSubstr("'AR 3'"), HasSubstr("no library of collectives")));
    op.wire = DType::kBF16;
    EXPECT_THAT(why(), AllOf(HasSubstr("'AR 3'"), HasSubstr("in f32")));
  });
}

TEST(PluginTransport, SumsAreThoseOfTheTree) {
  for (const int ranks : {2, 3, 5}) {
    const Leaves leaves = random_leaves(ranks, 50'000, 3);
    const std::vector<float> sum = tree_sum(leaves, 0, ranks);
    Leaves values = leaves;
    const FakeWorld world(ranks);
    run_ranks(plugin_transports(world, ranks, {.silence = 60s, .farewell = 60s}), {},
              [&](Communicator& comm) {
                carry_out(comm, {.kind = CommOp::Kind::kAllReduce,
                                 .group = first_ranks(ranks),
                                 .name = "AR",
                                 .data = values[static_cast<size_t>(comm.rank())]});
              });
    EXPECT_EQ(values, Leaves(static_cast<size_t>(ranks), sum));
    EXPECT_EQ(world.closed(), ranks);
  }
}

}  // namespace
}  // namespace ndtrain::comm_tests
