#include "ndp/jobs/photo_views.h"

#include <gmock/gmock.h>

#include <set>

#include "ndp/jobs/augmented_photos.h"
#include "tests/jobs/finetune_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;
using ::testing::HasSubstr;

constexpr int64_t kViews = 3;

// Photos 1 and 4 are for validation.
TrainingPhotos six_photos() {
  TrainingPhotos p;
  for (size_t i = 0; i < 6; ++i) {
    p.set.photos.push_back(
        {.path = std::to_string(i) + ".jpg", .digest = sha256(std::to_string(i))});
    p.roots.emplace_back("root");
    p.for_validation.push_back(i == 1 || i == 4);
  }
  return p;
}

TEST(PhotoViews, AreItemsBehindThePhotosEachWithADigestOfItsOwn) {
  const TrainingPhotos photos = six_photos();
  const Preprocess preprocess{.img_size = 8, .resize = 8};
  const PhotoViews views(photos, preprocess, {.what = {.flip = true}, .seed = 7, .views = kViews});
  ASSERT_EQ(views.items().size(), 6U + 2 * 4);
  std::set<Digest> digests;
  std::map<size_t, std::set<int64_t>> numbers;
  for (size_t i = 0; i < views.items().size(); ++i) {
    const size_t photo = views.photo_of(i);
    EXPECT_EQ(views.items()[i].path, photos.set.photos[photo].path);
    EXPECT_TRUE(i >= 6 || photo == i) << i;
    digests.insert(views.items()[i].digest);
    numbers[photo].insert(views.items()[i].view);
    EXPECT_EQ(views.items()[i].digest == photos.set.photos[photo].digest,
              photos.for_validation[photo]);
  }
  EXPECT_EQ(digests.size(), views.items().size());
  for (const auto& [photo, of_it] : numbers) {
    EXPECT_EQ(of_it.size(), photos.for_validation[photo] ? 1U : 3U) << photo;
  }
  const PhotoViews other(photos, preprocess, {.what = {.flip = true}, .seed = 8, .views = kViews}),
      crops(photos, preprocess, {.what = {.crop = true}, .seed = 7, .views = kViews}),
      mixes(photos, preprocess, {.what = {.flip = true, .mixup = 0.4}, .seed = 7, .views = kViews}),
      none(photos, preprocess, {});
  EXPECT_EQ(mixes.items()[0].digest, views.items()[0].digest) << "what is mixed later is the same";
  EXPECT_NE(other.items()[0].digest, views.items()[0].digest);
  EXPECT_NE(crops.items()[0].digest, views.items()[0].digest);
  EXPECT_EQ(none.items().size(), 6U);
  EXPECT_EQ(none.items()[0].digest, photos.set.photos[0].digest);
  EXPECT_FALSE(none.crop());
}

TEST(PhotoViews, AreDrawnByThePhotosContentAndTheView) {
  const TrainingPhotos photos = six_photos();
  const Preprocess preprocess{.img_size = 32, .resize = 32};
  const Augmentation what{.crop = true, .flip = true, .jitter = true};
  const PhotoViews views(photos, preprocess, {.what = what, .seed = 7, .views = kViews});
  const Image drawn = cli::draw_demo_photo(1, cli::Look::kDay, 3);
  const std::string file = encode_jpeg(drawn);
  PhotoCost cost;
  const Image whole = decode_photo("a.jpg", file, {}, cost).or_throw();
  const Image centre = crop_photo("a.jpg", file, preprocess, cost).or_throw();
  std::set<std::vector<uint8_t>> pictures = {centre.rgb};
  for (size_t i = 0; i < views.items().size(); ++i) {
    const Image got = views.crop()(i, "a.jpg", file, cost).or_throw();
    const size_t photo = views.photo_of(i);
    if (photos.for_validation[photo]) {
      EXPECT_EQ(got.rgb, centre.rgb);
      continue;
    }
    uint64_t number = 0;
    std::memcpy(&number, photos.set.photos[photo].digest.data(), sizeof(number));
    const AugmentationDraw draw(7, views.items()[i].view, number);
    const Image want =
        changed(what, draw, crop(whole, draw.box(whole.width, whole.height), preprocess));
    EXPECT_EQ(got.rgb, want.rgb) << i;
    pictures.insert(got.rgb);
  }
  EXPECT_EQ(pictures.size(), 1U + 4 * kViews);
  EXPECT_FALSE(views.crop()(0, "a.jpg", "no photo", cost).ok());
}

class ViewedTraining : public FinetuneTest {
 protected:
  FinetuneConfig viewed(const std::string& run, int64_t views) const {
    FinetuneConfig c = config(run);
    c.augmentation = {.crop = true, .flip = true};
    c.views = views;
    return c;
  }
  FinetuneResult result(const FinetuneConfig& c) { return train(c); }
  std::string end_of(const std::string& run) const { return bytes(run + "/last.safetensors"); }
};

TEST_F(ViewedTraining, FeaturesOfViewsAreKeptForTheNextTime) {
  constexpr int kPhotos = kClasses * (kTrain + kVal), kOthers = 2 * kClasses * kTrain;
  const FinetuneResult first = result(viewed("first", kViews));
  EXPECT_EQ(first.extraction.extracted, kPhotos + kOthers);
  EXPECT_EQ(first.train_photos, kClasses * kTrain) << "one view of each in an epoch";
  FinetuneConfig small = viewed("streamed", kViews);
  small.memory_limit = 1;
  const FinetuneResult again = result(small);
  EXPECT_EQ(again.extraction.extracted, 0);
  EXPECT_EQ(again.extraction.cached, kPhotos + kOthers);
  EXPECT_EQ(end_of("streamed"), end_of("first"));
  const FinetuneResult more = result(viewed("more", kViews + 1));
  EXPECT_EQ(more.extraction.extracted, kClasses * kTrain) << "those that there are stay";
  result(config("plain"));
  std::set<std::string> ends = {end_of("first"), end_of("more"), end_of("plain")};
  EXPECT_EQ(ends.size(), 3U);
}

// Of as many epochs as views, each trains on one of them.
TEST_F(ViewedTraining, OneViewIsSeenInAnEpochAndResumedIsUnbroken) {
  result(viewed("unbroken", 2));
  FinetuneConfig broken = viewed("broken", 2);
  broken.how.trainer.epochs = 2;
  broken.given = {{"epochs", "2"}};
  result(broken);
  broken.how.trainer.epochs = 3;
  broken.given = {{"epochs", "3"}};
  broken.resume = true;
  result(broken);
  EXPECT_EQ(end_of("broken"), end_of("unbroken"));
  FinetuneConfig once = viewed("once", 1);
  result(once);
  EXPECT_NE(end_of("once"), end_of("unbroken"));
}

TEST_F(ViewedTraining, BadPhotosAreListedOnce) {
  publish(real_fs(), at("photos/train/c1/noise.jpg"), "this is no photo").or_throw();
  publish(real_fs(), at("photos/train/c1/drawing.webp"), "RIFF....WEBPVP8 ").or_throw();
  const FinetuneResult plain = result(config("plain")), r = result(viewed("run", kViews));
  EXPECT_EQ(r.quarantined, plain.quarantined);
  EXPECT_EQ(r.skipped, plain.skipped);
  EXPECT_EQ(r.quarantined + r.skipped, 2);
  EXPECT_EQ(bytes("run/quarantine.csv"), bytes("plain/quarantine.csv"));
}

}  // namespace
}  // namespace ndtrain::ndp
