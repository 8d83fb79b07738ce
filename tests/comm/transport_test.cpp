// What every Transport promises.
#include "framework/comm/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <thread>

#include "tests/comm/transports.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class AnyTransport : public ::testing::TestWithParam<TransportKind> {
 protected:
  explicit AnyTransport(int ranks = 3) : ranks_(GetParam().make(ranks)) {}

  Transport& at(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  void destroy(int rank) { ranks_[static_cast<size_t>(rank)].reset(); }

  Transport::Request send(int from, int to, uint64_t tag, const std::string& text) {
    sent_.push_back(text);  // which must stay until it is done
    return at(from).send(to, tag, std::as_bytes(std::span(sent_.back())));
  }
  Transport::Request receive(int to, int from, uint64_t tag, std::string& text) {
    return at(to).receive(from, tag, std::as_writable_bytes(std::span(text)));
  }

  // How the request ended; kNotFound when it has not in a long time. All ranks get their turns, as
  // some move bytes only then.
  Status end_of(int rank, Transport::Request request) {
    for (int i = 0; i < 10'000 && !ended_.contains({rank, request}); ++i) {
      for (int r = 0; r < std::ssize(ranks_); ++r) {
        if (ranks_[static_cast<size_t>(r)]) take(r, r == rank ? 1ms : 0ms);
      }
    }
    const auto it = ended_.find({rank, request});
    return it == ended_.end() ? Status(Code::kNotFound, "it has not ended") : it->second;
  }
  bool has_ended(int rank, Transport::Request request) {
    take(rank, 0ms);
    return ended_.contains({rank, request});
  }

 private:
  void take(int rank, std::chrono::nanoseconds patience) {
    std::vector<Transport::Done> done;
    at(rank).poll(done, patience);
    for (const Transport::Done& d : done) {
      EXPECT_TRUE(ended_.try_emplace({rank, d.request}, d.status).second) << "ended twice";
    }
  }

  std::deque<std::string> sent_;
  Ranks ranks_;
  std::map<std::pair<int, Transport::Request>, Status> ended_;
};

TEST_P(AnyTransport, KnowsWhoItIsAndWhoThereIs) {
  for (int r = 0; r < 3; ++r) {
    EXPECT_EQ(at(r).rank(), r);
    EXPECT_EQ(at(r).ranks(), 3);
  }
  EXPECT_THAT(at(0).peer(2), HasSubstr("rank 2"));
  std::string text = "x";
  EXPECT_THROW(send(0, 0, 1, text), Error);
  EXPECT_THROW(send(0, 3, 1, text), Error);
  EXPECT_THROW(receive(0, -1, 1, text), Error);
}

TEST_P(AnyTransport, AMessageArrivesWholeWhicheverEndIsFirst) {
  const std::string sent(3'000'000, 's');
  for (const bool receiver_first : {false, true}) {
    std::string got(sent.size(), '?');
    Transport::Request r = 0, s = 0;
    if (receiver_first) r = receive(1, 0, 7, got);
    s = send(0, 1, 7, sent);
    if (!receiver_first) r = receive(1, 0, 7, got);
    EXPECT_TRUE(end_of(1, r).ok());
    EXPECT_TRUE(end_of(0, s).ok());
    EXPECT_TRUE(got == sent);
  }
}

TEST_P(AnyTransport, MessagesOfATagKeepTheirOrderAndTagsDoNotWaitForEachOther) {
  const std::string a = "a1", b = "b22", c = "a3";
  send(0, 1, 5, a);
  send(0, 1, 6, b);
  send(0, 1, 5, c);
  std::string to_b = "???", to_a = "??", to_c = "??";
  EXPECT_TRUE(end_of(1, receive(1, 0, 6, to_b)).ok());
  const auto first = receive(1, 0, 5, to_a), second = receive(1, 0, 5, to_c);
  EXPECT_TRUE(end_of(1, first).ok());
  EXPECT_TRUE(end_of(1, second).ok());
  EXPECT_EQ(to_a + to_b + to_c, "a1b22a3");
}

TEST_P(AnyTransport, PeersAndDirectionsAreApart) {
  const std::string up = "up", down = "dn", other = "ot";
  std::string at0 = "??", at1 = "??", at1_of2 = "??";
  const auto r1 = receive(1, 0, 1, at1), r2 = receive(1, 2, 1, at1_of2), r0 = receive(0, 1, 1, at0);
  send(2, 1, 1, other);
  send(1, 0, 1, up);
  send(0, 1, 1, down);
  EXPECT_TRUE(end_of(1, r1).ok() && end_of(1, r2).ok() && end_of(0, r0).ok());
  EXPECT_EQ(at0 + at1 + at1_of2, "updnot");
}

TEST_P(AnyTransport, AnEmptyMessageIsOne) {
  std::string nothing;
  const auto r = receive(1, 0, 1, nothing);
  EXPECT_FALSE(has_ended(1, r));
  EXPECT_TRUE(end_of(0, send(0, 1, 1, nothing)).ok());
  EXPECT_TRUE(end_of(1, r).ok());
}

TEST_P(AnyTransport, AnotherLengthEndsTheConnectionAndNamesPeerAndTag) {
  const std::string sent = "four";
  std::string got = "fives";
  send(0, 1, 77, sent);
  const Status s = end_of(1, receive(1, 0, 77, got));
  EXPECT_EQ(s.code(), Code::kCorrupt);
  EXPECT_THAT(s.message(), HasSubstr("rank 0"));
  EXPECT_THAT(s.message(), HasSubstr("message 77"));
  EXPECT_FALSE(end_of(1, receive(1, 0, 78, got)).ok());
  std::string whole = "????";
  send(2, 1, 1, sent);
  EXPECT_TRUE(end_of(1, receive(1, 2, 1, whole)).ok());
}

TEST_P(AnyTransport, WhoWaitsForARankThatLeavesIsTold) {
  std::string got = "?";
  const auto before = receive(1, 2, 1, got);
  destroy(2);
  EXPECT_EQ(end_of(1, before).code(), Code::kIo);
  const Status after = end_of(1, receive(1, 2, 2, got));
  EXPECT_EQ(after.code(), Code::kIo);
  EXPECT_THAT(after.message(), HasSubstr("rank 2"));
  EXPECT_FALSE(end_of(1, send(1, 2, 1, got)).ok());
}

TEST_P(AnyTransport, WakingEndsAWaitAndIsNotForgotten) {
  std::vector<Transport::Done> done;
  at(0).wake();
  at(0).poll(done, 1h);
  std::thread waker([&] {
    std::this_thread::sleep_for(10ms);
    at(0).wake();
  });
  at(0).poll(done, 1h);
  waker.join();
  EXPECT_TRUE(done.empty());
}

TEST_P(AnyTransport, AGenerationEndsWhatWasAskedBefore) {
  std::string old = "old", got = "???";
  const auto waiting = receive(1, 0, 1, got);
  const int both[] = {0, 1};
  at(1).begin_generation(1, both);
  EXPECT_EQ(end_of(1, waiting).code(), Code::kCancelled);

  // Rank 0 is behind: what it says in its old generation is heard by nobody.
  send(0, 1, 1, old);
  const std::string fresh = "new";
  const auto r = receive(1, 0, 1, got);
  at(0).begin_generation(1, both);
  send(0, 1, 1, fresh);
  EXPECT_TRUE(end_of(1, r).ok());
  EXPECT_EQ(got, "new");
}

TEST_P(AnyTransport, WhatAPeerSaysInALaterGenerationWaitsForIt) {
  const int both[] = {0, 1};
  const std::string early = "early";
  std::string got = "?????";
  at(0).begin_generation(4, both);
  send(0, 1, 1, early);
  const auto too_soon = receive(1, 0, 1, got);
  EXPECT_FALSE(has_ended(1, too_soon));
  at(1).begin_generation(4, both);
  EXPECT_EQ(end_of(1, too_soon).code(), Code::kCancelled);
  EXPECT_TRUE(end_of(1, receive(1, 0, 1, got)).ok());
  EXPECT_EQ(got, "early");
}

TEST_P(AnyTransport, WhoIsNotInAGenerationIsNoPeerAnyMore) {
  const int both[] = {0, 1};
  std::string got = "?";
  const auto waiting = receive(2, 0, 1, got);
  at(0).begin_generation(1, both);
  EXPECT_EQ(end_of(2, waiting).code(), Code::kIo);
  EXPECT_FALSE(end_of(0, receive(0, 2, 1, got)).ok());
  EXPECT_THROW(at(0).begin_generation(1, both), Error);
  EXPECT_THROW(at(2).begin_generation(1, both), Error);
}

INSTANTIATE_TEST_SUITE_P(, AnyTransport, ::testing::ValuesIn(transport_kinds()),
                         [](const auto& kind) { return kind.param.name; });

TEST(MemoryTransport, ASendIsDoneWhenItsReceiveIs) {
  const Ranks ranks = memory_transports(2);
  std::vector<std::byte> message(8), into(8);
  std::vector<Transport::Done> done;
  const auto sent = ranks[0]->send(1, 1, message);
  ranks[0]->poll(done, 0ms);
  EXPECT_TRUE(done.empty());
  ranks[1]->receive(0, 1, into);
  ranks[0]->poll(done, 0ms);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].request, sent);
}

TEST(MemoryTransport, ThereIsAtLeastOneRank) {
  EXPECT_THROW(memory_transports(0), Error);
  EXPECT_EQ(memory_transports(1)[0]->ranks(), 1);
}

}  // namespace
}  // namespace ndtrain::comm_tests
