// A Tuner that trains and relabels by itself.
#include <gmock/gmock.h>

#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::RunningStore;
using testing::RunningTuner;

class RoleWatch : public testing::RolesTest {
 protected:
  static nlohmann::json get(const std::string& address, const std::string& path) {
    const HttpResponse r = HttpClient(address).get(path).or_throw();
    EXPECT_EQ(r.status, 200) << r.body;
    return nlohmann::json::parse(r.body);
  }
  // Photos `from` to `from + n` are uploaded, and a person says what they show.
  static void label_photos(const std::string& address, int from, int n) {
    const HttpClient client(address);
    for (int i = from; i < from + n; ++i) {
      const Image photo =
          cli::draw_demo_photo(i % kClasses, cli::Look::kDay, static_cast<uint64_t>(5000 + i));
      const auto up = client.post("/photos", encode_jpeg(photo), "image/jpeg").or_throw();
      ASSERT_LT(up.status, 300) << up.body;
      const std::string id = nlohmann::json::parse(up.body).at("id");
      const std::string label =
          nlohmann::json{{"label", "c" + std::to_string(i % kClasses)}}.dump();
      ASSERT_EQ(client.put("/photos/" + id + "/label", label).or_throw().status, 200);
    }
  }
  static void upload_only(const std::string& address, int i) {
    const Image photo =
        cli::draw_demo_photo(i % kClasses, cli::Look::kDay, static_cast<uint64_t>(5000 + i));
    // 202: it is labelled as soon as the version that is in force is loaded.
    ASSERT_LT(HttpClient(address).post("/photos", encode_jpeg(photo), "image/jpeg")->status, 300);
  }
  // By which version of the database each photo with a model's label was labelled.
  std::map<int64_t, int> labels_by_version() const {
    const auto db =
        open_label_db("sqlite:" + at("tuner/labels.db"), OpenLabelDb::kExisting).or_throw();
    const auto page = db->query({.collection = existing_collection(*db, "default").or_throw(),
                                 .task = existing_task(*db, "default").or_throw(),
                                 .sources = {LabelSource::kModel}})
                          .or_throw();
    std::map<int64_t, int> counts;
    for (const LabelRow& row : page.rows) ++counts[row.version.value()];
    return counts;
  }
};

TEST_F(RoleWatch, HumanLabelsStartAFineTuningAndItsVersionRelabelsWhatIsStale) {
  TunerConfig config = tuner("tuner");
  config.http = "127.0.0.1:0";
  WatchRule rule = parse_watch_rule(
      R"({"labels": 6, "every_s": 0.1, "min_interval_s": 0, "job": {"promote": true, "epochs": 2,
          "batch": 8, "lr": 0.005, "freeze": "layer1"}})");
  rule.model = at("base.onnx");
  config.watch = {rule};
  RunningTuner t(config, devices_);
  PipeStoreConfig with_http = store("a", 0, 1);
  with_http.http = "127.0.0.1:0";
  RunningStore a(with_http, devices_);
  const auto in_force = [&](uint64_t version) {
    return [&t, version] {
      const nlohmann::json stores = get(t.http(), "/stores");
      return stores.size() == 1 && stores[0].at("version_in_force") == version;
    };
  };

  label_photos(a.http(), 0, 5);
  await([&] { return get(t.http(), "/watch").at("truths") == 5; });
  EXPECT_EQ(get(t.http(), "/watch").at("due"), "nothing");
  EXPECT_EQ(get(t.http(), "/jobs").size(), 0U) << "one too few";
  label_photos(a.http(), 5, 1);
  await(in_force(1));
  nlohmann::json jobs = get(t.http(), "/jobs");
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].at("kind"), "finetune");
  EXPECT_EQ(jobs[0].at("result").at("train_photos").get<int>() +
                jobs[0].at("result").at("val_photos").get<int>(),
            kPhotos + 6);

  for (int i = 100; i < 104; ++i) upload_only(a.http(), i);  // version 1 labels them
  await(
      [&] { return labels_by_version().size() == 1 && labels_by_version().begin()->second == 4; });
  EXPECT_FALSE(get(t.http(), "/watch").at("stale"));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // times of labels are seconds
  label_photos(a.http(), 6, 6);
  await(in_force(2));
  await([&] {
    jobs = get(t.http(), "/jobs");
    return jobs.size() == 3 && jobs[2].at("state") == "done";
  });
  EXPECT_EQ(jobs[1].at("kind"), "finetune");
  const std::string whole =
      to_hex(sha256(real_fs().read(at("tuner/jobs/1/run/model.onnx")).or_throw()));
  EXPECT_EQ(jobs[1].at("spec").at("model"), whole) << "it starts from version 1";
  await([&] { return !real_fs().exists(at("tuner/models/" + whole + ".onnx")); });
  EXPECT_EQ(jobs[2].at("kind"), "relabel");
  EXPECT_EQ(jobs[2].at("result").at("labelled"), 4);
  const std::map<int64_t, int> labels = labels_by_version();
  ASSERT_EQ(labels.size(), 1U);
  EXPECT_EQ(labels.begin()->second, 4);
  await([&] { return get(t.http(), "/watch").at("due") == "nothing"; });
  const nlohmann::json watch = get(t.http(), "/watch");
  EXPECT_EQ(watch.at("submitted").at("job"), 3);
  EXPECT_EQ(watch.at("submitted").at("kind"), "relabel");
  EXPECT_EQ(watch.at("failure"), "");
}

TEST_F(RoleWatch, OtherPhotosThanBeforeStartAFineTuningWithoutAWordOfAnybody) {
  constexpr int kEach = 30;  // uploads of a window
  constexpr auto kWindow = std::chrono::seconds(6);
  TunerConfig config = tuner("tuner");
  config.http = "127.0.0.1:0";
  WatchRule rule = parse_watch_rule(
      R"({"labels": 3, "score_drop": 0.99, "psi": 0.25, "window_s": 6, "window_photos": 20,
          "every_s": 0.1, "min_interval_s": 0, "relabel": false,
          "job": {"promote": true, "epochs": 20, "batch": 8, "lr": 0.02, "freeze": "layer1"}})");
  rule.model = at("base.onnx");
  config.watch = {rule};
  RunningTuner t(config, devices_);
  PipeStoreConfig with_http = store("a", 0, 1);
  with_http.http = "127.0.0.1:0";
  RunningStore a(with_http, devices_);
  label_photos(a.http(), 0, 3);
  await([&] {
    return HttpClient(a.http())
               .get("/metrics")
               ->body.find("\nndtrain_upload_version{task=\"default\"} 1\n") != std::string::npos;
  });

  const auto upload_all = [&](int from, int step) {
    for (int i = 0; i < kEach; ++i) upload_only(a.http(), from + i * step);
  };
  upload_all(300, 1);  // of all classes
  std::this_thread::sleep_for(kWindow);
  EXPECT_EQ(get(t.http(), "/jobs").size(), 1U) << "one window alone says nothing";
  upload_all(600, kClasses);  // of one
  nlohmann::json jobs;
  await([&] { return (jobs = get(t.http(), "/jobs")).size() >= 2; });
  EXPECT_EQ(jobs[1].at("kind"), "finetune");
  const nlohmann::json watch = get(t.http(), "/watch");
  EXPECT_EQ(watch.at("submitted").at("job"), 2);
  EXPECT_THAT(watch.at("submitted").at("why").get<std::string>(),
              ::testing::StartsWith("the classes have changed: population stability index"));
  EXPECT_EQ(watch.at("truths"), 0) << "nobody has labelled a photo since";
  await([&] { return get(t.http(), "/stores")[0].at("version_in_force") == 2; });
}

TEST_F(RoleWatch, ATunerWithoutARuleSaysSo) {
  TunerConfig config = tuner("tuner");
  config.http = "127.0.0.1:0";
  RunningTuner t(config, devices_);
  EXPECT_EQ(HttpClient(t.http()).get("/watch")->status, 404);
}

TEST_F(RoleWatch, EachRuleIsOfOneTaskAndCollection) {
  TunerConfig config = tuner("tuner");
  config.http = "127.0.0.1:0";
  config.watch = {parse_watch_rule(R"({"labels": 6, "job": {}})"),
                  parse_watch_rule(R"({"labels": 7, "job": {"task": "birds"}})")};
  {
    const RunningTuner t(config, devices_);
    EXPECT_EQ(get(t.http(), "/watch").at("rule").at("labels"), 6);
    EXPECT_EQ(get(t.http(), "/watch?task=birds").at("rule").at("labels"), 7);
    const HttpResponse none = HttpClient(t.http()).get("/watch?task=bees").or_throw();
    EXPECT_EQ(none.status, 404);
    EXPECT_NE(none.body.find("birds of default"), std::string::npos) << none.body;
  }
  config.watch.push_back(config.watch[1]);
  EXPECT_THROW(TunerDaemon(config, devices_, real_fs(), system_clock()), Error);
}

}  // namespace
}  // namespace ndtrain::tuner
