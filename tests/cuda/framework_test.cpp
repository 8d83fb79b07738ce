// What the framework makes of a device with memory of its own: training, recorded runs, bytes of
// photos, batches that do not fit, attention as one node.
#include <gmock/gmock.h>

#include <algorithm>

#include "framework/graph/precision.h"
#include "framework/passes/inference.h"
#include "framework/runtime/batch_plans.h"
#include "framework/runtime/free_memory.h"
#include "framework/train/compute.h"
#include "framework/train/trainer.h"
#include "models/zoo.h"
#include "tests/cuda/emulated.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::random_tensor;

constexpr int64_t kClasses = 3, kSide = 32;

class CudaFramework : public testing::OnFakes {
 protected:
  static Model net() { return build_model("tinynet", {.classes = kClasses, .img_size = kSide}); }

  static TensorDataset rows(int64_t n) {
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < n; ++i) labels.push_back(i % kClasses);
    return {{random_tensor({DType::kF32, {n, 3, kSide, kSide}}, 1, "rows")}, std::move(labels)};
  }

  static std::vector<std::string> weights_of(const Model& m) {
    std::vector<std::string> names;
    for (const auto& [name, t] : m.initialisers) {
      if (name.ends_with("weight") && t.type().dtype == DType::kF32) names.push_back(name);
    }
    return names;
  }

  static Checkpoint trained(const Device& device, DType compute = DType::kF32) {
    const Model m = net();
    Trainer t(m, weights_of(m), device, {.batch = 4, .schedule = {.lr = 0.01}, .compute = compute});
    TensorDataset data = rows(8);
    EpochResult r;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(t.train_epoch(data, r));
    return t.checkpoint();
  }

  static double farthest(const std::map<std::string, Tensor>& a,
                         const std::map<std::string, Tensor>& b) {
    double worst = 0;
    for (const auto& [name, t] : a) {
      const std::vector<double> x = t.to_doubles(), y = b.at(name).to_doubles();
      for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::abs(x[i] - y[i]));
    }
    return worst;
  }
};

TEST_F(CudaFramework, TrainingStaysOnTheDeviceAndGivesWhatTheCpuGives) {
  const Device device(cuda(), {.deterministic = true});
  const Checkpoint there = trained(device), here = trained(cpu());
  EXPECT_EQ(there.optimizer_steps, 4);
  EXPECT_LE(farthest(there.parameters, here.parameters), 2e-3);
  EXPECT_LE(farthest(there.states, here.states), 2e-3);
}

TEST_F(CudaFramework, AStepCopiesNeitherWeightsNorGradientsAndUsesPinnedMemory) {
  const Device device(cuda(), {.deterministic = true});
  const Model m = net();
  Trainer t(m, weights_of(m), device, {.epochs = 8, .batch = 4});
  TensorDataset data = rows(4);
  EpochResult r;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(t.train_epoch(data, r));
  fake::forget_calls();
  ASSERT_TRUE(t.train_epoch(data, r));
  size_t up = 0, down = 0;
  for (const fake::Call& c : fake::calls()) {
    const bool copies = c.name == "cudaMemcpyAsync H2D" || c.name == "cudaMemcpyAsync D2H";
    EXPECT_TRUE(c.pinned || !copies) << c.name << " of " << c.bytes << " bytes";
    if (c.name == "cudaMemcpyAsync H2D") up += c.bytes;
    if (c.name == "cudaMemcpyAsync D2H") down += c.bytes;
    EXPECT_NE(c.name, "cudaMalloc");
  }
  const size_t photos = 4 * 3 * kSide * kSide * sizeof(float);
  EXPECT_GE(up, photos);
  EXPECT_LE(up, photos + 256) << "labels, weights of rows, the seed, numbers of the optimizer";
  EXPECT_EQ(down, (1 + 4 * kClasses) * sizeof(float)) << "loss and logits";
}

// The loss of three rows, of which the second label is given; the third row does not count.
std::vector<Tensor> loss_of(Executor& executor, int64_t label) {
  return executor.run(std::vector{random_tensor({DType::kF32, {3, kClasses}}, 1, "x"),
                                  Tensor::of<int64_t>(DType::kI64, {3}, {0, label, 99}),
                                  Tensor::of<float>(DType::kF32, {3}, {1, 1, 0})});
}

TEST_F(CudaFramework, ALabelOutsideTheClassesIsAnErrorAsOnTheCpuAndTheNextRunIsWell) {
  const Device device(cuda(), {.deterministic = true});
  Graph loss, gradient;
  for (Graph* g : {&loss, &gradient}) {
    const ValueId x = g->add_input("x", {DType::kF32, {3, kClasses}}),
                  labels = g->add_input("labels", {DType::kI64, {3}}),
                  weights = g->add_input("weights", {DType::kF32, {3}});
    const ValueId one = g->add_constant("", Tensor::of<float>(DType::kF32, {}, {1}));
    g->mark_output(g == &loss ? g->add1("SoftmaxCrossEntropy", {x, labels, weights})
                              : g->add1("SoftmaxCrossEntropyGrad", {one, x, labels, weights}));
  }
  for (const Graph* g : {&loss, &gradient}) {
    const Plan there(*g, device), here(*g, cpu());
    Executor on_device(there), on_cpu(here);
    for (int run = 0; run < 3; ++run) {  // the third is a recorded one
      for (const int64_t label : {kClasses, int64_t{-1}}) {
        const std::string what =
            "label " + std::to_string(label) + " of row 1 is none of 3 classes";
        for (Executor* e : {&on_device, &on_cpu}) {
          EXPECT_THAT(testing::error_of([&] { loss_of(*e, label); }), ::testing::HasSubstr(what));
        }
      }
      const std::vector<double> got = loss_of(on_device, 1)[0].to_doubles(),
                                want = loss_of(on_cpu, 1)[0].to_doubles();
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5);
    }
  }
}

TEST_F(CudaFramework, ALabelOutsideTheClassesIsToldBeforeItsStepChangesAnything) {
  const Device device(cuda(), {.deterministic = true});
  const Model m = net();
  Trainer t(m, weights_of(m), device, {.batch = 4});
  TensorDataset good = rows(4);
  EpochResult r;
  ASSERT_TRUE(t.train_epoch(good, r));
  const Checkpoint before = t.checkpoint();
  TensorDataset bad({random_tensor({DType::kF32, {4, 3, kSide, kSide}}, 2, "x")},
                    {0, kClasses, 0, 0});
  EXPECT_THAT(testing::error_of([&] { t.train_epoch(bad, r); }), ::testing::HasSubstr("label 3"));
  const Checkpoint after = t.checkpoint();
  EXPECT_EQ(after.optimizer_steps, 1);
  for (const auto& [name, tensor] : before.parameters) {
    EXPECT_TRUE(tensor.same_bytes(after.parameters.at(name))) << name;
  }
  for (const auto& [name, tensor] : before.states) {
    EXPECT_TRUE(tensor.same_bytes(after.states.at(name))) << name;
  }
}

TEST_F(CudaFramework, TrainsInMixedPrecision) {
  const Device device(cuda(), {.deterministic = true});
  for (const DType compute : {DType::kF16, DType::kBF16}) {
    EXPECT_EQ(training_compute(compute, device).dtype, compute);
    EXPECT_EQ(training_compute(compute, device).why, "");
    const Checkpoint c = trained(device, compute);
    EXPECT_EQ(c.optimizer_steps, 4) << name_of(compute);
    EXPECT_LE(farthest(c.parameters, trained(cpu(), compute).parameters), 0.05);
  }
}

TEST_F(CudaFramework, ARunWithTheAddressesOfTheLastIsReplayedAsOneGraph) {
  const Device device(cuda(), {.deterministic = true});
  const Graph g = inference_graph(net(), 2);
  const Plan plan(g, device);
  Executor executor(plan);
  const std::vector<Tensor> x = {random_tensor({DType::kF32, {2, 3, kSide, kSide}}, 1, "x")};
  const std::vector<Tensor> first = executor.run(x), second = executor.run(x);
  EXPECT_GE(fake::count("cudaGraphLaunch"), 1U);
  fake::forget_calls();
  const std::vector<Tensor> y = {random_tensor({DType::kF32, {2, 3, kSide, kSide}}, 2, "y")};
  const std::vector<Tensor> third = executor.run(y);
  EXPECT_EQ(fake::count("cudaGraphLaunch"), 1U);
  EXPECT_EQ(fake::count("cudaGraphInstantiate"), 0U);
  EXPECT_TRUE(first[0].same_bytes(second[0]));
  EXPECT_TRUE(third[0].same_bytes(Executor(plan).run(y)[0]));
  EXPECT_FALSE(third[0].same_bytes(first[0]));
}

TEST_F(CudaFramework, WhatCannotBeRecordedRunsStepByStep) {
  const Device device(cuda(), {.deterministic = true});
  const Plan plan(inference_graph(net(), 2), device);
  const std::vector<Tensor> x = {random_tensor({DType::kF32, {2, 3, kSide, kSide}}, 1, "x")};
  for (const char* call : {"cudaStreamBeginCapture", "cudnnBackendExecute", "cudaStreamEndCapture",
                           "cudaGraphInstantiate"}) {
    SCOPED_TRACE(call);
    Executor executor(plan);
    const Tensor want = executor.run(x)[0];
    fake::forget_calls();
    fake::fail(call, 1, cudaErrorInvalidValue);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(executor.run(x)[0].same_bytes(want));
    EXPECT_EQ(fake::count("cudaGraphLaunch"), 0U);
  }
}

TEST_F(CudaFramework, PhotosGoThereAsBytes) {
  const Device device(cuda(), {.deterministic = true});
  const Model m = net();
  const auto make = [&](int64_t n) { return inference_graph(m, n); };
  const PhotoInput how{.mean = {0.485F, 0.456F, 0.406F}, .std = {0.229F, 0.224F, 0.225F}};
  BatchPlans bytes(make, device, 4), floats(make, device, 4);
  bytes.read_photos(how);
  Tensor photos({DType::kU8, {3, kSide, kSide, 3}}), x({DType::kF32, {3, 3, kSide, kSide}});
  const auto from = photos.mutable_as<uint8_t>();
  const auto to = x.mutable_as<float>();
  constexpr size_t kPixels = kSide * kSide;
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<uint8_t>(i * 37 % 251);
    const size_t colour = i % 3, pixel = i / 3 % kPixels, photo = i / 3 / kPixels;
    to[(photo * 3 + colour) * kPixels + pixel] =
        (static_cast<float>(from[i]) / 255.0F - how.mean[colour]) / how.std[colour];
  }
  EXPECT_TRUE(bytes.run({&photos, 1})[0].same_bytes(floats.run({&x, 1})[0]));
}

TEST_F(CudaFramework, ABatchThatDoesNotFitIsTriedSmaller) {
  const Device device(cuda(), {.deterministic = true});
  const Model m = net();
  const auto make = [&](int64_t n) { return inference_graph(m, n); };
  const Tensor x = random_tensor({DType::kF32, {8, 3, kSide, kSide}}, 1, "x");
  BatchPlans roomy(make, device, 8);
  const Tensor want = roomy.run({&x, 1})[0];
  BatchPlans plans(make, device, 8);
  (void)plans.plan(2);
  fake::set_free_bytes(Plan(make(4), device).arena_bytes());
  const Tensor got = plans.run({&x, 1})[0];
  EXPECT_LT(plans.max_batch(), 8);
  EXPECT_TRUE(got.same_bytes(want));
  fake::set_free_bytes(10);
  BatchPlans none(make, device, 8);
  EXPECT_THAT(testing::error_of([&] { none.run({&x, 1}); }), ::testing::HasSubstr("out of memory"));
}

TEST_F(CudaFramework, FreeMemoryIsFoundByTrying) {
  const Device device(cuda(), {.deterministic = true});
  constexpr int64_t kMiB = 1 << 20;
  for (const int64_t mib : {10, 300}) {
    fake::set_free_bytes(static_cast<size_t>(mib * kMiB));
    const int64_t found = free_memory(device) / kMiB;
    EXPECT_LE(found, mib);
    EXPECT_GE(found, mib - std::max<int64_t>(64, mib / 8) - 1);
  }
  fake::fail("cudaMalloc", 1, cudaErrorIllegalAddress);
  EXPECT_THAT(testing::error_of([&] { free_memory(device); }), ::testing::HasSubstr("illegal"));
}

TEST_F(CudaFramework, AttentionIsOneNodeInSixteenBitsWhereTheChipHasIt) {
  Model m = build_model("vit", {.classes = kClasses,
                                .img_size = 32,
                                .vit = {.patch = 8, .depth = 1, .width = 32, .heads = 2}});
  const Tensor x = random_tensor({DType::kF32, {2, 3, 32, 32}}, 1, "x");
  const std::vector<Tensor> want = Executor(Plan(inference_graph(m, 2), cpu())).run({&x, 1});
  declare_precision(m, Precision::kF16);
  const auto kernels = [&](const char* name, int major, int minor) {
    fake::set_devices({{.name = name, .major = major, .minor = minor}});
    const Device device(cuda(), {.deterministic = true});
    const Plan plan(inference_graph(m, 2), device);
    const std::vector<Tensor> y = Executor(plan).run({&x, 1});
    const std::vector<double> a = y[0].to_doubles(), b = want[0].to_doubles();
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 0.02) << name;
    return plan.kernel_count();
  };
  const size_t apart = kernels("Fake T4", 7, 5), fused = kernels("Fake A100", 8, 0);
  EXPECT_LT(fused, apart);
}

}  // namespace
}  // namespace ndtrain
