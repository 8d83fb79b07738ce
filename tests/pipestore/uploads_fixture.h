// Uploads over disks in memory, with small models.
#pragma once

#include <gtest/gtest.h>

#include "framework/testing/memory_fs.h"
#include "models/zoo.h"
#include "ndp/jobs/transfer.h"
#include "ndp/pipestore/shared_models.h"
#include "ndp/pipestore/uploads.h"
#include "tests/photos/photo_factory.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::testing {
using namespace ndp;

inline constexpr int kSide = 16;

inline std::string photo_file(int i) { return jpeg_of(test_pattern(20 + i % 7, 24 + i)); }

// Extractor and head; versions of other parity have another extractor as well. `freeze`: the last
// layer of the extractor, if not all that is before the head.
inline std::pair<ModelFile, ModelFile> files_of(uint64_t version,
                                                const std::string& freeze = "auto") {
  ModelFile file{
      .model = build_model("tinynet", {.classes = 3, .img_size = kSide, .seed = version % 2})};
  file.preprocess.img_size = kSide;
  file.preprocess.resize = kSide + static_cast<int>(version % 2);
  TransferModel t =
      prepare_transfer(file, {"rose", "tulip", "daisy"}, "linear", freeze, DType::kF16, version);
  ModelFile head = file;
  head.model = t.head;
  head.classes = {"rose", "tulip", "daisy"};
  file.model = t.extractor;
  return {std::move(file), std::move(head)};
}

// `spoil`: its head; `extractors`: shares the extractor with others of them.
inline std::shared_ptr<OnlineModel> model_of(uint64_t version,
                                             const std::function<void(Model&)>& spoil = {},
                                             SharedExtractors* extractors = nullptr,
                                             const std::string& freeze = "auto") {
  auto [file, head_file] = files_of(version, freeze);
  if (spoil) spoil(head_file.model);
  auto head = std::make_unique<ModelFile>(std::move(head_file));
  auto model = std::make_shared<OnlineModel>();
  model->version = version;
  model->extractor = std::string(32, static_cast<char>('a' + version % 2));
  model->head = std::string(32, static_cast<char>('A' + version));
  const EngineOptions options{.batch = 8};
  const auto make = [&, &of = file] {
    return std::make_shared<Extractor>(std::make_shared<const ModelFile>(of), false, cpu(),
                                       options);
  };
  const auto extractor = extractors ? extractors->get({model->extractor, false}, make) : make();
  model->network = std::make_unique<Network>(extractor, std::move(head), cpu(), options);
  return model;
}

// What a job says of photos: all in one go, through the engine.
inline std::vector<std::vector<ClassScore>> labels_of(OnlineModel& model,
                                                      const std::vector<std::string>& files) {
  std::vector<size_t> items(files.size());
  for (size_t i = 0; i < items.size(); ++i) items[i] = i;
  std::vector<std::string> rows;
  model.network->engine().run(
      items, [](size_t) { return "x.jpg"; }, [&](size_t i) { return files[i]; },
      [&](const Engine::Batch& batch) {
        for (std::string& row : model.network->rows(batch.outputs, batch.items.size())) {
          rows.push_back(std::move(row));
        }
        return true;
      });
  return model.network->classify(rows, 5);
}

inline void expect_label(const UploadLog::Known& known, const std::vector<ClassScore>& top) {
  const char* const names[] = {"rose", "tulip", "daisy"};
  ASSERT_EQ(known.top.size(), top.size());
  for (size_t i = 0; i < top.size(); ++i) {
    EXPECT_EQ(known.top[i].name(), names[top[i].id]);
    EXPECT_EQ(known.top[i].score(), top[i].score);  // to the last bit
  }
}

class UploadsTest : public ::testing::Test {
 protected:
  UploadsTest() { open_cache(); }

  void open_cache() {
    cache_.reset();
    cache_ = SegmentStore::open(cache_fs_, clock_, "cache", {.budget_bytes = 1 << 30}).or_throw();
  }
  void open(UploadConfig config = {}) {
    close();
    disk_->make_directories(photos_).or_throw();
    config.photos = photos_;
    config.state = state_;
    config.online.batch = 8;
    log_ = UploadLog::open(*disk_, state_ + "/uploads").or_throw();
    uploads_ = std::make_unique<Uploads>(
        config, *disk_, clock_, *log_, *cache_,
        Catalogue::open(real_fs(), directory_.at("catalogue")).or_throw(), upload_priority_, [] {});
  }
  void close() {
    uploads_.reset();
    log_.reset();
  }
  // Puts it in force, and waits until it is.
  void version(uint64_t number) {
    uploads_->put_in_force("default", [number] { return model_of(number); });
    await([&] { return uploads_->version() == number; });
  }
  static void await(const std::function<bool()>& true_soon) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!true_soon() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ASSERT_TRUE(true_soon());
  }

  std::string photos_ = "photos", state_ = "state";
  MemoryFs fs_, cache_fs_;
  Fs* disk_ = &fs_;  // or one in front of it, which outlives what is open
  UploadPriority upload_priority_;
  ManualClock clock_;
  support::TemporaryDirectory directory_;
  std::unique_ptr<SegmentStore> cache_;
  std::unique_ptr<UploadLog> log_;
  std::unique_ptr<Uploads> uploads_;
};

}  // namespace ndtrain::testing
