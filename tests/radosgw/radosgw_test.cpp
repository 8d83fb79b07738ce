// Photos in a bucket of Debian's radosgw, as the S3 client and relabelling find them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cli/demo_photos.h"
#include "framework/core/log.h"
#include "framework/runtime/devices.h"
#include "models/zoo.h"
#include "ndp/jobs/relabel.h"
#include "ndp/photos/encode.h"
#include "ndp/s3/s3_fs.h"
#include "tests/radosgw/radosgw_server.h"

namespace ndtrain::ndp {
namespace {

using support::RadosgwServer;
using ::testing::HasSubstr;

// Calls `then` once some photos are labelled.
class AfterTheFirst final : public Progress {
 public:
  explicit AfterTheFirst(std::function<void()> then) : then_(std::move(then)) {}
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t done, const std::string&) override {
    if (done > 0 && then_) std::exchange(then_, nullptr)();
  }
  void end() override {}
  void say(const std::string&) override {}

 private:
  std::function<void()> then_;
};

class RadosgwTest : public ::testing::Test {
 protected:
  static constexpr const char* kBucket = "photos";
  static constexpr int kPhotos = 200, kSide = 32;

  void SetUp() override {
    if (const std::string why = RadosgwServer::lacking(); !why.empty()) GTEST_SKIP() << why;
    server_ = &RadosgwServer::shared();
  }
  void TearDown() override {
    if (server_) server_->drop_bucket(kBucket);
  }
  void put(const std::string& key, const std::string& bytes) {
    server_->client().add(kBucket, key, bytes, "image/jpeg").or_throw();
  }
  void put_photos() {
    for (int i = 0; i < kPhotos; ++i) {
      put("july/" + std::to_string(i) + ".jpg",
          encode_jpeg(cli::draw_demo_photo(i % 2, cli::Look::kDay, static_cast<uint64_t>(i))));
    }
  }
  RelabelResult relabel_with(int classes, Progress& progress) {
    ModelFile file{.path = directory_.at(std::to_string(classes) + ".onnx"),
                   .model = build_model("tinynet", {.classes = classes, .img_size = kSide})};
    file.preprocess.img_size = file.preprocess.resize = kSide;
    save_model(real_fs(), file.path, file);
    (void)server_->fetched(kBucket);
    const RelabelConfig config{.photos = {.names = {std::string("s3://") + kBucket + "/july"}},
                               .cache = directory_.at("cache"),
                               .batch = 8,
                               .again = std::chrono::milliseconds(100)};
    return relabel(config, load_model(real_fs(), file.path), devices_.get(false), *db_, *fs_,
                   system_clock(), progress);
  }
  RelabelResult relabel_with(int classes) {
    NoProgress quiet;
    return relabel_with(classes, quiet);
  }

  RadosgwServer* server_ = nullptr;
  support::TemporaryDirectory directory_;
  Devices devices_{"cpu"};
  std::unique_ptr<LabelDb> db_ = open_label_db("sqlite:" + directory_.at("l.db")).or_throw();
  std::unique_ptr<Fs> fs_ =
      with_s3(real_fs(), system_clock(), [this] { return Result(server_->settings()); });
};

TEST_F(RadosgwTest, VersionsAreReadAsTheyWereAndDeletedObjectsAreGone) {
  server_->make_bucket(kBucket, true);
  S3Client& client = server_->client();
  put("a", "0123456789");
  const S3Object old = client.head(kBucket, "a").or_throw();
  EXPECT_NE(old.version, "");
  const S3Page page = client.list(kBucket, "", "").or_throw();
  ASSERT_EQ(page.objects.size(), 1U);
  EXPECT_EQ(page.objects[0].etag, old.etag);
  EXPECT_EQ(client.get(kBucket, "a", 2, 3, old.etag).or_throw().bytes, "234");
  client.remove(kBucket, "a").or_throw();
  EXPECT_EQ(client.get(kBucket, "a", 2, 3, old.etag, old.version).status().code(), Code::kNotFound);
  EXPECT_TRUE(client.list(kBucket, "", "").or_throw().objects.empty());
  put("a", "abcdefghij");
  EXPECT_EQ(client.get(kBucket, "a", 2, 3, old.etag, old.version).or_throw().bytes, "234");
  EXPECT_EQ(client.get(kBucket, "a", 2, 3, old.etag).status().code(), Code::kIo);
  EXPECT_EQ(client.get(kBucket, "a", 2, 3).or_throw().bytes, "cde");
}

TEST_F(RadosgwTest, RelabellingFetchesEachPhotoOnceAndWaitsForABucketThatVanishes) {
  server_->make_bucket(kBucket);
  put_photos();
  EXPECT_EQ(server_->client().add(kBucket, "july/1.jpg", "others", "image/jpeg").code(),
            Code::kExists);
  EXPECT_EQ(relabel_with(2).labelled, kPhotos);
  EXPECT_EQ(server_->fetched(kBucket), kPhotos);
  EXPECT_EQ(relabel_with(2).already, kPhotos);
  EXPECT_EQ(server_->fetched(kBucket), 0);

  log::to_file(directory_.at("log.txt"));
  std::jthread back;
  AfterTheFirst progress([&] {
    server_->rename_bucket(kBucket, "away");
    back = std::jthread([&](const std::stop_token& stop) {
      const auto waits = [&] {
        return real_fs().read(directory_.at("log.txt")).or_throw().find("labelling waits") !=
               std::string::npos;
      };
      while (!waits() && !stop.stop_requested()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
      server_->rename_bucket("away", kBucket);
    });
  });
  const RelabelResult r = relabel_with(3, progress);
  back.join();
  log::to_file("");
  EXPECT_EQ(r.labelled, kPhotos);
  EXPECT_TRUE(r.quarantined.empty());
  const std::string said = real_fs().read(directory_.at("log.txt")).or_throw();
  EXPECT_THAT(said, HasSubstr("NoSuchBucket"));
  EXPECT_THAT(said, HasSubstr("the photos can be read again"));
}

}  // namespace
}  // namespace ndtrain::ndp
