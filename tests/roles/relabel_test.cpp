// Relabellings over stores: while their database is killed, and while a person has paused them.
#include <numeric>

#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "ndp/pipestore/photo_row_producer.h"
#include "ndp/postgres/postgres.h"
#include "tests/roles/roles_fixture.h"
#include "tests/support/postgres_server.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::RunningStore;
using testing::RunningTuner;

class RoleRelabel : public testing::RolesTest {
 protected:
  TunerConfig tuner_with(const std::string& db) const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    config.db = db;
    return config;
  }
  static nlohmann::json ask(const Result<HttpResponse>& answer) {
    answer.status().or_throw();
    EXPECT_LT(answer->status, 400) << answer->body;
    return nlohmann::json::parse(answer->body);
  }
  uint64_t submit(const HttpClient& tuner, JobSpec spec) {
    const std::string file = real_fs().read(at("base.onnx")).or_throw();
    spec.model = to_hex(sha256(file));
    (void)ask(tuner.put("/models/" + spec.model, file));
    return ask(tuner.post("/jobs", spec.text())).at("job");
  }
  static nlohmann::json job(const HttpClient& tuner, uint64_t id) {
    return ask(tuner.get("/jobs/" + std::to_string(id)));
  }
  static std::vector<std::string> said(const HttpClient& tuner, uint64_t id) {
    return ask(tuner.get("/jobs/" + std::to_string(id) + "/log")).at("lines");
  }
  static void await_done(const HttpClient& tuner, uint64_t id) {
    await([&] {
      const std::string state = job(tuner, id).at("state");
      return state != "running" && state != "queued";
    });
    EXPECT_EQ(job(tuner, id).at("state"), "done") << job(tuner, id);
  }
  static JobSpec relabel(uint32_t stores) {
    JobSpec spec;
    spec.kind = JobKind::kRelabel;
    spec.stores = stores;
    return spec;
  }
};

// Of every photo, all that was ever said.
std::vector<LabelRow> all_labels(LabelDb& db) {
  std::vector<LabelRow> all;
  const int64_t task = db.task(kDefaultTask).or_throw();
  const LabelQuery query{.collection = db.collection(kDefaultCollection).or_throw(), .task = task};
  for (const LabelRow& current : db.query(query).or_throw().rows) {
    for (LabelRow& row : db.history(task, current.photo).or_throw()) all.push_back(std::move(row));
  }
  return all;
}

// A transaction with labels is under way when the server dies.
TEST_F(RoleRelabel, WaitsForAPostgreSqlThatWasKilledAndLabelsEachPhotoOnce) {
  if (const std::string why = support::PostgresServer::lacking(); !why.empty()) GTEST_SKIP() << why;
  support::PostgresServer server;
  const std::string url = server.new_database();
  (void)open_label_db(url).or_throw();  // makes its tables
  postgres::Connection admin(url, "SET client_min_messages = warning");
  admin.execute(
      "CREATE FUNCTION take_long() RETURNS trigger LANGUAGE plpgsql AS"
      " 'BEGIN PERFORM pg_sleep(3); RETURN NULL; END';"
      "CREATE TRIGGER slow AFTER INSERT ON labels EXECUTE FUNCTION take_long()");
  RunningTuner t(tuner_with(url), devices_);
  RunningStore a(store("a", 0, 2), devices_), b(store("b", 1, 2), devices_);
  const HttpClient client(t.http());
  const uint64_t first = submit(client, relabel(2));
  await([&] {
    constexpr const char* kWrites =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    return admin.query(kWrites, {}).integer(0, 0) > 0;
  });
  server.kill();
  await([&] {
    const auto lines = said(client, first);
    return std::ranges::any_of(lines, [](auto& line) { return line.starts_with("waits: no con"); });
  });
  server.start();
  const auto some = open_label_db(url).or_throw();
  EXPECT_LT(all_labels(*some).size(), static_cast<size_t>(kPhotos)) << "it was not in the middle";
  await_done(client, first);
  EXPECT_EQ(all_labels(*some).size(), static_cast<size_t>(kPhotos));
  EXPECT_EQ(job(client, first).at("result").at("labelled"), kPhotos);

  server.kill();  // and before a job begins
  const uint64_t second = submit(client, relabel(2));
  await([&] { return said(client, second).back().starts_with("waits: "); });
  server.start();
  await_done(client, second);
  EXPECT_EQ(job(client, second).at("result").at("already_labelled"), kPhotos);
}

TEST_F(RoleRelabel, APausedOneLetsOthersGoFirstAndOutlivesItsRoles) {
  const std::string db = "sqlite:" + at("labels.db");
  uint64_t paused = 0;
  const auto post = [&](const RunningTuner& t, const std::string& what) {
    return ask(HttpClient(t.http()).post("/jobs/" + std::to_string(paused) + "/" + what, ""));
  };
  {
    RunningTuner t(tuner_with(db), devices_);
    RunningStore a(store("a", 0, 2), devices_);
    paused = submit(HttpClient(t.http()), relabel(2));
    await([&] {
      return job(HttpClient(t.http()), paused).contains("waits_for");  // for the second store
    });
    EXPECT_EQ(post(t, "pause").at("state"), "paused");
  }
  RunningStore b(store("b", 1, 2), devices_);
  {
    RunningTuner t(tuner_with(db), devices_);
    RunningStore a(store("a", 0, 2), devices_);
    JobSpec other = relabel(2);
    other.kind = JobKind::kEvaluate;
    await_done(HttpClient(t.http()), submit(HttpClient(t.http()), other));
    EXPECT_EQ(job(HttpClient(t.http()), paused).at("state"), "paused");
    EXPECT_EQ(HttpClient(t.http()).post("/jobs/1/pause", "").or_throw().status, 400) << "it is";
  }
  RunningTuner t(tuner_with(db), devices_);
  RunningStore a(store("a", 0, 2), devices_);
  EXPECT_NE(post(t, "resume").at("state"), "paused");
  await_done(HttpClient(t.http()), paused);
  EXPECT_EQ(all_labels(*open_label_db(db).or_throw()).size(), static_cast<size_t>(kPhotos));
}

TEST_F(RoleRelabel, WhatAStoreDoesForAJobThatWasPausedEndsAndBeginsAnew) {
  PhotoRowProducer producer({.photos = at("photos"), .cache = at("cache"), .batch = 8}, devices_,
                            real_fs(), system_clock());
  const auto photos = std::make_shared<StoreInventory>(producer.scan().or_throw());
  std::vector<size_t> all(photos->photos.size());
  std::iota(all.begin(), all.end(), size_t{0});
  wire::Job job;
  job.set_job(3);
  job.set_rows(wire::Job::LABELS);
  job.set_top_k(1);
  const auto rows = producer.open(job, photos, at("base.onnx"), "").or_throw();
  const auto others = producer.open(job, photos, at("base.onnx"), "").or_throw();
  rows->give_up();
  EXPECT_EQ(rows->make(all).or_throw().rows.size(), 0U);
  EXPECT_EQ(others->make(all).or_throw().rows.size(), static_cast<size_t>(kPhotos));
  const auto again = producer.open(job, photos, at("base.onnx"), "").or_throw();
  EXPECT_EQ(again->make(all).or_throw().rows.size(), static_cast<size_t>(kPhotos));
}

}  // namespace
}  // namespace ndtrain::tuner
