// Photos that somebody puts into a store's folder: labelled by the version in force, heard of by
// the Tuner once, counted; and what becomes of those that are moved, removed or deleted.
#include <gmock/gmock.h>

#include "framework/core/log.h"
#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/roles_fixture.h"
#include "tests/support/files.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::RunningStore;
using testing::RunningTuner;

class RoleFolder : public testing::RolesTest {
 protected:
  void SetUp() override {
    RolesTest::SetUp();
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    RunningStore a(store_at("a"), devices_);
    JobSpec s;
    s.stores = 1;
    s.freeze = "layer1";
    s.trainer.epochs = 1;
    s.trainer.batch = 8;
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    (void)outcome(daemon, s);
  }
  PipeStoreConfig store_at(const std::string& name, uint32_t i = 0, uint32_t n = 1) const {
    PipeStoreConfig config = store(name, i, n);
    config.http = "127.0.0.1:0";
    return config;
  }
  TunerConfig tuner_with_http() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }
  static std::string photo(int i) {
    return encode_jpeg(
        cli::draw_demo_photo(i % kClasses, cli::Look::kDay, 3000 + static_cast<uint64_t>(i)));
  }
  // As `cp` does it.
  void copy_in(const std::string& path, int i) const {
    const std::string to = at("photos/" + path);
    support::write_file(real_fs(), to, photo(i));
  }
  static bool shows(const RunningStore& store, const std::string& line) {
    const auto r = HttpClient(store.http()).get("/metrics");
    return r.ok() && r->body.find("\n" + line + "\n") != std::string::npos;
  }
  static uint64_t counted(const RunningTuner& t) {
    const nlohmann::json stores =
        nlohmann::json::parse(HttpClient(t.http()).get("/stores").or_throw().body);
    return stores.at(0).at("photos");
  }
  // The labels of one photo, of all versions.
  std::vector<LabelRow> labels_of(int i) const {
    const auto db = open_label_db("sqlite:" + at("tuner/labels.db"), OpenLabelDb::kExisting);
    if (!db.ok()) return {};
    const auto collection = existing_collection(**db, "default");
    const auto task = existing_task(**db, "default");
    if (!collection.ok() || !task.ok()) return {};  // nothing has come yet
    std::vector<LabelRow> rows =
        (*db)->query({.collection = *collection, .task = *task}).or_throw().rows;
    std::erase_if(rows, [&](const LabelRow& row) { return row.digest != sha256(photo(i)); });
    return rows;
  }
};

TEST_F(RoleFolder, APhotoThatIsCopiedInIsLabelledByTheVersionInForceWithinSeconds) {
  RunningTuner t(tuner_with_http(), devices_);
  RunningStore a(store_at("a"), devices_);
  await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
  const auto begun = system_clock().monotonic();
  copy_in("c0/new.jpg", 0);
  await([&] { return !labels_of(0).empty(); });
  const double seconds = std::chrono::duration<double>(system_clock().monotonic() - begun).count();
  RecordProperty("seconds", std::to_string(seconds));
  log::info("from its copy to the label database: {:.2f} s", seconds);
  EXPECT_LT(seconds, 5);
  const std::vector<LabelRow> rows = labels_of(0);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].path, "a/c0/new.jpg");
  EXPECT_EQ(rows[0].source, LabelSource::kModel);
  await([&] { return counted(t) == kPhotos + 1; });

  // Moved, it keeps its label and says where it is; removed, it is counted no more.
  std::filesystem::rename(at("photos/c0/new.jpg"), at("photos/c1/moved.jpg"));
  await([&] {
    const HttpResponse r =
        HttpClient(a.http()).get("/photos/" + to_hex(sha256(photo(0))) + "/label").or_throw();
    return r.status == 200 && r.body.find("c1/moved.jpg") != std::string::npos;
  });
  await([&] { return shows(a, "ndtrain_upload_outbox 0"); });
  EXPECT_TRUE(shows(a, "ndtrain_photos_found_total 1"));
  std::filesystem::remove(at("photos/c1/moved.jpg"));
  await([&] { return counted(t) == kPhotos; });
  std::vector<std::string> paths;  // the Tuner keeps those that were
  for (const LabelRow& row : labels_of(0)) paths.push_back(row.path);
  EXPECT_THAT(paths, ::testing::UnorderedElementsAre("a/c0/new.jpg", "a/c1/moved.jpg"))
      << "it is no deletion";
}

TEST_F(RoleFolder, WhatComesWhileTheTunerOrTheStoreIsAwayIsLabelledOnce) {
  copy_in("c0/0.new.jpg", 0);  // while both are
  {
    RunningStore a(store_at("a"), devices_);
    await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
    for (int i = 1; i < 40; ++i) copy_in("more/of/" + std::to_string(i) + ".jpg", i);
    await([&] { return shows(a, "ndtrain_upload_outbox 80"); });
  }
  RunningTuner t(tuner_with_http(), devices_);
  RunningStore a(store_at("a"), devices_);
  await([&] { return shows(a, "ndtrain_upload_outbox 0"); });
  for (int i = 0; i < 40; ++i) EXPECT_EQ(labels_of(i).size(), 1U) << i;
  await([&] { return counted(t) == kPhotos + 40; });
}

TEST_F(RoleFolder, ADeletedPhotoThatIsPutBackIsForgottenAtOnce) {
  RunningTuner t(tuner_with_http(), devices_);
  RunningStore a(store_at("a"), devices_);
  await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
  copy_in("c0/new.jpg", 0);
  await([&] { return !labels_of(0).empty(); });
  const std::string id = to_hex(sha256(photo(0)));
  EXPECT_EQ(HttpClient(t.http()).remove("/photos/" + id).or_throw().status, 200);
  await([&] { return !real_fs().exists(at("photos/c0/new.jpg")); });
  copy_in("c1/back.jpg", 0);
  await([&] { return !real_fs().exists(at("photos/c1/back.jpg")); });
  EXPECT_TRUE(labels_of(0).empty());
}

TEST_F(RoleFolder, EachShardLabelsItsOwnAndNobodyDoesWhoDoesNotWatch) {
  {
    PipeStoreConfig blind = store_at("a");
    blind.watch = false;
    RunningStore a(blind, devices_);
    await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
    copy_in("c0/unheard.jpg", 99);
    std::this_thread::sleep_for(std::chrono::milliseconds(800));
    EXPECT_TRUE(shows(a, "ndtrain_photos_found_total 0"));
  }
  RunningTuner t(tuner_with_http(), devices_);
  RunningStore b(store_at("b", 0, 2), devices_), c(store_at("c", 1, 2), devices_);
  await([&] {
    return shows(b, "ndtrain_upload_version{task=\"default\"} 1") &&
           shows(c, "ndtrain_upload_version{task=\"default\"} 1") &&
           shows(b, "ndtrain_photos_found_total 0");
  });
  std::this_thread::sleep_for(std::chrono::seconds(1));  // what was there first is none of theirs
  for (int i = 0; i < 20; ++i) copy_in("s/" + std::to_string(i) + ".jpg", i);
  std::set<std::string> stores;
  for (int i = 0; i < 20; ++i) {
    await([&] { return labels_of(i).size() == 1; });
    stores.insert(labels_of(i)[0].path.substr(0, 2));
  }
  EXPECT_THAT(stores, ::testing::ElementsAre("b/", "c/"));
}

}  // namespace
}  // namespace ndtrain::tuner
