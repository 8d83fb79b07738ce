// PipeStores whose photos are in a Ceph cluster of three OSDs, each with those that its OSD is
// primary of. The cluster is a fake; bench/cephlab has a real one.
#include <gmock/gmock.h>

#include "ndp/http/http_client.h"
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

TEST_F(RoleRados, UploadsAreRefusedByTheNameOfWhatDoesNotTakeThem) {
  const auto fs = fs_of_osd(0);
  PipeStoreConfig config = config_of("a", *fs);
  config.http = "127.0.0.1:0";
  const testing::RunningStore store(config, devices_, *fs);
  const HttpClient client(store.http());
  const HttpResponse r =
      client.post("/photos", real_fs().read(at("photos/c0/0.jpg")).or_throw(), "image/jpeg")
          .or_throw();
  EXPECT_EQ(r.status, 501);
  EXPECT_THAT(r.body, ::testing::HasSubstr(kRadosPhotos));
  // Once it has read one.
  await([&] {
    return client.get("/metrics").or_throw().body.find("ndtrain_rados_read_bytes_total{") !=
           std::string::npos;
  });
}

}  // namespace
}  // namespace ndtrain::tuner
