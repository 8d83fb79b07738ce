#include "ndp/jobs/suggest_labels.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/jobs/known_photos_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;
using ::testing::HasSubstr;

class SuggestLabelsTest : public KnownPhotosTest {
 protected:
  // The first `n` photos of each group.
  void label_some(size_t n) {
    for (size_t i = 0; i < n * kGroups; ++i) say(LabelSource::kHuman, i, i % kGroups);
  }
  SuggestedLabels suggested() { return suggest_labels(truth(), known_, threads_); }
};

TEST_F(SuggestLabelsTest, AHandfulOfExamplesNamesAllOthers) {
  label_some(3);
  const SuggestedLabels s = suggested();
  const TruthRows examples = truth();
  ASSERT_EQ(s.suggestions.size(), kKnownPhotos - 3 * kGroups);
  size_t right = 0;
  for (const Suggestion& one : s.suggestions) {
    EXPECT_GE(one.row, 3 * kGroups);
    EXPECT_GT(one.score, 1.0 / kGroups);
    if (examples.classes[one.label].name == name_of_group(one.row % kGroups)) ++right;
  }
  EXPECT_GE(right, s.suggestions.size() - 2);
  EXPECT_EQ(s.method, "linear probe") << "neighbours are no better here";
  EXPECT_TRUE(s.probe_accuracy && s.neighbours_accuracy);
}

// Each class is many small crowds in directions of their own, between which no plane goes.
TEST_F(SuggestLabelsTest, NeighboursAreAskedWhereTheyAreBetter) {
  Rng rng(5, "crowds");
  known_ = {.rows = {.dimensions = 2}};
  for (size_t i = 0; i < kKnownPhotos; ++i) {
    const double angle = 0.7 * static_cast<double>(i % 9) + 0.02 * rng.next_normal();
    known_.rows.add(std::vector<float>{static_cast<float>(std::cos(angle)),
                                       static_cast<float>(std::sin(angle))});
    known_.photos.push_back(sha256(path_of(i)));
  }
  for (size_t i = 0; i < 72; ++i) say(LabelSource::kHuman, i, i % 9 % 2);
  const SuggestedLabels s = suggested();
  EXPECT_EQ(s.method, "nearest neighbours");
  EXPECT_GT(*s.neighbours_accuracy, *s.probe_accuracy);
  for (const Suggestion& one : s.suggestions) {
    EXPECT_EQ(truth().classes[one.label].name, name_of_group(one.row % 9 % 2)) << one.row;
  }
}

TEST_F(SuggestLabelsTest, OneExampleEachIsEnoughAndOneClassIsNot) {
  label_some(1);
  const SuggestedLabels s = suggested();
  EXPECT_FALSE(s.probe_accuracy);
  EXPECT_EQ(s.method, "linear probe");
  EXPECT_EQ(s.suggestions.size(), kKnownPhotos - kGroups);
  for (size_t i = 0; i < kKnownPhotos; ++i) say_name(LabelSource::kHuman, i, "one");
  try {
    suggested();
    FAIL() << "there is nothing to tell apart";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("name 1 among these photos"));
  }
}

TEST_F(SuggestLabelsTest, TheVersionIsThatOfTheExamples) {
  label_some(2);
  const Digest model = sha256("model");
  const Digest first = content_of(suggested(), truth(), model);
  EXPECT_EQ(content_of(suggested(), truth(), model), first);
  EXPECT_NE(content_of(suggested(), truth(), sha256("another")), first);
  say(LabelSource::kHuman, 20, 20 % kGroups);
  EXPECT_NE(content_of(suggested(), truth(), model), first);
}

TEST_F(SuggestLabelsTest, LabelsOfPhotosThatAreNotThereAreCounted) {
  label_some(2);
  known_.photos.erase(known_.photos.begin());
  known_.rows.values.erase(known_.rows.values.begin(), known_.rows.values.begin() + kNumbers);
  const TruthRows examples = truth();
  EXPECT_EQ(examples.without_embedding, 1);
  EXPECT_EQ(examples.examples.size(), 2 * kGroups - 1);
}

}  // namespace
}  // namespace ndtrain::ndp
