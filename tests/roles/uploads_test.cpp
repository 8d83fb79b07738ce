// People upload photos: through the Tuner's address, labelled by the store they land on, heard of
// by the Tuner once.
#include <gmock/gmock.h>

#include "ndp/http/http_client.h"
#include "ndp/jobs/classify.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/roles_fixture.h"
#include "tuner/http/http_uploads.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::RunningStore;
using testing::RunningTuner;

class RoleUploads : public testing::RolesTest {
 protected:
  PipeStoreConfig store_with_http(const std::string& name) const {
    PipeStoreConfig config = store(name, 0, 1);
    config.http = "127.0.0.1:0";
    return config;
  }
  TunerConfig tuner_with_http() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }
  // Version 1, trained over one store; its run directory.
  std::string train() {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    RunningStore a(store_with_http("a"), devices_);
    JobSpec s;
    s.stores = 1;
    s.freeze = "layer1";
    s.trainer.epochs = 2;
    s.trainer.batch = 8;
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    return outcome(daemon, s)["model"];
  }
  static std::string photo(int i) {
    return encode_jpeg(
        cli::draw_demo_photo(i % kClasses, cli::Look::kDay, static_cast<uint64_t>(1000 + i)));
  }
  static nlohmann::json upload(const std::string& address, int i) {
    const HttpResponse r = HttpClient(address).post("/photos", photo(i), "image/jpeg").or_throw();
    EXPECT_EQ(r.status, 200) << r.body;
    return nlohmann::json::parse(r.body);
  }
  static bool shows(const RunningStore& store, const std::string& line) {
    const auto r = HttpClient(store.http()).get("/metrics");
    return r.ok() && r->body.find("\n" + line + "\n") != std::string::npos;
  }
  // Files of the roles with something of the photo. Those that say that it was deleted may have its
  // name, which is its digest, and no more of it.
  std::string traces(const std::string& photo) const {
    const Digest id = sha256(photo);
    const std::string needles[] = {photo.substr(photo.size() / 2, 64), to_hex(id),
                                   std::string(id.begin(), id.end())};
    std::string found;
    for (const char* state : {"tuner", "state-a", "state-b"}) {
      if (!real_fs().exists(at(state))) continue;
      for (const auto& e : std::filesystem::recursive_directory_iterator(at(state))) {
        const std::string path = e.path();
        const bool says_so = path.ends_with("tuner/deletions") || path.ends_with("/uploads/log") ||
                             path.ends_with("/audit.jsonl");
        const auto bytes = e.is_regular_file() ? real_fs().read(path) : Result<std::string>("");
        if (bytes.status().code() == Code::kNotFound) continue;
        if (!bytes.ok()) {  // it is being written just now
          found += path + "\n";
          continue;
        }
        for (const std::string& needle : needles) {
          if (says_so && needle != needles[0]) continue;
          if (bytes->find(needle) != std::string::npos) found += path + "\n";
        }
      }
    }
    return found;
  }
  std::vector<LabelRow> labels() const {
    const auto db =
        open_label_db("sqlite:" + at("tuner/labels.db"), OpenLabelDb::kExisting).or_throw();
    return db
        ->query({.collection = existing_collection(*db, "default").or_throw(),
                 .task = existing_task(*db, "default").or_throw()})
        .or_throw()
        .rows;
  }
};

TEST_F(RoleUploads, GoThroughTheTunerForWhoCannotReachAStore) {
  (void)train();
  RunningTuner t(tuner_with_http(), devices_);
  const HttpClient client(t.http());
  const auto relay = [&](const std::string& body, const std::string& type = "image/jpeg") {
    return client.post("/uploads", body, type).or_throw();
  };
  EXPECT_EQ(relay(photo(0)).status, 503) << "there is no store";
  EXPECT_EQ(relay(photo(0)).headers.at("Retry-After"), "5");
  PipeStoreConfig config = store_with_http("a");
  config.uploads.most_bytes = 100'000;
  RunningStore a(config, devices_);
  await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
  HttpResponse r;
  await([&] { return (r = relay(photo(0))).status != 503; });
  ASSERT_EQ(r.status, 200) << r.body;
  const nlohmann::json json = nlohmann::json::parse(r.body);
  EXPECT_EQ(json.at("id"), to_hex(sha256(photo(0))));
  EXPECT_EQ(json, upload(a.http(), 0)) << "as the store itself answers";
  const HttpResponse shown =
      HttpClient(a.http()).get("/photos/" + to_hex(sha256(photo(0)))).or_throw();
  EXPECT_EQ(shown.body, photo(0));

  // What a browser's form sends, as it is.
  const std::string form =
      "--x\r\nContent-Disposition: form-data; name=\"photo\"; "
      "filename=\"x.jpg\"\r\n\r\n" +
      photo(1) + "\r\n--x--\r\n";
  EXPECT_EQ(nlohmann::json::parse(relay(form, "multipart/form-data; boundary=x").body).at("id"),
            to_hex(sha256(photo(1))));
  const size_t bytes = photo(0).size() + photo(1).size();
  await([&] { return shows(a, "ndtrain_bytes_total{kind=\"uploads\"} " + std::to_string(bytes)); });
  EXPECT_TRUE(shows(a, "ndtrain_photos_by_state{state=\"labelled\"} 2"));
  EXPECT_TRUE(shows(a, "ndtrain_photos_by_state{state=\"unlabelled\"} 0"));
  // What the store says of a photo that it does not take, it says.
  EXPECT_EQ(relay(photo(2).substr(0, 100)).status, 422);
  EXPECT_EQ(relay("").status, 400);
  EXPECT_EQ(relay(photo(2).substr(0, 100) + std::string(100'000, 'x')).status, 413);
  // What begins as no photo and what is too much for any store does not get to one.
  EXPECT_EQ(relay("no photo").status, 422);
  EXPECT_EQ(relay(std::string(kMostRelayed + 1, 'x')).status, 413);
}

TEST_F(RoleUploads, AreLabelledWhereTheyLandAndTheTunerHearsOfEachOnceAlsoOfThoseItMissed) {
  const std::string model = train();
  RunningStore a(store_with_http("a"), devices_);
  await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
  std::map<std::string, nlohmann::json> answers;
  {
    RunningTuner t(tuner_with_http(), devices_);
    const HttpClient client(t.http());
    HttpResponse r;
    await([&] {
      r = client.post("/photos", photo(0), "image/jpeg").or_throw();
      return r.status == 307;
    });
    EXPECT_EQ(r.headers.at("Location"), "http://" + a.http() + "/photos");
    for (int i = 0; i < 5; ++i) {
      const nlohmann::json json = upload(a.http(), i);
      answers[json.at("id")] = json;
    }
    await([&] { return shows(a, "ndtrain_upload_outbox 0"); });
  }
  for (int i = 5; i < 12; ++i) {  // the Tuner is away
    const nlohmann::json json = upload(a.http(), i);
    answers[json.at("id")] = json;
  }
  EXPECT_TRUE(shows(a, "ndtrain_upload_outbox 7"));
  {
    RunningTuner t(tuner_with_http(), devices_);
    await([&] { return shows(a, "ndtrain_upload_outbox 0"); });
  }
  // The whole model, on one machine, as `ndtrain eval` runs it.
  const ModelFile whole = load_model(real_fs(), model);
  PhotoSet set{.root = at("state-a")};
  std::vector<size_t> items;
  for (const auto& [id, json] : answers) {
    set.photos.push_back({.path = json.at("path"), .digest = digest_from_hex(id)});
    items.push_back(items.size());
  }
  std::vector<Classification> expected(items.size());
  classify(whole, devices_.get(false), real_fs(), set, items, {},
           [&](std::span<const Classification> some, std::span<const BadPhoto> bad) {
             EXPECT_TRUE(bad.empty());
             for (const Classification& c : some) expected[c.photo] = c;
             return true;
           });
  const std::vector<LabelRow> rows = labels();
  ASSERT_EQ(rows.size(), answers.size());
  for (const LabelRow& row : rows) {
    const nlohmann::json& json = answers.at(to_hex(row.digest));
    EXPECT_EQ(row.path, "a/" + json.at("path").get<std::string>());
    EXPECT_EQ(row.class_name, json.at("label").get<std::string>());
    EXPECT_FLOAT_EQ(static_cast<float>(*row.score), json.at("scores").at(0).at("score"));
    const auto at = std::ranges::find(set.photos, row.digest, &Photo::digest);
    const ClassScore& top = expected[static_cast<size_t>(at - set.photos.begin())].top[0];
    EXPECT_EQ(row.class_name, whole.class_name(top.id));
    EXPECT_FLOAT_EQ(static_cast<float>(*row.score), top.score);
  }
}

TEST_F(RoleUploads, AreNoClassOfThePhotoDirectoryAndTrainedOnOnceSomebodySaysWhatTheyShow) {
  (void)train();
  const auto classes = [&] {
    return read_image_folder(real_fs(), at("photos")).or_throw().classes;
  };
  const std::vector<std::string> before = classes();
  RunningStore a(store_with_http("a"), devices_);
  std::string id;
  {
    RunningTuner t(tuner_with_http(), devices_);
    await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
    id = upload(a.http(), 1).at("id");
    (void)upload(a.http(), 2);
    EXPECT_EQ(classes(), before);
    const std::string truth = nlohmann::json{{"label", "peony"}}.dump();
    EXPECT_EQ(HttpClient(a.http()).put("/photos/" + id + "/label", truth).or_throw().status, 200);
  }
  TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
  JobSpec s;
  s.stores = 1;
  s.freeze = "layer1";
  s.trainer.epochs = 1;
  s.model = to_hex(daemon.add_model(at("base.onnx")));
  const nlohmann::json result = outcome(daemon, s);
  EXPECT_EQ(result["classes"], before.size() + 1);
  EXPECT_EQ(result["train_photos"].get<int>() + result["val_photos"].get<int>(), kPhotos + 1);
}

TEST_F(RoleUploads, WhatPeopleSayAndDeleteReachesTheTuner) {
  (void)train();
  RunningStore a(store_with_http("a"), devices_);
  await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
  const std::string kept = upload(a.http(), 1).at("id"), gone = upload(a.http(), 2).at("id");
  const HttpClient client(a.http());
  EXPECT_EQ(client.put("/photos/" + kept + "/label", R"({"label": "peony"})").or_throw().status,
            200);
  EXPECT_EQ(client.remove("/photos/" + gone).or_throw().status, 200);
  {
    RunningTuner t(tuner_with_http(), devices_);
    await([&] { return shows(a, "ndtrain_upload_outbox 0"); });
  }
  const std::vector<LabelRow> rows = labels();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(to_hex(rows[0].digest), kept);
  EXPECT_EQ(rows[0].class_name, "peony");
  EXPECT_EQ(rows[0].source, LabelSource::kHuman);
}

TEST_F(RoleUploads, AndAllPhotosAreFoundNowhereWhenTheyAreDeletedAtTheTunerAndAStoreWasAway) {
  std::filesystem::create_directories(at("photos-b"));
  std::filesystem::copy(at("photos/c0"), at("photos-b/c0"));
  PipeStoreConfig other = store_with_http("b");
  other.photos = at("photos-b");
  (void)train();
  {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    RunningStore a(store_with_http("a"), devices_), b(other, devices_);
    JobSpec relabel;
    relabel.kind = JobKind::kRelabel;
    relabel.stores = 2;
    (void)outcome(daemon, relabel);
  }
  const std::string copied = real_fs().read(at("photos/c0/0.jpg")).or_throw();
  RunningTuner t(tuner_with_http(), devices_);
  RunningStore a(store_with_http("a"), devices_);
  await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
  const std::string uploaded = upload(a.http(), 1).at("id");
  await([&] { return shows(a, "ndtrain_upload_outbox 0"); });
  EXPECT_FALSE(traces(copied).empty());
  EXPECT_FALSE(traces(photo(1)).empty());

  const HttpClient client(t.http());
  const std::string word = R"({"label": "a secret"})",
                    page = client.get("/labels?limit=1000")->body;
  const nlohmann::json labelled = nlohmann::json::parse(page).at("rows");
  int spoken = 0;
  for (const nlohmann::json& row : labelled) {
    if (row.at("id") != to_hex(sha256(copied))) continue;
    const std::string label = "/labels/" + row.at("photo").dump();
    EXPECT_EQ(client.put(label, word).or_throw().status, 200);
    ++spoken;
  }
  EXPECT_EQ(spoken, 2) << "it lies at both stores";
  EXPECT_EQ(HttpClient(a.http()).put("/photos/" + uploaded + "/label", word)->status, 200);
  EXPECT_EQ(client.remove("/photos/a/c0/none.jpg").or_throw().status, 404);
  const HttpResponse answer = client.remove("/photos/a/c0/0.jpg").or_throw();
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(nlohmann::json::parse(answer.body).at("id"), to_hex(sha256(copied)));
  EXPECT_EQ(client.remove("/photos/" + uploaded).or_throw().status, 200);
  RunningStore b(other, devices_);
  await([&] {
    const nlohmann::json stores = nlohmann::json::parse(client.get("/stores").or_throw().body);
    return stores.size() == 2 && std::ranges::all_of(stores, [](const nlohmann::json& s) {
             return s.at("deletions_due") == 0;
           });
  });
  for (const char* path : {"photos/c0/0.jpg", "photos-b/c0/0.jpg"}) {
    EXPECT_FALSE(real_fs().exists(at(path))) << path;
  }
  EXPECT_EQ(HttpClient(b.http()).post("/photos", photo(1), "image/jpeg").or_throw().status, 410);
  for (const char* state : {"tuner/audit.jsonl", "state-a/audit.jsonl"}) {
    const auto audit = [&] { return real_fs().read(at(state)).or_throw(); };
    await([&] { return audit().find("secret") == std::string::npos; });
    EXPECT_EQ(audit().find("0.jpg"), std::string::npos) << audit();
    EXPECT_NE(audit().find(R"("what":"label","request":"PUT /photos/)"), std::string::npos)
        << audit();
  }
  for (const std::string& file : {copied, photo(1)}) {
    await([&] { return traces(file).empty(); });
    EXPECT_EQ(traces(file), "");
  }
}

TEST_F(RoleUploads, AFileOfADeletedPhotoThatNoScanHadSeenOrThatIsPutBackGoesWithTheNextScan) {
  (void)train();
  const std::string unseen = at("photos/c1/unseen.jpg"), again = at("photos/c2/again.jpg"),
                    stays = at("photos/c1/stays.jpg");
  {
    RunningTuner t(tuner_with_http(), devices_);
    RunningStore a(store_with_http("a"), devices_);
    await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
    publish(real_fs(), unseen, photo(1)).or_throw();
    publish(real_fs(), stays, photo(3)).or_throw();
    const std::string uploaded = upload(a.http(), 2).at("id");
    const HttpClient client(t.http());
    for (const std::string& id : {uploaded, to_hex(sha256(photo(1)))}) {
      EXPECT_EQ(client.remove("/photos/" + id).or_throw().status, 200);
    }
    await([&] {
      return nlohmann::json::parse(client.get("/stores").or_throw().body)[0].at("deletions_due") ==
             0;
    });
    publish(real_fs(), again, photo(2)).or_throw();
  }
  {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    RunningStore a(store_with_http("a"), devices_);
    JobSpec relabel;
    relabel.kind = JobKind::kRelabel;
    (void)outcome(daemon, relabel);
  }
  EXPECT_FALSE(real_fs().exists(unseen));
  EXPECT_FALSE(real_fs().exists(again));
  EXPECT_TRUE(real_fs().exists(stays));
  std::vector<Digest> labelled;
  for (const LabelRow& row : labels()) labelled.push_back(row.digest);
  EXPECT_EQ(labelled.size(), kPhotos + 1U);
  EXPECT_THAT(labelled, ::testing::Contains(sha256(photo(3))));
  // It tidies up at once; a deletion that is said to it once more is written down, and wiped.
  RunningStore a(store_with_http("a"), devices_);
  await([&] { return (traces(photo(1)) + traces(photo(2))).empty(); });
}

TEST_F(RoleUploads, ARelabelFindsThatTheyAreDoneAndAnotherStoreSaysTheSame) {
  (void)train();
  std::map<std::string, nlohmann::json> answers;
  {
    RunningStore a(store_with_http("a"), devices_);
    await([&] { return shows(a, "ndtrain_upload_version{task=\"default\"} 1"); });
    for (int i = 0; i < 6; ++i) {
      const nlohmann::json json = upload(a.http(), i);
      answers[json.at("id")] = json;
    }
    RunningTuner t(tuner_with_http(), devices_);
    await([&] { return shows(a, "ndtrain_upload_outbox 0"); });
  }
  // From kept crops, from features, and by a store that has neither; into a new database each time.
  for (const std::string way : {"crops", "features", "nothing"}) {
    std::filesystem::remove(at("tuner/labels.db"));
    PipeStoreConfig config = store_with_http("a");
    if (way == "nothing") std::filesystem::remove_all(config.state + "/cache");
    if (way == "crops") {  // the features of the training photos go too
      const auto cache =
          SegmentStore::open(real_fs(), system_clock(), config.state + "/cache/features")
              .or_throw();
      const auto groups = cache->groups();
      ASSERT_EQ(groups.size(), 2U);
      for (const GroupInfo& g : groups) {
        if (g.records != 6) cache->remove_group(g.group).or_throw();
      }
      cache->close().or_throw();
    }
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    RunningStore a(config, devices_);
    JobSpec relabel;
    relabel.kind = JobKind::kRelabel;
    relabel.stores = 1;
    relabel.seed = way.size();
    EXPECT_EQ(outcome(daemon, relabel)["photos"], kPhotos + 6);
    int uploaded = 0;
    for (const LabelRow& row : labels()) {
      const auto answer = answers.find(to_hex(row.digest));
      if (answer == answers.end()) continue;
      ++uploaded;
      EXPECT_EQ(row.class_name, answer->second.at("label").get<std::string>()) << way;
      EXPECT_FLOAT_EQ(static_cast<float>(*row.score), answer->second.at("scores").at(0).at("score"))
          << way;
    }
    EXPECT_EQ(uploaded, 6);
  }
}

}  // namespace
}  // namespace ndtrain::tuner
