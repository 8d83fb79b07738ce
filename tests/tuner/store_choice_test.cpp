#include "tuner/jobs/store_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace ndtrain::tuner {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr seconds kTimeout{30};

StoreStatus ready(const std::string& name) {
  return {.name = name, .photos = 100, .here = true, .ready = true};
}
StoreStatus listing(const std::string& name) { return {.name = name, .photos = 100, .here = true}; }
StoreStatus away(const std::string& name, int s) {
  return {.name = name, .photos = 97, .away = seconds(s)};
}
StoreStatus drained(const std::string& name, int s) {
  return {.name = name, .photos = 3, .here = true, .drained = true, .away = seconds(s)};
}
StoreSelection named(std::vector<std::string> names) {
  StoreSelection meant;
  meant.names = std::move(names);
  return meant;
}

std::vector<std::string> names(const std::vector<UnavailableStore>& stores) {
  std::vector<std::string> all;
  for (const UnavailableStore& s : stores) all.push_back(s.name);
  return all;
}

TEST(StoreChoice, AllThatAreKnownAreWaitedForUntilTheyHaveBeenAwayForTooLong) {
  const std::vector<StoreStatus> young = {ready("a"), listing("b"), away("c", 29)};
  StoreChoice c = choose_stores({}, young, kTimeout);
  EXPECT_TRUE(c.waits());
  EXPECT_THAT(names(c.waits_for), ElementsAre("b", "c"));
  EXPECT_EQ(c.text(), "b (100 photos, lists its photos), c (97 photos, away for 29 s)");
  const std::vector<StoreStatus> old = {ready("a"), ready("b"), away("c", 30)};
  c = choose_stores({}, old, kTimeout);
  EXPECT_FALSE(c.waits());
  EXPECT_THAT(c.take, ElementsAre("a", "b"));
  ASSERT_THAT(names(c.left_out), ElementsAre("c"));
  EXPECT_EQ(c.left_out[0].photos, 97U);
  EXPECT_EQ(c.left_out[0].why, "away for 30 s");
  EXPECT_FALSE(choose_stores({}, std::vector{ready("a"), away("c", 0)}, seconds(0)).waits());
}

TEST(StoreChoice, OneThatListsItsPhotosIsWaitedForAsLongAsItTakes) {
  EXPECT_TRUE(choose_stores({}, std::vector{ready("a"), listing("b")}, seconds(0)).waits());
}

TEST(StoreChoice, OfAllADrainedOneIsNotWaitedForButNamed) {
  const StoreChoice c = choose_stores({}, std::vector{drained("c", 0), ready("a")}, kTimeout);
  EXPECT_FALSE(c.waits());
  EXPECT_THAT(c.take, ElementsAre("a"));
  EXPECT_EQ(text_of(c.left_out), "c (3 photos, drained)");
  const std::vector<StoreStatus> known = {listing("a"), drained("c", 0)};
  EXPECT_EQ(choose_stores({}, known, kTimeout).text(), "a (100 photos, lists its photos)");
}

TEST(StoreChoice, WithoutAnyStoreTheJobWaitsAndSaysWhyNoneIsThere) {
  StoreChoice c = choose_stores({}, {}, kTimeout);
  EXPECT_TRUE(c.waits());
  EXPECT_EQ(c.text(), "a store: none is known yet");
  c = choose_stores({}, std::vector{away("a", 600), drained("b", 600)}, kTimeout);
  EXPECT_TRUE(c.waits());
  EXPECT_EQ(c.text(),
            "a store: none is here of a (97 photos, away for 10 min), b (3 photos, drained); "
            "ndtrain store drain b --undo gives it work again");
}

TEST(StoreChoice, ANumberTakesTheFirstByNameOfThoseThatAreHereWhoeverAnswersFirst) {
  std::vector<StoreStatus> known = {ready("c"), listing("a"), ready("b")};
  StoreChoice c = choose_stores(2, known, kTimeout);
  EXPECT_THAT(names(c.waits_for), ElementsAre("a"));
  known[1].ready = true;
  c = choose_stores(2, known, kTimeout);
  EXPECT_FALSE(c.waits());
  EXPECT_THAT(c.take, ElementsAre("a", "b"));
  EXPECT_EQ(text_of(c.left_out), "c (100 photos, not among the 2 that the job is for)");
}

TEST(StoreChoice, ANumberThatIsNotReachedWaitsForDrainedOnesTooAndSaysHowToEndThat) {
  const std::vector<StoreStatus> known = {ready("a"), ready("b"), drained("c", 10)};
  StoreChoice c = choose_stores(3, known, kTimeout);
  EXPECT_TRUE(c.waits());
  EXPECT_EQ(c.text(), "c (3 photos, drained); ndtrain store drain c --undo gives it work again");
  const std::vector<StoreStatus> later = {ready("a"), ready("b"), drained("c", 30)};
  c = choose_stores(3, later, kTimeout);
  EXPECT_FALSE(c.waits());
  EXPECT_THAT(c.take, ElementsAre("a", "b"));
  EXPECT_THAT(names(c.left_out), ElementsAre("c"));
}

TEST(StoreChoice, ANumberBeyondThoseThatAreKnownWaitsAsLongAsItTakes) {
  const StoreChoice c = choose_stores(3, std::vector{ready("a"), away("b", 4000)}, kTimeout);
  EXPECT_TRUE(c.waits());
  EXPECT_EQ(c.text(), "b (97 photos, away for 66 min) and 1 store that has not dialled yet");
  EXPECT_THAT(c.left_out, IsEmpty()) << "it may be the one that is lacking";
}

TEST(StoreChoice, OfNamedOnesNobodyElseIsWaitedForOrLeftOut) {
  const std::vector<StoreStatus> known = {ready("a"), away("b", 5), ready("c"), away("d", 1)};
  StoreChoice c = choose_stores(named({"a", "b"}), known, kTimeout);
  EXPECT_THAT(names(c.waits_for), ElementsAre("b"));
  const std::vector<StoreStatus> later = {ready("a"), away("b", 31), ready("c"), away("d", 27)};
  c = choose_stores(named({"a", "b", "gone"}), later, kTimeout);
  EXPECT_FALSE(c.waits());
  EXPECT_THAT(c.take, ElementsAre("a"));
  EXPECT_EQ(text_of(c.left_out),
            "b (97 photos, away for 31 s), gone (0 photos, not known to this Tuner)");
}

TEST(StoreChoice, WhoIsToldToBeginWaitsForNobodyButTheFirst) {
  const std::vector<StoreStatus> known = {ready("a"), listing("b"), away("c", 1)};
  for (const StoreSelection& meant : {StoreSelection(), StoreSelection(5), named({"a", "c"})}) {
    const StoreChoice c = choose_stores(meant, known, kTimeout, true);
    EXPECT_FALSE(c.waits()) << meant.text();
    EXPECT_THAT(c.take, ElementsAre("a"));
  }
  EXPECT_TRUE(choose_stores({}, std::vector{listing("b")}, kTimeout, true).waits());
}

TEST(StoreChoice, AtTheEndThoseAreNamedThatDidNotTakePartAndWhy) {
  const std::vector<std::string> took = {"a"};
  const std::vector<StoreStatus> known = {listing("a"), listing("b"), away("c", 99),
                                          drained("d", 1)};
  EXPECT_EQ(text_of(left_out({}, known, took)),
            "b (100 photos, came after the job had begun), c (97 photos, away for 99 s), d (3 "
            "photos, drained)");
  EXPECT_EQ(left_out(1, known, took)[0].why, "not among the 1 that the job is for");
  EXPECT_THAT(left_out(named({"a"}), known, took), IsEmpty());
}

TEST(StoreChoice, ManyStoresMakeALineThatCanBeRead) {
  std::vector<StoreStatus> known;
  for (int i = 0; i < 300; ++i) known.push_back(away("store" + std::to_string(i), 1));
  EXPECT_THAT(choose_stores({}, known, kTimeout).text(), HasSubstr(" and 280 more"));
}

}  // namespace
}  // namespace ndtrain::tuner
