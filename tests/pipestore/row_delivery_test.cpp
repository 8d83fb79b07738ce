#include "ndp/pipestore/row_delivery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;

using Strings = std::vector<std::string>;

constexpr size_t kRow = 4;

wire::Wanted wanted(uint32_t run, std::vector<uint64_t> numbers, std::vector<uint64_t> places) {
  wire::Wanted w;
  w.set_job(1);
  w.set_run(run);
  w.set_numbers(pack_numbers(numbers));
  w.set_places(pack_numbers(places));
  return w;
}

RowDelivery work(uint64_t window = 1000, size_t row = kRow) { return {1, 100, {row}, window}; }

wire::Ack ack(uint64_t chunk) {
  wire::Ack a;
  a.set_job(1);
  a.set_chunk(chunk);
  return a;
}

TEST(RowDelivery, ValidationComesFirstThenRunByRunInTheManifestsOrder) {
  RowDelivery w = work();
  ASSERT_TRUE(w.wanted(wanted(2, {1, 5}, {0, 1})).ok());
  ASSERT_TRUE(w.wanted(wanted(0, {3, 4, 9}, {2, 3, 4})).ok());
  ASSERT_TRUE(w.wanted(wanted(2, {2}, {7})).ok());
  const auto first = w.next(2), second = w.next(2), third = w.next(10);
  EXPECT_EQ(first->run, 0u);
  EXPECT_THAT(first->photos, ElementsAre(RowDelivery::Photo{3, 2}, RowDelivery::Photo{4, 3}));
  EXPECT_THAT(second->photos, ElementsAre(RowDelivery::Photo{9, 4}));
  EXPECT_EQ(third->run, 2u);
  EXPECT_EQ(third->photos.size(), 3u);
  EXPECT_EQ(third->photos[1].number, 2u);
  EXPECT_FALSE(w.next(2));
  EXPECT_FALSE(w.idle());
}

TEST(RowDelivery, TheWindowBoundsWhatIsNotAcknowledged) {
  RowDelivery w = work(3 * kRow);
  ASSERT_TRUE(w.wanted(wanted(0, {0, 1, 2, 3, 4}, {0, 1, 2, 3, 4})).ok());
  const auto two = w.next(2), one = w.next(2);
  EXPECT_EQ(one->photos.size(), 1u);
  EXPECT_FALSE(w.next(1));
  (void)w.done(*two, Strings{"aaaa", "bbbb"}, {});
  EXPECT_FALSE(w.next(1)) << "sent, not acknowledged";
  w.acknowledged(ack(99));
  EXPECT_FALSE(w.next(1)) << "an unknown chunk";
  w.acknowledged(ack(1));
  w.acknowledged(ack(1));
  EXPECT_EQ(w.unacknowledged_bytes(), kRow);
  EXPECT_EQ(w.next(5)->photos.size(), 2u);
}

TEST(RowDelivery, ABatchThatIsLargerThanTheWindowGoesAlone) {
  RowDelivery w = work(kRow);
  ASSERT_TRUE(w.wanted(wanted(0, {0, 1, 2}, {0, 1, 2})).ok());
  EXPECT_EQ(w.next(2)->photos.size(), 2u);
  EXPECT_FALSE(w.next(1));
}

TEST(RowDelivery, RowsAreCutIntoChunks) {
  const size_t row = RowDelivery::kChunkBytes / 3;
  RowDelivery w = work(row * 100, row);
  ASSERT_TRUE(w.wanted(wanted(1, {4, 6, 8, 10}, {0, 1, 2, 3})).ok());
  const auto batch = w.next(10);
  const auto sent = w.done(*batch,
                           Strings{std::string(row, 'a'), std::string(row, 'b'),
                                   std::string(row, 'b'), std::string(row, 'b')},
                           {});
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].rows().rows().size(), 3 * row);
  EXPECT_EQ(sent[1].rows().rows(), std::string(row, 'b'));
  EXPECT_THAT(unpack_numbers(sent[0].rows().numbers(), 100, 100).or_throw(),
              ElementsAre(4u, 6u, 8u));
  EXPECT_EQ(sent[2].run_done().photos(), 4u);
}

TEST(RowDelivery, ARowThatFitsNoMessageTravelsInPieces) {
  for (const size_t size : {kWholeRow - 1, kWholeRow, kWholeRow + 1}) {
    RowDelivery w(1, 100, {.bytes = size, .varies = true}, kWindow);
    ASSERT_TRUE(w.wanted(wanted(1, {4, 6, 8}, {0, 1, 2})).ok());
    std::vector<wire::FromStore> sent;
    std::string large(size, 'l');
    large.back() = 'L';
    while (const auto batch = w.next(1)) {
      const bool is_large = batch->photos[0].number == 6;
      for (auto& m : w.done(*batch, Strings{is_large ? large : "small"}, {})) sent.push_back(m);
      for (const auto& m : sent) w.acknowledged(ack(m.rows().chunk()));
    }
    EXPECT_TRUE(w.idle());
    EXPECT_EQ(w.unacknowledged_bytes(), 0U);
    const size_t pieces = size > kWholeRow ? (size + kRowPiece - 1) / kRowPiece : 1;
    ASSERT_EQ(sent.size(), pieces + 3);
    EXPECT_EQ(sent.back().run_done().photos(), 3U);
    std::string whole;
    for (size_t i = 1; i <= pieces; ++i) {
      const wire::Rows& piece = sent[i].rows();
      EXPECT_LT(sent[i].ByteSizeLong(), static_cast<size_t>(limits::kMessage));
      EXPECT_THAT(unpack_numbers(piece.numbers(), 100, 1).or_throw(), ElementsAre(6U));
      EXPECT_THAT(piece.lengths(), ElementsAre(size));
      EXPECT_EQ(piece.chunk(), i + 1);
      whole += piece.rows();
    }
    EXPECT_TRUE(whole == large) << size;
  }
}

// A batch of them would be more than the machine has memory for.
TEST(RowDelivery, RowsOfDifferentSizesThatFillTheWindowAreTakenUpOneByOne) {
  RowDelivery w(1, 100, {.bytes = 900, .varies = true}, 1000);
  ASSERT_TRUE(w.wanted(wanted(0, {0, 1, 2}, {0, 1, 2})).ok());
  EXPECT_EQ(w.next(32)->photos.size(), 1U);
  EXPECT_FALSE(w.next(32));
}

TEST(RowDelivery, APhotoThatCannotBeReadKeepsItsPlace) {
  RowDelivery w = work();
  ASSERT_TRUE(w.wanted(wanted(1, {4, 6, 8}, {0, 1, 2})).ok());
  const auto batch = w.next(10);
  const auto sent = w.done(*batch, Strings{"aaaa", "cccc"}, {{6, "x.jpg", "cut short"}});
  ASSERT_EQ(sent.size(), 2u);
  const wire::Rows& f = sent[0].rows();
  EXPECT_THAT(unpack_numbers(f.numbers(), 100, 100).or_throw(), ElementsAre(4u, 6u, 8u));
  EXPECT_EQ(f.rows(), "aaaacccc");
  EXPECT_EQ(f.unreadable(0).number(), 6u);
  EXPECT_EQ(sent[1].run_done().unreadable(), 1u);
  EXPECT_THROW(w.done(*batch, Strings{"aaaa"}, {}), Error);
}

TEST(RowDelivery, ARunIsDoneAgainWhenMoreOfItIsWanted) {
  RowDelivery w = work();
  ASSERT_TRUE(w.wanted(wanted(1, {1}, {0})).ok());
  EXPECT_EQ(w.done(*w.next(5), Strings{"aaaa"}, {}).back().run_done().photos(), 1u);
  ASSERT_TRUE(w.wanted(wanted(1, {7}, {5})).ok());
  EXPECT_EQ(w.done(*w.next(5), Strings{"aaaa"}, {}).back().run_done().photos(), 2u);
  w.acknowledged(ack(1));
  EXPECT_FALSE(w.idle());
  w.acknowledged(ack(2));
  EXPECT_TRUE(w.idle());
}

TEST(RowDelivery, RowsOfDifferentSizesSayHowLongTheyAre) {
  RowDelivery w(1, 100, {.bytes = 100, .varies = true}, 1000);
  ASSERT_TRUE(w.wanted(wanted(0, {0, 1, 2}, {0, 1, 2})).ok());
  const auto batch = w.next(3);
  EXPECT_EQ(w.unacknowledged_bytes(), 300u) << "a guess";
  const auto sent = w.done(*batch, Strings{"a", "bbb"}, {{1, "x.jpg", "cut short"}});
  EXPECT_THAT(sent[0].rows().lengths(), ElementsAre(1u, 3u));
  EXPECT_EQ(sent[0].rows().rows(), "abbb");
  EXPECT_EQ(w.unacknowledged_bytes(), 4u);
  w.acknowledged(ack(1));
  EXPECT_EQ(w.unacknowledged_bytes(), 0u);
}

TEST(RowDelivery, MessagesThatContradictThemselvesAreRefused) {
  RowDelivery w = work();
  EXPECT_EQ(w.wanted(wanted(0, {1, 2}, {0})).code(), Code::kCorrupt);
  EXPECT_EQ(w.wanted(wanted(0, {1}, {100})).code(), Code::kCorrupt);
  wire::Wanted m = wanted(0, {1}, {1});
  m.set_numbers("\x80");
  EXPECT_EQ(w.wanted(m).code(), Code::kCorrupt);
  EXPECT_TRUE(w.idle());
}

TEST(RowDelivery, RowsOfViewsAreSoManyTimesAsLargeButForValidation) {
  RowDelivery w(1, 100, {.bytes = kRow, .views = 3}, 8 * kRow);
  ASSERT_TRUE(w.wanted(wanted(0, {0, 1}, {0, 1})).ok());
  ASSERT_TRUE(w.wanted(wanted(1, {2, 3, 4}, {2, 3, 4})).ok());
  const RowDelivery::Batch validation = w.next(10).value();
  EXPECT_EQ(validation.photos.size(), 2U);
  const RowDelivery::Batch train = w.next(10).value();
  EXPECT_EQ(train.photos.size(), 2U) << "the window has room for no third one";
  EXPECT_EQ(w.unacknowledged_bytes(), 8 * kRow);
  EXPECT_EQ(w.done(validation, Strings{"abcd", "efgh"}, {})[0].rows().rows(), "abcdefgh");
  EXPECT_THROW(w.done(train, Strings(2, std::string(kRow, 'x')), {}), Error) << "one view alone";
  EXPECT_EQ(w.done(train, Strings(2, std::string(3 * kRow, 'x')), {})[0].rows().rows().size(),
            6 * kRow);
}

TEST(RowDelivery, ABatchHasSoManyViewsAtMostOrOnePhoto) {
  RowDelivery w(1, 100, {.bytes = kRow, .views = 3}, 1 << 20);
  ASSERT_TRUE(w.wanted(wanted(1, {0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 5})).ok());
  EXPECT_EQ(w.next(7)->photos.size(), 2U);
  EXPECT_EQ(w.next(2)->photos.size(), 1U);
}

}  // namespace
}  // namespace ndtrain::ndp
