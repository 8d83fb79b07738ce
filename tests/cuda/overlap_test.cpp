// Batches on a device with memory of its own: one is copied while another computes, from pinned
// memory, in an order that streams and events keep.
#include <gmock/gmock.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "framework/passes/inference.h"
#include "framework/runtime/batch_plans.h"
#include "framework/runtime/device_tensor.h"
#include "models/zoo.h"
#include "ndp/engine/engine.h"
#include "tests/cuda/emulated.h"
#include "tests/graph/model_builder.h"
#include "tests/photos/photo_factory.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
using namespace ndp;

namespace {

using testing::cpu;

constexpr int64_t kOverlapSide = 16, kOverlapBatch = 4;
constexpr size_t kRowBytes = 3 * kOverlapSide * kOverlapSide * sizeof(float);

// From pinned memory; the zeros with which memory begins come from elsewhere.
std::vector<fake::Call> copies_up(size_t bytes) {
  std::vector<fake::Call> found;
  for (const fake::Call& c : fake::calls()) {
    if (c.name == "cudaMemcpyAsync H2D" && c.bytes == bytes && c.pinned) found.push_back(c);
  }
  return found;
}

class CudaOverlap : public testing::OnFakes {
 protected:
  Graph graph(int64_t batch) const { return inference_graph(net_, batch); }
  BatchPlans plans(const Device& device, int64_t most = kOverlapBatch) const {
    return {[this](int64_t n) { return graph(n); }, device, most};
  }
  Tensor rows(int64_t n, uint64_t seed) const {
    const Tensor from =
        testing::random_tensor({DType::kF32, {n, 3, kOverlapSide, kOverlapSide}}, seed, "rows");
    Tensor t = host_tensor(device_, from.type());
    std::memcpy(t.mutable_data(), from.data(), from.bytes());
    return t;
  }
  void expect_outputs(const std::vector<Tensor>& got, const Tensor& x) const {
    BatchPlans here = plans(cpu());
    const std::vector<double> a = got.at(0).to_doubles(), b = here.run({&x, 1})[0].to_doubles();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4);
  }

  const Model net_ = build_model("tinynet", {.classes = 3, .img_size = kOverlapSide});
  const Device device_{cuda(), {.deterministic = true}};
};

TEST_F(CudaOverlap, ABatchIsCopiedWhileTheOneBeforeComputes) {
  BatchPlans there = plans(device_);
  for (uint64_t round = 0; round < 4; ++round) {  // step by step, recorded, replayed
    const Tensor x = rows(kOverlapBatch, 2 * round), y = rows(kOverlapBatch, 2 * round + 1);
    fake::forget_calls();
    BatchPlans::Started first = there.start({&x, 1}), second = there.start({&y, 1});
    const std::vector<fake::Call> calls = fake::calls();
    ASSERT_TRUE(first.under_way() && second.under_way());
    const std::vector<fake::Call> up = copies_up(kOverlapBatch * kRowBytes);
    ASSERT_EQ(up.size(), 2U);
    EXPECT_NE(up[0].stream, up[1].stream) << "the copy waits for the batch before";
    if (round > 0) {  // zeros go there before the first
      EXPECT_EQ(fake::count("cudaStreamSynchronize"), 0U);
    }
    for (const fake::Call& c : calls) {
      EXPECT_TRUE(c.name != "cudaMemcpyAsync D2H" || c.pinned) << "a copy back stops the host";
    }
    expect_outputs(first.finish(), x);
    expect_outputs(second.finish(), y);
  }
  EXPECT_GE(fake::count("cudaGraphLaunch"), 2U);
}

TEST_F(CudaOverlap, RowsThatDoNotFillABatchGoThereWithoutPadding) {
  BatchPlans there = plans(device_);
  const Tensor x = rows(kOverlapBatch, 1), y = rows(kOverlapBatch - 1, 2);
  expect_outputs(there.start({&x, 1}).finish(), x);
  fake::forget_calls();
  const std::vector<Tensor> got = there.start({&y, 1}).finish();
  EXPECT_EQ(fake::count("cudaMemcpyAsync H2D"), 1U);
  EXPECT_EQ(copies_up((kOverlapBatch - 1) * kRowBytes).size(), 1U);
  expect_outputs(got, y);
}

TEST_F(CudaOverlap, ABatchMayRunWhileAnotherIsUnderWay) {
  BatchPlans there = plans(device_);
  const Tensor x = rows(kOverlapBatch, 1), y = rows(3 * kOverlapBatch - 1, 2);
  BatchPlans::Started first = there.start({&x, 1});
  expect_outputs(there.run({&y, 1}), y);
  expect_outputs(first.finish(), x);
}

TEST_F(CudaOverlap, WhatWasStartedMayBeDropped) {
  BatchPlans there = plans(device_);
  const Tensor y = rows(kOverlapBatch, 2);
  {
    const Tensor x = rows(kOverlapBatch, 1);
    const BatchPlans::Started dropped = there.start({&x, 1});
    const BatchPlans::Started dropped_too = there.start({&y, 1});
  }
  expect_outputs(there.start({&y, 1}).finish(), y);
}

TEST_F(CudaOverlap, WithoutMemoryForTwoBatchesEachIsDoneWhenItWasStarted) {
  BatchPlans there = plans(device_);
  const Tensor x = rows(kOverlapBatch, 1);
  there.run({&x, 1});
  fake::set_free_bytes(10);
  for (int i = 0; i < 2; ++i) {
    BatchPlans::Started started = there.start({&x, 1});
    EXPECT_FALSE(started.under_way());
    expect_outputs(started.finish(), x);
  }
  EXPECT_EQ(there.max_batch(), kOverlapBatch);
}

TEST_F(CudaOverlap, WithoutMemoryToPinCopiesGoThroughOrdinaryMemory) {
  fake::fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  const Tensor x = rows(kOverlapBatch, 1);
  BatchPlans there = plans(device_);
  BatchPlans::Started started = there.start({&x, 1});
  EXPECT_EQ(copies_up(kOverlapBatch * kRowBytes).size(), 0U);
  expect_outputs(started.finish(), x);
}

// Two batches at once, for a device that may get lost.
void run_two(const Graph& g, const Tensor& x) {
  const Device device(Backend::find("cuda"), {.deterministic = true});
  BatchPlans plans([&](int64_t) { return g; }, device, kOverlapBatch);
  for (int i = 0; i < 3; ++i) {
    BatchPlans::Started first = plans.start({&x, 1}), second = plans.start({&x, 1});
    first.finish();
    second.finish();
  }
}

TEST_F(CudaOverlap, ADeviceThatIsLostAtAnyCallIsAnErrorAndLeavesNothingBehind) {
  const Graph g = graph(kOverlapBatch);
  const Tensor x = rows(kOverlapBatch, 1);
  const size_t pinned = fake::pinned_bytes(), allocated = fake::allocated_bytes();
  fake::forget_calls();
  run_two(g, x);
  std::map<std::string, int> times;
  for (const fake::Call& c : fake::calls()) ++times[c.name];
  for (const auto& [name, most] : times) {
    if (name.find("Destroy") != std::string::npos || name.find("Free") != std::string::npos) {
      continue;
    }
    for (const int n : {1, (most + 1) / 2, most}) {
      SCOPED_TRACE(name + " " + std::to_string(n) + " of " + std::to_string(most));
      fake::reset();
      fake::fail(name, n, cudaErrorIllegalAddress);
      EXPECT_NE(testing::error_of([&] { run_two(g, x); }), "no error");
      EXPECT_EQ(fake::pinned_bytes(), pinned);
      EXPECT_EQ(fake::allocated_bytes(), allocated);
    }
  }
  fake::reset();
  run_two(g, x);
}

// Photos that the engine is given, and how far it has come with them.
class Photos {
 public:
  explicit Photos(size_t n) {
    for (size_t i = 0; i < n; ++i) {
      files_.push_back(testing::png_of(testing::test_pattern(24 + static_cast<int>(i), 30)));
    }
  }

  std::vector<size_t> items() const {
    std::vector<size_t> all(files_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
  }
  // Of a photo that is about to be decoded.
  std::string name(size_t item) {
    {
      const std::lock_guard lock(mutex_);
      furthest_ = std::max(furthest_, item);
    }
    changed_.notify_all();
    return std::to_string(item) + ".png";
  }
  std::string file(size_t item) const { return files_[item]; }
  void wait_until_decoding(size_t item) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return furthest_ >= item; });
  }

 private:
  std::vector<std::string> files_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t furthest_ = 0;
};

// A feature's numbers per photo; on_batch sees the number of the batch.
std::vector<std::vector<double>> infer(BatchPlans& network, Photos& photos,
                                       const std::function<void(int)>& on_batch = {}) {
  Engine engine(network, {.img_size = kOverlapSide, .resize = 20}, {.batch = kOverlapBatch});
  std::vector<std::vector<double>> features;
  int batches = 0;
  engine.run(
      photos.items(), [&](size_t i) { return photos.name(i); },
      [&](size_t i) { return Result<std::string>(photos.file(i)); },
      [&](const Engine::Batch& b) {
        EXPECT_EQ(b.items.size(), static_cast<size_t>(b.outputs[0].shape()[0]));
        for (size_t i = 0; i < b.items.size(); ++i) {
          EXPECT_EQ(b.items[i], features.size());
          features.push_back(b.outputs[0].rows(static_cast<int64_t>(i), 1).to_doubles());
        }
        if (on_batch) on_batch(batches++);
        return true;
      });
  return features;
}

TEST_F(CudaOverlap, TheEngineCopiesABatchFromPinnedBuffersWhileTheOneBeforeComputes) {
  constexpr size_t kBatches = 7, kBytes = kOverlapBatch * 3 * kOverlapSide * kOverlapSide;
  Photos photos(kOverlapBatch * kBatches), again(kOverlapBatch * kBatches);
  BatchPlans there = plans(device_), here = plans(cpu());
  // Once the third batch behind one is being made, the two before it are ready.
  size_t copied = 0;
  const auto got = infer(there, photos, [&](int batch) {
    if (batch == 0) photos.wait_until_decoding(3 * kOverlapBatch);
    if (batch == 1) copied = copies_up(kBytes).size();
  });
  EXPECT_EQ(copied, 3U) << "when the second batch came out";
  EXPECT_EQ(copies_up(kBytes).size(), kBatches);
  const auto want = infer(here, again);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    for (size_t k = 0; k < got[i].size(); ++k) ASSERT_NEAR(got[i][k], want[i][k], 1e-4) << i;
  }
}

TEST_F(CudaOverlap, TheEngineTakesNoMemoryForOneMoreBatch) {
  constexpr size_t kBatches = 9;
  Photos photos(kOverlapBatch * kBatches);
  BatchPlans there = plans(device_);
  infer(there, photos, [&](int batch) {
    if (batch == 4) fake::forget_calls();  // every buffer was filled, both streams recorded
  });
  EXPECT_FALSE(copies_up(kOverlapBatch * 3 * kOverlapSide * kOverlapSide).empty());
  for (const char* call : {"cudaMalloc", "cudaHostAlloc", "cudaEventCreate", "cudaStreamCreate"}) {
    EXPECT_EQ(fake::count(call), 0U) << call;
  }
}

}  // namespace
}  // namespace ndtrain
