// Whole graphs through plan and executor on the cuda plugin, against the cpu plugin.
#include <gmock/gmock.h>

#include <algorithm>

#include "framework/graph/differentiate.h"
#include "framework/onnx/export.h"
#include "framework/onnx/import.h"
#include "framework/passes/passes.h"
#include "framework/runtime/batch_plans.h"
#include "framework/runtime/executor.h"
#include "models/zoo.h"
#include "tests/cuda/emulated.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::largest_difference;
using testing::random_inputs;
using testing::random_network;

double difference(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  std::vector<std::vector<double>> x, y;
  for (const Tensor& t : a) x.push_back(t.to_doubles());
  for (const Tensor& t : b) y.push_back(t.to_doubles());
  return largest_difference(x, y);
}

std::vector<Tensor> run(const Graph& g, const Device& device, std::span<const Tensor> inputs) {
  return Executor(Plan(g, device)).run(inputs);
}

class CudaGraphs : public testing::OnFakes {
 protected:
  const Device device_{cuda(), {.deterministic = true}};
};

TEST_F(CudaGraphs, RandomNetworksEqualTheCpuPlugins) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    const Graph g = random_network(seed, 16), fast = optimize_for_inference(g);
    const std::vector<Tensor> inputs = random_inputs(g, seed);
    EXPECT_LE(difference(run(g, device_, inputs), run(g, cpu(), inputs)), 1e-4);
    EXPECT_LE(difference(run(fast, device_, inputs), run(fast, cpu(), inputs)), 1e-3);
  }
}

TEST_F(CudaGraphs, AnOnnxModelOfTheZooEqualsTheCpuPlugins) {
  const Model built = build_model("tinynet", {.classes = 7, .img_size = 32});
  const Model model = import_model(export_model(built));
  const Graph g = optimize_for_inference(bind(model, 2));
  const std::vector<Tensor> inputs = random_inputs(g, 1);
  EXPECT_LE(difference(run(g, device_, inputs), run(g, cpu(), inputs)), 1e-4);
}

TEST_F(CudaGraphs, GradientsEqualTheCpuPlugins) {
  for (uint64_t seed = 300; seed < 310; ++seed) {
    Graph g = random_network(seed, 16);
    const ValueId logits = g.outputs()[0];
    std::vector<ValueId> wrt;
    for (const ValueId v : g.params()) {
      const ValueId root[] = {v};
      if (depends_on(g, root)[index(logits)] && g.shape(v).rank() != 1) wrt.push_back(v);
    }
    const ValueId dy = g.add_constant("", testing::random_tensor(g.type(logits), seed, "dlogits"));
    std::vector<ValueId> outputs = {logits};
    for (const ValueId v : differentiate(g, std::vector{logits}, std::vector{dy}, wrt)) {
      outputs.push_back(v);
    }
    g.set_outputs(outputs);
    const std::vector<Tensor> inputs = random_inputs(g, seed);
    EXPECT_LE(difference(run(g, device_, inputs), run(g, cpu(), inputs)), 1e-3) << "seed " << seed;
  }
}

TEST_F(CudaGraphs, ARowIsTheSameAloneAndInABatch) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const auto graph = [&](int64_t batch) {
      return optimize_for_inference(random_network(seed, 16, batch));
    };
    BatchPlans plans(graph, device_, 4);
    const std::vector<Tensor> rows = random_inputs(graph(3), seed);
    const std::vector<Tensor> all = plans.run(rows);
    for (int64_t r = 0; r < 3; ++r) {
      std::vector<Tensor> one;
      for (const Tensor& t : rows) {
        Tensor& row = one.emplace_back(TensorType{t.type().dtype, t.shape().with(0, 1)});
        std::memcpy(row.mutable_data(), static_cast<const std::byte*>(t.data()) + r * row.bytes(),
                    row.bytes());
      }
      const std::vector<Tensor> alone = plans.run(one);
      for (size_t k = 0; k < all.size(); ++k) {
        const auto* whole = static_cast<const std::byte*>(all[k].data());
        EXPECT_EQ(std::memcmp(whole + r * alone[k].bytes(), alone[k].data(), alone[k].bytes()), 0)
            << "seed " << seed << ", row " << r << ", output " << k;
      }
    }
  }
}

// Bindings and outputs of a plan in device memory.
struct OnDevice {
  OnDevice(const Plan& plan, const Device& device) {
    for (const ValueId v : plan.bindings()) {
      buffers.emplace_back(device, plan.type(v).bytes());
      in.push_back(buffers.back().data());
    }
    for (const ValueId v : plan.outputs()) {
      buffers.emplace_back(device, plan.type(v).bytes());
      out.push_back(buffers.back().data());
    }
  }
  std::vector<DeviceBuffer> buffers;
  std::vector<const void*> in;
  std::vector<void*> out;
};

TEST_F(CudaGraphs, ARunAllocatesNothingAndCopiesNothingFromTheHost) {
  const Graph g = optimize_for_inference(random_network(3, 24));
  const Plan plan(g, device_);
  Executor executor(plan);
  OnDevice io(plan, device_);
  fake::forget_calls();
  executor.run(io.in, io.out);
  for (const fake::Call& call : fake::calls()) {
    for (const char* of_the_host :
         {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaFreeHost", "cudaMemcpy H2D",
          "cudaMemcpyAsync H2D", "cudaMemcpy D2H", "cudaMemcpyAsync D2H", "cudaDeviceSynchronize",
          "cudaStreamCreate", "cudnnCreate"}) {
      EXPECT_NE(call.name, of_the_host);
    }
  }
  EXPECT_EQ(fake::count("cudaStreamSynchronize"), 1U) << "the wait at the end of the run";
}

TEST_F(CudaGraphs, PlansThatDoNotFitSayWhatWasFreeAndSmallerOnesStillRun) {
  const Graph g = random_network(3, 16);
  const std::vector<Tensor> inputs = random_inputs(g, 3);
  {
    const Plan plan(g, device_);
    fake::set_free_bytes(100);
    EXPECT_THAT(
        testing::error_of([&] { Executor executor(plan); }),
        ::testing::AllOf(::testing::HasSubstr("out of memory"), ::testing::HasSubstr("100 of")));
  }
  fake::reset();
  EXPECT_LE(difference(run(g, device_, inputs), run(g, cpu(), inputs)), 1e-4);
}

TEST_F(CudaGraphs, ADeviceLostInTheMiddleOfARunIsAnErrorOfTheNode) {
  const Graph g = optimize_for_inference(random_network(3, 16));
  {
    const Plan plan(g, device_);
    Executor executor(plan);
    fake::fail("cudnnBackendExecute", 1, cudaErrorIllegalAddress);
    EXPECT_THAT(testing::error_of([&] { executor.run(random_inputs(g, 3)); }),
                ::testing::AllOf(::testing::HasSubstr("computing"),
                                 ::testing::HasSubstr("illegal memory access")));
  }
  fake::reset();
}

}  // namespace
}  // namespace ndtrain
