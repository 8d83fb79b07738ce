// A new version takes the place of the one in force only when it is better.
#include "tuner/work/promotion.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/roles/roles_fixture.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RolesTest;
using testing::RunningStore;

class PromotionByRule : public RolesTest {
 protected:
  JobSpec spec() const {
    JobSpec s;
    s.deterministic = true;
    s.trainer.epochs = 12;
    s.trainer.batch = 8;
    s.trainer.schedule.lr = 5e-3;
    s.freeze = "layer1";
    return s;
  }
  // What hardly learns anything.
  JobSpec poor() const {
    JobSpec s = spec();
    s.trainer.epochs = 1;
    s.trainer.schedule.lr = 1e-9;
    return s;
  }
  static JobSpec later(JobSpec s) {
    s.freeze = "layer2";
    return s;
  }
  nlohmann::json train(JobSpec s, const std::string& model) {
    log_.clear();
    TunerDaemon daemon(tuner(tuner_), devices_, real_fs(), system_clock());
    s.model = to_hex(daemon.add_model(at(model)));
    const RunningStore one(store(store_, 0, 1), devices_);
    return outcome(daemon, s);
  }
  uint64_t in_force() const {
    return Versions(real_fs(), at("t/versions.json")).in_force(kDefaultTask)->version;
  }
  // From now on, with nothing of what was before.
  void begin_anew() {
    tuner_ = "another";
    store_ = "b";
  }

  std::string tuner_ = "t", store_ = "a";
};

TEST_F(PromotionByRule, ABetterOneTakesItsPlaceAndWorseAndEquallyGoodOnesWait) {
  const auto first = train(poor(), "base.onnx");
  EXPECT_EQ(first["in_force"], true);
  EXPECT_FALSE(first.contains("production_top1"));
  EXPECT_THAT(log_, HasSubstr("nothing is in force yet"));

  const auto good = train(spec(), "base.onnx");
  EXPECT_EQ(good["in_force"], true);
  EXPECT_EQ(good["production_top1"], first["top1"]) << "of the same head on the same photos";
  ASSERT_GT(good["top1"], first["top1"]) << "or this test says nothing";
  EXPECT_EQ(in_force(), 2U);

  const auto worse = train(poor(), "base.onnx");
  EXPECT_EQ(worse["in_force"], false);
  EXPECT_EQ(worse["version"], 3);
  EXPECT_EQ(worse["production_top1"], good["top1"]);
  EXPECT_EQ(in_force(), 2U);
  const Versions versions(real_fs(), at("t/versions.json"));
  EXPECT_EQ(versions.aliases(kDefaultTask).at(kCandidate), 3U);
  EXPECT_THAT(log_,
              HasSubstr(fmt::format("top-1 {:.4f} on {} validation photos, against {:.4f} of "
                                    "version 2",
                                    worse["top1"].get<double>(), worse["val_photos"].get<int64_t>(),
                                    good["top1"].get<double>())));
  EXPECT_THAT(log_, HasSubstr(", a candidate\n"));
  EXPECT_THAT(log_, HasSubstr("ndtrain model promote 3 puts it in force"));

  const auto again = train(spec(), "base.onnx");
  EXPECT_EQ(again["top1"], good["top1"]);
  EXPECT_EQ(again["chance"], 1);
  EXPECT_EQ(in_force(), 2U);
  EXPECT_THAT(log_,
              HasSubstr(", which is in force: as many, so it waits; ndtrain model promote 4"));
}

TEST_F(PromotionByRule, AcrossExtractorsTheBetterOneTakesItsPlaceAndAWorseOneWaits) {
  (void)train(poor(), "base.onnx");
  const auto good = train(later(spec()), "base.onnx");
  EXPECT_THAT(log_, HasSubstr("is in force and has another extractor: it is asked about the " +
                              good["val_photos"].dump() +
                              " validation photos on 1 store, too; "
                              "features of 60 photos are here from earlier jobs"));
  ASSERT_GT(good["top1"], good["production_top1"]) << log_;
  EXPECT_EQ(good["in_force"], good["chance"].get<double>() < kByChance) << log_;
  EXPECT_EQ(good["in_force"], true) << log_;
  EXPECT_EQ(good["compared_photos"], good["val_photos"]);
  const nlohmann::json metrics =
      nlohmann::json::parse(Versions(real_fs(), at("t/versions.json")).find(2)->metrics);
  EXPECT_EQ(metrics["compared_with"], 1);
  EXPECT_EQ(metrics["class_falls"], good["class_falls"]);
  EXPECT_EQ(in_force(), 2U);

  const auto worse = train(poor(), "base.onnx");
  EXPECT_EQ(worse["in_force"], false);
  EXPECT_EQ(worse["production_top1"], good["top1"]) << "of the same model on the same photos";
  EXPECT_THAT(log_, HasSubstr("version 2, which is in force: it waits"));
  EXPECT_EQ(in_force(), 2U);
  ASSERT_FALSE(worse["class_falls"].empty());
  const std::string fall =
      "class " + worse["class_falls"][0]["class"].get<std::string>() + " falls";
  EXPECT_THAT(log_, HasSubstr(fall));
  EXPECT_THAT(real_fs().read(at("t/jobs/3/run/report.html")).or_throw(), HasSubstr(fall));
}

// The one is cut behind the last convolution, the other in front of it: with nothing learnt in
// between they are one network.
TEST_F(PromotionByRule, AcrossExtractorsATieKeepsWhatIsInForce) {
  JobSpec pooled = poor(), maps = poor();
  pooled.freeze = maps.freeze = "auto";
  maps.cut = "layer2";
  pooled.feature_dtype = maps.feature_dtype = DType::kF32;
  const auto first = train(pooled, "base.onnx"), second = train(maps, "base.onnx");
  EXPECT_THAT(log_, HasSubstr("is in force and has another extractor"));
  EXPECT_EQ(second["compared_photos"], second["val_photos"]);
  EXPECT_EQ(second["gained"], 0);
  EXPECT_EQ(second["lost"], 0);
  EXPECT_EQ(second["production_top1"], first["top1"]);
  EXPECT_EQ(second["in_force"], false);
  EXPECT_THAT(log_, HasSubstr(", which is in force: as many, so it waits"));
  EXPECT_EQ(in_force(), 1U);
}

// By the Tuner's own label database, while the job is on its way.
TEST_F(PromotionByRule, WhatPeopleSayMeanwhileIsTheTruthOfTheComparison) {
  const auto first = train(spec(), "base.onnx");
  ASSERT_GT(first["top1"], 0.5) << "or few photos change";
  TunerDaemon daemon(tuner(tuner_), devices_, real_fs(), system_clock());
  JobSpec again = spec();
  again.model = to_hex(daemon.add_model(at("base.onnx")));
  const RunningStore one(store(store_, 0, 1), devices_);
  bool said = false;
  const auto say = [&] {  // of all photos of c0, as soon as the job has its list of them
    if (said || !real_fs().exists(at("t/jobs/2/manifest.cbor"))) return;
    said = true;
    const auto db = open_label_db("sqlite:" + at("t/labels.db")).or_throw();
    const int64_t here = db->collection(kDefaultCollection).or_throw(),
                  task = db->task(kDefaultTask).or_throw();
    for (int i = 0; i < kPhotos; i += kClasses) {
      const std::string name = "c0/" + std::to_string(i) + ".jpg";
      const Digest photo = sha256(real_fs().read(at("photos/" + name)).or_throw());
      db->add_photos(here, std::vector<PhotoPlace>{{"a/" + name, photo}}).or_throw();
      set_label(*db, here, task, "a/" + name, "c1", system_clock().unix_seconds()).or_throw();
    }
  };
  log_.clear();
  const auto until = system_clock().monotonic() + std::chrono::minutes(2);
  const auto o = daemon.run_job(
      again,
      [&] {
        say();
        return system_clock().monotonic() > until;
      },
      [&](const std::string& line) { log_ += line + "\n"; });
  ASSERT_TRUE(o.ended && o.done) << o.message << "\n" << log_;
  const auto second = nlohmann::json::parse(o.result);
  EXPECT_EQ(second["top1"], first["top1"]) << "it is trained and measured as it was begun";
  EXPECT_LT(second["production_top1"], first["top1"]) << "it says c0 of what is c1 by now";
  EXPECT_THAT(log_, ::testing::ContainsRegex("[1-9][0-9]* of them labelled anew since the job"));
  EXPECT_EQ(second["in_force"], false) << "they are equally wrong";
}

TEST_F(PromotionByRule, AcrossExtractorsWithPhotosOfTheTunersOwn) {
  (void)train(poor(), "base.onnx");
  const auto by_stores = train(later(spec()), "base.onnx");
  begin_anew();
  (void)train(poor(), "base.onnx");
  JobSpec ideal = later(spec());
  ideal.mode = JobMode::kIdeal;
  ideal.photos = at("photos");
  const auto here = train(ideal, "base.onnx");
  for (const char* figure : {"top1", "production_top1", "gained", "lost", "chance", "in_force"}) {
    EXPECT_EQ(here[figure], by_stores[figure]) << figure;
  }
}

TEST_F(PromotionByRule, ATunerThatStopsWhileProductionIsAskedGoesOnAndSaysTheSame) {
  (void)train(poor(), "base.onnx");
  const auto calm = train(later(spec()), "base.onnx");
  begin_anew();
  (void)train(poor(), "base.onnx");
  std::filesystem::remove_all(at("another/features"));  // or the store would have nothing to send
  JobSpec s = later(spec());
  {
    TunerDaemon daemon(tuner(tuner_), devices_, real_fs(), system_clock());
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    const RunningStore one(store(store_, 0, 1), devices_);
    (void)daemon.run_job(
        s, [&] { return real_fs().exists(at("another/jobs/2/production/manifest.cbor")); },
        [](const std::string&) {});
    EXPECT_FALSE(real_fs().exists(at("another/jobs/2/run")));
  }
  // No store is there at first: the job waits for the one that it counts in.
  TunerDaemon daemon(tuner(tuner_), devices_, real_fs(), system_clock());
  std::unique_ptr<RunningStore> late;
  log_.clear();
  const auto until = system_clock().monotonic() + std::chrono::minutes(2);
  int asked = 0;
  const auto o = daemon.run_job(
      s,
      [&] {
        if (++asked == 3) late = std::make_unique<RunningStore>(store(store_, 0, 1), devices_);
        return system_clock().monotonic() > until;
      },
      [&](const std::string& line) { log_ += line + "\n"; });
  ASSERT_TRUE(o.ended && o.done) << o.message << "\n" << log_;
  const auto broken = nlohmann::json::parse(o.result);
  for (const char* figure : {"top1", "production_top1", "gained", "lost", "chance", "in_force"}) {
    EXPECT_EQ(broken[figure], calm[figure]) << figure;
  }
}

// Otherwise a new class would only ever be held against the version that knows it.
TEST_F(PromotionByRule, PhotosOfAClassThatProductionDoesNotKnowAreItsMistakes) {
  (void)train(spec(), "base.onnx");
  const int old_val = train(spec(), "t/jobs/1/run/model.onnx")["val_photos"];
  const std::string folder = at("photos/new");
  std::filesystem::create_directories(folder);
  for (int i = 0; i < kPhotos; ++i) {
    const Image photo = cli::draw_demo_photo(4, cli::Look::kDay, static_cast<uint64_t>(i + 1000));
    publish(real_fs(), folder + "/" + std::to_string(i) + ".jpg", encode_jpeg(photo)).or_throw();
  }
  JobSpec grown = spec();
  grown.head = "grow";
  const auto result = train(grown, "t/jobs/2/run/model.onnx");
  EXPECT_EQ(result["classes"], 4);
  const double val = result["val_photos"];
  ASSERT_GT(val, old_val);
  EXPECT_LE(result["production_top1"].get<double>() * val, old_val);
  EXPECT_GT(result["production_top1"], 0);
  EXPECT_EQ(in_force() == 3U, result["chance"].get<double>() < kByChance);
}

}  // namespace
}  // namespace ndtrain::tuner
