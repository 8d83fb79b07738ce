#include "tuner/jobs/job_conflict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace ndtrain::tuner {
using namespace ndp;
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kModel(64, 'a'), kOther(64, 'b');

JobSpec finetuning(const std::string& task = std::string(kDefaultTask)) {
  return {.kind = JobKind::kFinetune, .task = task};
}
JobSpec labelling(JobKind kind, const std::string& model = "") {
  return {.kind = kind, .model = model};
}

TEST(JobConflict, TwoFineTuningsWaitForEachOtherWhateverTheyAreOf) {
  JobSpec other = finetuning("persons");
  other.collection = "people";
  EXPECT_THAT(conflict(finetuning(), other), HasSubstr("trains one at a time"));
}

// What is submitted behind a fine-tuning is for the version that comes of it.
TEST(JobConflict, WhatIsOfTheVersionInForceWaitsForAnEarlierFineTuningThatMayPutAnotherInForce) {
  for (const JobKind kind : {JobKind::kRelabel, JobKind::kEvaluate}) {
    const JobSpec later = labelling(kind);
    EXPECT_THAT(conflict(finetuning(), later), HasSubstr("the task default in force"));
    EXPECT_THAT(conflict(later, finetuning()), IsEmpty()) << "it has begun with what is in force";
    EXPECT_THAT(conflict(finetuning("persons"), later), IsEmpty()) << "of another task";
    EXPECT_THAT(conflict(finetuning(), labelling(kind, kModel)), IsEmpty());
    JobSpec candidate = finetuning();
    candidate.promote = Promote::kNever;
    EXPECT_THAT(conflict(candidate, later), IsEmpty());
    candidate.promote = Promote::kAlways;
    EXPECT_THAT(conflict(candidate, later), Not(IsEmpty()));
    candidate.publish = false;
    EXPECT_THAT(conflict(candidate, later), IsEmpty());
  }
}

TEST(JobConflict, LabellingsWaitForEachOtherWhereTheyMayShareAStore) {
  JobSpec a = labelling(JobKind::kRelabel), b = labelling(JobKind::kEvaluate);
  EXPECT_THAT(conflict(a, b), HasSubstr("the same stores"));
  a.stores.names = {"attic", "cellar"};
  EXPECT_THAT(conflict(a, b), HasSubstr("the same stores"));
  b.stores.number = 1;  // any
  EXPECT_THAT(conflict(b, a), HasSubstr("the same stores"));
  b.stores = {};
  b.stores.names = {"cellar", "garage"};
  EXPECT_THAT(conflict(a, b), HasSubstr("the same stores"));
  b.stores.names = {"garage"};
  EXPECT_THAT(conflict(a, b), IsEmpty());
  a.stores = b.stores = {};
  b.collection = "people";
  EXPECT_THAT(conflict(a, b), IsEmpty()) << "a store's photos are in one collection";
}

TEST(JobConflict, WhoWantFeaturesOfTheSameStoresWaitForEachOther) {
  const JobSpec refine = labelling(JobKind::kRefine);
  JobSpec candidate = finetuning();
  candidate.promote = Promote::kNever;
  EXPECT_THAT(conflict(candidate, refine), HasSubstr("both want features of the same stores"));
  EXPECT_THAT(conflict(refine, candidate), HasSubstr("both want features"));
  EXPECT_THAT(conflict(refine, refine), HasSubstr("both want features"));
  EXPECT_THAT(conflict(finetuning(), refine), HasSubstr("the task default in force"));
  for (const JobKind kind : {JobKind::kRelabel, JobKind::kEvaluate}) {
    EXPECT_THAT(conflict(refine, labelling(kind)), IsEmpty());
    EXPECT_THAT(conflict(labelling(kind), refine), IsEmpty());
  }
  JobSpec elsewhere = refine;
  elsewhere.collection = "people";
  EXPECT_THAT(conflict(refine, elsewhere), IsEmpty());
}

TEST(JobConflict, RelabellingsOfATaskByOtherModelsWaitForEachOther) {
  JobSpec a = labelling(JobKind::kRelabel, kModel), b = labelling(JobKind::kRelabel, kOther);
  b.collection = "people";
  EXPECT_THAT(conflict(a, b), HasSubstr("by other versions"));
  b.model = kModel;
  EXPECT_THAT(conflict(a, b), IsEmpty());
  b.model = kOther;
  b.task = "persons";
  EXPECT_THAT(conflict(a, b), IsEmpty());
  b.task = a.task;
  b.kind = JobKind::kEvaluate;
  EXPECT_THAT(conflict(a, b), IsEmpty()) << "it says nothing in the label database";
}

}  // namespace
}  // namespace ndtrain::tuner
