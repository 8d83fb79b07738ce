#include "tuner/jobs/store_cover.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "framework/core/rng.h"

namespace ndtrain::tuner {
namespace {

std::vector<Digest> photos(std::initializer_list<int> numbers) {
  std::vector<Digest> all;
  for (const int n : numbers) all.push_back(sha256(std::to_string(n)));
  return all;
}

using Names = std::vector<std::string>;

TEST(StoreCover, TakesTheStoresThatAddTheMost) {
  const auto a = photos({1, 2, 3}), b = photos({3, 4, 5, 6}), c = photos({1, 2, 6});
  const std::vector<HeldPhotos> held = {{"a", a}, {"b", b}, {"c", c}};
  const StoreCover cover = greedy_cover(held);
  EXPECT_EQ(cover.stores, (Names{"b", "a", "c"}));
  EXPECT_EQ(cover.enough, 2U);
  EXPECT_EQ(cover.distinct, 6);
}

TEST(StoreCover, NeedsAllWhereNoPhotoIsTwice) {
  const auto a = photos({1}), b = photos({2}), c = photos({3});
  const std::vector<HeldPhotos> held = {{"c", c}, {"a", a}, {"b", b}};
  const StoreCover cover = greedy_cover(held);
  EXPECT_EQ(cover.enough, 3U);
  EXPECT_EQ(cover.stores, (Names{"a", "b", "c"})) << "of as many the first by name";
}

TEST(StoreCover, NeedsAStoreOfWhichTooLittleIsKnown) {
  const auto a = photos({1, 2}), b = photos({1, 2});
  const std::vector<HeldPhotos> held = {{"a", a}, {"b", b, false}, {"new", {}, false}};
  const StoreCover cover = greedy_cover(held);
  EXPECT_EQ(cover.stores, (Names{"b", "new", "a"}));
  EXPECT_EQ(cover.enough, 2U) << "a has nothing that b has not";
  EXPECT_EQ(cover.distinct, 0) << "not known";
  EXPECT_EQ(greedy_cover({}).enough, 0U);
}

TEST(StoreCover, TakesAllStoresForNeededWhereThereAreTooManyPhotosToCompare) {
  std::vector<Digest> most(kMostCompared / 2);
  for (size_t i = 0; i < most.size(); ++i) std::memcpy(most[i].data(), &i, sizeof i);
  EXPECT_EQ(greedy_cover(std::vector<HeldPhotos>{{"a", most}, {"b", most}}).enough, 1U);
  std::vector<Digest> one_more = most;
  one_more.push_back(sha256("one more"));
  const StoreCover cover = greedy_cover(std::vector<HeldPhotos>{{"b", one_more}, {"a", most}});
  EXPECT_EQ(cover.enough, 2U);
  EXPECT_EQ(cover.stores, (Names{"a", "b"}));
}

TEST(StoreCover, HasAllPhotosHoweverTheyLie) {
  const Rng rng(7, "cover");
  for (uint64_t round = 0; round < 50; ++round) {
    std::vector<std::vector<Digest>> of_store(6);
    std::set<Digest> all;
    for (uint64_t n = 0; n < 40; ++n) {
      for (size_t s = 0; s < of_store.size(); ++s) {
        if (rng.uniform((round * 40 + n) * 6 + s) > 0.3) continue;
        of_store[s].push_back(sha256(std::to_string(n)));
        all.insert(of_store[s].back());
      }
    }
    std::vector<HeldPhotos> held;
    for (size_t s = 0; s < of_store.size(); ++s) held.push_back({std::to_string(s), of_store[s]});
    const StoreCover cover = greedy_cover(held);
    std::set<Digest> covered;
    for (size_t i = 0; i < cover.enough; ++i) {
      const size_t before = covered.size();
      const auto& mine = of_store[std::stoul(cover.stores[i])];
      covered.insert(mine.begin(), mine.end());
      EXPECT_GT(covered.size(), before) << "store " << cover.stores[i] << " of round " << round;
    }
    EXPECT_EQ(covered, all) << "round " << round;
  }
}

}  // namespace
}  // namespace ndtrain::tuner
