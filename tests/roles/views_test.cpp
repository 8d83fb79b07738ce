// A fine-tuning over PipeStores on views of photos gives what one machine gives that has them all.
#include "tests/roles/one_machine_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

class JobViews : public testing::OneMachine {
 protected:
  static constexpr int64_t kViews = 3;

  static JobSpec viewed(int64_t views = kViews) {
    JobSpec s = exact();  // of 4 epochs: the first view is seen again
    s.augmentation = {.crop = true, .flip = true, .jitter = true};
    s.views = views;
    return s;
  }

  static JobSpec as_they_are() { return exact(); }
};

TEST_F(JobViews, GiveTheBytesOfOneMachineForOneAndTwoStores) {
  const std::string plain = by_one_machine(as_they_are());
  const std::string expected = by_one_machine(viewed());
  EXPECT_NE(expected, plain);
  for (const uint32_t stores : {1U, 2U}) {
    const auto result = by_stores(viewed(), "v" + std::to_string(stores), stores);
    EXPECT_EQ(result["model_id"], expected) << stores << " stores\n" << log_;
    EXPECT_EQ(result["views"], kViews);
    EXPECT_NE(log_.find("stores make 3 views, by crop,flip,jitter, in front of the cut"),
              std::string::npos);
  }
}

// With runs, which count epochs through, and without memory for features, which are then read.
TEST_F(JobViews, AreTheSameBytesFromMemoryAndFromDisk) {
  JobSpec s = viewed();
  s.runs = 2;
  const std::string expected = by_stores(s, "memory", 1)["model_id"];
  s.memory = 1;
  EXPECT_EQ(by_stores(s, "disk", 2)["model_id"], expected) << log_;
  s.seed = s.trainer.seed = 8;
  EXPECT_NE(by_stores(s, "seed", 1)["model_id"], expected);
}

TEST_F(JobViews, OfAJobThatGoesOnAreThoseOfAnUnbrokenOne) {
  JobSpec s = viewed();
  s.stores = 2u;
  s.trainer.epochs = kLonger;
  const std::string expected = train(s, "unbroken")["model_id"];
  EXPECT_EQ(in_two_lives(s, "broken", [] {})["model_id"], expected) << log_;
}

// And count as what they are: a row of a photo to train on has all of its views.
TEST_F(JobViews, TravelOnceAndAreComputedOnce) {
  const auto plain = by_stores(as_they_are(), "plain", 1);
  const auto train_photos = plain["train_photos"].get<uint64_t>();
  const auto val_photos = plain["val_photos"].get<uint64_t>();
  const uint64_t row = plain["report"]["row_bytes"].get<uint64_t>() / (train_photos + val_photos);

  const auto first = by_stores(viewed(), "kept", 1);
  EXPECT_EQ(first["report"]["row_bytes"], (kViews * train_photos + val_photos) * row);
  EXPECT_EQ(first["features_of_earlier_jobs"], 0);

  JobSpec longer = viewed();  // whatever is not of the views may differ
  longer.trainer.epochs = 5;
  longer.augmentation.mixup = 0.4;
  const auto again = by_stores(longer, "kept", 1);
  EXPECT_EQ(again["report"]["row_bytes"], 0) << log_;
  EXPECT_EQ(again["features_of_earlier_jobs"], kPhotos);
  EXPECT_EQ(by_stores(viewed(kViews - 1), "kept", 1)["report"]["row_bytes"], 0) << "fewer";

  const auto more = by_stores(viewed(kViews + 1), "kept", 1);
  EXPECT_EQ(more["report"]["row_bytes"], (kViews + 1) * train_photos * row);
  EXPECT_EQ(more["report"]["made_from"]["photos"], train_photos) << "the store has the others";
  EXPECT_EQ(more["report"]["made_from"]["features"], kViews * train_photos);
}

TEST_F(JobViews, TrainTheSameBytesByAnyNumberOfTuners) {
  JobSpec s = viewed();
  s.stores = 2u;
  s.store_timeout = 60;
  s.trainer.batch = 12;
  s.trainer.shards = kShards;
  const std::string expected = train(s, "one")["model_id"];
  for (const char* name : {"a", "b"}) {
    join(name);
    ++s.tuners;
    const auto result = train(s, name);
    EXPECT_EQ(result["model_id"], expected) << log_;
    EXPECT_EQ(result["tuners"], s.tuners);
  }
}

}  // namespace
}  // namespace ndtrain::tuner
