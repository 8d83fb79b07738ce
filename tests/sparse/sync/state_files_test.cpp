#include "framework/sparse/sync/state_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/clock.h"
#include "framework/testing/memory_fs.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, Tensor> one(float x) {
  return {{"w.residual", Tensor::of<float>(DType::kF32, {2}, std::vector<float>{x, -x})}};
}

std::vector<std::string> names_in(Fs& fs, const std::string& directory) {
  std::vector<std::string> names = fs.list(directory).or_throw();
  std::ranges::sort(names);
  return names;
}

TEST(StateFiles, ARankFindsItsOwnOfAPosition) {
  MemoryFs fs;
  StateFiles of_1(fs, "run", 1), of_11(fs, "run", 11);
  EXPECT_FALSE(of_1.read({1, 0}));
  of_1.write({1, 0}, one(3));
  of_11.write({1, 0}, one(4));
  of_1.write({1, 0}, one(5));
  EXPECT_FALSE(of_1.read({1, 1}));
  EXPECT_EQ(of_1.read({1, 0})->at("w.residual").as<float>()[0], 5);
  EXPECT_EQ(of_11.read({1, 0})->at("w.residual").as<float>()[1], -4);
}

TEST(StateFiles, WhatIsNotNeededGoesAndWhatIsOfOthersStays) {
  MemoryFs fs;
  StateFiles of_1(fs, "run", 1), of_11(fs, "run", 11);
  for (const int64_t epoch : {1, 2, 3}) of_1.write({epoch, 4}, one(1));
  of_11.write({1, 4}, one(1));
  of_1.keep_only({{2, 4}, {3, 4}});
  EXPECT_THAT(names_in(fs, "run"),
              ElementsAre("rank1-epoch2-step4.safetensors", "rank1-epoch3-step4.safetensors",
                          "rank11-epoch1-step4.safetensors"));
}

TEST(StateFiles, ABrokenFileIsNamed) {
  MemoryFs fs;
  StateFiles files(fs, "run", 0);
  files.write({1, 0}, one(3));
  const std::string name = "run/rank0-epoch1-step0.safetensors";
  auto file = fs.open(name, Fs::Mode::kAppend).or_throw();
  file->truncate(11).or_throw();
  EXPECT_THAT(testing::error_of([&] { (void)files.read({1, 0}); }), HasSubstr(name));
}

}  // namespace
}  // namespace ndtrain
