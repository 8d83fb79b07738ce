// Which stores take part in a job, with real daemons.
#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::RunningStore;
using testing::RunningTuner;

class RoleJobStores : public testing::RolesTest {
 protected:
  TunerConfig with_http() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }
  static nlohmann::json ask(const Result<HttpResponse>& answer) {
    answer.status().or_throw();
    EXPECT_LT(answer->status, 400) << answer->body;
    return nlohmann::json::parse(answer->body);
  }
  nlohmann::json submitted(const HttpClient& tuner, const std::string& kind) const {
    const std::string file = real_fs().read(at("base.onnx")).or_throw();
    const std::string model = to_hex(sha256(file));
    (void)ask(tuner.put("/models/" + model, file));
    return ask(tuner.post("/jobs", nlohmann::json{{"kind", kind}, {"model", model}}.dump()));
  }
  static nlohmann::json job(const HttpClient& tuner, const nlohmann::json& id) {
    return ask(tuner.get("/jobs/" + id.at("job").dump()));
  }
  static nlohmann::json stores(const HttpClient& tuner) { return ask(tuner.get("/stores")); }
  static uint64_t photos_of(const HttpClient& tuner, const std::string& name) {
    for (const nlohmann::json& s : stores(tuner)) {
      if (s.at("store") == name) return s.at("photos");
    }
    return 0;
  }
  static bool all_here(const HttpClient& tuner, size_t n) {
    const nlohmann::json all = stores(tuner);
    return all.size() == n &&
           std::ranges::all_of(all, [](auto& s) { return s.at("here") == true; });
  }
};

TEST_F(RoleJobStores,
       OfThreeOneLateAndOneDrainedEveryPhotoOfThoseThatCameIsLabelledByPlainDefaults) {
  RunningTuner t(with_http(), devices_);
  const HttpClient tuner(t.http());
  RunningStore a(store("a", 0, 3), devices_), c(store("c", 2, 3), devices_);
  {
    const RunningStore b(store("b", 1, 3), devices_);
    await([&] { return all_here(tuner, 3); });
  }
  const uint64_t in_a = photos_of(tuner, "a"), in_b = photos_of(tuner, "b"),
                 in_c = photos_of(tuner, "c");
  EXPECT_EQ(in_a + in_b + in_c, static_cast<uint64_t>(kPhotos)) << "before any job";
  (void)ask(tuner.post("/stores/c/drain", ""));
  const nlohmann::json id = submitted(tuner, "relabel");
  await([&] {
    const std::string doing = job(tuner, id).value("doing", "");
    return doing.starts_with("waits for b (");  // a has said what it holds
  });
  EXPECT_EQ(job(tuner, id).at("waits_for").at(0).at("store"), "b");
  const RunningStore b(store("b", 1, 3), devices_);
  await([&] { return job(tuner, id).at("state") == "done"; });
  const nlohmann::json result = job(tuner, id).at("result");
  EXPECT_EQ(result.at("labelled"), in_a + in_b);
  const nlohmann::json left_out =
      nlohmann::json::array({nlohmann::json{{"store", "c"}, {"photos", in_c}, {"why", "drained"}}});
  EXPECT_EQ(result.at("left_out_stores"), left_out);
}

TEST_F(RoleJobStores, APhotoThatCannotBeReadLeavesARelabellingWithLeftOut) {
  publish(real_fs(), at("photos/c0/torn.jpg"), "\xff\xd8\xff and nothing more").or_throw();
  RunningTuner t(with_http(), devices_);
  const HttpClient tuner(t.http());
  RunningStore a(store("a", 0, 1), devices_);
  await([&] { return all_here(tuner, 1); });
  const nlohmann::json id = submitted(tuner, "relabel");
  await([&] { return job(tuner, id).at("state") == "done"; });
  const nlohmann::json result = job(tuner, id).at("result");
  EXPECT_EQ(result.at("labelled"), kPhotos);
  EXPECT_EQ(result.at("left_out"), 1);
  EXPECT_FALSE(result.contains("left_out_stores"));
}

TEST_F(RoleJobStores, StartNowBeginsWithoutTheStoreThatIsAway) {
  RunningTuner t(with_http(), devices_);
  const HttpClient tuner(t.http());
  RunningStore a(store("a", 0, 2), devices_);
  {
    const RunningStore b(store("b", 1, 2), devices_);
    await([&] { return all_here(tuner, 2); });
  }
  const uint64_t in_b = photos_of(tuner, "b");
  const nlohmann::json id = submitted(tuner, "eval");
  await([&] { return job(tuner, id).contains("waits_for"); });
  (void)ask(tuner.post("/jobs/" + id.at("job").dump() + "/start-now", ""));
  await([&] { return job(tuner, id).at("state") == "done"; });
  EXPECT_EQ(job(tuner, id).at("result").at("left_out_stores").at(0).at("photos"), in_b);
  EXPECT_EQ(tuner.post("/jobs/" + id.at("job").dump() + "/start-now", "").or_throw().status, 400);
}

// The same directory, of which each has a part; copies of one photo are one photo.
TEST_F(RoleJobStores, CountsOfPhotosAreRightBeforeAnyJobAndAfterBothRolesStartAgain) {
  const std::string copy = real_fs().read(at("photos/c0/0.jpg")).or_throw();
  publish(real_fs(), at("photos/c0/copy.jpg"), copy).or_throw();
  publish(real_fs(), at("photos/c0/notes.txt"), "no photo").or_throw();
  const auto sum = [](const HttpClient& tuner) {
    uint64_t photos = 0;
    for (const nlohmann::json& s : stores(tuner)) photos += s.at("photos").get<uint64_t>();
    return photos;
  };
  for (const bool again : {false, true}) {
    RunningTuner t(with_http(), devices_);
    const HttpClient tuner(t.http());
    PipeStoreConfig config = store("a", 0, 1);
    config.watch = false;  // which would read them at once
    RunningStore a(config, devices_);
    await([&] { return all_here(tuner, 1); });
    // Whose bytes are equal, only who has read them knows.
    EXPECT_EQ(sum(tuner), static_cast<uint64_t>(kPhotos + (again ? 0 : 1)));
    const nlohmann::json id = submitted(tuner, "relabel");
    await([&] { return job(tuner, id).at("state") == "done"; });
    EXPECT_EQ(sum(tuner), static_cast<uint64_t>(kPhotos));
  }
}

}  // namespace
}  // namespace ndtrain::tuner
