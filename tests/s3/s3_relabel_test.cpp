// Relabellings of photos in an S3, by the requests that it gets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cli/demo_photos.h"
#include "framework/core/log.h"
#include "framework/runtime/devices.h"
#include "models/zoo.h"
#include "ndp/jobs/relabel.h"
#include "ndp/photos/encode.h"
#include "ndp/s3/s3_fs.h"
#include "tests/s3/s3_server.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using support::S3Call;
using support::S3Fault;
using support::S3Server;

class S3Relabel : public ::testing::Test {
 protected:
  static constexpr int kPhotos = 60, kSide = 32;

  void SetUp() override {
    for (int i = 0; i < kPhotos; ++i) put(i, 0);
    for (const int classes : {2, 3, 4}) {
      ModelFile file{.path = model(classes),
                     .model = build_model("tinynet", {.classes = classes, .img_size = kSide})};
      file.preprocess.img_size = file.preprocess.resize = kSide;
      save_model(real_fs(), file.path, file);
    }
  }

  void put(int i, uint64_t look) {
    server_.put("july/" + std::to_string(i % 3) + "/" + std::to_string(i) + ".jpg",
                encode_jpeg(cli::draw_demo_photo(i % 2, cli::Look::kDay,
                                                 1000 * look + static_cast<uint64_t>(i))));
  }
  std::string model(int classes) const { return directory_.at(std::to_string(classes) + ".onnx"); }

  RelabelResult relabel_with(int classes, bool keep_crops = false) {
    server_.forget_calls();
    NoProgress quiet;
    config_.keep_crops = keep_crops;
    return relabel(config_, load_model(real_fs(), model(classes)), devices_.get(false), *db_, *fs_,
                   system_clock(), quiet);
  }
  int64_t fetched() const { return server_.count("GET", "/photos/july/"); }

  // Of every photo that has one, how many labels were ever given it.
  std::map<std::string, size_t> labels() {
    const int64_t task = db_->task(kDefaultTask).or_throw();
    const LabelQuery query{
        .collection = db_->collection(kDefaultCollection).or_throw(), .task = task, .limit = 1000};
    std::map<std::string, size_t> all;
    for (const LabelRow& row : db_->query(query).or_throw().rows) {
      all[row.path] = db_->history(task, row.photo).or_throw().size();
    }
    return all;
  }
  void expect_labels_of_all(size_t each) {
    const auto all = labels();
    EXPECT_EQ(all.size(), size_t{kPhotos});
    for (const auto& [path, n] : all) EXPECT_EQ(n, each) << path;
  }

  // Once so many photos were asked for, the bucket is gone until it was asked for something so
  // often.
  void vanish(int after, int often) {
    server_.set_fault([photos = 0, gone = 0, after, often](const S3Call& call) mutable {
      photos += call.path != "/photos/";
      if (photos <= after || gone == often) return S3Fault();
      ++gone;
      return S3Fault{.kind = S3Fault::Kind::kStatus, .status = 404, .code = "NoSuchBucket"};
    });
  }

  support::TemporaryDirectory directory_;
  RelabelConfig config_{.photos = {.names = {"s3://photos/july"}},
                        .cache = directory_.at("cache"),
                        .batch = 8,
                        .again = std::chrono::milliseconds(1)};
  S3Server server_{"photos"};
  Devices devices_{"cpu"};
  std::unique_ptr<LabelDb> db_ = open_label_db("sqlite:" + directory_.at("l.db")).or_throw();
  std::unique_ptr<Fs> fs_ = with_s3(real_fs(), system_clock(), [this] {
    return Result(
        S3Settings{.endpoint = server_.endpoint(),
                   .region = S3Server::kRegion,
                   .keys = fixed_keys({.access = S3Server::kKey, .secret = S3Server::kSecret})});
  });
};

TEST_F(S3Relabel, FetchesEachPhotoOnceAndThenOnlyWhatChanged) {
  RelabelResult r = relabel_with(2);
  EXPECT_EQ(r.labelled, kPhotos);
  EXPECT_EQ(r.photos, kPhotos);
  EXPECT_EQ(r.already, 0);
  EXPECT_EQ(fetched(), kPhotos);
  expect_labels_of_all(1);
  r = relabel_with(2);
  EXPECT_EQ(r.labelled, 0);
  EXPECT_EQ(r.already, kPhotos);
  EXPECT_EQ(fetched(), 0);
  put(7, 1);
  r = relabel_with(2);
  EXPECT_EQ(r.labelled, 1);
  EXPECT_EQ(r.already, kPhotos - 1);
  EXPECT_EQ(fetched(), 1);
}

TEST_F(S3Relabel, AnotherVersionFetchesThemAgainUnlessCropsAreKept) {
  (void)relabel_with(2);
  EXPECT_EQ(relabel_with(3, true).labelled, kPhotos);
  EXPECT_EQ(fetched(), kPhotos);
  EXPECT_EQ(relabel_with(4, true).labelled, kPhotos);
  EXPECT_EQ(fetched(), 0);
}

// The other object gets its label when a listing has it.
TEST_F(S3Relabel, AnObjectThatIsReplacedBehindTheListingIsNotLabelledAsWhatItWas) {
  (void)relabel_with(2);
  const std::string other = server_.objects().at("july/1/1.jpg") + "other bytes behind it";
  server_.set_fault([&](const S3Call& call) {
    return call.path == "/photos/july/0/3.jpg"
               ? S3Fault{.kind = S3Fault::Kind::kReplaced, .code = other}
               : S3Fault();
  });
  const RelabelResult r = relabel_with(3, true);
  server_.set_fault({});
  EXPECT_EQ(r.labelled, kPhotos - 1);
  ASSERT_EQ(r.quarantined.size(), 1U);
  EXPECT_EQ(r.quarantined[0].path, "0/3.jpg");
  EXPECT_THAT(r.quarantined[0].reason, ::testing::HasSubstr("another object was put there"));
  EXPECT_EQ(relabel_with(3, true).labelled, 1);
  EXPECT_EQ(fetched(), 1);
}

TEST_F(S3Relabel, AnObjectThatIsReplacedWhereVersionsAreKeptIsLabelledAsWhatItWas) {
  server_.keep_versions();
  for (int i = 0; i < kPhotos; ++i) put(i, 0);
  (void)relabel_with(2);
  const std::string other = server_.objects().at("july/1/1.jpg") + "other bytes behind it";
  server_.set_fault([&](const S3Call& call) {
    return call.path == "/photos/july/0/3.jpg" && call.query.empty()
               ? S3Fault{.kind = S3Fault::Kind::kReplaced, .code = other}
               : S3Fault();
  });
  const RelabelResult r = relabel_with(3);
  server_.set_fault({});
  EXPECT_EQ(r.labelled, kPhotos);
  EXPECT_TRUE(r.quarantined.empty());
  expect_labels_of_all(2);
  EXPECT_EQ(relabel_with(3).labelled, 1);
  EXPECT_EQ(fetched(), 1);
}

TEST_F(S3Relabel, BadPhotosAreToldOnceAndFetchedOnce) {
  server_.put("july/0/bad.jpg", "no photo at all");
  const std::string whole = server_.objects().at("july/1/1.jpg");
  server_.put("july/0/cut.jpg", whole.substr(0, whole.size() / 2));
  const RelabelResult r = relabel_with(2);
  EXPECT_EQ(r.labelled, kPhotos);
  EXPECT_EQ(r.quarantined.size(), 2U);
  EXPECT_EQ(fetched(), kPhotos + 2);
  const RelabelResult again = relabel_with(3);  // which fetches all that can be decoded
  EXPECT_EQ(again.labelled, kPhotos);
  ASSERT_EQ(again.quarantined.size(), 2U);
  EXPECT_EQ(again.quarantined[0].reason + again.quarantined[1].reason,
            r.quarantined[1].reason + r.quarantined[0].reason);
  EXPECT_EQ(fetched(), kPhotos);
  server_.put("july/0/cut.jpg", whole);  // a copy, of which the photo has its label
  const RelabelResult whole_again = relabel_with(3);
  EXPECT_EQ(whole_again.quarantined.size(), 1U);
  EXPECT_EQ(whole_again.photos, kPhotos + 1);
  EXPECT_EQ(fetched(), 1);
}

TEST_F(S3Relabel, ADryRunFetchesNothing) {
  config_.dry_run = true;
  RelabelResult r = relabel_with(2);
  EXPECT_EQ(r.labelled, kPhotos);
  EXPECT_EQ(r.photos, kPhotos);
  EXPECT_EQ(fetched(), 0);
  config_.dry_run = false;
  EXPECT_EQ(relabel_with(2).labelled, kPhotos);
  EXPECT_EQ(fetched(), kPhotos);
  put(7, 1);
  config_.dry_run = true;
  r = relabel_with(2);
  EXPECT_EQ(r.labelled, 1);
  EXPECT_EQ(r.already, kPhotos - 1);
  EXPECT_EQ(fetched(), 0);
  EXPECT_EQ(relabel_with(3).labelled, kPhotos);
  EXPECT_EQ(fetched(), 0);
}

TEST_F(S3Relabel, PhotosThatAreNamedAreFetchedOnce) {
  server_.put("plain", server_.objects().at("july/0/0.jpg") + "one of its own");
  server_.put("list", "s3://photos/july/0/6.jpg\ns3://photos/july/0/9.jpg\n");
  config_.photos.names = {"s3://photos/july/0/0.jpg", "s3://photos/july/0/3.jpg",
                          "s3://photos/plain", "s3://photos/list", "s3://photos/july/1"};
  EXPECT_EQ(relabel_with(2).labelled, 5 + kPhotos / 3);
  EXPECT_EQ(fetched(), 4 + kPhotos / 3);
  EXPECT_EQ(server_.count("GET", "/photos/plain"), 1);
  EXPECT_EQ(server_.count("GET", "/photos/list"), 1);
  EXPECT_EQ(relabel_with(2).labelled, 0);
  EXPECT_EQ(fetched(), 4);  // of them no list is kept
  server_.drop_bucket();
  EXPECT_THROW((void)relabel_with(2), Error);
}

TEST_F(S3Relabel, PhotosOnWhichPrecisionsAreComparedAreFetchedOnceToo) {
  constexpr int kAll = 100;  // more than are compared
  for (int i = kPhotos; i < kAll; ++i) put(i, 0);
  config_.precision = {.precision = "bf16", .max_drop = 100, .photos = 1};
  EXPECT_EQ(relabel_with(2).labelled, kAll);
  EXPECT_EQ(fetched(), kAll);
  EXPECT_EQ(relabel_with(2).already, kAll);
  EXPECT_EQ(fetched(), 0);
}

TEST_F(S3Relabel, BusyAnswersLoseAndDoubleNothing) {
  server_.set_fault([n = 0](const S3Call&) mutable {
    return ++n % 20 == 0 ? S3Fault{.kind = S3Fault::Kind::kStatus} : S3Fault();
  });
  EXPECT_EQ(relabel_with(2).labelled, kPhotos);
  expect_labels_of_all(1);
  EXPECT_EQ(relabel_with(3).labelled, kPhotos);
  expect_labels_of_all(2);
}

TEST_F(S3Relabel, WaitsForABucketThatVanishesWhileItReadsAndSaysSo) {
  log::to_file(directory_.at("log.txt"));
  vanish(20, 30);
  const RelabelResult r = relabel_with(2);
  log::to_file("");
  EXPECT_EQ(r.labelled, kPhotos);
  EXPECT_TRUE(r.quarantined.empty());
  expect_labels_of_all(1);
  const std::string said = real_fs().read(directory_.at("log.txt")).or_throw();
  EXPECT_THAT(said, ::testing::HasSubstr("labelling waits for photos: s3://photos/"));
  EXPECT_THAT(said, ::testing::HasSubstr("NoSuchBucket"));
  EXPECT_THAT(said, ::testing::HasSubstr("the photos can be read again"));
}

TEST_F(S3Relabel, WaitsForABucketThatVanishesWhileItLabels) {
  (void)relabel_with(2);
  vanish(20, 30);
  const RelabelResult r = relabel_with(3);
  EXPECT_EQ(r.labelled, kPhotos);
  EXPECT_TRUE(r.quarantined.empty());
  expect_labels_of_all(2);
}

TEST_F(S3Relabel, ABucketThatWasNeverThereIsNotWaitedFor) {
  server_.drop_bucket();
  EXPECT_THROW((void)relabel_with(2), Error);
}

}  // namespace
}  // namespace ndtrain::ndp
