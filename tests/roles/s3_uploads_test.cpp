// People upload photos to a PipeStore whose photos are in an S3: what lies there then, and what
// people are told while it cannot.
#include <gmock/gmock.h>

#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "ndp/http/http_client.h"
#include "ndp/photos/upload_path.h"
#include "tests/roles/s3_roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::RunningStore;
using testing::RunningTuner;

class RoleS3Uploads : public testing::S3RolesTest {
 protected:
  PipeStoreConfig far_store() const {
    PipeStoreConfig config = store("far", 0, 1);
    config.photos = "s3://photos/july";
    config.http = "127.0.0.1:0";
    config.rescan = 0.2;
    return config;
  }
  RunningStore start() { return RunningStore(far_store(), devices_, *fs_); }
  // A fine-tuning; version 1 is the first one's.
  nlohmann::json finetune() {
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    const RunningStore a = start();
    JobSpec s;
    s.stores = 1;
    s.freeze = "layer1";
    s.trainer.epochs = 1;
    s.trainer.batch = 8;
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    return outcome(daemon, s);
  }
  static std::string drawn(int i) {
    return encode_jpeg(
        cli::draw_demo_photo(i % kClasses, cli::Look::kDay, 1000 + static_cast<uint64_t>(i)));
  }
  static std::string id_of(int i) { return to_hex(sha256(drawn(i))); }
  static std::string key_of(int i) { return "july/uploads/" + id_of(i) + ".jpg"; }
  std::string file_of(int i) const {  // where one is that the S3 does not take
    return at("state-far/" + upload_path(sha256(drawn(i)), ".jpg"));
  }
  static HttpResponse post(const RunningStore& store, int i) {
    return HttpClient(store.http(), std::chrono::minutes(1))
        .post("/photos", drawn(i), "image/jpeg")
        .or_throw();
  }
  static bool has_line(const RunningStore& store, const std::string& line) {
    const HttpResponse r = HttpClient(store.http()).get("/metrics").or_throw();
    return r.body.find("\n" + line + "\n") != std::string::npos;
  }
  void set_fault_of_puts(const support::S3Fault& fault) {
    server_.set_fault([fault](const support::S3Call& call) {
      return call.method == "PUT" ? fault : support::S3Fault();
    });
  }
};

TEST_F(RoleS3Uploads, LieThereByTheirDigestAndAreOnePhotoForScansPeopleAndJobs) {
  const int classes = finetune().at("classes");
  {
    RunningTuner t(tuner("tuner"), devices_);
    const RunningStore a = start();
    await([&] { return has_line(a, "ndtrain_upload_version{task=\"default\"} 1"); });
    const HttpResponse r = post(a, 1);
    ASSERT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(server_.objects().at(key_of(1)), drawn(1));
    EXPECT_FALSE(real_fs().exists(at("state-far/uploads/" + id_of(1).substr(0, 2))));
    const nlohmann::json json = nlohmann::json::parse(r.body);
    EXPECT_EQ(json.at("path"), "uploads/" + id_of(1) + ".jpg");
    EXPECT_EQ(json.at("source"), "model");
    EXPECT_EQ(nlohmann::json::parse(post(a, 1).body), json);
    EXPECT_EQ(post(a, 2).status, 200);
    EXPECT_EQ(server_.count("PUT"), 2) << "one is there already";

    const HttpClient client(a.http());
    EXPECT_EQ(client.get("/photos/" + id_of(1)).or_throw().body, drawn(1));
    EXPECT_EQ(client.put("/photos/" + id_of(1) + "/label", R"({"label": "peony"})")->status, 200);
    const std::string photos = "ndtrain_photos " + std::to_string(kPhotos + 2);
    await([&] { return has_line(a, photos); });
    const nlohmann::json label =
        nlohmann::json::parse(client.get("/photos/" + id_of(1) + "/label").or_throw().body);
    EXPECT_EQ(label.at("label"), "peony");
    EXPECT_EQ(label.at("scores"), json.at("scores"));
    await([&] { return has_line(a, "ndtrain_upload_outbox 0"); });
  }
  // One is of the class that was said, the other of none.
  const nlohmann::json result = finetune();
  EXPECT_EQ(result.at("classes"), classes + 1);
  EXPECT_EQ(result.at("train_photos").get<int>() + result.at("val_photos").get<int>(), kPhotos + 1);
  const RunningStore a = start();
  EXPECT_EQ(HttpClient(a.http()).remove("/photos/" + id_of(1)).or_throw().status, 200);
  EXPECT_FALSE(server_.objects().contains(key_of(1)));
  EXPECT_TRUE(server_.objects().contains(key_of(2)));
  EXPECT_EQ(HttpClient(a.http()).get("/photos/" + id_of(1)).or_throw().status, 404);
  EXPECT_EQ(post(a, 1).status, 410);
  EXPECT_FALSE(server_.objects().contains(key_of(1)));
}

// What is answered lies there; what cannot be put there is told, and kept nowhere.
TEST_F(RoleS3Uploads, AreTakenWhenTheyLieThereAndNotBefore) {
  const RunningStore a = start();
  for (const support::S3Fault::Kind kind :
       {support::S3Fault::Kind::kStatus, support::S3Fault::Kind::kDamagedRequest,
        support::S3Fault::Kind::kLostAnswer}) {
    std::atomic<int> n = 0;
    server_.set_fault([&](const support::S3Call& call) {
      return call.method == "PUT" && n++ < 2 ? support::S3Fault{.kind = kind} : support::S3Fault();
    });
    const int i = 10 + static_cast<int>(kind);
    EXPECT_EQ(post(a, i).status, 202);
    EXPECT_EQ(server_.objects().at(key_of(i)), drawn(i));
    EXPECT_EQ(n, 3);
    server_.set_fault({});
  }
  server_.drop_bucket();
  const HttpResponse away = post(a, 1);
  EXPECT_EQ(away.status, 503) << away.body;
  EXPECT_EQ(away.headers.at("Retry-After"), "5");
  EXPECT_THAT(away.body,
              ::testing::AllOf(::testing::HasSubstr("make the bucket, or correct its name"),
                               ::testing::HasSubstr("not kept: upload it again")));
  const std::string taken = "/photos/" + to_hex(sha256(server_.objects().begin()->second));
  EXPECT_EQ(HttpClient(a.http()).get(taken).or_throw().status, 503);
  EXPECT_EQ(HttpClient(a.http()).remove(taken).or_throw().status, 503);
  server_.bring_bucket_back();
  EXPECT_FALSE(server_.objects().contains(key_of(1)));
  EXPECT_FALSE(real_fs().exists(file_of(1)));
  EXPECT_EQ(post(a, 1).status, 202);
  EXPECT_EQ(server_.objects().at(key_of(1)), drawn(1));
}

// As before there were uploads in S3; and those of then go on.
TEST_F(RoleS3Uploads, StayInTheStateWhereTheKeysMayNotWrite) {
  log::to_file(at("log.txt"));
  set_fault_of_puts(
      {.kind = support::S3Fault::Kind::kStatus, .status = 403, .code = "AccessDenied"});
  {
    const RunningStore a = start();
    EXPECT_EQ(post(a, 1).status, 202);
    EXPECT_EQ(post(a, 2).status, 202);
    EXPECT_EQ(real_fs().read(file_of(1)).or_throw(), drawn(1));
    const std::string word = R"({"label": "peony"})";
    EXPECT_EQ(HttpClient(a.http()).put("/photos/" + id_of(2) + "/label", word)->status, 200);
  }
  log::to_file("");
  const std::string said = real_fs().read(at("log.txt")).or_throw();
  EXPECT_EQ(said.find("uploads stay in"), said.rfind("uploads stay in")) << "once";
  EXPECT_THAT(said, ::testing::AllOf(::testing::HasSubstr("uploads stay in " + at("state-far")),
                                     ::testing::HasSubstr("403 AccessDenied"),
                                     ::testing::HasSubstr("give these keys leave")));
  server_.set_fault({});
  server_.put(key_of(2), drawn(2));  // somebody moves it
  real_fs().remove(file_of(2)).or_throw();
  const RunningStore a = start();
  EXPECT_EQ(post(a, 1).status, 202);
  EXPECT_EQ(post(a, 3).status, 202);
  EXPECT_FALSE(server_.objects().contains(key_of(1)));
  EXPECT_TRUE(server_.objects().contains(key_of(3)));
  const HttpClient client(a.http());
  HttpResponse label;
  await([&] {  // a look finds it where it is now
    label = client.get("/photos/" + id_of(2) + "/label").or_throw();
    return label.status == 200;
  });
  const nlohmann::json moved = nlohmann::json::parse(label.body);
  EXPECT_EQ(moved.at("path"), "uploads/" + id_of(2) + ".jpg");
  EXPECT_EQ(moved.at("label"), "peony");
  EXPECT_EQ(client.get("/photos/" + id_of(1)).or_throw().body, drawn(1));
  EXPECT_EQ(client.remove("/photos/" + id_of(1)).or_throw().status, 200);
  EXPECT_FALSE(real_fs().exists(file_of(1)));
}

// Whoever took it has the words that people said of it; nobody finds it.
TEST_F(RoleS3Uploads, AreOfTheStoreThatTookThemWhereSeveralShareABucket) {
  log::to_file(at("log.txt"));
  PipeStoreConfig config = far_store();
  config.shards = 2;
  const RunningStore a(config, devices_, *fs_);
  const auto photos = [&] {
    const std::string text = HttpClient(a.http()).get("/metrics").or_throw().body;
    return std::stoi(text.substr(text.find("\nndtrain_photos ") + 16));
  };
  int in_its_share = 0;
  for (int i = 0; i < kPhotos; ++i) {
    const std::string path = "c" + std::to_string(i % kClasses) + "/" + std::to_string(i) + ".jpg";
    in_its_share += xxh3(path.data(), path.size()) % 2 == 0;
  }
  await([&] { return photos() == in_its_share; });
  int others = 0;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(post(a, i).status, 202);
    const std::string path = upload_key(upload_path(sha256(drawn(i)), ".jpg"));
    others += xxh3(path.data(), path.size()) % 2 == 1;
  }
  EXPECT_GT(others, 0);
  await([&] { return photos() == in_its_share + 4; });
  log::to_file("");
  EXPECT_THAT(real_fs().read(at("log.txt")).or_throw(),
              ::testing::Not(::testing::HasSubstr("photos in the folder")));
}

TEST_F(RoleS3Uploads, NeverReplaceAnObject) {
  server_.put(key_of(1), "somebody's own");
  const RunningStore a = start();
  EXPECT_EQ(post(a, 1).status, 202);
  EXPECT_EQ(server_.objects().at(key_of(1)), "somebody's own");
  EXPECT_EQ(HttpClient(a.http()).get("/photos/" + id_of(1)).or_throw().body, drawn(1));
}

}  // namespace
}  // namespace ndtrain::tuner
