// A few drawn photos and a small network to fine-tune on them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "cli/demo_photos.h"
#include "framework/core/publish.h"
#include "models/zoo.h"
#include "ndp/jobs/finetune.h"
#include "ndp/photos/encode.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::testing_jobs {
using namespace ndp;

inline constexpr int kClasses = 3, kTrain = 8, kVal = 4, kSide = 32;

class FinetuneTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int c = 0; c < kClasses; ++c) {
      for (int i = 0; i < kTrain + kVal; ++i) {
        const std::string folder =
            at("photos/" + std::string(i < kTrain ? "train/" : "val/") + "c" + std::to_string(c));
        std::filesystem::create_directories(folder);
        const Image photo = cli::draw_demo_photo(c, cli::Look::kDay, static_cast<uint64_t>(i));
        publish(real_fs(), folder + "/" + std::to_string(i) + ".jpg", encode_jpeg(photo))
            .or_throw();
      }
    }
    ModelFile file{.path = at("base.onnx"),
                   .model = build_model("tinynet", {.classes = 5, .img_size = kSide})};
    file.preprocess.img_size = file.preprocess.resize = kSide;
    save_model(real_fs(), file.path, file);
  }

  std::string at(const std::string& name) const { return root_.at(name); }
  std::string bytes(const std::string& name) const { return real_fs().read(at(name)).or_throw(); }

  FinetuneConfig config(const std::string& run) const {
    FinetuneConfig c;
    c.data = at("photos");
    c.model = at("base.onnx");
    c.out = at(run);
    c.freeze = "layer1";
    c.cache = at("cache");
    c.how.trainer = {.epochs = 3, .batch = 5, .schedule = {.lr = 5e-3}, .seed = 7};
    return c;
  }
  FinetuneResult train(const FinetuneConfig& c, Progress& progress) {
    return finetune(c, device_, real_fs(), system_clock(), progress);
  }
  FinetuneResult train(const FinetuneConfig& c) {
    NoProgress quiet;
    return train(c, quiet);
  }

  support::TemporaryDirectory root_;
  Device device_{Backend::find("cpu")};
};

}  // namespace ndtrain::testing_jobs
