#include "ndp/jobs/augmented_photos.h"

#include <gmock/gmock.h>

#include <set>

#include "ndp/photos/random_changes.h"
#include "tests/jobs/finetune_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;
using ::testing::HasSubstr;
using Picture = std::vector<float>;

constexpr Augmentation kAll{
    .crop = true, .flip = true, .cutout = true, .jitter = true, .randaugment = true};
constexpr Augmentation kMixed{.crop = true, .flip = true, .mixup = 0.4, .cutmix = 1};
constexpr size_t kPhotos = 9;
constexpr int64_t kEpochs = 4;

class AugmentedPhotosTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < kPhotos; ++i) {
      photos_.push_back({.path = std::to_string(i) + ".jpg"});
      files_.push_back(encode_jpeg(cli::draw_demo_photo(static_cast<int>(i % 3), cli::Look::kDay,
                                                        static_cast<uint64_t>(i))));
    }
  }

  PhotoRows rows(int64_t memory_limit, const std::function<bool(size_t)>& keeps = {}) const {
    PhotoRows rows(preprocess_, memory_limit);
    NoProgress quiet;
    std::vector<QuarantinedPhoto> quarantined;
    std::map<std::string, int64_t> skipped;
    rows.fill(
        photos_, [this](size_t i) -> Result<std::string> { return files_[i]; }, quiet, quarantined,
        skipped, keeps);
    return rows;
  }
  Picture picture(const AugmentedPhotos& photos, size_t photo, int64_t epoch) const {
    Picture picture(preprocess_.values());
    photos.read(photo, epoch, picture.data());
    return picture;
  }
  Picture centre(const PhotoRows& rows, size_t photo) const {
    Picture picture(preprocess_.values());
    rows.read(photo, picture.data());
    return picture;
  }

  Preprocess preprocess_{.img_size = kSide, .resize = kSide};
  std::vector<Photo> photos_;
  std::vector<std::string> files_;
};

TEST_F(AugmentedPhotosTest, ArePicturesOfTheirOwnWhateverBatchTheyAreIn) {
  const PhotoRows rows = this->rows(0);
  const AugmentedPhotos augmented(rows, {kAll, 7, kEpochs});
  constexpr int64_t kEpoch = 3;
  std::vector<size_t> all(kPhotos);
  for (size_t i = 0; i < kPhotos; ++i) all[i] = kPhotos - 1 - i;
  PhotoDataset data(rows, all, std::vector<int64_t>(kPhotos, 0),
                    [&](size_t photo, float* to) { augmented.read(photo, kEpoch, to); });
  for (const size_t batch : {1, 2, 9}) {
    for (size_t begin = 0; begin < kPhotos; begin += batch) {
      const size_t n = std::min(batch, kPhotos - begin);
      Tensor input({DType::kF32, {static_cast<int64_t>(batch), 3, kSide, kSide}});
      std::vector<int64_t> numbers, labels(n);
      for (size_t i = begin; i < begin + n; ++i) numbers.push_back(static_cast<int64_t>(i));
      data.fetch(numbers, {&input, 1}, labels);
      for (size_t i = 0; i < n; ++i) {
        const auto got = input.as<float>().subspan(i * preprocess_.values(), preprocess_.values());
        EXPECT_TRUE(std::ranges::equal(got, picture(augmented, all[begin + i], kEpoch)))
            << batch << " at a time, row " << begin + i;
      }
    }
  }
}

TEST_F(AugmentedPhotosTest, AreOthersInEachEpochAndValidationSeesTheCentre) {
  const PhotoRows rows = this->rows(1 << 20);
  const AugmentedPhotos augmented(rows, {kAll, 7, kEpochs});
  for (size_t photo = 0; photo < kPhotos; ++photo) {
    std::set<Picture> pictures = {centre(rows, photo)};
    for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      pictures.insert(picture(augmented, photo, epoch));
    }
    EXPECT_EQ(pictures.size(), 1 + kEpochs) << photo;
  }
}

TEST_F(AugmentedPhotosTest, KeptInMemoryOrDecodedAgainAreTheSame) {
  const PhotoRows kept = rows(1 << 20), decoded = rows(0),
                  some = rows(1 << 20, [](size_t photo) { return photo % 2 == 0; });
  for (const char* names :
       {"crop", "flip", "cutout", "jitter", "randaugment", "crop,flip,cutout,jitter"}) {
    const AugmentedPhotos::Config config{augmentation_named(names), 7, kEpochs};
    for (size_t photo = 0; photo < kPhotos; ++photo) {
      const Picture want = picture({kept, config}, photo, 2);
      EXPECT_EQ(picture({decoded, config}, photo, 2), want) << names;
      EXPECT_EQ(picture({some, config}, photo, 2), want) << names;
    }
  }
}

TEST_F(AugmentedPhotosTest, EachPartIsItsDraw) {
  const PhotoRows rows = this->rows(0);
  size_t flipped = 0, cut = 0;
  for (size_t photo = 0; photo < kPhotos; ++photo) {
    const AugmentationDraw draw(7, 2, photo);
    const Image whole = rows.whole(photo), at_centre = rows.crop_of(photo);
    Picture want(preprocess_.values());
    normalize(crop(whole, draw.box(whole.width, whole.height), preprocess_), preprocess_,
              want.data());
    EXPECT_EQ(picture({rows, {{.crop = true}, 7, kEpochs}}, photo, 2), want);

    normalize(draw.flips() ? mirrored(at_centre) : at_centre, preprocess_, want.data());
    EXPECT_EQ(picture({rows, {{.flip = true}, 7, kEpochs}}, photo, 2), want);
    flipped += draw.flips();

    normalize(jittered(at_centre, colour_jitter(draw)), preprocess_, want.data());
    EXPECT_EQ(picture({rows, {{.jitter = true}, 7, kEpochs}}, photo, 2), want);

    const auto [first, second] = random_operations(draw);
    normalize(operated(operated(at_centre, first), second), preprocess_, want.data());
    EXPECT_EQ(picture({rows, {{.randaugment = true}, 7, kEpochs}}, photo, 2), want);

    normalize(at_centre, preprocess_, want.data());
    const auto box = draw.cutout(kSide, 0.5);
    if (box) cut_out(*box, preprocess_, want.data());
    EXPECT_EQ(picture({rows, {{.cutout = true}, 7, kEpochs}}, photo, 2), want);
    cut += box.has_value();
  }
  EXPECT_TRUE(flipped > 0 && flipped < kPhotos) << flipped;
  EXPECT_TRUE(cut > 0 && cut < kPhotos) << cut;
}

TEST_F(AugmentedPhotosTest, AFileThatHasChangedIsNamed) {
  const PhotoRows rows = this->rows(0);
  files_[4] = "this is no photo";
  try {
    (void)picture({rows, {kAll, 7, kEpochs}}, 4, 0);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("4.jpg: was readable before"));
  }
}

class AugmentedTraining : public FinetuneTest {
 protected:
  FinetuneConfig augmented(const std::string& run, Augmentation what = kAll) const {
    FinetuneConfig c = config(run);
    c.freeze = "none";
    c.augmentation = what;
    return c;
  }
  std::string model_of(const FinetuneConfig& c) {
    EXPECT_FALSE(train(c).interrupted);
    return bytes(name_of_path(c.out) + "/model.onnx");
  }
};

TEST_F(AugmentedTraining, EachPartGivesAModelOfItsOwnWhateverIsKeptInMemory) {
  std::set<std::string> ends;  // a best epoch may be the first, without cut-out
  const auto end_of = [&](const FinetuneConfig& c) {
    (void)model_of(c);
    return bytes(name_of_path(c.out) + "/last.safetensors");
  };
  ends.insert(end_of(augmented("plain", {})));
  for (const char* names :
       {"crop", "flip", "cutout", "jitter", "randaugment", "crop,flip,cutout,jitter", "mixup=0.4",
        "cutmix=1", "crop,mixup=0.4,cutmix=1"}) {
    FinetuneConfig c = augmented(names, augmentation_named(names));
    const std::string end = end_of(c);
    ends.insert(end);
    c.out += " streamed";
    c.memory_limit = 1;
    EXPECT_EQ(end_of(c), end) << names;
  }
  EXPECT_EQ(ends.size(), 10U);
}

// Asks the job to stop in the epoch after so many reports of its steps.
class StopInTraining final : public Progress {
 public:
  explicit StopInTraining(int steps) : left_(steps) {}
  void begin(const std::string& what, int64_t, const std::string&) override {
    trains_ = what.starts_with("epoch");
  }
  void update(int64_t, const std::string&) override { left_ -= trains_; }
  void end() override {}
  void say(const std::string&) override {}
  bool interrupted() const override { return left_ < 0; }

 private:
  bool trains_ = false;
  int left_;
};

TEST_F(AugmentedTraining, StoppedAnywhereAndResumedEqualsUnbroken) {
  for (const Augmentation& what : {kAll, kMixed}) {
    const std::string name = what == kAll ? "all" : "mixed";
    const std::string want = model_of(augmented("unbroken " + name, what));
    for (const int after : {0, 3, 7, 12}) {
      FinetuneConfig broken = augmented(name + std::to_string(after), what);
      StopInTraining stop(after);
      ASSERT_TRUE(train(broken, stop).interrupted) << after;
      broken.resume = true;
      EXPECT_EQ(model_of(broken), want) << name << " stopped after " << after << " steps";
    }
  }
}

TEST_F(AugmentedTraining, GoesOnWithTheSameAugmentationAlone) {
  FinetuneConfig c = augmented("run");
  train(c);
  c.resume = true;
  c.augmentation.cutout = false;
  EXPECT_THROW(train(c), Error);
}

TEST_F(AugmentedTraining, BadPhotosAreListedAsEver) {
  const std::string good = bytes("photos/train/c0/0.jpg");
  publish(real_fs(), at("photos/train/c0/short.jpg"),
          std::string_view(good).substr(0, good.size() / 2))
      .or_throw();
  publish(real_fs(), at("photos/train/c1/noise.jpg"), "this is no photo").or_throw();
  const FinetuneResult plain = train(augmented("plain", {})), r = train(augmented("run"));
  EXPECT_EQ(r.quarantined, 2);
  EXPECT_EQ(r.quarantined, plain.quarantined);
  EXPECT_EQ(r.train_photos, plain.train_photos);
  EXPECT_EQ(bytes("run/quarantine.csv"), bytes("plain/quarantine.csv"));
}

TEST_F(AugmentedTraining, IsRefusedWhereFeaturesAreKept) {
  FinetuneConfig c = augmented("run");
  c.freeze = "layer1";
  try {
    train(c);
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("--freeze none"));
  }
  EXPECT_FALSE(real_fs().exists(at("run"))) << "nothing is left of it";
}

}  // namespace
}  // namespace ndtrain::ndp
