#include "tuner/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/core/rng.h"
#include "tests/tuner/plan_fixture.h"

namespace ndtrain::tuner {
namespace {

using namespace testing_plan;
using ::testing::HasSubstr;

// About SqueezeNet on flowers of 20 KB: what --head keep and --head linear send.
PlanInputs flowers(double feature_bytes, double bits_per_second) {
  PlanInputs in;
  in.costs.photo = {.bytes = 20e3,
                    .crop_bytes = 150528,
                    .compressed_crop_bytes = 120e3,
                    .prepare_s = 2e-3,
                    .crop_s = 1.8e-3,
                    .normalise_s = 2e-4,
                    .compress_s = 1e-3,
                    .decompress_s = 5e-4};
  in.costs.cuts = {{.name = "features",
                    .feature_bytes = feature_bytes,
                    .extractor_bytes = 3e6,
                    .head_bytes = 1e4,
                    .extract_s = 0.015,
                    .train_s = 1e-5,
                    .evaluate_s = 5e-6}};
  in.photos = 4058;
  in.bandwidth = bits_per_second / 8;
  in.stores = {2};
  return in;
}

PlanInputs random_job(uint64_t seed) {
  Rng rng(seed, "plan");
  const auto in_range = [&](double low, double high) {
    return low * std::pow(high / low, rng.next_uniform());
  };
  PlanInputs in;
  in.costs.photo = {.bytes = in_range(1e4, 1e6),
                    .crop_bytes = 150528,
                    .compressed_crop_bytes = in_range(2e4, 2e5),
                    .prepare_s = in_range(1e-4, 1e-2),
                    .crop_s = in_range(1e-4, 1e-2),
                    .normalise_s = in_range(1e-5, 1e-3),
                    .compress_s = in_range(1e-5, 1e-2),
                    .decompress_s = in_range(1e-5, 1e-2)};
  for (const char* name : {"early", "late"}) {
    in.costs.cuts.push_back({.name = name,
                             .feature_bytes = in_range(1e2, 1e6),
                             .extractor_bytes = in_range(1e5, 1e8),
                             .head_bytes = in_range(1e3, 1e7),
                             .extract_s = in_range(1e-4, 1e-1),
                             .train_s = in_range(1e-6, 1e-2),
                             .evaluate_s = in_range(1e-6, 1e-2)});
  }
  in.photos = std::floor(in_range(1, 1e5));
  in.bandwidth = in_range(1e5, 1e9);
  in.epochs = std::ceil(in_range(0.5, 30));
  in.stores = {1 + static_cast<int>(rng.next_below(5))};
  in.runs = {1 + static_cast<int>(rng.next_below(4))};
  return in;
}

TEST(Planner, MoreBandwidthIsNeverSlower) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlanInputs in = random_job(seed);
    const auto slow = predict_all(in);
    in.bandwidth *= 1.5;
    const auto fast = predict_all(in);
    ASSERT_EQ(slow.size(), fast.size());
    for (size_t i = 0; i < slow.size(); ++i) {
      EXPECT_LE(fast[i].time.makespan_s, slow[i].time.makespan_s * (1 + 1e-12))
          << "seed " << seed << ", " << name_of(slow[i].mode);
      EXPECT_EQ(fast[i].bytes(), slow[i].bytes());
    }
  }
}

TEST(Planner, MoreStoresAreNeverSlowerWhenStoresComputeMost) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    PlanInputs in = random_job(seed);
    in.bandwidth = kNoLimit;
    in.stores = {1, 2, 3, 5, 8};
    double before = INFINITY;
    for (const Prediction& p : predict_all(in)) {
      if (p.mode != JobMode::kNdpipe || p.cut != "late") continue;
      EXPECT_LE(p.time.makespan_s, before * (1 + 1e-9)) << "seed " << seed;
      before = p.time.makespan_s;
    }
  }
}

TEST(Planner, NoResourceIsBusierThanTheJobIsLong) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (const Prediction& p : predict_all(random_job(seed))) {
      const double end = p.time.makespan_s * (1 + 1e-9);
      EXPECT_LE(p.time.busiest_store_s, end) << "seed " << seed;
      EXPECT_LE(p.time.link_s, end + p.time.publish_s) << "seed " << seed;
      EXPECT_LE(p.time.tuner_s, end) << "seed " << seed;
      EXPECT_LE(p.time.first_run_s, end) << "seed " << seed;
    }
  }
}

TEST(Planner, AdvisesTypicalWhereFeaturesAreLargerThanPhotos) {
  const PlanInputs keep = flowers(173056, 20e6);
  EXPECT_EQ(best(predict_all(keep)).mode, JobMode::kTypical);
  EXPECT_EQ(best(predict_all(keep), Objective::kBytes).mode, JobMode::kTypical);
  ASSERT_EQ(remarks(keep).size(), 1u);
  EXPECT_THAT(remarks(keep)[0],
              HasSubstr("(features) are larger than photos, 173.1 KB against 20.0 KB"));

  const PlanInputs linear = flowers(1024, 20e6);
  EXPECT_EQ(best(predict_all(linear)).mode, JobMode::kNdpipe);
  EXPECT_TRUE(remarks(linear).empty());
}

TEST(Planner, PredictsEveryCutStoreCountRunCountAndMode) {
  PlanInputs in = random_job(1);
  in.stores = {1, 2, 4};
  in.runs = {1, 3};
  const auto all = predict_all(in);
  EXPECT_EQ(all.size(), 3u * 2 * (2 + 3) + 2);
  const auto order = ranked(all, Objective::kMakespan);
  EXPECT_EQ(order.back().mode, JobMode::kIdeal);
  EXPECT_EQ(order[order.size() - 2].mode, JobMode::kIdeal);
  for (size_t i = 1; i + 2 < order.size(); ++i) {
    EXPECT_LE(order[i - 1].time.makespan_s, order[i].time.makespan_s);
  }
}

TEST(Planner, TakesTheCutThatTheLinkAsksFor) {
  PlanInputs in = one_second_photos(320);
  in.costs.cuts = {{.name = "early", .feature_bytes = 4000, .extract_s = 0.1, .train_s = 1e-3},
                   {.name = "late", .feature_bytes = 100, .extract_s = 0.75}};
  in.bandwidth = kThousandBytesPerSecond;
  EXPECT_EQ(best(predict_all(in)).cut, "late");
  in.bandwidth = kNoLimit;
  in.costs.tuner.cores = 0.1;  // typical is out of the question
  EXPECT_EQ(best(predict_all(in)).cut, "early");
}

TEST(Planner, WithoutACutThereIsNoPlanThatATunerTakes) {
  PlanInputs in = one_second_photos(32);
  in.costs.cuts = {{.name = "none", .train_s = 1}};
  try {
    predict_all(in);
    FAIL() << "it recommends what is refused";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("another --freeze, or ndtrain train on one machine"));
  }
}

TEST(Planner, CostAndEnergyFollowFromBusyTimeAndMakespan) {
  PlanInputs in = one_second_photos(3600);
  in.stores = {2};
  in.costs.store.dollars_per_hour = 2;
  EXPECT_FALSE(predict_all(in)[0].dollars.has_value());  // the Tuner's price is unknown
  EXPECT_THROW(best(predict_all(in), Objective::kCost), Error);
  in.costs.tuner.dollars_per_hour = 3;
  in.costs.store.busy_watts = 100;
  in.costs.store.idle_watts = 40;
  in.costs.tuner.busy_watts = 200;
  in.costs.tuner.idle_watts = 50;
  in.costs.cuts[0].train_s = 0.1;
  const Prediction p = predict_all(in)[0];
  ASSERT_EQ(p.mode, JobMode::kNdpipe);
  EXPECT_NEAR(p.time.makespan_s, 1800 + 360, 1e-6);
  EXPECT_NEAR(p.dollars.value(), (2 * 2 + 3) * 2160 / 3600.0, 1e-9);
  EXPECT_NEAR(p.joules.value(), 2 * 40 * 2160.0 + 60 * 3600 + 50 * 2160.0 + 150 * 360, 1e-3);
}

TEST(Planner, IdealNeedsNoPriceOfStores) {
  PlanInputs in = one_second_photos(3600);
  in.costs.tuner.dollars_per_hour = 3;
  const Prediction ideal = predict_all(in).back();
  ASSERT_EQ(ideal.mode, JobMode::kIdeal);
  EXPECT_NEAR(ideal.dollars.value(), 3, 1e-9);
}

TEST(Planner, SaysWhatIsTheBottleneck) {
  PlanInputs in = one_second_photos(320);
  EXPECT_THAT(why(predict_all(in)[0]), HasSubstr("the stores' computing is the bottleneck"));
  EXPECT_THAT(why(predict_all(in)[0]), ::testing::Not(HasSubstr("before a store begins")));
  in.costs.setup_s = 80;
  EXPECT_THAT(why(predict_all(in)[0]), HasSubstr("80.0 s pass before a store begins"));
  in.costs.cuts[0].train_s = 10;
  EXPECT_THAT(why(predict_all(in)[0]), HasSubstr("the Tuner's computing is the bottleneck"));
  in.bandwidth = 10;
  EXPECT_THAT(why(predict_all(in)[0]), HasSubstr("the Tuner's link is the bottleneck"));
}

// One thread makes the plans where the network runs, whatever the machine has; half a core takes
// twice as long.
TEST(Planner, PlansAreMadeWhereTheNetworkRuns) {
  PlanInputs in = one_second_photos(320);
  const auto begin = [&](JobMode mode) {
    const std::vector<Prediction> all = predict_all(in);
    return std::ranges::find(all, mode, &Prediction::mode)->time.begin_s;
  };
  const double before = begin(JobMode::kNdpipe);
  in.costs.plans_s = 10;
  in.costs.store.cores = 4;
  const double whole = begin(JobMode::kNdpipe);
  in.costs.store.cores = 0.5;
  EXPECT_NEAR(begin(JobMode::kNdpipe) - whole, 10, 1e-9);
  EXPECT_LT(before, whole);
  EXPECT_LT(begin(JobMode::kTypical), 1) << "the Tuner plans while photos come";
}

TEST(Planner, OnePhotoIsAJob) {
  PlanInputs in = one_second_photos(1);
  in.stores = {3};
  const Prediction p = predict_all(in)[0];
  EXPECT_NEAR(p.time.makespan_s, 1.0 / 3, 1e-9);
}

std::string refusal(const PlanInputs& in) {
  try {
    predict_all(in);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Planner, RefusesWhatCannotBeAJobAndSaysWhy) {
  const auto with = [](auto change) {
    PlanInputs in = one_second_photos(10);
    change(in);
    return refusal(in);
  };
  EXPECT_THAT(with([](PlanInputs& in) { in.photos = 0; }), HasSubstr("number of photos is 0"));
  EXPECT_THAT(with([](PlanInputs& in) { in.bandwidth = 0; }), HasSubstr("bandwidth is 0"));
  EXPECT_THAT(with([](PlanInputs& in) { in.bandwidth = NAN; }), HasSubstr("bandwidth is nan"));
  EXPECT_THAT(with([](PlanInputs& in) { in.val_split = 1; }), HasSubstr("val_split is 1"));
  EXPECT_THAT(with([](PlanInputs& in) { in.epochs = 0; }), HasSubstr("epochs is 0"));
  EXPECT_THAT(with([](PlanInputs& in) { in.stores = {0}; }), HasSubstr("number of stores is 0"));
  EXPECT_THAT(with([](PlanInputs& in) { in.runs = {}; }), HasSubstr("no store count"));
  EXPECT_THAT(with([](PlanInputs& in) { in.shares = {1, 2}; }), HasSubstr("2 shares for 1 stores"));
  EXPECT_THAT(with([](PlanInputs& in) { in.costs.cuts = {}; }), HasSubstr("no cut"));
  EXPECT_THAT(with([](PlanInputs& in) { in.costs.store.cores = 0; }), HasSubstr("store's cores"));
  EXPECT_THAT(with([](PlanInputs& in) { in.costs.cuts[0].train_s = -1; }), HasSubstr("features"));
  EXPECT_THAT(with([](PlanInputs& in) { in.costs.store.accelerators = 1; }),
              HasSubstr("have accelerators and some have none"));
  EXPECT_THAT(with([](PlanInputs& in) { in.costs.photo.bytes = 0; }),
              HasSubstr("bytes of a photo"));
}

TEST(Planner, ObjectivesHaveNames) {
  EXPECT_EQ(objective_named("energy"), Objective::kEnergy);
  EXPECT_THROW(objective_named("speed"), Error);
}

// Each of 100 features is a record, with 72 bytes of header.
TEST(Planner, ACutWhoseFeaturesDoNotFitTheTunersDiskIsNotChosen) {
  PlanInputs in = one_second_photos(100);
  in.costs.cuts = {{.name = "early", .feature_bytes = 5000, .extract_s = 0.1},
                   {.name = "late", .feature_bytes = 1000, .extract_s = 0.75}};
  in.shares = {3, 1};
  in.stores = {2};
  const Prediction fastest = best(predict_all(in));
  EXPECT_EQ(fastest.cut, "early");
  EXPECT_EQ(fastest.disk_bytes, 507'200);
  EXPECT_EQ(fastest.cache_bytes, 0.75 * 507'200);
  EXPECT_TRUE(remarks(in).empty() || remarks(in).back().find("disk has") == std::string::npos);

  in.disk = 507'199;
  const std::vector<Prediction> all = ranked(predict_all(in), Objective::kMakespan);
  EXPECT_EQ(all.front().cut, "late");
  EXPECT_TRUE(all.front().fits);
  EXPECT_FALSE(all.at(all.size() - 2).fits) << "before ideal, which is no choice";
  EXPECT_EQ(best(predict_all(in)).cut, "late");
  EXPECT_THAT(remarks(in).back(), HasSubstr("of 1 of 2 cuts take more than the "));

  in.disk = 107'200;
  EXPECT_EQ(best(predict_all(in)).cut, "late");
  in.disk = 107'199;
  try {
    (void)best(predict_all(in));
    FAIL() << "chosen";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("late needs the least, 107.2 KB"));
  }
}

}  // namespace
}  // namespace ndtrain::tuner
