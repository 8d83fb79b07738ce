// PipeStores whose photos are in a Ceph cluster of three OSDs, each with those that its OSD is
// primary of. The cluster is a fake; bench/cephlab has a real one.
#include <gmock/gmock.h>

#include <optional>

#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "ndp/http/http_client.h"
#include "ndp/photos/upload_path.h"
#include "ndp/s3/s3_fs.h"
#include "tests/rados/fake_pool.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr const char* kRadosPhotos = "rados://photos/july";

class RoleRados : public testing::RolesTest {
 protected:
  void SetUp() override {
    RolesTest::SetUp();
    for (int i = 0; i < kPhotos; ++i) {
      const std::string path =
          "c" + std::to_string(i % kClasses) + "/" + std::to_string(i) + ".jpg";
      cluster_.put(path, real_fs().read(at("photos/" + path)).or_throw());
    }
  }

  std::unique_ptr<RadosFs> fs_of_osd(int osd) {
    auto others = with_s3(real_fs(), system_clock(), [] { return Result(S3Settings{}); });
    return with_rados(std::move(others), system_clock(), {.all = false, .osds = {osd}},
                      cluster_.opens());
  }
  // Beside an OSD of its host.
  struct Beside {
    std::unique_ptr<RadosFs> fs;
    std::unique_ptr<testing::RunningStore> store;
  };
  PipeStoreConfig config_of(const std::string& name, RadosFs& fs) const {
    PipeStoreConfig config = store(name, 0, 1);
    config.photos = kRadosPhotos;
    config.rados = &fs;
    return config;
  }
  Beside begin(const std::string& job, int osd) {
    Beside b{.fs = fs_of_osd(osd), .store = nullptr};
    const PipeStoreConfig config = config_of(job + std::to_string(osd), *b.fs);
    b.store = std::make_unique<testing::RunningStore>(config, devices_, *b.fs);
    return b;
  }
  JobSpec spec(TunerDaemon& daemon) const {
    JobSpec s;
    s.stores = 3;
    s.freeze = "layer1";
    s.deterministic = true;
    s.trainer.epochs = 1;
    s.trainer.batch = 8;
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    return s;
  }
  // A fine-tuning over three stores, while `meanwhile` does what it does to them.
  nlohmann::json finetune(const std::string& name,
                          const std::function<void(std::vector<Beside>&)>& meanwhile) {
    TunerDaemon daemon(tuner(name), devices_, real_fs(), system_clock());
    std::vector<Beside> stores;
    for (int osd = 0; osd < 3; ++osd) stores.push_back(begin(name, osd));
    std::jthread other([&] { meanwhile(stores); });
    nlohmann::json result = outcome(daemon, spec(daemon));
    other.join();
    reads_.clear();
    for (const Beside& b : stores) {
      for (const RadosReads& r : b.fs->reads()) reads_[{r.osd, r.here}] += r.bytes;
    }
    return result;
  }

  testing::FakeCluster cluster_;
  std::map<std::pair<int, bool>, uint64_t> reads_;  // bytes, by OSD and whether it was the store's
};

TEST_F(RoleRados, EachStoreReadsWhatItsOsdIsPrimaryOf) {
  const nlohmann::json result = finetune("calm", [](auto&) {});
  EXPECT_EQ(result.at("train_photos").get<int>() + result.at("val_photos").get<int>(), kPhotos);
  std::map<int, uint64_t> bytes;
  for (const auto& [name, object] : cluster_.objects) {
    bytes[cluster_.primary_of(name)] += object.bytes.size();
  }
  for (int osd = 0; osd < 3; ++osd) {
    EXPECT_FALSE(reads_.contains({osd, false}));
    EXPECT_GE((reads_[{osd, true}]), bytes[osd]);
  }
}

// With its host and the store there, in the middle of a job which needs its photos still.
TEST_F(RoleRados, WhenAnOsdEndsTheNextPrimarysStoreTakesOverAndTheWeightsAreTheSame) {
  const auto calm = finetune("calm", [](auto&) {});
  cluster_.given.clear();
  cluster_.silent = 0;  // once the stores have said what they hold, reads from it are not answered
  const auto broken = finetune("broken", [&](std::vector<Beside>& stores) {
    await([&] {
      const std::lock_guard lock(cluster_.mutex);
      return cluster_.unanswered > 0;
    });
    stores[0].store.reset();
    const std::lock_guard lock(cluster_.mutex);
    cluster_.kill(0);
  });
  EXPECT_THAT(log_, ::testing::HasSubstr("store broken1 has photos that another store had"));
  EXPECT_EQ(broken.at("model_id"), calm.at("model_id"));
  EXPECT_EQ(broken.at("train_photos"), calm.at("train_photos"));
}

class RoleRadosUploads : public RoleRados {
 protected:
  // Beside OSD `osd`, with a look at all now and then.
  Beside serve(int osd) {
    Beside b{.fs = fs_of_osd(osd), .store = nullptr};
    PipeStoreConfig config = config_of(std::to_string(osd), *b.fs);
    config.http = "127.0.0.1:0";
    config.rescan = 0.2;
    config.rados_labels = labels_;
    b.store = std::make_unique<testing::RunningStore>(config, devices_, *b.fs);
    return b;
  }
  static std::string drawn(int i) {
    return encode_jpeg(
        cli::draw_demo_photo(i % kClasses, cli::Look::kDay, 1000 + static_cast<uint64_t>(i)));
  }
  static std::string key_of(const std::string& photo) {
    return "uploads/" + to_hex(sha256(photo)) + ".jpg";
  }
  static std::string page_of(const std::string& photo) {
    return "/photos/" + to_hex(sha256(photo));
  }
  std::string drawn_for(int osd) const {  // the first whose object OSD `osd` is primary of
    for (int i = 0;; ++i) {
      if (cluster_.primary_of(key_of(drawn(i))) == osd) return drawn(i);
    }
  }
  std::string name_of_primary(int osd) {
    const std::lock_guard lock(cluster_.mutex);
    for (const auto& [name, object] : cluster_.objects) {
      if (cluster_.primary_of(name) == osd) return name;
    }
    return "";
  }
  static HttpResponse post(const Beside& to, const std::string& photo) {
    return HttpClient(to.store->http(), std::chrono::minutes(1))
        .post("/photos", photo, "image/jpeg")
        .or_throw();
  }
  static int number(const Beside& of, const std::string& metric) {
    const std::string text = HttpClient(of.store->http()).get("/metrics").or_throw().body;
    const size_t at = text.find("\n" + metric + " ");
    return at == std::string::npos ? -1 : std::stoi(text.substr(at + metric.size() + 2));
  }
  std::optional<std::string> object(const std::string& name) {
    const std::lock_guard lock(cluster_.mutex);
    const auto found = cluster_.objects.find(name);
    return found == cluster_.objects.end() ? std::nullopt : std::optional(found->second.bytes);
  }
  void set_refused(std::optional<Status> refused) {
    const std::lock_guard lock(cluster_.mutex);
    cluster_.refused = std::move(refused);
  }
  int photos_of(int osd) {
    const std::lock_guard lock(cluster_.mutex);
    int n = 0;
    for (const auto& [name, object] : cluster_.objects) n += cluster_.primary_of(name) == osd;
    return n;
  }
  nlohmann::json label_on(const std::string& name) {
    const std::lock_guard lock(cluster_.mutex);
    const auto object = cluster_.objects.find(name);
    if (object == cluster_.objects.end()) return nullptr;
    const auto label = object->second.attributes.find("ndtrain.label");
    if (label == object->second.attributes.end()) return nullptr;
    return nlohmann::json::parse(label->second);
  }
  std::string state_file(int osd, const std::string& photo) const {
    return at("state-" + std::to_string(osd) + "/" + upload_path(sha256(photo), ".jpg"));
  }

  bool labels_ = false;  // are written on objects
};

TEST_F(RoleRadosUploads, LieInThePoolAndThePrimarysStoreListsThem) {
  const Beside taker = serve(0), primary = serve(1);
  const std::string photo = drawn_for(1);
  await([&] { return number(taker, "ndtrain_photos") == photos_of(0); });
  await([&] { return number(primary, "ndtrain_photos") == photos_of(1); });
  const HttpResponse taken = post(taker, photo);
  ASSERT_EQ(taken.status, 202) << taken.body;
  EXPECT_EQ(object(key_of(photo)), photo);
  EXPECT_FALSE(real_fs().exists(state_file(0, photo)));
  EXPECT_EQ(nlohmann::json::parse(taken.body).at("path"), key_of(photo));
  EXPECT_EQ(post(taker, photo).body, taken.body);
  const std::string page = page_of(photo);
  EXPECT_EQ(HttpClient(taker.store->http()).get(page).or_throw().body, photo);
  await([&] { return HttpClient(primary.store->http()).get(page).or_throw().status == 200; });
  await([&] { return number(primary, "ndtrain_photos") == photos_of(1); });
  const std::string uploads = join(kRadosPhotos, kUploadDirectory);
  EXPECT_THAT(fs_of_osd(0)->list(uploads).or_throw(), ::testing::IsEmpty());
  EXPECT_EQ(fs_of_osd(1)->list(uploads).or_throw().size(), 1U);
  EXPECT_EQ(post(primary, photo).status, 202) << "the same bytes are the same photo";
  EXPECT_EQ(number(taker, "ndtrain_upload_photos"), 1);
  const std::string metrics = HttpClient(taker.store->http()).get("/metrics").or_throw().body;
  EXPECT_THAT(metrics, ::testing::HasSubstr("\nndtrain_rados_read_bytes_total{"));
}

// What is answered lies there; what cannot be put there is told, and kept nowhere.
TEST_F(RoleRadosUploads, AreTakenWhenTheyLieThereAndNotBefore) {
  const Beside a = serve(0);
  const std::string photo = drawn(1);
  set_refused(Status(Code::kNoSpace, "rados://photos/july/x: the pool is full"));
  const HttpResponse full = post(a, photo);
  EXPECT_EQ(full.status, 507);
  EXPECT_THAT(full.body, ::testing::HasSubstr("the pool is full"));
  set_refused(Status(Code::kUnavailable, "rados://photos/july/x: timed out"));
  const HttpResponse away = post(a, photo);
  EXPECT_EQ(away.status, 503);
  EXPECT_EQ(away.headers.at("Retry-After"), "5");
  EXPECT_THAT(away.body, ::testing::HasSubstr("not kept: upload it again"));
  EXPECT_EQ(object(key_of(photo)), std::nullopt);
  EXPECT_FALSE(real_fs().exists(state_file(0, photo)));
  EXPECT_EQ(HttpClient(a.store->http()).get(page_of(photo)).or_throw().status, 404);
  set_refused(std::nullopt);
  EXPECT_EQ(post(a, photo).status, 202);
  EXPECT_EQ(object(key_of(photo)), photo);
}

TEST_F(RoleRadosUploads, StayInTheStateWhereTheUserMayNotWriteOrAnObjectHasTheirName) {
  const Beside a = serve(0);
  set_refused(Status(Code::kUnsupported, "Operation not permitted; its user may not"));
  EXPECT_EQ(post(a, drawn(1)).status, 202);
  EXPECT_EQ(real_fs().read(state_file(0, drawn(1))).or_throw(), drawn(1));
  set_refused(std::nullopt);
  {
    const std::lock_guard lock(cluster_.mutex);
    cluster_.put(key_of(drawn(2)), "somebody's own");
  }
  EXPECT_EQ(post(a, drawn(2)).status, 202);
  EXPECT_EQ(object(key_of(drawn(2))), "somebody's own");
  for (int i = 1; i <= 2; ++i) {
    EXPECT_EQ(HttpClient(a.store->http()).get(page_of(drawn(i))).or_throw().body, drawn(i));
  }
}

TEST_F(RoleRadosUploads, ADeletedPhotosObjectIsRemovedWhicheverStoreIsAsked) {
  const testing::RunningTuner t(tuner("tuner"), devices_);
  const Beside taker = serve(0), primary = serve(1);
  const std::string photo = drawn_for(1);
  EXPECT_EQ(post(taker, photo).status, 202);
  const std::string page = page_of(photo);
  await([&] { return HttpClient(primary.store->http()).get(page).or_throw().status == 200; });
  EXPECT_EQ(HttpClient(primary.store->http()).remove(page).or_throw().status, 200);
  EXPECT_EQ(object(key_of(photo)), std::nullopt);
  await([&] { return number(taker, "ndtrain_upload_photos") == 0; });  // it has heard
  EXPECT_EQ(post(taker, photo).status, 410);
  EXPECT_EQ(object(key_of(photo)), std::nullopt);
  const std::string name = name_of_primary(0), found = *object(name);
  await([&] { return HttpClient(taker.store->http()).get(page_of(found))->status == 200; });
  EXPECT_EQ(HttpClient(taker.store->http()).remove(page_of(found))->status, 200);
  EXPECT_EQ(object(name), std::nullopt);
}

TEST_F(RoleRadosUploads, AnObjectThatMayNotBeRemovedIsToldAndUsedForNothing) {
  log::to_file(at("log.txt"));
  const testing::RunningTuner t(tuner("tuner"), devices_);
  const Beside taker = serve(0), primary = serve(1);
  const std::string photo = drawn_for(1), page = page_of(photo);
  EXPECT_EQ(post(taker, photo).status, 202);
  await([&] { return HttpClient(primary.store->http()).get(page).or_throw().status == 200; });
  set_refused(Status(Code::kUnsupported, "Operation not permitted; its user may not"));
  const HttpResponse stays = HttpClient(taker.store->http()).remove(page).or_throw();
  EXPECT_EQ(stays.status, 409);
  EXPECT_THAT(stays.body, ::testing::HasSubstr("its object stays: Operation not permitted"));
  await([&] {
    return real_fs().read(at("log.txt")).or_throw().find("stay, unused") != std::string::npos;
  });
  log::to_file("");
  await([&] { return post(primary, photo).status == 410; });
  EXPECT_EQ(number(primary, "ndtrain_session_up"), 1);
  EXPECT_EQ(object(key_of(photo)), photo);
}

TEST_F(RoleRadosUploads, LabelsOfTheVersionInForceAreWrittenOnTheirObjects) {
  (void)finetune("tuner", [](auto&) {});  // version 1
  labels_ = true;
  TunerConfig config = tuner("tuner");
  config.http = "127.0.0.1:0";
  config.db = "sqlite:" + at("labels.db");
  const testing::RunningTuner t(config, devices_);
  std::vector<Beside> stores;
  for (int osd = 0; osd < 3; ++osd) stores.push_back(serve(osd));
  JobSpec relabel;
  relabel.kind = JobKind::kRelabel;
  relabel.stores = 3;
  const HttpResponse submitted = HttpClient(t.http()).post("/jobs", relabel.text()).or_throw();
  ASSERT_EQ(submitted.status / 100, 2) << submitted.body;
  const auto names = [&] {
    const std::lock_guard lock(cluster_.mutex);
    std::vector<std::string> all;
    for (const auto& [name, object] : cluster_.objects) all.push_back(name);
    return all;
  }();
  await(
      [&] { return std::ranges::none_of(names, [&](auto& n) { return label_on(n).is_null(); }); });
  const nlohmann::json label = label_on(names[0]);
  EXPECT_EQ(label.at("version"), 1);
  EXPECT_EQ(label.at("sha256"), to_hex(sha256(*object(names[0]))));
  EXPECT_THAT(label.at("label").get<std::string>(), ::testing::StartsWith("c"));
  const std::string photo = drawn_for(1);
  EXPECT_EQ(post(stores[0], photo).status, 200);
  await([&] { return !label_on(key_of(photo)).is_null(); });
  EXPECT_EQ(label_on(key_of(photo)).at("version"), 1);
}

}  // namespace
}  // namespace ndtrain::tuner
