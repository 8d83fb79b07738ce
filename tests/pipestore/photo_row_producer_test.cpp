#include "ndp/pipestore/photo_row_producer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>

#include "framework/core/fsync.h"
#include "framework/passes/inference.h"
#include "models/zoo.h"
#include "ndp/engine/crops.h"
#include "ndp/jobs/view_rule.h"
#include "ndp/photos/perceptual_hash.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "tests/pipestore/uploads_fixture.h"
#include "tests/support/failing_fsync.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using testing::jpeg_of;
using testing::test_pattern;

// What it kept for the next time may or may not be on the disk.
TEST(PhotoRowProducerDeathTest, AnFsyncThatFailsWhenItEndsEndsTheProcess) {
  const auto end = [] {
    const support::TemporaryDirectory directory;
    real_fs().make_directories(directory.at("photos")).or_throw();
    Devices devices("cpu");
    auto producer = std::make_unique<PhotoRowProducer>(
        PhotoRowConfig{.photos = directory.at("photos"), .cache = directory.at("cache")}, devices,
        real_fs(), system_clock());
    const support::FailingFsync failing;
    producer.reset();
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(kFsyncFailedStatus), "fsync");
}

TEST(PhotoRowProducerDeathTest, AnFsyncThatFailsWhenHashesAreKeptEndsTheProcess) {
  const auto end = [] {
    const support::TemporaryDirectory directory;
    support::write_file(real_fs(), directory.at("0.jpg"), jpeg_of(test_pattern(40, 50)));
    Devices devices("cpu");
    PhotoRowProducer producer(
        PhotoRowConfig{.photos = directory.path(), .cache = directory.at("cache")}, devices,
        real_fs(), system_clock());
    const auto photos = std::make_shared<StoreInventory>(producer.scan().or_throw());
    wire::Job job;
    job.set_rows(wire::Job::FILES);
    const auto rows = producer.open(job, photos, "", "").or_throw();
    const support::FailingFsync failing;
    (void)rows->hashes(std::vector<size_t>{0});
    std::_Exit(0);  // the end of the producer would meet it too
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(kFsyncFailedStatus), "fsync");
}

// In this process.
class CountingDecoder final : public PhotoDecoder {
 public:
  Result<Image> decode(const std::string& name, std::string_view file, const DecodeOptions& options,
                       const Preprocess* crop, PhotoCost& cost) override {
    ++photos;
    return decoder_in_process().decode(name, file, options, crop, cost);
  }
  std::atomic<int> photos = 0;
};

class PhotoViewRows : public ::testing::Test {
 protected:
  static constexpr int kSide = 32, kViews = 3;

  void SetUp() override {
    real_fs().make_directories(root_.at("photos")).or_throw();
    for (int i = 0; i < 3; ++i) {
      support::write_file(real_fs(), root_.at("photos/" + std::to_string(i) + ".jpg"),
                          jpeg_of(test_pattern(40 + i, 50)));
    }
    model_.preprocess.img_size = model_.preprocess.resize = kSide;
    save_model(real_fs(), root_.at("model.onnx"), model_);
    job_.set_rows(wire::Job::FEATURES);
    job_.set_deterministic(true);
    job_.mutable_views()->set_changes(name_of(rule_.what));
    job_.mutable_views()->set_seed(rule_.seed);
    job_.mutable_views()->set_count(kViews);
    photos_ = std::make_shared<StoreInventory>(store_.scan().or_throw());
    ASSERT_EQ(photos_->photos.size(), 3U);
  }

  std::unique_ptr<JobRows> open(const wire::Job& job) {
    return store_.open(job, photos_, root_.at("model.onnx"), "").or_throw();
  }
  // What the model makes of this view of a photo.
  std::string features(const StorePhoto& photo, int64_t view) {
    PhotoCost cost;
    const std::string file = real_fs().read(root_.at("photos/" + photo.path)).or_throw();
    const Image crop =
        crop_view(photo.path, file, photo.digest, rule_, view, model_.preprocess, cost).or_throw();
    BatchPlans plans([&](int64_t b) { return inference_graph(model_.model, b); },
                     devices_.get(true), 1);
    const std::string_view pixels(reinterpret_cast<const char*>(crop.rgb.data()), crop.rgb.size());
    const Tensor out = infer_crops(plans, model_.preprocess, {&pixels, 1})[0];
    return {static_cast<const char*>(out.data()), out.bytes()};
  }

  const support::TemporaryDirectory root_;
  Devices devices_{"cpu"};
  ModelFile model_{.model = build_model("tinynet", {.classes = 3, .img_size = kSide})};
  const ViewRule rule_{.what = {.crop = true, .flip = true}, .seed = 5, .views = kViews};
  wire::Job job_;
  CountingDecoder decoder_;
  PhotoRowProducer store_{{.photos = root_.at("photos"),
                           .cache = root_.at("cache"),
                           .cache_bytes = 1 << 24,
                           .decoder = &decoder_},
                          devices_,
                          real_fs(),
                          system_clock()};
  std::shared_ptr<const StoreInventory> photos_;
};

TEST_F(PhotoViewRows, AreAllViewsOfAPhotoOneAfterTheOtherAndAreKept) {
  const size_t places[] = {0, 1, 2};
  const auto rows = open(job_);
  EXPECT_EQ(rows->row().of(0) * kViews, rows->row().of(1));
  const JobRows::Made made = rows->make_views(places).or_throw();
  ASSERT_EQ(made.rows.size(), 3U);
  EXPECT_EQ(made.made_from.at("photos"), 9U);
  for (const size_t p : places) {
    std::string want;
    for (int64_t view = 0; view < kViews; ++view) want += features(photos_->photos[p], view);
    EXPECT_EQ(made.rows[p], want) << p;
    EXPECT_EQ(made.rows[p].size(), rows->row().of(1));
  }
  const JobRows::Made again = open(job_)->make_views(places).or_throw();
  EXPECT_EQ(again.rows, made.rows);
  EXPECT_EQ(again.made_from.at("features"), 9U);
  const JobRows::Made plain = rows->make(places).or_throw();
  EXPECT_EQ(plain.rows[0].size(), rows->row().of(0));
  EXPECT_EQ(plain.made_from.at("features"), 0U) << "a photo as it is is none of its views";
  for (const GroupInfo& group : store_.cache().groups()) {
    if (group.records > 0) {
      EXPECT_TRUE(store_.cache().contains(group.group, photos_->photos[0].digest))
          << "deleting the photo finds it";
    }
  }
}

TEST_F(PhotoViewRows, AreMadeAndKeptOfAsManyAsAJobMayAskFor) {
  job_.mutable_views()->set_count(wire::kMostViews);
  const size_t places[] = {0};
  const auto rows = open(job_);
  const JobRows::Made made = rows->make_views(places).or_throw();
  ASSERT_EQ(made.rows.size(), 1U);
  const size_t row = rows->row().of(0);
  ASSERT_EQ(made.rows[0].size(), row * wire::kMostViews);
  for (const int64_t view : {int64_t{0}, wire::kMostViews - 1}) {
    EXPECT_EQ(made.rows[0].substr(static_cast<size_t>(view) * row, row),
              features(photos_->photos[0], view))
        << view;
  }
  const JobRows::Made again = open(job_)->make_views(places).or_throw();
  EXPECT_EQ(again.rows, made.rows);
  EXPECT_EQ(again.made_from.at("features"), static_cast<uint64_t>(wire::kMostViews));
}

TEST_F(PhotoViewRows, AndAllOtherRowsAreDecodedByTheStoresDecoder) {
  const size_t places[] = {0, 1, 2};
  (void)open(job_)->make_views(places).or_throw();
  EXPECT_EQ(decoder_.photos, 3 * kViews);
  wire::Job plain = job_;
  plain.clear_views();
  (void)open(plain)->make(places).or_throw();
  EXPECT_EQ(decoder_.photos, 3 * kViews + 3);
  wire::Job crops;
  crops.set_rows(wire::Job::CROPS);
  for (const auto& [key, value] : to_metadata({.img_size = 8, .resize = 9})) {
    (*crops.mutable_preprocessing())[key] = value;
  }
  (void)open(crops)->make(places).or_throw();
  EXPECT_EQ(decoder_.photos, 3 * kViews + 6);
}

// A copy of other bytes looks the same; a photo that cannot be decoded is not said to look like
// anything. What was hashed once is not decoded again, by a job of crops neither.
TEST_F(PhotoViewRows, OfJobsSayWhatPhotosLookLikeAndKeepIt) {
  const auto write = [&](const std::string& name, const std::string& bytes) {
    support::write_file(real_fs(), root_.at("photos/" + name), bytes);
  };
  Image noisy = test_pattern(40, 50);
  noisy.row(0)[0] ^= 0x40;
  write("copy.jpg", jpeg_of(noisy));
  const std::string whole = jpeg_of(test_pattern(70, 60));
  write("cut.jpg", whole.substr(0, whole.size() / 2));
  CountingDecoder decoder;
  PhotoRowProducer store(
      {.photos = root_.at("photos"), .cache = root_.at("kept"), .decoder = &decoder}, devices_,
      real_fs(), system_clock());
  const auto photos = std::make_shared<StoreInventory>(store.scan().or_throw());
  ASSERT_EQ(photos->photos.size(), 5U);
  wire::Job crops;
  crops.set_rows(wire::Job::CROPS);
  for (const auto& [key, value] : to_metadata(model_.preprocess)) {
    (*crops.mutable_preprocessing())[key] = value;
  }
  std::map<std::string, std::optional<uint64_t>> by_path;
  for (const wire::Job& job : {job_, crops}) {
    const auto rows = store.open(job, photos, root_.at("model.onnx"), "").or_throw();
    const auto hashes = rows->hashes(std::vector<size_t>{0, 1, 2, 3, 4}).or_throw();
    for (size_t i = 0; i < 5; ++i) by_path[photos->photos[i].path] = hashes[i];
    EXPECT_EQ(decoder.photos, job.rows() == wire::Job::CROPS ? 6 : 5) << "only the cut one again";
  }
  EXPECT_TRUE(by_path.at("0.jpg") && by_path.at("1.jpg") && by_path.at("2.jpg"));
  EXPECT_LE(bits_between(*by_path.at("0.jpg"), by_path.at("copy.jpg").value()), 1);
  EXPECT_FALSE(by_path.at("cut.jpg"));
}

TEST_F(PhotoViewRows, OfAPhotoThatCannotBeReadAreBadOnce) {
  support::write_file(real_fs(), root_.at("photos/" + photos_->photos[1].path), "no photo");
  const size_t places[] = {0, 1, 2};
  const JobRows::Made made = open(job_)->make_views(places).or_throw();
  ASSERT_EQ(made.bad.size(), 1U);
  EXPECT_EQ(made.bad[0].place, 1U);
  ASSERT_EQ(made.rows.size(), 2U);
  std::string want;
  for (int64_t view = 0; view < kViews; ++view) want += features(photos_->photos[2], view);
  EXPECT_EQ(made.rows[1], want);
}

TEST_F(PhotoViewRows, AndOtherRowsOfJobsBesideEachOtherHaveTheExtractorOnceUntilTheLastIsOver) {
  SharedModels models;
  PhotoRowProducer store({.photos = root_.at("photos"),
                          .cache = root_.at("another cache"),
                          .cache_bytes = 1 << 24,
                          .models = &models},
                         devices_, real_fs(), system_clock());
  const std::string path = root_.at("model.onnx");
  job_.set_extractor(bytes_of(sha256(real_fs().read(path).or_throw())));
  wire::Job labels_job = job_;
  labels_job.clear_views();
  labels_job.set_rows(wire::Job::LABELS);
  labels_job.set_top_k(3);
  auto views = store.open(job_, photos_, path, "").or_throw();
  auto labels = store.open(labels_job, photos_, path, "").or_throw();
  EXPECT_EQ(models.made(), 1U);
  const auto own_views = open(job_), own_labels = open(labels_job);
  for (const size_t place : {0U, 1U}) {
    EXPECT_EQ(views->make_views({&place, 1}).or_throw().rows,
              own_views->make_views({&place, 1}).or_throw().rows);
    EXPECT_EQ(labels->make({&place, 1}).or_throw().rows,
              own_labels->make({&place, 1}).or_throw().rows);
  }
  views.reset();
  EXPECT_EQ(models.held(), 1U);
  const size_t last = 2;
  EXPECT_EQ(labels->make({&last, 1}).or_throw().rows, own_labels->make({&last, 1}).or_throw().rows);
  labels.reset();
  EXPECT_EQ(models.held(), 0U);
  views = store.open(job_, photos_, path, "").or_throw();
  EXPECT_EQ(models.made(), 2U) << "it was let go of";
}

TEST_F(PhotoViewRows, AreRefusedWhereTheyAreOfNoFeaturesOrOfUnknownChanges) {
  job_.mutable_views()->set_changes("crop,swirl");
  EXPECT_THAT([&] { (void)open(job_); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("'swirl'")));
  job_.mutable_views()->set_changes("crop");
  job_.set_rows(wire::Job::FILES);
  EXPECT_THAT([&] { (void)open(job_); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("views are of features")));
}

}  // namespace
}  // namespace ndtrain::ndp
