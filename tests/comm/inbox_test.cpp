// What a peer may send, and what ends the connection with it.
#include "framework/comm/inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace ndtrain::comm_tests {
namespace {

using support::bytes_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InboxTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kAhead = 20;

  Status part(uint64_t tag, std::string_view body, uint64_t total, uint64_t offset,
              uint32_t generation = 0) {
    return inbox.part({.kind = FrameHeader::Kind::kPart,
                       .generation = generation,
                       .length = static_cast<uint32_t>(body.size()),
                       .tag = tag,
                       .total = total,
                       .offset = offset},
                      bytes_of(body), done);
  }
  Status message(uint64_t tag, std::string_view body, uint32_t generation = 0) {
    return part(tag, body, body.size(), 0, generation);
  }
  Status receive(Transport::Request request, uint64_t tag, std::string& into) {
    return inbox.receive(request, tag, std::as_writable_bytes(std::span(into)), done);
  }
  // Requests that ended well since the last call.
  std::vector<Transport::Request> finished() {
    std::vector<Transport::Request> requests;
    for (const auto& d : done) {
      EXPECT_TRUE(d.status.ok()) << d.status.message();
      requests.push_back(d.request);
    }
    done.clear();
    return requests;
  }

  Inbox inbox{kAhead};
  Inbox::Done done;
};

TEST_F(InboxTest, PartsBecomeTheMessageThatWasAwaited) {
  std::string a = "......", b = "..";
  EXPECT_TRUE(receive(1, 7, a).ok());
  EXPECT_TRUE(part(7, "abc", 6, 0).ok());
  EXPECT_EQ(inbox.unfinished(), 7u);
  EXPECT_TRUE(receive(2, 7, b).ok());  // behind the first
  EXPECT_TRUE(part(7, "def", 6, 3).ok());
  EXPECT_THAT(finished(), ElementsAre(1));
  EXPECT_EQ(inbox.unfinished(), std::nullopt);
  EXPECT_TRUE(message(7, "gh").ok());
  EXPECT_THAT(finished(), ElementsAre(2));
  EXPECT_EQ(a + b, "abcdefgh");
}

TEST_F(InboxTest, WhatComesFirstWaits) {
  std::string a = "...", b = "..", c = "....";
  EXPECT_TRUE(message(1, "abc").ok());
  EXPECT_TRUE(message(2, "").ok());
  EXPECT_TRUE(message(1, "de").ok());
  EXPECT_TRUE(part(3, "fg", 4, 0).ok());
  EXPECT_TRUE(receive(10, 1, a).ok());
  EXPECT_TRUE(receive(11, 1, b).ok());
  EXPECT_TRUE(receive(12, 3, c).ok());  // of which a part has come
  EXPECT_THAT(finished(), ElementsAre(10, 11));
  EXPECT_TRUE(part(3, "hi", 4, 2).ok());
  EXPECT_THAT(finished(), ElementsAre(12));
  EXPECT_EQ(a + b + c, "abcdefghi");
}

TEST_F(InboxTest, NobodyMayBeTooFarAhead) {
  std::string ten(10, '.');
  EXPECT_TRUE(message(1, "0123456789").ok());
  EXPECT_TRUE(message(1, "0123456789").ok());
  EXPECT_TRUE(receive(1, 1, ten).ok());
  EXPECT_TRUE(message(2, "012345678").ok());
  EXPECT_TRUE(message(2, "9").ok());
  EXPECT_EQ(message(2, "!").code(), Code::kTooLarge);
  Inbox other(kAhead);
  EXPECT_EQ(
      other.part({.length = 1, .tag = 5, .total = uint64_t{1} << 62}, bytes_of("x"), done).code(),
      Code::kTooLarge);
}

TEST_F(InboxTest, AnotherLengthThanAwaitedIsCorrupt) {
  std::string three = "...", four = "....";
  EXPECT_TRUE(receive(1, 7, three).ok());
  const Status late = message(7, "abcd");
  EXPECT_EQ(late.code(), Code::kCorrupt);
  EXPECT_THAT(late.message(), HasSubstr("message 7 has 4 bytes, not 3"));
  Inbox other(kAhead);
  EXPECT_TRUE(other.part({.length = 3, .tag = 8, .total = 3}, bytes_of("abc"), done).ok());
  const Status early = other.receive(2, 8, std::as_writable_bytes(std::span(four)), done);
  EXPECT_EQ(early.message(), "message 8 has 3 bytes, not 4");
  EXPECT_TRUE(done.empty());  // both end with the connection
  inbox.end(late, done);
  other.end(early, done);
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[1].request, 2u);
}

TEST_F(InboxTest, PartsOutOfOrderAreCorrupt) {
  const auto refuses = [&](uint64_t tag, std::string_view body, uint64_t total, uint64_t offset,
                           uint32_t generation) {
    Inbox fresh(kAhead);
    EXPECT_TRUE(fresh.part({.length = 2, .tag = 7, .total = 9}, bytes_of("ab"), done).ok());
    const Status s = fresh.part({.generation = generation,
                                 .length = static_cast<uint32_t>(body.size()),
                                 .tag = tag,
                                 .total = total,
                                 .offset = offset},
                                bytes_of(body), done);
    return s.code() == Code::kCorrupt &&
           s.message().find("message " + std::to_string(tag)) != std::string::npos;
  };
  EXPECT_FALSE(refuses(7, "cd", 9, 2, 0));
  EXPECT_TRUE(refuses(7, "cd", 9, 3, 0));
  EXPECT_TRUE(refuses(7, "cd", 9, 1, 0));
  EXPECT_TRUE(refuses(7, "cd", 8, 2, 0));
  EXPECT_TRUE(refuses(8, "cd", 9, 2, 0));
  EXPECT_TRUE(refuses(7, "cd", 9, 2, 1));
  EXPECT_TRUE(refuses(7, "", 9, 2, 0));
  EXPECT_TRUE(refuses(7, "cdefghijk", 9, 2, 0));
  EXPECT_EQ(part(7, "cd", 9, 2).code(), Code::kCorrupt);  // without a beginning
  EXPECT_TRUE(done.empty());
}

TEST_F(InboxTest, AfterTheEndThereIsWhatHasCome) {
  std::string three = "...", none = "?", waiting = "?";
  EXPECT_TRUE(message(1, "abc").ok());
  EXPECT_TRUE(receive(1, 2, waiting).ok());
  inbox.end({Code::kIo, "hung up"}, done);
  EXPECT_TRUE(receive(2, 1, three).ok());
  EXPECT_TRUE(receive(3, 1, none).ok());
  ASSERT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].status.message(), "hung up");
  EXPECT_TRUE(done[1].status.ok());
  EXPECT_EQ(done[2].status.message(), "hung up");
  EXPECT_EQ(three, "abc");
}

TEST_F(InboxTest, GenerationsDoNotMix) {
  std::string old = "...", late = "...", next = "...";
  EXPECT_TRUE(message(1, "old").ok());
  EXPECT_TRUE(receive(1, 9, old).ok());
  EXPECT_TRUE(part(9, "o", 3, 0).ok());     // which the peer gives up
  EXPECT_TRUE(part(9, "n", 3, 0, 5).ok());  // and is ahead
  inbox.cancel(done);
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status.code(), Code::kCancelled);
  done.clear();
  EXPECT_TRUE(part(9, "ew", 3, 1, 5).ok());
  EXPECT_TRUE(message(1, "gone").ok());  // of this generation, dropped
  inbox.begin_generation(5);
  EXPECT_TRUE(message(1, "gone", 4).ok());
  EXPECT_TRUE(receive(2, 1, late).ok());
  EXPECT_TRUE(receive(3, 9, next).ok());
  EXPECT_THAT(finished(), ElementsAre(3));
  EXPECT_EQ(next, "new");
  EXPECT_TRUE(message(1, "now", 5).ok());
  EXPECT_THAT(finished(), ElementsAre(2));
  EXPECT_EQ(late, "now");
}

TEST_F(InboxTest, WhatIsDroppedIsNoLongerAhead) {
  for (uint32_t generation = 1; generation <= 10; ++generation) {
    EXPECT_TRUE(message(1, "0123456789", generation - 1).ok());
    EXPECT_TRUE(part(2, "01", 10, 0, generation).ok());
    inbox.cancel(done);
    inbox.begin_generation(generation);
    EXPECT_TRUE(part(2, "23456789", 10, 2, generation).ok());
    std::string ten(10, '.');
    EXPECT_TRUE(receive(generation, 2, ten).ok());
    EXPECT_EQ(ten, "0123456789");
  }
}

}  // namespace
}  // namespace ndtrain::comm_tests
