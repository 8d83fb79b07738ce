// Hooks of a run where work is queued and nobody waits for it: what they queue is in the order of
// the streams, and the host waits once, at the end.
#include "framework/runtime/hooks.h"

#include <gmock/gmock.h>

#include <cstring>

#include "framework/graph/differentiate.h"
#include "framework/runtime/device_tensor.h"
#include "framework/runtime/executor.h"
#include "tests/cuda/emulated.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using testing::error_of;
using testing::random_tensor;

constexpr int kHookLayers = 3;

class CudaHooks : public testing::OnFakes {
 protected:
  // Three products, and the gradients of their weights.
  CudaHooks() {
    ValueId v = g_.add_input("x", {DType::kF32, {2, 4}});
    for (int i = 0; i < kHookLayers; ++i) {
      const std::string name = "w" + std::to_string(i);
      weights_.push_back(g_.add_param(name, random_tensor({DType::kF32, {4, 4}}, 1, name)));
      v = g_.add1("MatMul", {v, weights_.back()});
    }
    const ValueId seed = g_.add_constant("", random_tensor(g_.type(v), 1, "seed"));
    g_.set_outputs(differentiate(g_, std::vector{v}, std::vector{seed}, weights_));
  }

  // The gradients without hooks.
  std::vector<Tensor> plain(const Plan& plan) const {
    std::vector<Tensor> given = {x_};
    for (ValueId v : weights_) given.push_back(g_.value(v).data);
    return Executor(plan).run(given);
  }

  Graph g_;
  std::vector<ValueId> weights_;
  const Tensor x_ = random_tensor({DType::kF32, {2, 4}}, 1, "x");
  const Device device_{cuda(), {.deterministic = true}};
};

// Copies on a stream of its own, tied to a run's by an event for each copy.
class Exchange {
 public:
  explicit Exchange(const Device& device) : device_(device), work_(device) {}
  ~Exchange() {
    EXPECT_EQ(abi().stream_wait(work_.stream()), NDT_OK);
    for (ndt_event* e : events_) abi().event_destroy(e);
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // What is queued on `later` from now on follows what is queued on `first`.
  void order(ndt_stream* first, ndt_stream* later) {
    ndt_event* e = nullptr;
    ASSERT_EQ(abi().event_create(device_.handle(), &e), NDT_OK);
    events_.push_back(e);
    ASSERT_EQ(abi().event_record(first, e), NDT_OK);
    ASSERT_EQ(abi().event_wait(later, e), NDT_OK);
  }
  void send(const void* from, Tensor& to, ndt_stream* run) {
    order(run, work_.stream());
    ASSERT_EQ(abi().download(work_.stream(), to.mutable_data(), from, to.bytes()), NDT_OK);
  }
  void receive(const Tensor& from, void* to, ndt_stream* run) {
    ASSERT_EQ(abi().upload(work_.stream(), to, from.data(), from.bytes()), NDT_OK);
    order(work_.stream(), run);
  }

 private:
  const ndt_backend& abi() const { return device_.abi(); }
  const Device& device_;
  testing::Work work_;
  std::vector<ndt_event*> events_;
};

TEST_F(CudaHooks, CopiesOnAnotherStreamAreOrderedByEventsAndTheHostWaitsOnce) {
  const Plan plan(g_, device_, {.bound_params = weights_});
  const std::vector<Tensor> want = plain(plan);
  DeviceTensor x(device_, x_.type());
  x.set(x_);
  std::vector<DeviceTensor> weights, gradients;
  std::vector<Tensor> arrived, sent;
  std::vector<const void*> in = {x.data()};
  std::vector<void*> out;
  for (ValueId v : weights_) {
    const TensorType& type = g_.type(v);
    in.push_back(weights.emplace_back(device_, type).data());
    out.push_back(gradients.emplace_back(device_, type).data());
    std::memcpy(arrived.emplace_back(host_tensor(device_, type)).mutable_data(),
                g_.value(v).data.data(), type.bytes());
    sent.push_back(host_tensor(device_, type));
  }
  Executor executor(plan);
  for (int run = 0; run < 3; ++run) {  // it is not replayed the third time
    for (DeviceTensor& w : weights) w.set(Tensor(w.type()));
    Exchange exchange(device_);  // waits at its end
    size_t waits = 0;
    const Hooks hooks{.before =
                          [&](int k, ndt_stream* stream) {
                            const auto i = static_cast<size_t>(k);
                            if (i == 0) return;
                            exchange.receive(arrived[i - 1], weights[i - 1].data(), stream);
                          },
                      .ready =
                          [&](int k, ndt_stream* stream) {
                            const auto i = static_cast<size_t>(k);
                            exchange.send(gradients[i].data(), sent[i], stream);
                            waits = fake::count("cudaStreamSynchronize");
                          }};
    fake::forget_calls();
    executor.run(in, out, hooks);
    EXPECT_EQ(waits, 0U) << "the host has waited before the last gradient";
    EXPECT_EQ(fake::count("cudaStreamSynchronize"), 1U);
    EXPECT_EQ(fake::count("cudaGraphLaunch"), 0U);
  }
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(sent[i].same_bytes(want[i])) << i;
}

TEST_F(CudaHooks, WhatTheyThrowLeavesNothingQueued) {
  const Plan plan(g_, device_, {.bound_params = weights_});
  const std::vector<Tensor> want = plain(plan);
  Executor executor(plan);
  {
    std::vector<DeviceTensor> memory;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (ValueId v : plan.bindings()) in.push_back(memory.emplace_back(device_, g_.type(v)).data());
    for (ValueId v : plan.outputs()) out.push_back(memory.emplace_back(device_, g_.type(v)).data());
    const auto refuse = [](int, ndt_stream*) { throw Error("rank 3 is gone"); };
    EXPECT_EQ(error_of([&] { executor.run(in, out, {.before = {}, .ready = refuse}); }),
              "rank 3 is gone");
  }  // the memory is given back: what were queued still would write there
  std::vector<Tensor> given = {x_};
  for (ValueId v : weights_) given.push_back(g_.value(v).data);
  const std::vector<Tensor> got = executor.run(given);
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(got[i].same_bytes(want[i])) << i;
}

}  // namespace
}  // namespace ndtrain
