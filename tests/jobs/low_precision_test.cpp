#include "ndp/jobs/low_precision.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "framework/core/log.h"
#include "framework/passes/inference.h"
#include "ndp/jobs/evaluate_photos.h"
#include "ndp/pipestore/network.h"
#include "tests/graph/model_builder.h"
#include "tests/jobs/finetune_fixture.h"

namespace ndtrain::ndp {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::Not;

class Heard final : public Progress {
 public:
  void begin(const std::string& stage, int64_t, const std::string&) override {
    said.push_back(stage);
  }
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string& line) override { said.push_back(line); }
  std::vector<std::string> said;
};

class LowPrecision : public testing_jobs::FinetuneTest {
 protected:
  FinetuneConfig in(const std::string& precision, const std::string& run) const {
    FinetuneConfig c = config(run);
    c.precision = {.precision = precision, .max_drop = 100};
    return c;
  }
  ModelFile trained(const std::string& run) const { return load_model(real_fs(), at(run)); }
  double evaluated(const std::string& run) {
    const ModelFile model = trained(run);
    NoProgress quiet;
    const LabelledPhotos photos = read_image_folder(real_fs(), at("photos/val")).or_throw();
    const auto catalogue = open_catalogue(real_fs(), at("cache"), photos.root);
    const PhotoSet set = hash_photos(real_fs(), *catalogue, photos, quiet);
    return evaluate_photos(model, device_, real_fs(), set, 3, quiet).top1;
  }
  PhotoSet some_photos() {
    NoProgress quiet;
    const auto catalogue = open_catalogue(real_fs(), at("cache"), at("photos"));
    return all_photos(real_fs(), *catalogue, at("photos"), quiet);
  }
};

TEST_F(LowPrecision, WhatWasTrainedBehindItIsWhatTheWrittenModelComputes) {
  for (const char* precision : {"bf16", "int8"}) {
    SCOPED_TRACE(precision);
    const FinetuneResult r = train(in(precision, precision));
    EXPECT_EQ(r.extraction.extracted,
              testing_jobs::kClasses * (testing_jobs::kTrain + testing_jobs::kVal));
    const ModelFile model = trained(precision);
    EXPECT_EQ(name_of(declared_precision(model.model)), precision);
    EXPECT_EQ(precision_until(model.model).size(), 1U);
    EXPECT_DOUBLE_EQ(evaluated(precision), r.top1);
  }
  const Graph g = inference_graph(trained("int8").model, 1);
  EXPECT_GT(testing::count_nodes(g, "FusedQLinearConv"), 0);
  EXPECT_EQ(testing::count_nodes(inference_graph(trained("bf16").model, 1), "Cast"), 3 + 1);
}

// What a PipeStore computes from the file it is sent is kept under the name the Tuner expects.
TEST_F(LowPrecision, TheExtractorsFileHasTheNameOfItsFeatures) {
  std::set<Digest> ids;
  for (const char* precision : {"f32", "bf16", "int8"}) {
    SCOPED_TRACE(precision);
    train(in(precision, precision));
    const ModelFile part = load_model(real_fs(), at(precision + std::string("/extractor.onnx")));
    const Digest id = extractor_id(part.model, part.preprocess);
    EXPECT_EQ(metadata::digest(trained(precision).model, metadata::kExtractorId), id);
    ids.insert(id);
  }
  EXPECT_EQ(ids.size(), 3U);
}

TEST_F(LowPrecision, ATrainedModelIsTrainedFurtherInItsPrecision) {
  train(in("int8", "first"));
  FinetuneConfig again = config("second");
  again.model = at("first");
  const FinetuneResult r = train(again);
  EXPECT_EQ(r.extraction.extracted, 0);  // the same extractor
  EXPECT_EQ(declared_precision(trained("second").model), Precision::kInt8);
}

TEST_F(LowPrecision, ADropBeyondWhatIsAllowedIsRefused) {
  FinetuneConfig c = in("bf16", "run");
  c.precision.max_drop = -1;
  EXPECT_THAT(error_of([&] { train(c); }), HasSubstr("refused"));
}

TEST_F(LowPrecision, NothingFrozenHasNoPrecision) {
  FinetuneConfig c = in("bf16", "run");
  c.freeze = "none";
  EXPECT_THAT(error_of([&] { train(c); }), HasSubstr("nothing is frozen"));
}

// Whether it was made, rather than found in the cache.
class Comparisons : public LowPrecision {
 protected:
  bool compares(const ModelFile& file, const PhotoSet& set, const Device& device) {
    const PrecisionConfig config{.precision = precision_, .max_drop = 100, .cache = at("cache")};
    Heard heard;
    const ModelFile low = in_precision(file, config, set, device, real_fs(), heard);
    EXPECT_NE(low.id(), file.id());
    return std::ranges::count(heard.said, "comparing precisions") > 0;
  }
  std::string precision_ = "bf16";
};

TEST_F(Comparisons, AreMadeAgainForOtherPhotosLabelsModelsPrecisionsAndNumerics) {
  const ModelFile file = load_model(real_fs(), at("base.onnx"));
  const PhotoSet set = some_photos();
  ASSERT_TRUE(compares(file, set, device_));
  EXPECT_FALSE(compares(file, set, device_));

  PhotoSet fewer = set;
  fewer.photos.pop_back();
  EXPECT_TRUE(compares(file, fewer, device_));
  PhotoSet labelled = set;
  labelled.photos[0].label = labelled.photos[0].label == 1 ? 2 : 1;
  EXPECT_TRUE(compares(file, labelled, device_));
  const Device thrifty(Backend::find("cpu"), {.less_memory = true});
  EXPECT_TRUE(compares(file, set, thrifty));
  ModelFile other = file;
  other.preprocess.resize += 1;
  EXPECT_TRUE(compares(other, set, device_));
  precision_ = "f16";
  EXPECT_TRUE(compares(file, set, device_));

  precision_ = "bf16";
  EXPECT_FALSE(compares(file, set, device_)) << "what was found first is still there";
}

TEST_F(LowPrecision, AComparisonIsMadeOncePerModel) {
  const ModelFile file = load_model(real_fs(), at("base.onnx"));
  const PhotoSet set = some_photos();
  const PrecisionConfig config{.precision = "bf16", .max_drop = 100, .cache = at("cache")};
  Heard first, second;
  const ModelFile a = in_precision(file, config, set, device_, real_fs(), first);
  const ModelFile b = in_precision(file, config, set, device_, real_fs(), second);
  EXPECT_EQ(a.id(), b.id());
  EXPECT_NE(a.id(), file.id());
  EXPECT_THAT(first.said, Contains("comparing precisions"));
  EXPECT_THAT(second.said, Not(Contains("comparing precisions")));
  EXPECT_EQ(first.said.back(), second.said.back());
}

TEST_F(LowPrecision, AutoIsF32WhereLessIsNotFaster) {
  std::string why;
  EXPECT_EQ(chosen_precision("auto", device_, why), Precision::kF32) << why;
  EXPECT_THAT(why, HasSubstr("cpu backend"));
  EXPECT_THAT(error_of([&] { chosen_precision("f8", device_, why); }), HasSubstr("'f8'"));
}

TEST_F(LowPrecision, WhereBytesGainNothingAJobAndAStoreSaySo) {
  const ModelFile file = load_model(real_fs(), at("base.onnx"));
  const PrecisionConfig config{.precision = "int8", .max_drop = 100};
  Heard heard;
  const ModelFile low = in_precision(file, config, some_photos(), device_, real_fs(), heard);
  EXPECT_THAT(heard.said, Contains(AllOf(HasSubstr("int8 gains nothing: the cpu backend"),
                                         HasSubstr("--precision f32 is as fast here"))));
  Heard again;
  (void)in_precision(low, {}, some_photos(), device_, real_fs(), again);
  EXPECT_THAT(again.said, Contains(HasSubstr("the model it was quantised from is as fast here")));

  log::to_file(at("log"));
  const auto extractor = [&](const ModelFile& of) {
    const Extractor made(std::make_shared<const ModelFile>(of), true, device_, {});
  };
  extractor(low);
  extractor(file);
  log::to_file("");
  const std::string lines = real_fs().read(at("log")).or_throw();
  EXPECT_THAT(lines, HasSubstr("is int8, which gains nothing: the cpu backend"));
  EXPECT_EQ(std::ranges::count(lines, '\n'), 1);
}

TEST_F(LowPrecision, AQuantisedModelIsNotPutIntoAnother) {
  NoProgress quiet;
  ModelFile file = load_model(real_fs(), at("base.onnx"));
  const PhotoSet set = some_photos();
  file.model =
      lowered(file.model, Precision::kInt8, features_of(file.model),
              sample_of(set, kCalibrationPhotos, file.preprocess, real_fs()), device_, quiet);
  save_model(real_fs(), at("int8.onnx"), file);
  const ModelFile again = load_model(real_fs(), at("int8.onnx"));
  EXPECT_EQ(again.id(), file.id());
  EXPECT_EQ(in_precision(again, {}, some_photos(), device_, real_fs(), quiet).id(), file.id());
  EXPECT_THAT(error_of([&] {
                in_precision(again, {.precision = "bf16"}, some_photos(), device_, real_fs(),
                             quiet);
              }),
              HasSubstr("quantised from"));
}

}  // namespace
}  // namespace ndtrain::ndp
