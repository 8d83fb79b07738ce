#include "ndp/jobs/refine_labels.h"

#include <gmock/gmock.h>

#include <set>

#include "ndp/labels/label_files.h"
#include "tests/jobs/known_photos_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RefineLabelsTest : public KnownPhotosTest {
 protected:
  // Every photo as its class, but the first `wrong` of each as the next one.
  void label_all(size_t wrong, LabelSource source = LabelSource::kFolder) {
    for (size_t i = 0; i < kKnownPhotos; ++i) {
      const bool is_wrong = i / kGroups < wrong;
      if (is_wrong) wrong_.insert(path_of(i));
      say(source, i, is_wrong ? (i + 1) % kGroups : i % kGroups);
    }
  }
  RefinedLabels refined() { return refine_labels(truth(), known_, threads_); }

  std::set<std::string> wrong_;
};

TEST_F(RefineLabelsTest, FindsWhatIsWrongAndWhatItIs) {
  label_all(3);
  const RefinedLabels r = refined();
  std::set<std::string> found;
  for (const RefinedLabel& issue : r.issues) {
    found.insert(issue.label.path);
    EXPECT_LT(issue.score, issue.suggested_score);
    EXPECT_EQ(issue.suggested_name, name_of_group(group_of(issue.label.path)));
  }
  EXPECT_EQ(found, wrong_);
}

TEST_F(RefineLabelsTest, OfRightLabelsListsAlmostNone) {
  label_all(0);
  EXPECT_LE(refined().issues.size(), 1U);
}

TEST_F(RefineLabelsTest, TheOrderOfPhotosDoesNotMatter) {
  label_all(3);
  const auto listed = [](const RefinedLabels& r) {
    std::vector<std::pair<std::string, double>> all;
    for (const RefinedLabel& issue : r.issues) all.emplace_back(issue.label.path, issue.score);
    return all;
  };
  const auto before = listed(refined());
  reverse_rows();
  const auto after = listed(refined());
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].first, after[i].first);
    EXPECT_NEAR(before[i].second, after[i].second, 1e-4) << "the mean is summed in another order";
  }
}

TEST_F(RefineLabelsTest, RareClassesAreLeftOutAndTwoAreNeeded) {
  for (size_t i = 0; i < kKnownPhotos; ++i) say(LabelSource::kFolder, i, i % kGroups);
  for (size_t i = 0; i < 4; ++i) say_name(LabelSource::kHuman, i, "rare");
  const RefinedLabels r = refined();
  EXPECT_EQ(r.rare, 4);
  EXPECT_EQ(r.truth.classes.size(), kGroups);
  for (size_t i = 0; i < kKnownPhotos; ++i) say_name(LabelSource::kHuman, i, "one");
  try {
    refined();
    FAIL() << "of one class nothing can be said";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("labels of 1 classes"));
  }
}

TEST_F(RefineLabelsTest, ReviewsBeginWithIssuesUntilAPersonHasAnswered) {
  label_all(3);
  const RefinedLabels r = refined();
  keep_issues(*db_, task_, r);
  const auto first = [&] {
    std::vector<std::string> paths;
    for (const ReviewPhoto& p : db_->review(collection_, task_, 4, 1).or_throw()) {
      EXPECT_FALSE(p.suggested.empty());
      paths.push_back(p.path);
    }
    return paths;
  };
  const auto path = [&](size_t issue) { return r.issues.at(issue).label.path; };
  EXPECT_THAT(first(), ElementsAre(path(0), path(1), path(2), path(3)));
  // A person says that the first is right as it is, and that the third is what was suggested.
  say(LabelSource::kHuman, index_of(path(0)), (group_of(path(0)) + 1) % kGroups);
  say(LabelSource::kHuman, index_of(path(2)), group_of(path(2)));
  EXPECT_THAT(first(), ElementsAre(path(1), path(3), path(4), path(5)));
  const RefinedLabels again = refined();
  keep_issues(*db_, task_, again);
  for (const ReviewPhoto& p : db_->review(collection_, task_, 100, 1).or_throw()) {
    EXPECT_NE(p.path, path(0)) << "which a person has confirmed";
  }
}

TEST_F(RefineLabelsTest, WhatIsAppliedIsBoundedSparesPeopleAndCanBeUndone) {
  label_all(3);
  const RefinedLabels r = refined();
  const std::string persons = r.issues.at(0).label.path;
  say(LabelSource::kHuman, index_of(persons), (group_of(persons) + 1) % kGroups);
  const auto before = current();
  const RefinedLabels now = refined();
  const std::vector<RefinedLabel> changed = changeable(now, 5);
  ASSERT_EQ(changed.size(), 5U);
  const std::string record = record_of(changed);
  EXPECT_EQ(apply_suggested(*db_, task_, changed, 100), 5);
  auto expected = before;
  for (const RefinedLabel& c : changed) {
    EXPECT_NE(c.label.path, persons);
    expected[c.label.path] = name_of_group(group_of(c.label.path));
  }
  EXPECT_EQ(current(), expected);
  EXPECT_NE(current(), before);
  import_labels(*db_, collection_, task_, record, 101).or_throw();
  EXPECT_EQ(current(), before);
}

TEST(RefineBound, IsANumberOfLabelsOrAShareOfThem) {
  EXPECT_EQ(bound_named("20", 1000), 20);
  EXPECT_EQ(bound_named("5%", 1000), 50);
  EXPECT_EQ(bound_named("100%", 10), 10);
  EXPECT_EQ(bound_named("0.05", 1000), 50);
  EXPECT_EQ(bound_named("1", 1000), 1);
  for (const char* bad :
       {"", "0", "-1", "1.5", "101%", "%", "5 %x", "all", "nan", "inf", "1e300"}) {
    EXPECT_EQ(bound_named(bad, 1000), std::nullopt) << bad;
  }
}

}  // namespace
}  // namespace ndtrain::ndp
