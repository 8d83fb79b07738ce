#include "ndp/sandbox/decoder_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "framework/core/rng.h"
#include "framework/core/text.h"
#include "tests/photos/golden_formats.h"
#include "tests/photos/photo_factory.h"
#include "tests/sandbox/hostile_pool.h"

namespace ndtrain::ndp {
namespace {

using testing::decoded_by;
using testing::ended;
using ::testing::HasSubstr;
using testing::hostile_config;
using testing::is_stopped;

std::string good_photo() { return testing::jpeg_of(testing::test_pattern(40, 30)); }

void expect_same(PhotoDecoder& pool, const std::string& name, const std::string& file) {
  const Preprocess preprocess{
      .img_size = 24, .resize = 30, .interpolation = Interpolation::kBicubic, .fast_decode = true};
  for (const Preprocess* crop : {static_cast<const Preprocess*>(nullptr), &preprocess}) {
    const DecodeOptions options = crop ? decode_options(*crop) : DecodeOptions();
    PhotoCost here, there;
    const Result<Image> want = decoder_in_process().decode(name, file, options, crop, here);
    const Result<Image> got = pool.decode(name, file, options, crop, there);
    ASSERT_EQ(got.status().code(), want.status().code()) << got.status().message();
    EXPECT_EQ(got.status().message(), printable(want.status().message()));
    EXPECT_EQ(there.warnings, here.warnings);
    if (!want.ok()) continue;
    EXPECT_EQ(got->width, want->width);
    EXPECT_EQ(got->height, want->height);
    EXPECT_TRUE(got->rgb == want->rgb);
  }
}

TEST(DecoderPool, PixelsOfEveryFormatAreThoseOfThisProcess) {
  DecoderPool pool(hostile_config());
  size_t files = 0;
  for (const testing::GoldenFile& g : testing::golden_files()) {
    const std::string file = testing::from_hex(g.hex);
    const PhotoFormat format = sniff(testing::bytes_of(file));
    SCOPED_TRACE(std::string(g.format) + ", " + std::string(g.name));
    expect_same(pool, "a" + std::string(extension_for(format)), file);
    expect_same(pool, "a.png", file);  // often not what it holds
    expect_same(pool, "", testing::without_last(file, file.size() / 3));
    ++files;
  }
  EXPECT_GT(files, 20U);
  EXPECT_EQ(pool.counts().ended, DecoderPool::Counts().ended);
}

TEST(DecoderPool, DamagedFilesAreRefusedAsInThisProcess) {
  DecoderPool pool(hostile_config());
  Rng rng(7);
  constexpr int kRounds = 20, kBytes = 4;
  for (const testing::GoldenFile& g : testing::golden_files()) {
    SCOPED_TRACE(std::string(g.format) + ", " + std::string(g.name));
    const std::string whole = testing::from_hex(g.hex);
    for (int round = 0; round < kRounds; ++round) {
      std::string file = whole;
      for (int i = 0; i < kBytes; ++i) {
        const uint64_t at = rng.next_below(file.size());
        file[at] = static_cast<char>(rng.next_bits());
      }
      expect_same(pool, "", file);
    }
  }
  EXPECT_EQ(pool.counts().ended, DecoderPool::Counts().ended);
}

// Longer than the window, both the file and its pixels.
TEST(DecoderPool, LargePhotosComeInParts) {
  DecoderPool pool(hostile_config());
  Image noise(2600, 2400);
  Rng rng(3);
  for (size_t i = 0; i < noise.rgb.size(); ++i) {
    noise.rgb[i] = static_cast<uint8_t>(rng.bits(i));
  }
  const std::string file = testing::png_of(noise);
  ASSERT_GT(file.size(), kWindowBytes);
  ASSERT_GT(noise.rgb.size(), kWindowBytes);
  const Result<Image> image = decoded_by(pool, file, "a.png");
  ASSERT_TRUE(image.ok()) << image.status().message();
  EXPECT_TRUE(image->rgb == noise.rgb);
}

TEST(DecoderPool, ACrashRefusesThatPhotoAlone) {
  DecoderPool pool(hostile_config());
  for (const auto& [act, how] : {std::pair{"!crash", "SIGSEGV"},
                                 {"!abort", "SIGABRT"},
                                 {"!leave", "it ended by itself, with status 0"}}) {
    ASSERT_TRUE(decoded_by(pool, good_photo()).ok());
    const Status s = decoded_by(pool, act).status();
    EXPECT_TRUE(is_stopped(s)) << s.message();
    EXPECT_THAT(s.message(), HasSubstr(how));
    EXPECT_TRUE(decoded_by(pool, good_photo()).ok());
  }
  // Once in a worker that had seen another photo, once in a new one.
  EXPECT_EQ(ended(pool, WorkerEnd::kCrashed), 6);
  const Status thrown = decoded_by(pool, "!throw").status();
  EXPECT_EQ(thrown.code(), Code::kCorrupt);
  EXPECT_EQ(thrown.message(), "thrown");
}

TEST(DecoderPool, APhotoIsNotRefusedForWhatOneBeforeItDid) {
  DecoderPool pool(hostile_config());
  ASSERT_TRUE(decoded_by(pool, "!poison").ok());
  const Result<Image> image = decoded_by(pool, good_photo());
  EXPECT_TRUE(image.ok()) << image.status().message();
  EXPECT_EQ(ended(pool, WorkerEnd::kCrashed), 1);
}

TEST(DecoderPool, AHangIsEndedAtTheDeadline) {
  DecoderPool::Config config = hostile_config();
  config.worker.deadline = std::chrono::seconds(2);
  DecoderPool pool(config);
  const auto begun = std::chrono::steady_clock::now();
  const Status s = decoded_by(pool, "!hang").status();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  EXPECT_TRUE(is_stopped(s)) << s.message();
  EXPECT_THAT(s.message(), HasSubstr("it took longer than 2 s and was ended"));
  EXPECT_GE(took.count(), 2);
  EXPECT_LT(took.count(), 30);
  EXPECT_EQ(ended(pool, WorkerEnd::kHung), 1);
  EXPECT_TRUE(decoded_by(pool, good_photo()).ok());
}

TEST(DecoderPool, AnAnswerThatNoDecoderGivesEndsItsWorker) {
  DecoderPool pool(hostile_config());
  int64_t lied = 0;
  for (const char* act :
       {"!answer 0 pixels", "!answer too many pixels", "!answer other bytes",
        "!answer a wrong part", "!answer no part", "!answer a success without pixels",
        "!answer a long refusal", "!answer nonsense", "!answer a piece"}) {
    SCOPED_TRACE(act);
    const Status s = decoded_by(pool, act).status();
    EXPECT_TRUE(is_stopped(s)) << s.message();
    EXPECT_THAT(s.message(), HasSubstr("what no decoder answers"));
    EXPECT_GT(ended(pool, WorkerEnd::kLied), lied);
    lied = ended(pool, WorkerEnd::kLied);
  }
  PhotoCost cost;
  const Preprocess crop{.img_size = 4, .resize = 4};
  EXPECT_TRUE(is_stopped(pool.decode("a", "!answer another crop", {}, &crop, cost).status()));
  EXPECT_TRUE(decoded_by(pool, good_photo()).ok());
}

TEST(DecoderPool, AWorkerSeesSoManyPhotosAndNoMore) {
  DecoderPool::Config config = hostile_config();
  config.photos = 2;
  DecoderPool pool(config);
  EXPECT_EQ(pool.counts().alive, 1U);
  ASSERT_TRUE(decoded_by(pool, good_photo()).ok());
  EXPECT_EQ(pool.counts().alive, 1U);
  ASSERT_TRUE(decoded_by(pool, "!poison").ok());
  EXPECT_EQ(pool.counts().alive, 0U);
  ASSERT_TRUE(decoded_by(pool, good_photo()).ok());
  EXPECT_EQ(ended(pool, WorkerEnd::kCrashed), 0);
}

TEST(DecoderPool, ManyThreadsShareItsWorkers) {
  DecoderPool::Config config = hostile_config();
  config.workers = 2;
  config.photos = 5;
  DecoderPool pool(config);
  std::atomic<int> good = 0, bad = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 6; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 8; ++i) {
          const bool crash = (t + i) % 5 == 0;
          const Result<Image> image = decoded_by(pool, crash ? "!crash" : good_photo());
          good += image.ok();
          bad += crash && is_stopped(image.status());
        }
      });
    }
  }
  EXPECT_EQ(good + bad, 48);
  EXPECT_GE(bad, 9);
  EXPECT_LE(pool.counts().alive, 2U);
  EXPECT_EQ(pool.counts().photos, 48);
}

TEST(DecoderPool, SaysWhyAWorkerDoesNotBegin) {
  DecoderPool::Config config = hostile_config();
  config.worker.program = "/nonexistent/program";
  const auto why = [&]() -> std::string {
    try {
      const DecoderPool pool(config);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(why(), HasSubstr("/nonexistent/program: No such file or directory"));
  config.worker.program = "/bin/false";
  EXPECT_THAT(why(), HasSubstr("a decode worker (/bin/false) does not begin: it ended by itself, "
                               "with status 1"));
}

}  // namespace
}  // namespace ndtrain::ndp
