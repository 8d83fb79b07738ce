// Photos for a person to look at, and what the answers say about a version.
#include <gmock/gmock.h>

#include <set>

#include "ndp/labels/agreement.h"
#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using enum LabelSource;

class LabelReviewTest : public LabelsTest {
 protected:
  // 200 photos, photo i with a score of i / 1000.
  void label_many(int64_t v) {
    many = db->add_photos(collection, places(100, 200)).or_throw();
    LabelBatch batch{.task = task, .version = v};
    for (size_t i = 0; i < many.size(); ++i) {
      batch.labels.push_back(
          {.photo = many[i], .class_id = cat, .score = static_cast<double>(i) / 1000});
    }
    db->put_labels(batch).or_throw();
  }
  std::set<std::string> drawn(uint64_t seed, int64_t count = 20) {
    std::set<std::string> paths;
    for (const ReviewPhoto& p : db->review(collection, task, count, seed).or_throw()) {
      if (p.at_random) paths.insert(p.path);
    }
    return paths;
  }

  std::vector<int64_t> many;
};

TEST_P(LabelReviewTest, HalfAreDrawnBySeedAndHalfAreTheLeastCertain) {
  label_many(version("v", 1));
  put(kHuman, many[0], dog, 1);
  const auto sample = db->review(collection, task, 20, 7).or_throw();
  ASSERT_EQ(sample.size(), 20u);
  std::set<std::string> all;
  double highest = 0;
  for (size_t i = 0; i < sample.size(); ++i) {
    EXPECT_EQ(sample[i].at_random, i < 10);
    EXPECT_EQ(sample[i].label, "cat");
    all.insert(sample[i].path);
    if (i >= 10) highest = std::max(highest, *sample[i].score);
  }
  EXPECT_EQ(all.size(), 20u) << "each once";
  EXPECT_FALSE(all.contains("photo 100.jpg")) << "a person has said what it is";
  EXPECT_LE(highest, 0.020);
  EXPECT_EQ(drawn(7), drawn(7));
  EXPECT_NE(drawn(7), drawn(8));
}

TEST_P(LabelReviewTest, WhatIsDrawnDoesNotDependOnOtherPhotosIds) {
  label_many(version("v", 1));
  const auto before = drawn(7);
  const auto gone = std::vector<int64_t>{many[150]};
  db->remove_photos(gone).or_throw();
  std::set<std::string> kept;
  for (const std::string& path : before) {
    if (path != "photo 250.jpg") kept.insert(path);
  }
  EXPECT_THAT(drawn(7), ::testing::IsSupersetOf(kept));
}

TEST_P(LabelReviewTest, EveryPhotoIsDrawnAsOftenAsAnother) {
  label_many(version("v", 1));
  std::map<std::string, int> times;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (const std::string& path : drawn(seed)) ++times[path];
  }
  // 2000 draws of 200 photos: 10 each, standard deviation 3.1.
  EXPECT_EQ(times.size(), 200u);
  for (const auto& [path, n] : times) EXPECT_LE(n, 26) << path;
}

TEST_P(LabelReviewTest, FewerPhotosThanAskedForAreAllReviewed) {
  put(kModel, photos[3], cat, 1, version("v", 1), 0.5);
  put(kModel, photos[4], cat, 1, version("v", 1));
  EXPECT_EQ(db->review(collection, task, 100, 1).or_throw().size(), 2u);
  EXPECT_THROW(db->review(collection, task, 0, 1).ok(), Error);
}

TEST_P(LabelReviewTest, BeginsWithIssuesTheLeastLikelyFirstBesideWhatIsDrawn) {
  label_many(version("v", 1));
  for (size_t i = 0; i < 9; ++i) put(kFolder, photos[i], cat, 1);
  std::vector<LabelIssue> issues;
  for (size_t i = 0; i < 9; ++i) {
    const double score = 0.01 * static_cast<double>(9 - i);
    issues.push_back({photos[i], cat, score, dog, 0.8});
  }
  ASSERT_TRUE(db->put_issues(task, photos, issues).ok());
  const auto random = drawn(7);
  const auto sample = db->review(collection, task, 20, 7).or_throw();
  ASSERT_EQ(sample.size(), 20U);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(sample[i].path, "photo " + std::to_string(8 - i) + ".jpg");
    EXPECT_EQ(sample[i].label, "cat");
    EXPECT_EQ(sample[i].suggested, "dog");
    EXPECT_DOUBLE_EQ(*sample[i].score, 0.01 * static_cast<double>(i + 1));
    EXPECT_DOUBLE_EQ(*sample[i].suggested_score, 0.8);
    EXPECT_FALSE(sample[i].at_random);
  }
  std::set<std::string> at_random;
  for (size_t i = 9; i < 20; ++i) {
    EXPECT_EQ(sample[i].at_random, i < 19) << i;
    EXPECT_TRUE(sample[i].suggested.empty());
    if (i < 19) at_random.insert(sample[i].path);
  }
  EXPECT_EQ(at_random, random) << "issues change nothing of what is drawn";
  EXPECT_EQ(db->review(collection, task, 4, 7).or_throw()[1].suggested, "dog");
  EXPECT_TRUE(db->review(collection, task, 4, 7).or_throw()[2].at_random);
  EXPECT_THAT(db->review(db->collection("other").or_throw(), task, 20, 7).or_throw(), IsEmpty());
}

TEST_P(LabelReviewTest, AnIssueGoesWithAnAnswerAnotherLabelAnotherListOrItsPhoto) {
  for (size_t i = 0; i < 6; ++i) put(i == 5 ? kHuman : kFolder, photos[i], cat, 1);
  std::vector<LabelIssue> issues;
  for (size_t i = 0; i < 6; ++i) {
    issues.push_back({photos[i], cat, 0.01 * static_cast<double>(i + 1), dog, 0.8});
  }
  const auto listed = [&] {
    std::string all;
    for (const ReviewPhoto& p : db->review(collection, task, 100, 1).or_throw()) {
      all += p.path.substr(6, 1);
    }
    return all;
  };
  ASSERT_TRUE(db->put_issues(task, photos, issues).ok());
  EXPECT_EQ(listed(), "012345");
  put(kHuman, photos[0], cat, 2);   // confirmed
  put(kHuman, photos[1], dog, 2);   // corrected
  put(kImport, photos[2], dog, 2);  // by a file
  put(kHuman, photos[5], cat, 2);   // confirmed, which was said before
  db->remove_photos(std::vector{photos[3]}).or_throw();
  EXPECT_EQ(listed(), "4");
  issues.erase(issues.begin() + 3);
  ASSERT_TRUE(db->put_issues(task, photos, issues).ok());
  EXPECT_EQ(listed(), "4") << "what was answered stays so, and 1 and 2 are no cats any more";
  issues[1].class_id = dog, issues[1].suggested = cat;
  ASSERT_TRUE(db->put_issues(task, photos, issues).ok());
  EXPECT_EQ(listed(), "14") << "of what it is called now nobody has been asked";
  ASSERT_TRUE(db->put_issues(task, photos, {}).ok());
  EXPECT_EQ(listed(), "");
  ASSERT_TRUE(db->put_issues(task, std::vector{photos[4]}, std::vector{issues[3]}).ok());
  EXPECT_EQ(listed(), "4");
  ASSERT_TRUE(db->put_in_trash(std::vector{sha256("photo 4.jpg")}).ok());
  EXPECT_EQ(listed(), "");
  ASSERT_TRUE(db->remove_task(kDefaultTask).ok());
}

TEST_P(LabelReviewTest, AccuracyComparesAVersionWithWhatPeopleAndImportsSay) {
  const int64_t v1 = version("v1", 1), v2 = version("v2", 2);
  for (size_t i = 0; i < 6; ++i) put(kModel, photos[i], cat, 1, v1);
  for (size_t i = 0; i < 4; ++i) put(kModel, photos[i], dog, 2, v2);
  put(kHuman, photos[0], cat, 3);
  put(kImport, photos[1], dog, 3);
  put(kFolder, photos[2], dog, 3);
  put(kHuman, photos[9], dog, 3);
  LabelBatch random{.task = task, .source = kHuman};
  random.labels = {{.photo = photos[3], .class_id = cat, .time = 4, .at_random = true},
                   {.photo = photos[4], .class_id = dog, .time = 4, .at_random = true}};
  ASSERT_TRUE(db->put_labels(random).ok());
  const FieldAccuracy of_v1 = db->accuracy(collection, v1).or_throw();
  EXPECT_EQ(of_v1.truths, 5);
  EXPECT_EQ(of_v1.all.photos, 4) << "photo 9 has no label by a model";
  EXPECT_EQ(of_v1.all.agree, 2);
  EXPECT_EQ(of_v1.at_random.photos, 2);
  EXPECT_EQ(of_v1.at_random.agree, 1);
  const FieldAccuracy of_v2 = db->accuracy(collection, v2).or_throw();
  EXPECT_EQ(of_v2.all.photos, 3);
  EXPECT_EQ(of_v2.at_random.photos, 1);
  EXPECT_EQ(of_v2.all.agree, 1);
  EXPECT_EQ(db->accuracy(collection, 999).status().code(), Code::kNotFound);
  EXPECT_THAT(db->confusion(collection, v1).or_throw(),
              ElementsAre(ConfusedPhotos{"cat", "cat", 2}, ConfusedPhotos{"dog", "cat", 2}));
  EXPECT_THAT(db->confusion(db->collection("other").or_throw(), v1).or_throw(), IsEmpty());
  EXPECT_EQ(db->confusion(collection, 999).status().code(), Code::kNotFound);
}

TEST_P(LabelReviewTest, WhatAVersionMayBeTrainedOnSaysNothingOfTheCollection) {
  const auto answer = [&](int64_t photo, int64_t time) {
    LabelBatch random{.task = task, .source = kHuman};
    random.labels = {{.photo = photo, .class_id = cat, .time = time, .at_random = true}};
    ASSERT_TRUE(db->put_labels(random).ok());
  };
  const int64_t v1 = version("v1", 10);
  for (size_t i = 0; i < 3; ++i) put(kModel, photos[i], cat, 10, v1);
  answer(photos[0], 20);
  answer(photos[1], 20);
  const int64_t v2 = version("v2", 30);
  for (size_t i = 0; i < 3; ++i) put(kModel, photos[i], cat, 30, v2);
  answer(photos[2], 30);
  EXPECT_EQ(db->accuracy(collection, v1).or_throw().at_random.photos, 3);
  const FieldAccuracy second = db->accuracy(collection, v2).or_throw();
  EXPECT_EQ(second.at_random.photos, 1) << "it was made when two had been answered";
  EXPECT_EQ(second.all.photos, 3);
}

TEST_P(LabelReviewTest, PhotosAreNewOnTheDayOfTheirFirstLabelAndCountedAsTheyAreCalledNow) {
  constexpr int64_t kDay = 86'400;
  const int64_t v = version("v", 1);
  put(kModel, photos[0], cat, 3 * kDay - 1, v);
  put(kModel, photos[1], cat, 3 * kDay, v);
  put(kHuman, photos[1], dog, 9 * kDay);
  put(kFolder, photos[2], dog, 4 * kDay - 1);
  put(kHuman, photos[3], cat, 3 * kDay + 7);
  EXPECT_THAT(db->new_photos(collection, task).or_throw(),
              ElementsAre(NewPhotos{2 * kDay, "cat", 1}, NewPhotos{3 * kDay, "cat", 1},
                          NewPhotos{3 * kDay, "dog", 2}));
  EXPECT_THAT(db->new_photos(db->collection("other").or_throw(), task).or_throw(), IsEmpty());
}

NDT_FOR_ALL_DATABASES(LabelReviewTest);

TEST(WilsonInterval, AgreesWithPublishedValues) {
  // Newcombe, "Two-sided confidence intervals for the single proportion" (1998), table I, method 3.
  const struct {
    int64_t agree, photos;
    double low, high;
  } table[] = {{81, 263, 0.2553, 0.3662},
               {15, 148, 0.0624, 0.1605},
               {0, 20, 0, 0.1611},
               {1, 29, 0.0061, 0.1718}};
  for (const auto& row : table) {
    const Interval i = wilson_interval({.photos = row.photos, .agree = row.agree});
    EXPECT_NEAR(i.low, row.low, 5e-5);
    EXPECT_NEAR(i.high, row.high, 5e-5);
  }
  const Interval nothing_known = wilson_interval({});
  EXPECT_EQ(nothing_known.low, 0);
  EXPECT_EQ(nothing_known.high, 1);
  EXPECT_EQ(wilson_interval({.photos = 20, .agree = 20}).high, 1);
}

}  // namespace
}  // namespace ndtrain::ndp
