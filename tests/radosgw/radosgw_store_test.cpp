// A PipeStore whose photos are in a bucket of Debian's radosgw: jobs, uploads, deletions.
#include <gmock/gmock.h>

#include "framework/core/hash.h"
#include "ndp/http/http_client.h"
#include "ndp/s3/s3_fs.h"
#include "tests/radosgw/radosgw_server.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::RadosgwServer;

class RoleRadosgw : public testing::RolesTest {
 protected:
  static constexpr const char* kStoreBucket = "store";

  void SetUp() override {
    if (const std::string why = RadosgwServer::lacking(); !why.empty()) GTEST_SKIP() << why;
    RolesTest::SetUp();
    server_ = &RadosgwServer::shared();
    put_all();
  }
  void TearDown() override {
    if (server_) server_->drop_bucket(kStoreBucket);
  }
  void put_all() {
    server_->make_bucket(kStoreBucket);
    for (int i = 0; i < kPhotos; ++i) {
      const std::string path =
          "c" + std::to_string(i % kClasses) + "/" + std::to_string(i) + ".jpg";
      server_->client()
          .add(kStoreBucket, "july/" + path, real_fs().read(at("photos/" + path)).or_throw(),
               "image/jpeg")
          .or_throw();
    }
  }
  PipeStoreConfig far() const {
    PipeStoreConfig config = store("far", 0, 1);
    config.photos = std::string("s3://") + kStoreBucket + "/july";
    config.http = "127.0.0.1:0";
    config.rescan = 0.2;
    return config;
  }
  int finetuned() {  // photos
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    const testing::RunningStore a(far(), devices_, *fs_);
    JobSpec s;
    s.stores = 1;
    s.freeze = "layer1";
    s.trainer.epochs = 1;
    s.trainer.batch = 8;
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    const nlohmann::json result = outcome(daemon, s);
    return result.at("train_photos").get<int>() + result.at("val_photos").get<int>();
  }

  RadosgwServer* server_ = nullptr;
  std::unique_ptr<Fs> fs_ =
      with_s3(real_fs(), system_clock(), [this] { return Result(server_->settings()); });
};

TEST_F(RoleRadosgw, AJobFetchesEachPhotoOnceAndUploadsLieInTheBucketUntilTheyAreDeleted) {
  (void)server_->fetched(kStoreBucket);
  EXPECT_EQ(finetuned(), kPhotos);
  EXPECT_EQ(server_->fetched(kStoreBucket), kPhotos);
  EXPECT_EQ(finetuned(), kPhotos);
  EXPECT_EQ(server_->fetched(kStoreBucket), 0);

  const std::string photo = encode_jpeg(cli::draw_demo_photo(1, cli::Look::kDay, 1001));
  const std::string id = to_hex(sha256(photo)), key = "july/uploads/" + id + ".jpg";
  const testing::RunningStore a(far(), devices_, *fs_);
  const HttpClient http(a.http(), std::chrono::minutes(1));
  EXPECT_EQ(http.post("/photos", photo, "image/jpeg").or_throw().status / 100, 2);
  EXPECT_EQ(server_->client().get(kStoreBucket, key, 0, 1 << 20).or_throw().bytes, photo);
  EXPECT_EQ(http.get("/photos/" + id).or_throw().body, photo);
  EXPECT_EQ(http.remove("/photos/" + id).or_throw().status, 200);
  EXPECT_EQ(server_->client().head(kStoreBucket, key).status().code(), Code::kNotFound);

  server_->rename_bucket(kStoreBucket, "away");
  const std::string other = encode_jpeg(cli::draw_demo_photo(1, cli::Look::kDay, 1002));
  const HttpResponse away = http.post("/photos", other, "image/jpeg").or_throw();
  EXPECT_EQ(away.status, 503);
  EXPECT_THAT(away.body, ::testing::HasSubstr("NoSuchBucket"));
  server_->rename_bucket("away", kStoreBucket);
  EXPECT_EQ(http.post("/photos", other, "image/jpeg").or_throw().status / 100, 2);
}

}  // namespace
}  // namespace ndtrain::tuner
