// A classifier over photos that come part by part, against the same photos at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/testing/memory_fs.h"
#include "models/zoo.h"
#include "ndp/jobs/classify.h"
#include "tests/photos/photo_factory.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

using ::testing::ElementsAre;

constexpr int kPartSide = 32;

ModelFile small_model() {
  ModelFile file{.model = build_model("tinynet", {.classes = 4, .img_size = kPartSide})};
  file.preprocess = {.img_size = kPartSide, .resize = kPartSide};
  return file;
}

std::string photo_file(size_t number) {
  return testing::jpeg_of(testing::test_pattern(30 + 3 * static_cast<int>(number % 11), 40));
}

// Photos `first` to `first + n - 1`, of which those of `bad` are cut short; all but `left_out` are
// run.
std::unique_ptr<PhotoPart> part_of(size_t first, size_t n, size_t left_out = SIZE_MAX,
                                   const std::vector<size_t>& bad = {}) {
  auto part = std::make_unique<PhotoPart>();
  for (size_t i = first; i < first + n; ++i) {
    std::string file = photo_file(i);
    if (std::ranges::count(bad, i) > 0) file.resize(file.size() / 2);
    part->set.photos.push_back({.path = std::to_string(i) + ".jpg", .digest = sha256(file)});
    part->files.push_back(std::move(file));
    if (i != left_out) part->photos.push_back(i - first);
    part->ids.push_back(static_cast<int64_t>(1000 + i));
  }
  return part;
}

class ClassifiedParts : public ::testing::Test {
 protected:
  NextPart parts_of(std::vector<std::unique_ptr<PhotoPart>> parts) {
    parts_ = std::move(parts);
    return [this, i = size_t{0}](const std::stop_token&) mutable {
      return i < parts_.size() ? std::move(parts_[i++]) : nullptr;
    };
  }

  MemoryFs fs_;
  const ModelFile model_ = small_model();
  Classifier classifier_{model_, testing::cpu(), fs_, {.batch = 4}};
  std::vector<std::unique_ptr<PhotoPart>> parts_;
};

TEST_F(ClassifiedParts, AreWhatTheirPhotosAreAtOnce) {
  fs_.make_directories("photos").or_throw();
  PhotoSet set{.root = "photos"};
  std::vector<size_t> all;
  for (size_t i = 0; i < 20; ++i) {
    support::write_file(fs_, "photos/" + std::to_string(i) + ".jpg", photo_file(i));
    set.photos.push_back({.path = std::to_string(i) + ".jpg"});
    all.push_back(i);
  }
  std::map<int64_t, float> expected, found;
  (void)classify(model_, testing::cpu(), fs_, set, all, {.batch = 4}, [&](auto results, auto) {
    for (const Classification& c : results) {
      expected[static_cast<int64_t>(1000 + c.photo)] = c.top[0].score;
    }
    return true;
  });
  ASSERT_EQ(expected.size(), 20U);

  std::vector<std::unique_ptr<PhotoPart>> parts;
  parts.push_back(part_of(0, 3));
  parts.push_back(part_of(3, 1, 3));  // whose only photo is left out
  parts.push_back(part_of(4, 9, 6, {4, 12}));
  parts.push_back(part_of(13, 7));
  std::vector<int64_t> bad;
  const EngineStats stats = classifier_.run(
      parts_of(std::move(parts)), [&](const PhotoPart& part, auto results, auto not_read) {
        for (const Classification& c : results) found[part.ids[c.photo]] = c.top[0].score;
        for (const BadPhoto& b : not_read) bad.push_back(part.ids[b.item]);
        return true;
      });
  for (const int64_t not_there : {1003, 1004, 1006, 1012}) expected.erase(not_there);
  EXPECT_EQ(found, expected);
  EXPECT_THAT(bad, ElementsAre(1004, 1012));
  EXPECT_EQ(stats.photos, 16);
  EXPECT_EQ(stats.quarantined, 2);
}

TEST_F(ClassifiedParts, TheNextOneIsAskedForBeforeTheLastPhotosOfOneAreThere) {
  std::atomic<int> asked = 0;
  const NextPart next = [&](const std::stop_token&) -> std::unique_ptr<PhotoPart> {
    return asked.fetch_add(1) < 2 ? part_of(0, 4) : nullptr;
  };
  int parts_done = 0;
  (void)classifier_.run(next, [&](const PhotoPart&, auto, auto) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (parts_done == 0 && asked < 2 && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    EXPECT_GE(asked, 2);
    ++parts_done;
    return true;
  });
  EXPECT_EQ(parts_done, 2);
}

// Whoever breaks it off, or fails, does not wait for photos that never come.
TEST_F(ClassifiedParts, AWaitForTheNextOneEndsWithTheRun) {
  for (const bool fails : {false, true}) {
    bool given = false;
    const NextPart next = [&](const std::stop_token& stop) -> std::unique_ptr<PhotoPart> {
      if (!std::exchange(given, true)) return part_of(0, 4);
      while (!stop.stop_requested()) std::this_thread::yield();
      return nullptr;
    };
    const auto run = [&] {
      (void)classifier_.run(next, [&](const PhotoPart&, auto, auto) -> bool {
        if (fails) throw std::runtime_error("no");
        return false;
      });
    };
    if (fails) {
      EXPECT_THROW(run(), std::runtime_error);
    } else {
      run();
    }
  }
}

TEST_F(ClassifiedParts, WhatFailsWhereTheyComeFromIsThrown) {
  const NextPart next = [](const std::stop_token&) -> std::unique_ptr<PhotoPart> {
    throw std::runtime_error("no more");
  };
  EXPECT_THROW((void)classifier_.run(next, [](const PhotoPart&, auto, auto) { return true; }),
               std::runtime_error);
}

}  // namespace
}  // namespace ndtrain::ndp
