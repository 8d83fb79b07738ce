#include "tuner/plan/timeline.h"

#include <gtest/gtest.h>

#include "tests/tuner/plan_fixture.h"

namespace ndtrain::tuner {
namespace {

using namespace testing_plan;

double makespan(const PlanInputs& in, JobMode mode, int stores = 1, int runs = 1) {
  return simulate(in, in.costs.cuts.back(), mode, stores, runs).makespan_s;
}

constexpr double kExact = 1e-9;

TEST(Timeline, StoresThatComputeShareTheWork) {
  const PlanInputs in = one_second_photos(60);
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 1), 60, kExact);
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 3), 20, kExact);
}

TEST(Timeline, ThousandsOfStoresAreASecondsWork) {
  const PlanInputs in = one_second_photos(1e7);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 10'000, 4), 1000, 1);
}

TEST(Timeline, TheStoreWithTheMostPhotosDecides) {
  PlanInputs in = one_second_photos(60);
  in.shares = {1, 2, 3};
  const Timeline t = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 3, 1);
  EXPECT_NEAR(t.makespan_s, 30, kExact);
  EXPECT_NEAR(t.busiest_store_s, 30, kExact);
  EXPECT_NEAR(t.all_stores_s, 60, kExact);
}

TEST(Timeline, OfFewerStoresTheFirstHaveAllPhotos) {
  PlanInputs in = one_second_photos(60);
  in.stores = {2, 3};
  in.shares = {1, 3, 8};
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 2), 45, kExact);
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 3), 40, kExact);
}

TEST(Timeline, OfCopiesAStoreTwiceAsSlowMakesHalfAsMany) {
  PlanInputs in = one_second_photos(60);
  in.stores = {2};
  in.speeds = {1, 0.5};
  in.held = {60, 60};
  Timeline t = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 2, 1);
  EXPECT_NEAR(t.makespan_s, 40, kExact);
  EXPECT_NEAR(t.all_stores_s, 80, kExact) << "40 photos of 1 s, 20 of 2 s";
  in.held = {30, 30};  // each photo once: the slow one is waited for
  t = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 2, 1);
  EXPECT_NEAR(t.makespan_s, 60, kExact);
  EXPECT_NEAR(t.all_stores_s, 90, kExact);
  in.costs.plans_s = 3;
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 2), 6 + 60, kExact) << "its plans, too";
}

TEST(PlanInputs, SharesOfCopiesGoBySpeedAndByWhatEachHolds) {
  PlanInputs in = one_second_photos(100);
  in.held = {100, 100, 100};
  in.speeds = {2, 1, 1};
  EXPECT_EQ(shares_of(in, 3), (std::vector<double>{0.5, 0.25, 0.25}));
  in.held = {20, 100, 100};  // the first one has no more
  EXPECT_EQ(shares_of(in, 3), (std::vector<double>{0.2, 0.4, 0.4}));
  in.speeds = {2, 1, 3};
  EXPECT_EQ(shares_of(in, 3), (std::vector<double>{0.2, 0.2, 0.6}));
  in.held = {20, 30, 50};
  EXPECT_EQ(shares_of(in, 3), (std::vector<double>{0.2, 0.3, 0.5})) << "each photo once";
  in.held = {100, 100, 100};
  in.speeds = {1, 3, 1};
  EXPECT_EQ(shares_of(in, 2), (std::vector<double>{0.25, 0.75})) << "of the first two";
  in.shares = {1, 1, 2};
  EXPECT_EQ(shares_of(in, 3), (std::vector<double>{0.25, 0.25, 0.5})) << "as given";
}

TEST(PlanInputs, SpeedsAndPhotosAreOfAllStores) {
  PlanInputs in = one_second_photos(60);
  in.stores = {1, 2};
  in.speeds = {1};
  EXPECT_THROW(validate(in), Error);
  in.speeds = {1, 0};
  EXPECT_THROW(validate(in), Error);
  in.speeds = {1, 0.5};
  in.held = {60};
  EXPECT_THROW(validate(in), Error);
  in.held = {60, 60};
  in.links = {1e6};
  EXPECT_THROW(validate(in), Error);
  in.links = {1e6, -1};
  EXPECT_THROW(validate(in), Error);
  in.links = {1e6, 0};
  validate(in);
}

TEST(PlanInputs, SharesGoByPhotosWhereTheseAreKnown) {
  EXPECT_EQ(shares_by_photos({300, 100, 0}, 3), (std::vector<double>{300, 100, 1}));
  EXPECT_EQ(shares_by_photos({300, 100, 0}, 2), (std::vector<double>{300, 100}));
  EXPECT_EQ(shares_by_photos({300}, 2), std::vector<double>()) << "equal";
}

TEST(Timeline, ExtractionAndLinkOverlapByBatches) {
  PlanInputs in = one_second_photos(64);
  in.costs.photo.bytes = 1;
  in.bandwidth = kThousandBytesPerSecond;
  const double before = 64 * (kInventoryBytes + kWantedBytes) / 1000;
  in.costs.cuts[0].feature_bytes = 500;  // half a second each: the last 32 are sent after the end
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe), before + 64 + 16, kExact);
  in.costs.cuts[0].feature_bytes = 2000;  // two seconds each: the first 32 are waited for
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe), before + 32 + 128, kExact);
}

TEST(Timeline, BytesAndLinkTimeAreWhatTravels) {
  PlanInputs in = one_second_photos(100);
  in.costs.photo.prepare_s = in.costs.cuts[0].extract_s = 0;
  in.costs.cuts[0].extractor_bytes = 9000;
  in.costs.cuts[0].head_bytes = 500;
  in.bandwidth = kThousandBytesPerSecond;
  const Timeline t = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 2, 1);
  EXPECT_NEAR(t.bytes_up, 100 * (1000 + kInventoryBytes), kExact);
  EXPECT_NEAR(t.bytes_down, 2 * (9000 + 500) + 100 * kWantedBytes, kExact);
  // Two extractors go out, inventories come in; then 0.4 s of what is wanted, 100 s of features,
  // two heads.
  EXPECT_NEAR(t.makespan_s, 18 + 3.6 + 0.4 + 100, kExact);
  EXPECT_NEAR(t.publish_s, 1, kExact);
  const Timeline photos = simulate(in, in.costs.cuts[0], JobMode::kTypical, 2, 1);
  EXPECT_NEAR(photos.bytes_up, 100 * (2000 + kInventoryBytes), kExact);
  EXPECT_NEAR(photos.makespan_s, 3.6 + 0.4 + 200, kExact);
  EXPECT_EQ(simulate(in, in.costs.cuts[0], JobMode::kIdeal, 2, 1).bytes_up, 0);
}

TEST(Timeline, ALinkOfTheStoresOwnCountsToo) {
  PlanInputs in = one_second_photos(64);
  in.costs.photo.prepare_s = in.costs.cuts[0].extract_s = 0;
  in.bandwidth = 1e6 * kThousandBytesPerSecond;
  in.store_bandwidth = kThousandBytesPerSecond;
  // Each store sends and is sent its own half.
  const double own = 32 * (kInventoryBytes + kWantedBytes + 1000) / 1000;
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 2), own, 1e-3);
}

TEST(Timeline, EachStoresOwnLinkCarriesWhatItSends) {
  PlanInputs in = one_second_photos(64);
  in.costs.photo.prepare_s = in.costs.cuts[0].extract_s = 0;
  in.bandwidth = 1e6 * kThousandBytesPerSecond;
  in.stores = {2};
  in.links = {kThousandBytesPerSecond, 4 * kThousandBytesPerSecond};
  const double bytes = kInventoryBytes + kWantedBytes + 1000;
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 2), 32 * bytes / 1000, 1e-3) << "of the slower one";
  in.shares = {1, 4};
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 2), 12.8 * bytes / 1000, 1e-3) << "of both";
  in.store_bandwidth = 2 * kThousandBytesPerSecond;
  in.links[0] = 0;
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 2), 12.8 * bytes / 1000, 1e-3)
      << "one that is not measured is as fast as the others are said to be";
}

TEST(Timeline, RunsOverlapTrainingWithExtraction) {
  // The bound that a job of three runs is held to: (E + T + 2 max(E, T)) / 3.
  PlanInputs in = one_second_photos(30);
  for (const double train : {0.5, 1.0, 2.0}) {
    in.costs.cuts[0].train_s = train;
    const double e = 30, t = 30 * train;
    EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 1, 1), e + t, kExact);
    EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 1, 3), (e + t + 2 * std::max(e, t)) / 3, kExact);
  }
}

TEST(Timeline, ValidationComesFirstAndIsEvaluatedAsOftenAsInOneRun) {
  PlanInputs in = one_second_photos(100);
  in.val_split = 0.2;
  in.epochs = 3;
  in.costs.cuts[0].train_s = 0.1;
  in.costs.cuts[0].evaluate_s = 0.05;
  const Timeline t = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 1, 2);
  EXPECT_NEAR(t.first_run_s, 60, kExact);
  // Run 1 trains while run 2 is extracted until 100; of its three epochs, two are validated.
  EXPECT_NEAR(t.makespan_s, 100 + 3 * 40 * 0.1 + 2 * 20 * 0.05 + 20 * 0.05, kExact);
}

TEST(Timeline, ARunMayTrainOnAllPhotosSoFar) {
  PlanInputs in = one_second_photos(30);
  in.all_runs = true;
  in.costs.cuts[0].train_s = 1;
  // Run 1 trains from 10 to 20, run 2 on 20 photos until 40, run 3 on all 30.
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe, 1, 3), 70, kExact);
}

TEST(Timeline, TheTunerDecodesWhilePhotosArrive) {
  PlanInputs in = one_second_photos(64);
  in.costs.photo.bytes = 500;
  in.bandwidth = kThousandBytesPerSecond;
  const double before = 64 * (kInventoryBytes + kWantedBytes) / 1000;
  // The first 32 arrive after 16 s; then the Tuner is busy.
  EXPECT_NEAR(makespan(in, JobMode::kTypical), before + 16 + 64, kExact);
  in.costs.photo.bytes = 2000;  // The last 32 arrive after 128 s.
  EXPECT_NEAR(makespan(in, JobMode::kTypical), before + 128 + 32, kExact);
}

TEST(Timeline, FeaturesThatTheTunerHasAreNotMadeAgainAndDoNotTravel) {
  PlanInputs in = one_second_photos(100);
  in.bandwidth = kThousandBytesPerSecond;
  in.costs.cuts[0].feature_bytes = 100;
  in.kept["features"] = 75;
  const Timeline t = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 1, 2);
  EXPECT_NEAR(t.busiest_store_s, 25, kExact);
  EXPECT_NEAR(t.bytes_up, 100 * kInventoryBytes + 25 * 100, kExact);
  EXPECT_NEAR(t.bytes_down, 25 * kWantedBytes, kExact);
  in.kept["features"] = 1000;
  in.costs.cuts[0].train_s = 1;
  const Timeline all = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 1, 2);
  EXPECT_NEAR(all.busiest_store_s, 0, kExact);
  EXPECT_NEAR(all.makespan_s, 3.6 + 100, kExact) << "both runs are trained on at once";
  EXPECT_NEAR(simulate(in, in.costs.cuts[0], JobMode::kTypical, 1, 2).bytes_up,
              100 * (2000 + kInventoryBytes), kExact)
      << "these are features of stores";
}

TEST(Timeline, AnEpochAndTheEndCostTheTunerWhatTheyCostWhoeverTrains) {
  PlanInputs in = one_second_photos(10);
  in.epochs = 3;
  in.costs.epoch_s = 2;
  in.costs.finish_s = 5;
  in.costs.tuner.cores = 4;
  const Timeline t = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 1, 2);
  EXPECT_NEAR(t.training_s, 2 * 3 * 2 + 5, kExact) << "by one thread";
  EXPECT_NEAR(t.makespan_s, 5 + 2 * 3 * 2 + 5, kExact) << "run 2 comes while run 1 is trained on";
}

// As JobReport::network_seconds() has it.
TEST(Timeline, WhatTheNetworkTookIsWhatAStoreDidNotWorkWhileItsRowsCame) {
  PlanInputs in = one_second_photos(64);
  EXPECT_NEAR(simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 1, 1).network_s, 0, kExact);
  in.bandwidth = kThousandBytesPerSecond;
  in.costs.cuts[0].feature_bytes = 4000;
  // The first 32 photos are here at 32 + 128 s, the others 128 s later; 64 s are work.
  EXPECT_NEAR(simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 1, 1).network_s, 128 - 64, kExact);
}

TEST(Timeline, CropsAreMadeAtTheStores) {
  PlanInputs in = one_second_photos(32);
  in.costs.photo = {.bytes = 1,
                    .crop_bytes = 100,
                    .compressed_crop_bytes = 50,
                    .prepare_s = 10,
                    .crop_s = 2,
                    .normalise_s = 3,
                    .compress_s = 4,
                    .decompress_s = 5};
  in.costs.cuts[0].extract_s = 6;
  EXPECT_NEAR(makespan(in, JobMode::kSrvP), 32 * (2 + 3 + 6), kExact);
  EXPECT_NEAR(makespan(in, JobMode::kSrvC), 32 * (2 + 4 + 5 + 3 + 6), kExact);
  EXPECT_NEAR(makespan(in, JobMode::kIdeal), 32 * (10 + 6), kExact);
}

TEST(Timeline, CoresAndTheirSpeedDivideTheWork) {
  PlanInputs in = one_second_photos(60);
  in.costs.store.cores = 2;
  in.costs.store.core_speed = 1.5;
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe), 20, kExact);
  EXPECT_NEAR(makespan(in, JobMode::kIdeal), 60, kExact);
  in.costs.tuner.cores = 0.5;
  EXPECT_NEAR(makespan(in, JobMode::kIdeal), 120, kExact);
}

TEST(Timeline, AcceleratorsWorkBesideTheCores) {
  PlanInputs in = one_second_photos(64);
  in.costs.store.accelerators = in.costs.tuner.accelerators = 1;
  // Preparing 32 photos takes 8 s; then the accelerator is busy with 64 of 0.75 s.
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe), 8 + 48, kExact);
  in.costs.store.accelerators = 2;
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe), 8 + 24, kExact);
}

TEST(Timeline, PlainMachinesDoTheOtherModes) {
  PlanInputs in = one_second_photos(60);
  in.costs.plain_tuner = Machine{.cores = 4};
  EXPECT_NEAR(makespan(in, JobMode::kTypical), 15, kExact);
  EXPECT_NEAR(makespan(in, JobMode::kNdpipe), 60, kExact);
}

// Of each photo to train on, and not of those to validate with.
TEST(Timeline, ViewsAreMadeAndTravelSoManyTimes) {
  PlanInputs in = one_second_photos(100);
  in.val_split = 0.2;
  in.views = 3;
  const Timeline t = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 2, 2);
  const double rows = 20 + 3 * 80;
  EXPECT_NEAR(t.bytes_up, rows * 1000 + 100 * kInventoryBytes, kExact);
  EXPECT_NEAR(t.all_stores_s, rows, kExact);
  EXPECT_NEAR(t.first_run_s, (20 + 3 * 40) / 2.0, kExact);
  in.views = 0;
  const Timeline plain = simulate(in, in.costs.cuts[0], JobMode::kNdpipe, 2, 2);
  EXPECT_NEAR(plain.all_stores_s, 100, kExact);
  EXPECT_EQ(plain.training_s, t.training_s) << "an epoch sees one view of each";
}

}  // namespace
}  // namespace ndtrain::tuner
