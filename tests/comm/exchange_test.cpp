// How the pieces of an operation follow each other, with the other rank played by hand.
#include "framework/comm/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <optional>

#include "framework/comm/memory_transport.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using Values = std::vector<float>;

// Rank 0 of two, whose part has so many pieces of two values; rank 1 by hand.
class ExchangeOfPieces : public ::testing::Test {
 protected:
  static constexpr size_t kPiece = 2;
  static constexpr uint64_t kTag = 32;

  void begin(CommOp::Kind kind, size_t pieces) {
    data.assign(2 * pieces * kPiece, 1);
    CommOp op{.kind = kind, .group = {0, 1}, .name = "op", .data = data};
    exchange.emplace(checked(op, 0), std::vector<uint64_t>(2, kTag), kPiece, *ranks[0], buffers);
    exchange->begin();
  }

  static uint64_t tag(size_t piece, bool gathers) {
    return kTag + (gathers ? 1 : 0) + (uint64_t{piece} << ExchangePiece::kTagBits);
  }

  void send(size_t piece, bool gathers, const Values& values) {
    ranks[1]->send(0, tag(piece, gathers), std::as_bytes(std::span(values)));
    std::vector<Transport::Done> done;
    ranks[0]->poll(done, 0ns);
    for (const Transport::Done& d : done) {
      EXPECT_TRUE(d.status.ok());
      exchange->ended(d.request);
    }
  }

  // What rank 0 has sent of it; nothing when it has not.
  Values sent(size_t piece, bool gathers) {
    Values& values = received.emplace_back(kPiece);
    const auto request =
        ranks[1]->receive(0, tag(piece, gathers), std::as_writable_bytes(std::span(values)));
    std::vector<Transport::Done> done;
    ranks[1]->poll(done, 0ns);
    const bool came = std::ranges::count(done, request, &Transport::Done::request) > 0;
    return came ? values : Values();
  }

  std::vector<std::unique_ptr<Transport>> ranks = memory_transports(2);
  BufferPool buffers{1000};
  Values data;
  std::list<Values> received;  // or awaited
  std::optional<Exchange> exchange;
};

TEST_F(ExchangeOfPieces, APieceIsAddedUpAndGatheredWhileOthersAreAwaited) {
  begin(CommOp::Kind::kAllReduce, 2);
  EXPECT_THAT(sent(0, false), ElementsAre(1, 1));
  EXPECT_THAT(sent(1, false), ElementsAre(1, 1));
  send(1, false, {20, 30});
  EXPECT_THAT(sent(1, true), ElementsAre(21, 31));
  send(1, true, {5, 6});
  EXPECT_FALSE(exchange->finished());
  EXPECT_THAT(exchange->lacking(), ElementsAre(1));
  EXPECT_THAT(data, ElementsAre(1, 1, 21, 31, 1, 1, 5, 6));
  send(0, false, {2, 3});
  EXPECT_THAT(sent(0, true), ElementsAre(3, 4));
  send(0, true, {7, 8});
  EXPECT_TRUE(exchange->finished());
  EXPECT_THAT(exchange->lacking(), ElementsAre());
  EXPECT_THAT(data, ElementsAre(3, 4, 21, 31, 7, 8, 5, 6));
}

TEST_F(ExchangeOfPieces, FourAreUnderWayAtOnceAndTheirBuffersAreUsedAgain) {
  begin(CommOp::Kind::kReduceScatter, 6);
  for (size_t piece = 0; piece < 4; ++piece) EXPECT_THAT(sent(piece, false), ElementsAre(1, 1));
  EXPECT_THAT(sent(4, false), ElementsAre());
  send(2, false, {1, 1});
  EXPECT_THAT(sent(5, false), ElementsAre());  // the fifth has begun, and only that
  for (const size_t piece : {0, 1, 3, 4, 5}) {
    EXPECT_FALSE(exchange->finished());
    send(piece, false, {1, 1});
  }
  EXPECT_TRUE(exchange->finished());
  EXPECT_EQ(buffers.kept(), 4 * kPiece * sizeof(float));
}

}  // namespace
}  // namespace ndtrain::comm_tests
