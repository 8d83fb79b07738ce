// A PipeStore whose photos are in an S3: jobs over it, by the requests that the S3 gets.
#include <gmock/gmock.h>

#include "framework/core/log.h"
#include "tests/roles/s3_roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::S3Call;
using support::S3Fault;
using support::S3Server;

class RoleS3 : public testing::S3RolesTest {
 protected:
  // A fine-tuning over one store, which ends with it.
  nlohmann::json finetune(TunerDaemon& daemon, Fs& fs, const std::string& photos,
                          const std::string& name, int64_t cache_bytes = 0) {
    PipeStoreConfig config = store(name, 0, 1);
    config.photos = photos;
    config.cache_bytes = cache_bytes;
    config.watch = false;
    JobSpec s;
    s.stores = 1;
    s.freeze = "layer1";
    s.deterministic = true;
    s.trainer.epochs = 1;
    s.trainer.batch = 8;
    s.model = to_hex(daemon.add_model(at("base.onnx")));
    std::atomic<bool> stop = false;
    PipeStoreDaemon pipestore(config, devices_, fs, system_clock());
    std::jthread running([&] { pipestore.run([&] { return stop.load(); }); });
    nlohmann::json result = outcome(daemon, s);
    stop = true;
    return result;
  }
  nlohmann::json finetune_from_s3(TunerDaemon& daemon, int64_t cache_bytes = 0) {
    return finetune(daemon, *fs_, "s3://photos/july", "far", cache_bytes);
  }
  // The bucket is gone once so many photos were asked for, and back when it was not listed so
  // often.
  void expect_wait(int after, int64_t cache_bytes) {
    std::atomic<int> photos = 0, gone = 0;
    constexpr int kOften = 3;
    server_.set_fault([&](const S3Call& call) {
      photos += call.path != "/photos/";
      if (photos <= after || gone == kOften) return S3Fault();
      gone += call.path == "/photos/";
      return S3Fault{.kind = S3Fault::Kind::kStatus, .status = 404, .code = "NoSuchBucket"};
    });
    log::to_file(at("log.txt"));
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    const nlohmann::json result = finetune_from_s3(daemon, cache_bytes);
    log::to_file("");
    server_.set_fault({});
    EXPECT_EQ(gone, kOften);
    EXPECT_EQ(result.at("train_photos").get<int>() + result.at("val_photos").get<int>(), kPhotos)
        << result;
    const std::string said = real_fs().read(at("log.txt")).or_throw();
    EXPECT_THAT(said, ::testing::ContainsRegex("job 1 waits for photos: .*NoSuchBucket"));
    EXPECT_THAT(said, ::testing::HasSubstr("the photos can be read again"));
  }
  int64_t fetched() const { return server_.count("GET", "/photos/july/"); }
};

TEST_F(RoleS3, AJobFetchesEachPhotoOnceAndMakesOfItWhatAFolderMakes) {
  std::string far;
  for (const int fetched_by_it : {kPhotos, 0}) {
    server_.forget_calls();
    TunerDaemon daemon(tuner("tuner"), devices_, real_fs(), system_clock());
    far = finetune_from_s3(daemon).at("model_id");
    EXPECT_EQ(fetched(), fetched_by_it);
  }
  TunerDaemon other(tuner("other"), devices_, real_fs(), system_clock());
  EXPECT_EQ(far,
            finetune(other, real_fs(), at("photos"), "near").at("model_id").get<std::string>());
}

TEST_F(RoleS3, AJobWaitsForABucketThatVanishesWhileItsPhotosAreListed) {
  expect_wait(kPhotos / 2, 0);
}

// There is no room to keep what was fetched to be listed.
TEST_F(RoleS3, AJobWaitsForABucketThatVanishesWhileItMakesFeatures) {
  expect_wait(kPhotos + kPhotos / 2, 1 << 14);
}

}  // namespace
}  // namespace ndtrain::tuner
