#include "tuner/plan/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/demo_photos.h"
#include "framework/core/error.h"
#include "framework/core/publish.h"
#include "models/zoo.h"
#include "ndp/jobs/model_file.h"
#include "ndp/photos/encode.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"
#include "tuner/plan/measure_photos.h"
#include "tuner/plan/planner.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;

class MeasureTest : public ::testing::Test {
 protected:
  MeasureTest() {
    ModelFile file{.path = at("model.onnx"),
                   .model = build_model("tinynet", {.classes = 5, .img_size = 32})};
    file.preprocess.img_size = file.preprocess.resize = 32;
    save_model(real_fs(), file.path, file);
    for (int i = 0; i < 12; ++i) {
      const std::string name = "photos/c" + std::to_string(i % 3) + "/" + std::to_string(i);
      const Image photo = cli::draw_demo_photo(i % 3, cli::Look::kDay, static_cast<uint64_t>(i));
      support::write_file(real_fs(), at(name + ".jpg"), encode_jpeg(photo));
    }
  }
  std::string at(const std::string& name) const { return directory_.at(name); }

  Profile measure(MeasureConfig config) const {
    config.model = at("model.onnx");
    config.budget_s = 0.001;
    const support::TemporaryDirectory scratch;
    config.scratch = scratch.path();
    NoProgress quiet;
    return measure_profile(config, ndtrain::testing::cpu(), real_fs(), system_clock(), quiet);
  }

  support::TemporaryDirectory directory_;
};

TEST_F(MeasureTest, AMeasuredProfileIsWholeAndPredicts) {
  Profile p = measure({.photos = at("photos")});
  PlanInputs& in = p.inputs;
  EXPECT_EQ(in.photos, 12);
  EXPECT_GT(in.costs.photo.bytes, 100);
  EXPECT_EQ(in.costs.photo.crop_bytes, 3 * 32 * 32);
  EXPECT_GT(in.costs.photo.compressed_crop_bytes, 0);
  EXPECT_GT(in.costs.photo.prepare_s, 0);
  EXPECT_GT(in.costs.photo.normalise_s, 0);
  EXPECT_GT(in.costs.epoch_s, 0) << "a checkpoint is written behind each";
  EXPECT_GT(in.costs.finish_s, 0);
  const CutCost& last = in.costs.cuts.back();
  EXPECT_EQ(last.feature_bytes, 64 * 2);         // tinynet's 64 pooled features, in f16
  EXPECT_EQ(last.head_bytes, (64 * 3 + 3) * 4);  // three class directories
  EXPECT_GT(in.costs.cuts.size(), 2u);
  for (size_t i = 0; i < in.costs.cuts.size(); ++i) {
    const CutCost& cut = in.costs.cuts[i];
    EXPECT_GT(cut.extract_s, 0) << cut.name;
    EXPECT_GT(cut.train_s, 0) << cut.name;
    EXPECT_GT(cut.evaluate_s, 0) << cut.name;
    const double before = i == 0 ? 0 : in.costs.cuts[i - 1].extractor_bytes;
    EXPECT_GE(cut.extractor_bytes, before) << cut.name;
  }
  in.bandwidth = 1e6;
  EXPECT_FALSE(predict_all(in).empty());
  p.sources["job/bandwidth"] = "given";
  EXPECT_EQ(to_json(parse_profile(to_json(p), "p")), to_json(p));
}

TEST_F(MeasureTest, FeaturesInF32AreTwiceAsLarge) {
  const Profile half = measure({.photos = at("photos")});
  const Profile full = measure({.photos = at("photos"), .feature_dtype = DType::kF32});
  const auto &h = half.inputs.costs.cuts, &f = full.inputs.costs.cuts;
  ASSERT_EQ(h.size(), f.size());
  for (size_t i = 0; i < h.size(); ++i) EXPECT_EQ(2 * h[i].feature_bytes, f[i].feature_bytes);
}

TEST_F(MeasureTest, WhereNothingIsFrozenThereIsNothingToMeasure) {
  EXPECT_THROW(measure({.photos = at("photos"), .freeze = "none"}), Error);
}

TEST_F(MeasureTest, DrawnPhotosHaveAboutTheSizeAskedFor) {
  for (const double bytes : {5e3, 2e4, 2e5}) {
    const TimedPhotos sample = draw_photos(bytes, 3, 1);
    for (const std::string& file : sample.files) {
      EXPECT_NEAR(static_cast<double>(file.size()), bytes, 0.2 * bytes);
    }
  }
  const Profile p = measure({.photo_bytes = 2e4});
  EXPECT_EQ(p.inputs.costs.photo.bytes, 2e4);
  EXPECT_THAT(p.sources.at("photo/bytes"), HasSubstr("drawn"));
  EXPECT_EQ(p.inputs.costs.cuts.back().head_bytes, (64 * 5 + 5) * 4);  // the model's own classes
}

TEST_F(MeasureTest, UnreadablePhotosAreLeftOutOfTheSample) {
  support::write_file(real_fs(), at("photos/c0/broken.jpg"), "no photo");
  TimedPhotos sample = sample_photos(real_fs(), at("photos"), 100);
  EXPECT_EQ(sample.files.size(), 13u);
  measure_photos(sample, {.img_size = 32, .resize = 32}, system_clock(), 0.001);
  EXPECT_EQ(sample.files.size(), 12u);

  for (const char* name : {"bad/c0/broken.jpg", "bad/c1/broken.jpg"}) {
    support::write_file(real_fs(), at(name), "no photo");
  }
  support::write_file(real_fs(), at("none/c0/words.txt"), "no photo");
  try {
    measure({.photos = at("bad")});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("broken.jpg"));
  }
  EXPECT_THROW(measure({.photos = at("none")}), Error);
  EXPECT_THROW(measure({.photos = at("nowhere")}), Error);
}

TEST_F(MeasureTest, SamplesComeFromAllOverTheDirectory) {
  const TimedPhotos sample = sample_photos(real_fs(), at("photos"), 3);
  ASSERT_EQ(sample.names.size(), 3u);
  EXPECT_THAT(sample.names[0], HasSubstr("c0/"));
  EXPECT_THAT(sample.names[1], HasSubstr("c1/"));
  EXPECT_THAT(sample.names[2], HasSubstr("c2/"));
  EXPECT_EQ(sample.photos, 12);
}

}  // namespace
}  // namespace ndtrain::tuner
