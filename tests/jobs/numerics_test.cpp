// Cached features that another numerics made: used, refused, or not looked at.
#include <gmock/gmock.h>

#include "framework/passes/inference.h"
#include "framework/runtime/plan.h"
#include "ndp/jobs/model_file.h"
#include "tests/jobs/finetune_fixture.h"
#include "tests/support/changed_tuning.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;
using ::testing::HasSubstr;

constexpr int64_t kNumericsPhotos = kClasses * (kTrain + kVal);

class Lines final : public Progress {
 public:
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string& line) override { text += line + "\n"; }

  std::string text;
};

class NumericsTest : public FinetuneTest {
 protected:
  // A cache with the features of all photos, as if "elsewhere" had computed them, with `error`
  // standard deviations of some values' error.
  void cache_from_elsewhere(double error, DType dtype) {
    FinetuneConfig c = config("elsewhere");
    c.cache_dtype = dtype;
    train(c);
    std::filesystem::remove_all(at("elsewhere"));
    const auto cache =
        SegmentStore::open(real_fs(), system_clock(), at("cache/features")).or_throw();
    const Digest extractor = cache->groups().at(0).group;
    NoProgress quiet;
    for (const std::string part : {"photos/train", "photos/val"}) {
      const std::string root = at(part);
      for (const Photo& p :
           all_photos(real_fs(), *open_catalogue(real_fs(), at("cache"), root), root, quiet)
               .photos) {
        std::vector<std::byte> row;
        cache->get(extractor, p.digest, row).or_throw();
        const size_t n = row.size() / size_of(dtype);
        std::vector<double> values(n);
        load(row.data(), n, dtype, values.data());
        double mean = 0, square = 0;
        for (const double v : values) mean += v / static_cast<double>(n);
        for (const double v : values) square += (v - mean) * (v - mean) / static_cast<double>(n);
        for (size_t i = 0; i < n; i += 3) values[i] += error * std::sqrt(square);
        ndtrain::store(values.data(), n, dtype, row.data());
        const RecordMeta meta{.dtype = dtype, .numerics = numerics_tag("elsewhere")};
        cache->put(extractor, p.digest, meta, row).or_throw();
      }
    }
    cache->close().or_throw();
  }

  ExtractionReport train_here(const std::string& run, DType dtype, bool deterministic = false,
                              int64_t memory_limit = 0) {
    FinetuneConfig c = config(run);
    c.cache_dtype = dtype;
    c.memory_limit = memory_limit;
    const Device device(Backend::find("cpu"), {.deterministic = deterministic});
    said_ = Lines();
    return finetune(c, device, real_fs(), system_clock(), said_).extraction;
  }

  Lines said_;
};

TEST_F(NumericsTest, FeaturesThatAgreeWithinTheToleranceAreUsedAfterASample) {
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    cache_from_elsewhere(1e-4, dtype);
    for (const int64_t memory : {0, 1}) {
      const ExtractionReport r =
          train_here(std::string(name_of(dtype)) + std::to_string(memory), dtype, false, memory);
      EXPECT_EQ(r.foreign_accepted, kNumericsPhotos);
      EXPECT_EQ(r.sampled, static_cast<int64_t>(kNumericsSample));
      EXPECT_EQ(r.extracted, 0);
      EXPECT_EQ(r.cached, kNumericsPhotos);
      EXPECT_THAT(said_.text, HasSubstr("they are used"));
    }
    std::filesystem::remove_all(at("cache"));
  }
}

TEST_F(NumericsTest, FeaturesThatDifferAreComputedAnewOnce) {
  for (const int64_t memory : {0, 1}) {
    cache_from_elsewhere(2e-2, DType::kF16);
    const std::string run = "run" + std::to_string(memory);
    const ExtractionReport r = train_here(run, DType::kF16, false, memory);
    EXPECT_EQ(r.foreign_refused, kNumericsPhotos);
    EXPECT_EQ(r.foreign_accepted, 0);
    EXPECT_EQ(r.extracted, kNumericsPhotos);
    EXPECT_THAT(said_.text, HasSubstr("computed anew"));
    const ExtractionReport again = train_here(run + "again", DType::kF16, false, memory);
    EXPECT_EQ(again.extracted + again.sampled + again.foreign_refused, 0);
    EXPECT_EQ(bytes(run + "/model.onnx"), bytes(run + "again/model.onnx"));
    std::filesystem::remove_all(at("cache"));
  }
}

TEST_F(NumericsTest, DeterministicTakesOnlyFeaturesOfItsOwnNumerics) {
  cache_from_elsewhere(0, DType::kF16);
  const ExtractionReport r = train_here("run", DType::kF16, true);
  EXPECT_EQ(r.sampled, 0);
  EXPECT_EQ(r.foreign_refused, kNumericsPhotos);
  EXPECT_EQ(r.extracted, kNumericsPhotos);
  EXPECT_THAT(said_.text, HasSubstr("--deterministic"));
}

TEST_F(NumericsTest, NothingForeignTakesNoSampleAndSaysNothing) {
  train_here("first", DType::kF16);
  const ExtractionReport r = train_here("second", DType::kF16);
  EXPECT_EQ(r.sampled + r.foreign_accepted + r.foreign_refused + r.extracted, 0);
  EXPECT_EQ(said_.text.find("another processor"), std::string::npos);
}

TEST_F(NumericsTest, OnlyThePhotosOfTheOtherNumericsAreJudged) {
  cache_from_elsewhere(2e-2, DType::kF16);
  const Image photo = cli::draw_demo_photo(0, cli::Look::kDusk, 99);
  publish(real_fs(), at("photos/train/c0/fresh.jpg"), encode_jpeg(photo)).or_throw();
  const ExtractionReport r = train_here("run", DType::kF16);
  EXPECT_EQ(r.foreign_refused, kNumericsPhotos);
  EXPECT_EQ(r.extracted, kNumericsPhotos + 1);
  EXPECT_EQ(train_here("again", DType::kF16).cached, kNumericsPhotos + 1);
}

TEST_F(NumericsTest, FeaturesOfATunedDeviceAreStoredUnderItsOwn) {
  const std::vector<std::string> there = Backend::available();
  if (std::ranges::find(there, "onednn") == there.end()) GTEST_SKIP() << "no onednn plugin";
  const Backend& onednn = Backend::find("onednn");
  const std::string file = at("tuning.txt");
  int layers = 0;
  {
    const Device measuring(
        onednn, {.tuning_file = file, .on_choice = [&](const TunedLayer&) { ++layers; }});
    const Model resnet = build_model("resnet18", {.classes = 2, .img_size = kSide});
    const Plan plan(inference_graph(resnet, 1), measuring);
  }
  if (layers == 0) GTEST_SKIP() << "nothing to choose on this processor";
  support::change_tuning(file, [](const std::string&, plugin::TunedChoice& c) {
    c.choice = c.rule == "direct" ? "winograd" : "direct";
  });
  const Device tuned(onednn, {.tuning_file = file}), by_rule(onednn);
  NoProgress quiet;
  finetune(config("tuned"), tuned, real_fs(), system_clock(), quiet);
  const auto cache = SegmentStore::open(real_fs(), system_clock(), at("cache/features")).or_throw();
  const std::string root = at("photos/train");
  for (const Photo& p :
       all_photos(real_fs(), *open_catalogue(real_fs(), at("cache"), root), root, quiet).photos) {
    std::vector<std::byte> row;
    const uint64_t tag =
        cache->get(cache->groups().at(0).group, p.digest, row).or_throw().meta.numerics;
    EXPECT_EQ(tag, numerics_tag(feature_numerics(tuned)));
    EXPECT_NE(tag, numerics_tag(feature_numerics(by_rule)));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
