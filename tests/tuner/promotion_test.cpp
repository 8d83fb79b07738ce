// What the rule of promotion says of answers.
#include "tuner/work/promotion.h"

#include <gmock/gmock.h>

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Digest promoted_photo(int i) { return sha256("photo " + std::to_string(i)); }

// One class for each letter, and one answer for each photo.
Answers answers(const std::string& letters) {
  Answers all;
  for (size_t i = 0; i < letters.size(); ++i) {
    all[promoted_photo(static_cast<int>(i))] = std::string(1, letters[i]);
  }
  return all;
}

const PublishedModel kInForce{.version = 7, .metrics = R"({"top1":0.5})"};

Promotion rule(const std::string& ours, const std::string& theirs, const std::string& truths) {
  return judge(kInForce, answers(ours), answers(theirs), {.of = answers(truths)});
}

TEST(PromotionRule, ATieAndADoubtfulGainKeepProductionAndFivePhotosMoreDoNot) {
  const std::string truth(20, 'a');
  const auto right = [](int n) { return std::string(n, 'a') + std::string(20 - n, 'b'); };
  EXPECT_EQ(rule(right(9), right(9), truth).instead_of, std::nullopt);
  EXPECT_THAT(rule(right(9), right(9), truth).why, HasSubstr(": as many, so it waits"));
  EXPECT_EQ(rule(right(13), right(9), truth).instead_of, std::nullopt);
  EXPECT_THAT(rule(right(13), right(9), truth).why,
              HasSubstr("4 photos gained and 0 lost may be chance (McNemar's test, p 0.062)"));
  EXPECT_EQ(rule(right(14), right(9), truth).instead_of, 7U);
  EXPECT_EQ(rule(right(8), right(9), truth).instead_of, std::nullopt);
}

TEST(PromotionRule, ClassesThatFallAreNamedWithWhetherItIsBeyondChance) {
  // Of 10 photos of a 9 are lost, of 4 of b one; c gains 3, d is as it was.
  const std::string truth = "aaaaaaaaaabbbbcccdd", before = "aaaaaaaaaabbbbxxxdx",
                    after = "axxxxxxxxxbbbxcccxd";
  const Promotion p = rule(after, before, truth);
  ASSERT_TRUE(p.compared);
  const std::vector<ClassFall>& falls = p.compared->falls;
  ASSERT_EQ(falls.size(), 2U);
  EXPECT_EQ(falls[0].name, "a");
  EXPECT_EQ(falls[0].photos, 10);
  EXPECT_EQ(falls[0].before, 10);
  EXPECT_EQ(falls[0].after, 1);
  EXPECT_DOUBLE_EQ(falls[0].chance, 4 / 512.0) << "one half to the ninth, of four classes";
  EXPECT_TRUE(falls[0].beyond_chance());
  EXPECT_EQ(falls[1].name, "b");
  EXPECT_EQ(falls[1].chance, 1);
  EXPECT_FALSE(falls[1].beyond_chance());
  EXPECT_THAT(
      text_of(falls, 2),
      ElementsAre("class a falls: 1 of 10 photos right, 10 before: beyond chance (p 0.00781)",
                  "class b falls: 3 of 4 photos right, 4 before: may be chance (p 1.00)"));
  EXPECT_THAT(text_of(falls, 1), ElementsAre(::testing::_, "and 1 more classes fall"));
  EXPECT_TRUE(text_of({}, 2).empty());
}

TEST(PromotionRule, PhotosThatOneHasNoAnswerForAreLeftOut) {
  const Promotion p = rule("aaaaaa", "bbbbb", "aaaaaa");
  EXPECT_EQ(p.compared->photos, 5);
  EXPECT_EQ(p.instead_of, 7U);
}

TEST(PromotionRule, WithoutAnswersOfProductionItWaits) {
  const Promotion p = judge(kInForce, answers("aa"), std::nullopt, {.of = answers("ab")});
  EXPECT_EQ(p.instead_of, std::nullopt);
  EXPECT_FALSE(p.compared);
  EXPECT_THAT(p.why, HasSubstr("top-1 0.5000 on 2 validation photos"));
  EXPECT_THAT(p.why, HasSubstr("the rule cannot be applied"));
  EXPECT_FALSE(rule("a", "", "a").compared);
  EXPECT_THAT(rule("a", "", "a").why, HasSubstr("the rule cannot be applied"));
}

// Scores that are not numbers are no class.
TEST(PromotionRule, WhatIsNoAnswerIsAMistake) {
  Answers none = answers("aaaaa");
  for (auto& [digest, name] : none) name = "";
  EXPECT_EQ(compare(none, answers("aaaaa"), answers("aaaaa")).lost, 5);
}

TEST(PromotionRule, PhotosShowWhatPeopleSayNow) {
  const auto claim = [](int i, const std::string& label, LabelSource source) {
    return PhotoClaim{.digest = promoted_photo(i), .label = label, .source = source};
  };
  const std::vector<std::vector<PhotoClaim>> store = {
      {claim(1, "a", LabelSource::kFolder), claim(2, "a", LabelSource::kFolder)}};
  const Manifest manifest(store, {.val_split = 1});
  EXPECT_EQ(truths_of(manifest, {}).changed, 0);
  const Truths now =
      truths_of(manifest, {claim(1, "b", LabelSource::kImport), claim(1, "c", LabelSource::kHuman),
                           claim(2, "a", LabelSource::kHuman), claim(9, "a", LabelSource::kHuman)});
  EXPECT_EQ(now.changed, 1);
  EXPECT_EQ(now.of, (Answers{{promoted_photo(1), "c"}, {promoted_photo(2), "a"}}));
  const Promotion p = judge(kInForce, answers("zca"), answers("zaa"), now);
  EXPECT_EQ(p.compared->gained, 1) << "c is right, which nobody knew when the job began";
  EXPECT_THAT(p.figures, HasSubstr("1 of them labelled anew since the job began"));
}

}  // namespace
}  // namespace ndtrain::tuner
