// Fine-tuning over PipeStores gives what one machine gives, however the photos are spread.
#include <gmock/gmock.h>

#include "framework/core/limits.h"
#include "framework/core/rng.h"
#include "framework/train/head.h"
#include "framework/train/useful_cuts.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/breaking_relay.h"
#include "tests/roles/roles_fixture.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::BreakingRelay;
using ::testing::HasSubstr;
using testing::RolesTest;
using testing::RunningStore;

class NearData : public RolesTest {
 protected:
  JobSpec spec(uint32_t stores, uint32_t runs) const {
    JobSpec s;
    s.stores = stores;
    s.runs = runs;
    s.deterministic = true;
    s.trainer.epochs = 2;
    s.trainer.batch = 8;
    s.trainer.schedule.lr = 5e-3;
    s.freeze = "layer1";
    return s;
  }
};

TEST_F(NearData, TheWeightsAreTheSameBytesForOneTwoAndThreeStores) {
  for (const uint32_t runs : {1u, 3u}) {
    std::string first;
    for (const uint32_t stores : {1u, 2u, 3u}) {
      const auto result = run(spec(stores, runs), "r" + std::to_string(runs * 10 + stores));
      const std::string id = result["model_id"];
      if (first.empty()) first = id;
      EXPECT_EQ(id, first) << stores << " stores, " << runs << " runs";
      EXPECT_EQ(result["epochs"], 2 * runs);
    }
  }
}

TEST_F(NearData, EveryModeGivesTheSameWeights) {
  std::string first;
  for (const JobMode mode :
       {JobMode::kNdpipe, JobMode::kTypical, JobMode::kSrvP, JobMode::kSrvC, JobMode::kIdeal}) {
    JobSpec s = spec(2, 2);
    s.mode = mode;
    s.photos = at("photos");
    s.feature_dtype = DType::kF32;
    const std::string id = run(s, std::string(name_of(mode)))["model_id"];
    if (first.empty()) first = id;
    EXPECT_EQ(id, first) << name_of(mode);
  }
}

// A photo that fits no message between roles, and one that does.
TEST_F(NearData, PhotosOfAnySizeTravel) {
  constexpr int kNoisy = 1600;
  Rng rng(1, "noise");
  Image photo(kNoisy, kNoisy);
  for (uint8_t& v : photo.rgb) v = static_cast<uint8_t>(rng.next_below(256));
  const std::string file = encode_jpeg(photo, 100);
  ASSERT_GT(file.size(), static_cast<size_t>(limits::kMessage));
  publish(real_fs(), at("photos/c1/large.jpg"), file).or_throw();
  std::string first;
  for (const JobMode mode : {JobMode::kNdpipe, JobMode::kTypical}) {
    JobSpec s = spec(2, 2);
    s.mode = mode;
    s.feature_dtype = DType::kF32;
    const auto result = run(s, std::string(name_of(mode)));
    EXPECT_EQ(result["train_photos"].get<int>() + result["val_photos"].get<int>(), kPhotos + 1);
    if (first.empty()) first = result["model_id"];
    EXPECT_EQ(result["model_id"], first) << name_of(mode);
  }
}

// What is frozen behind an earlier cut runs on the Tuner instead.
TEST_F(NearData, AnEarlierCutGivesTheSameWeightsAndTheJobSaysWhichAndWhy) {
  const Model base = load_model(real_fs(), at("base.onnx")).model;
  const auto cuts = useful_cuts(base, trainable_parameters(base, "auto"));
  ASSERT_GE(cuts.size(), 3U);
  std::string first;
  int job = 0;
  for (const JobMode mode : {JobMode::kNdpipe, JobMode::kTypical}) {
    for (const std::string& cut : {std::string(), cut_name(cuts[0]), cut_name(cuts[1])}) {
      JobSpec s = spec(2, 2);
      s.mode = mode;
      s.freeze = "auto";
      s.feature_dtype = DType::kF32;
      s.cut = cut;
      s.why = "it was asked for";
      const auto result = run(s, "job" + std::to_string(++job));
      if (first.empty()) first = result["model_id"];
      EXPECT_EQ(result["model_id"], first) << name_of(mode) << " " << cut;
      EXPECT_EQ(result["cut"], cut.empty() ? cut_name(cuts.back()) : cut);
      EXPECT_EQ(result["why"], "it was asked for");
    }
  }
}

TEST_F(NearData, FoldersSayWhatPhotosShowOnlyWhereTheStoreIsToldSo) {
  TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
  PipeStoreConfig config = store("a", 0, 1);
  config.labels = PipeStoreConfig().labels;
  RunningStore a(config, devices_);
  JobSpec s = spec(1, 1);
  s.model = to_hex(daemon.add_model(at("base.onnx")));
  const auto until = system_clock().monotonic() + std::chrono::minutes(2);
  const auto o = daemon.run_job(
      s, [&] { return system_clock().monotonic() > until; }, [](const std::string&) {});
  EXPECT_FALSE(o.done);
  EXPECT_THAT(o.message, ::testing::AllOf(HasSubstr("none of the stores' photos has a label"),
                                          HasSubstr("--labels folder")));
}

TEST_F(NearData, ACutThatTheModelDoesNotHaveIsRefusedWithThoseItHas) {
  TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
  JobSpec s = spec(1, 1);
  s.model = to_hex(daemon.add_model(at("base.onnx")));
  s.cut = "nowhere";
  const auto until = system_clock().monotonic() + std::chrono::minutes(2);
  const auto o = daemon.run_job(
      s, [&] { return system_clock().monotonic() > until; }, [](const std::string&) {});
  EXPECT_FALSE(o.done);
  EXPECT_THAT(o.message, HasSubstr("cut nowhere: there are "));
}

TEST_F(NearData, RunOptionsChangeTheWeightsAndMemoryDoesNot) {
  const std::string plain = run(spec(1, 3), "plain")["model_id"];
  JobSpec s = spec(1, 3);
  s.memory = 1;  // every row is read from the spool, each time
  EXPECT_EQ(run(s, "streamed")["model_id"], plain);
  for (bool JobSpec::*option : {&JobSpec::reset_optimizer, &JobSpec::all_runs, &JobSpec::damp}) {
    s = spec(1, 3);
    s.*option = true;
    EXPECT_NE(
        run(s, "option" + std::to_string(s.reset_optimizer) + std::to_string(s.damp))["model_id"],
        plain);
  }
}

// In f32 on a device of the host's memory, and it is said.
TEST_F(NearData, AJobForSixteenBitsHasOneResultOverHoweverManyStores) {
  const auto plain = run(spec(1, 2), "plain");
  EXPECT_GT(plain["report"]["survey_s"], 0);
  JobSpec s = spec(1, 2);
  s.trainer.compute = DType::kBF16;
  const auto one = run(s, "one");
  EXPECT_EQ(one["model_id"], plain["model_id"]);
  s.stores = 2;
  const auto two = run(s, "two");
  EXPECT_EQ(two["model_id"], one["model_id"]);
  for (const auto& [name, store] : two["report"]["stores"].items()) {
    EXPECT_GT(store["survey_s"], 0) << name;
  }
}

TEST_F(NearData, ThePublishedVersionLabelsPhotosWhereTheyAre) {
  TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
  RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  JobSpec s = spec(2, 1);
  s.model = to_hex(daemon.add_model(at("base.onnx")));
  s.trainer.epochs = 8;
  const auto trained = outcome(daemon, s);
  EXPECT_EQ(trained["version"], 1);
  EXPECT_EQ(trained["model_id"], to_hex(load_model(real_fs(), trained["model"]).id()))
      << "labels would be by another version, made here or there";
  EXPECT_THAT(real_fs().read(at("state-a/in_force.json")).or_throw(), HasSubstr("\"version\":1"));
}

// So a store that has one version fetches the head of the next alone, as a delta.
TEST_F(NearData, AFineTuningOfAVersionKeepsItsExtractorsFile) {
  (void)run(spec(1, 1), "t");
  const Versions before(real_fs(), at("t/versions.json"));
  JobSpec more = spec(1, 1);
  more.seed = more.trainer.seed = 2;
  {
    TunerDaemon daemon(tuner("t"), devices_, real_fs(), system_clock());
    more.model = to_hex(daemon.add_model(at("t/jobs/1/run/model.onnx")));
    const RunningStore store_again(store("t0", 0, 1), devices_);
    (void)outcome(daemon, more);
  }
  const Versions after(real_fs(), at("t/versions.json"));
  ASSERT_EQ(after.all().size(), 2U);
  EXPECT_EQ(after.find(2)->parent, 1U);
  EXPECT_EQ(after.find(2)->extractor, before.find(1)->extractor);
  EXPECT_NE(after.find(2)->head, before.find(1)->head);
  EXPECT_EQ(after.find(2)->photos, before.find(1)->photos);
}

// The next job over the same stores asks for what is missing, whatever its seed and epochs, and
// gives what it would have given alone.
TEST_F(NearData, AFeatureTravelsOnce) {
  JobSpec again = spec(2, 2);
  again.seed = again.trainer.seed = 2;
  const auto alone = run(again, "alone");
  EXPECT_EQ(alone["features_of_earlier_jobs"], 0);
  EXPECT_GT(alone["report"]["row_bytes"], 0);
  EXPECT_EQ(run(spec(2, 2), "t")["features_of_earlier_jobs"], 0);
  const auto second = run(again, "t");
  EXPECT_EQ(second["report"]["predicted"]["by"], "job 1");
  EXPECT_EQ(second["report"]["predicted"]["row_bytes"], 0) << "all is here";
  EXPECT_EQ(second["features_of_earlier_jobs"], kPhotos);
  EXPECT_EQ(second["report"]["row_bytes"], 0);
  EXPECT_EQ(second["model_id"], alone["model_id"]);
  EXPECT_THAT(log_, HasSubstr("features of 60 photos are here from earlier jobs"));

  publish(real_fs(), at("photos/c0/new.jpg"),
          encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, 4711)))
      .or_throw();
  again.trainer.epochs = 1;
  const auto third = run(again, "t");
  EXPECT_EQ(third["features_of_earlier_jobs"], kPhotos);
  EXPECT_EQ(third["report"]["predicted"]["by"], "job 1") << "the last that extracted its photos";
  EXPECT_EQ(third["train_photos"].get<int>() + third["val_photos"].get<int>(), kPhotos + 1);
  const double row = alone["report"]["row_bytes"].get<double>() / kPhotos;
  EXPECT_EQ(third["report"]["row_bytes"], row) << "the new one";
  EXPECT_NEAR(third["report"]["predicted"]["row_bytes"], row, 1e-6);
  EXPECT_LT(third["report"]["predicted"]["tuner_busy_s"],
            second["report"]["predicted"]["tuner_busy_s"])
      << "of as many epochs as it has";
}

TEST_F(NearData, AJobThatIsGoneOnWithReadsWhatEarlierOnesLeft) {
  const std::string undisturbed = run(spec(2, 3), "calm")["model_id"];
  JobSpec first = spec(2, 1);
  first.trainer.epochs = 1;
  (void)run(first, "t");
  {
    TunerDaemon daemon(tuner("t"), devices_, real_fs(), system_clock());
    JobSpec s = spec(2, 3);
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    const RunningStore a(store("t0", 0, 2), devices_), b(store("t1", 1, 2), devices_);
    (void)daemon.run_job(
        s, [&] { return real_fs().exists(at("t/jobs/2/manifest.cbor")); },
        [](const std::string&) {});
  }
  const auto on = run(spec(2, 3), "t");
  EXPECT_EQ(on["features_of_earlier_jobs"], kPhotos);
  EXPECT_EQ(on["report"]["row_bytes"], 0);
  EXPECT_EQ(on["model_id"], undisturbed);
}

TEST_F(NearData, WhereNoneAreKeptFeaturesTravelAgain) {
  TunerConfig config = tuner("t");
  config.keep_features = false;
  for (uint64_t seed = 1; seed < 3; ++seed) {
    TunerDaemon daemon(config, devices_, real_fs(), system_clock());
    const RunningStore a(store("a", 0, 1), devices_);
    JobSpec s = spec(1, 1);
    s.seed = seed;
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    EXPECT_GT(outcome(daemon, s)["report"]["row_bytes"], 0);
  }
  EXPECT_FALSE(real_fs().exists(at("t/features")));
}

TEST_F(NearData, RelabelFillsTheDatabaseOnceAndEvaluationAgrees) {
  RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  JobSpec s = spec(2, 1);
  {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    (void)outcome(daemon, s);
  }
  {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    EXPECT_TRUE(real_fs().list(at("tuner/jobs/1/spool")).or_throw().empty())
        << "features of a job that is done take space";
  }
  JobSpec relabel;
  relabel.kind = JobKind::kRelabel;
  relabel.stores = 2;
  nlohmann::json made_from;
  for (const int64_t labelled : {kPhotos, 0}) {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    relabel.seed += 1;  // another job
    const auto result = outcome(daemon, relabel);
    EXPECT_EQ(result["labelled"], labelled);
    if (labelled > 0) made_from = result["report"]["made_from"];
    EXPECT_EQ(result["already_labelled"], kPhotos - labelled);
  }
  EXPECT_EQ(made_from["features"], kPhotos) << "the head alone has run: " << made_from;
  EXPECT_EQ(made_from.value("photos", 0), 0);
  const auto db =
      open_label_db("sqlite:" + at("tuner/labels.db"), OpenLabelDb::kExisting).or_throw();
  const auto page = db->query({.collection = existing_collection(*db, "default").or_throw(),
                               .task = existing_task(*db, "default").or_throw()})
                        .or_throw();
  ASSERT_EQ(page.rows.size(), static_cast<size_t>(kPhotos));
  int right = 0;
  for (const LabelRow& row : page.rows) {
    EXPECT_TRUE(row.path.starts_with("a/c") || row.path.starts_with("b/c")) << row.path;
    EXPECT_EQ(row.store, row.path.substr(0, 1));
    right += row.path.substr(2, 2) == row.class_name;
  }
  EXPECT_EQ(db->in_force(existing_task(*db, "default").or_throw()).or_throw(),
            page.rows[0].version);
  // Nothing is missing; and a preview of what another version would say changes nothing.
  const auto other_version = [&](RelabelOnly only, bool dry_run) {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    JobSpec some = relabel;
    some.seed += 1;
    some.only = only;
    some.dry_run = dry_run;
    some.model = to_hex(daemon.add_model(at("base.onnx")));
    return outcome(daemon, some);
  };
  const auto stale = other_version(RelabelOnly::kStale, true);
  EXPECT_EQ(stale["to_label"], kPhotos);
  EXPECT_EQ(stale["sample"], kPhotos);
  EXPECT_EQ(stale["changed"], 1) << "it has classes of other names";
  EXPECT_GT(stale["about_s"], 0);
  EXPECT_EQ(other_version(RelabelOnly::kMissing, true)["to_label"], 0);
  EXPECT_EQ(other_version(RelabelOnly::kMissing, false)["not_asked_for"], kPhotos);
  const auto after = db->query({.collection = existing_collection(*db, "default").or_throw(),
                                .task = existing_task(*db, "default").or_throw()})
                         .or_throw();
  EXPECT_EQ(after.rows.at(0).version, page.rows[0].version);
  JobSpec eval = relabel;
  eval.kind = JobKind::kEvaluate;
  TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
  const auto result = outcome(daemon, eval);
  EXPECT_EQ(result["photos"], kPhotos);
  EXPECT_NEAR(result["top1"], static_cast<double>(right) / kPhotos, 1e-9);
}

TEST_F(NearData, LabelsThatPeopleSetInTheDatabaseAreTrainedOn) {
  const nlohmann::json before = run(spec(1, 1), "tuner");
  const auto db = open_label_db("sqlite:" + at("tuner/labels.db")).or_throw();
  const int64_t collection = db->collection("default").or_throw();
  const int64_t task = db->task("default").or_throw();
  std::vector<PhotoPlace> places;
  for (const char* name : {"c0/0.jpg", "c1/1.jpg", "c2/2.jpg"}) {
    places.push_back({name, sha256(real_fs().read(at("photos/") + name).or_throw())});
  }
  (void)db->add_photos(collection, places).or_throw();
  for (const PhotoPlace& p : places) {
    set_label(*db, collection, task, p.path, "odd one", 1).or_throw();
  }
  JobSpec again = spec(1, 1);
  again.head = "linear";
  again.seed = 1;
  const nlohmann::json after = run(again, "tuner");
  EXPECT_EQ(before["classes"], kClasses);
  EXPECT_EQ(after["classes"], kClasses + 1);
}

TEST_F(NearData, AStoreThatComesBackAndATunerThatStartsAgainChangeNothing) {
  const std::string undisturbed = run(spec(2, 3), "calm")["model_id"];
  JobSpec s = spec(2, 3);
  nlohmann::json result;
  {
    TunerDaemon daemon(tuner("disturbed"), devices_, real_fs(), system_clock());
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    RunningStore a(store("a", 0, 2), devices_);
    int turns = 0;
    // The Tuner stops while it waits for the second store, having asked the first for nothing yet.
    (void)daemon.run_job(
        s, [&] { return ++turns > 20; }, [](const std::string&) {});
  }
  {
    TunerDaemon daemon(tuner("disturbed"), devices_, real_fs(), system_clock());
    auto a = std::make_unique<RunningStore>(store("a", 0, 2), devices_);
    auto b = std::make_unique<RunningStore>(store("b", 1, 2), devices_);
    // Stops as soon as there is a manifest.
    (void)daemon.run_job(
        s, [&] { return real_fs().exists(at("disturbed/jobs/1/manifest.cbor")); },
        [](const std::string&) {});
  }
  TunerDaemon daemon(tuner("disturbed"), devices_, real_fs(), system_clock());
  RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  EXPECT_EQ(outcome(daemon, s)["model_id"], undisturbed);
}

TEST_F(NearData, AStoreLostForGoodWhosePhotosAnotherHoldsChangesNothing) {
  const std::string undisturbed = run(spec(1, 3), "calm")["model_id"];
  TunerConfig config = tuner("bereft");
  config.listen = "127.0.0.1:0";
  TunerDaemon daemon(config, devices_, real_fs(), system_clock());
  JobSpec s = spec(2, 3);
  s.lost_after = 1;
  s.model = to_hex(daemon.add_model(at("base.onnx")));
  // b's inventory gets through, and the features of a few of its photos.
  BreakingRelay relay(daemon.address(), {.down = {}, .up = 24'000, .connections = 1});
  PipeStoreConfig all = store("a", 0, 1), half = store("b", 0, 2);
  all.tuner = daemon.address();
  half.tuner = relay.address();
  RunningStore a(all, devices_), b(half, devices_);
  EXPECT_EQ(outcome(daemon, s)["model_id"], undisturbed);
  EXPECT_THAT(log_, HasSubstr("store b has left"));
  EXPECT_THAT(log_, HasSubstr("on 2 stores"));
}

}  // namespace
}  // namespace ndtrain::tuner
