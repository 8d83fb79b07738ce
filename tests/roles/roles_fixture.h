// A Tuner and PipeStores in this process, with real links, files and threads, on drawn photos.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cli/demo_photos.h"
#include "framework/core/publish.h"
#include "models/zoo.h"
#include "ndp/jobs/model_file.h"
#include "ndp/labels/label_db.h"
#include "ndp/photos/encode.h"
#include "ndp/pipestore/daemon.h"
#include "tests/support/temporary_directory.h"
#include "tuner/daemon.h"

namespace ndtrain::testing {
using namespace ndp;
using namespace tuner;

class RunningStore {
 public:
  RunningStore(const PipeStoreConfig& config, Devices& devices, Fs& fs = real_fs())
      : daemon_(config, devices, fs, system_clock()),
        thread_([this] { daemon_.run([this] { return stop_.load(); }); }) {}
  ~RunningStore() {
    stop_ = true;
    thread_.join();
  }
  std::string http() const { return daemon_.http_address(); }
  std::vector<std::string> http_needs() const { return daemon_.http_needs(); }

 private:
  std::atomic<bool> stop_ = false;
  PipeStoreDaemon daemon_;
  std::thread thread_;
};

class RunningTuner {
 public:
  RunningTuner(const TunerConfig& config, Devices& devices)
      : daemon_(config, devices, real_fs(), system_clock()),
        thread_([this] { daemon_.run([this] { return stop_.load(); }); }) {}
  ~RunningTuner() {
    stop_ = true;
    thread_.join();
  }
  std::string http() const { return daemon_.http_address(); }
  std::vector<std::string> http_needs() const { return daemon_.http_needs(); }

 private:
  std::atomic<bool> stop_ = false;
  TunerDaemon daemon_;
  std::thread thread_;
};

class RolesTest : public ::testing::Test {
 protected:
  // For as long as kPatience; asked often, as it is of this process.
  static void await(const std::function<bool()>& true_soon) {
    const auto until = system_clock().monotonic() + kPatience;
    bool is_true = true_soon();
    while (!is_true && system_clock().monotonic() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      is_true = true_soon();
    }
    ASSERT_TRUE(is_true);
  }

  // What hangs ends by this, and nothing that is only slow: several of these share a core under
  // sanitizers.
  static constexpr std::chrono::minutes kPatience{4};
  static constexpr int kClasses = 3, kPhotos = 60, kSide = 32;

  void SetUp() override {
    for (int i = 0; i < kPhotos; ++i) {
      const std::string folder = at("photos/c" + std::to_string(i % kClasses));
      std::filesystem::create_directories(folder);
      const Image photo =
          cli::draw_demo_photo(i % kClasses, cli::Look::kDay, static_cast<uint64_t>(i));
      publish(real_fs(), folder + "/" + std::to_string(i) + ".jpg", encode_jpeg(photo)).or_throw();
    }
    ModelFile file{.path = at("base.onnx"),
                   .model = build_model("tinynet", {.classes = 5, .img_size = kSide})};
    file.preprocess.img_size = file.preprocess.resize = kSide;
    save_model(real_fs(), file.path, file);
  }

  std::string at(const std::string& name) const { return directory_.at(name); }

  // Store `i` of `n`, with its share of the photos.
  PipeStoreConfig store(const std::string& name, uint32_t i, uint32_t n) const {
    return {.name = name,
            .tuner = address(),
            .state = at("state-" + name),
            .photos = at("photos"),
            .labels = "folder",
            .batch = 8,
            .shard = i,
            .shards = n,
            .version = "test"};
  }
  std::string address() const { return "unix:" + at("link"); }
  TunerConfig tuner(const std::string& state) const {
    return {.listen = address(), .http = "", .state = at(state)};
  }

  // As an import says of each photo that has a label, by its folder; wrongly of every eighth.
  static void import_what_folders_show(LabelDb& db) {
    const int64_t collection = db.collection(kDefaultCollection).or_throw();
    const int64_t task = db.task(kDefaultTask).or_throw();
    LabelBatch said{.task = task, .source = LabelSource::kImport};
    const LabelPage all = db.query({.collection = collection, .task = task}).or_throw();
    ASSERT_EQ(all.rows.size(), static_cast<size_t>(kPhotos));
    std::vector<std::string> folders;  // of STORE/FOLDER/NAME
    for (const LabelRow& row : all.rows) {
      const size_t store = row.path.find('/') + 1;
      folders.push_back(row.path.substr(store, row.path.find('/', store) - store));
    }
    std::vector<std::string> names = folders;
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    const auto classes = db.class_ids(task, names).or_throw();
    for (size_t i = 0; i < folders.size(); ++i) {
      const auto shown = std::ranges::find(names, folders[i]) - names.begin();
      const size_t label = static_cast<size_t>(shown) + (i % 8 == 3 ? 1 : 0);
      said.labels.push_back(
          {.photo = all.rows[i].photo, .class_id = classes[label % classes.size()], .time = 9});
    }
    (void)db.put_labels(said).or_throw();
  }

  // One job over as many stores as it asks for, from nothing; its result.
  nlohmann::json run(const JobSpec& like, const std::string& state) {
    TunerDaemon daemon(tuner(state), devices_, real_fs(), system_clock());
    JobSpec spec = like;
    spec.model = to_hex(daemon.add_model(at("base.onnx")));
    std::vector<std::unique_ptr<RunningStore>> stores;
    for (uint32_t i = 0; i < spec.stores.number && spec.mode != JobMode::kIdeal; ++i) {
      stores.push_back(std::make_unique<RunningStore>(
          store(state + std::to_string(i), i, spec.stores.number), devices_));
    }
    return outcome(daemon, spec);
  }
  nlohmann::json outcome(TunerDaemon& daemon, const JobSpec& spec) {
    const auto until = system_clock().monotonic() + kPatience;
    const TunerDaemon::Outcome o = daemon.run_job(
        spec, [&] { return system_clock().monotonic() > until; },
        [&](const std::string& line) { log_ += line + "\n"; });
    EXPECT_TRUE(o.ended && o.done) << o.message << "\n" << log_;
    return nlohmann::json::parse(o.result);
  }

  support::TemporaryDirectory directory_;
  Devices devices_{"cpu"};
  std::string log_;
};

}  // namespace ndtrain::testing
