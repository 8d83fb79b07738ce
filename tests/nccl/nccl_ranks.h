// Ranks as threads of a test, each on a GPU of the fake runtime, that add up by the nccl plugin.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "framework/comm/comm_plugin.h"
#include "framework/comm/library_transport.h"
#include "framework/comm/library_world.h"
#include "tests/comm/rank_threads.h"
#include "tests/cuda/fake_cudart.h"
#include "tests/nccl/fake_nccl.h"

namespace ndtrain::nccl_tests {

inline const ndt_comm_plugin& nccl() { return find_comm_plugin("nccl"); }

// As many GPUs as ranks, messages by memory.
inline comm_tests::Ranks nccl_transports(int ranks) {
  fake::set_devices(std::vector<fake::DeviceKind>(static_cast<size_t>(ranks)));
  comm_tests::Ranks all = memory_transports(ranks);
  std::vector<std::jthread> threads;
  for (auto& transport : all) {
    threads.emplace_back([&transport, ranks] {
      const LibraryPlace place =
          join_library(*transport, "NCCL", {.plugin = &nccl(), .devices = ranks});
      transport = with_library(std::move(transport), nccl(), place.world);
    });
  }
  threads.clear();
  return all;
}

// Begins and ends with fakes that have no orders.
class OnNcclFakes : public ::testing::Test {
 protected:
  OnNcclFakes() { reset(); }
  ~OnNcclFakes() override { reset(); }

 private:
  static void reset() {
    fake::reset();
    fake::reset_nccl();
  }
};

// In memory of the device that the thread has set.
class DeviceFloats {
 public:
  explicit DeviceFloats(size_t size) : size_(size) {
    void* memory = nullptr;
    cudaMalloc(&memory, size * sizeof(float));
    data_ = static_cast<float*>(memory);
  }
  explicit DeviceFloats(const std::vector<float>& values) : DeviceFloats(values.size()) {
    std::ranges::copy(values, data_);
  }
  ~DeviceFloats() { cudaFree(data_); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;

  std::span<float> span() const { return {data_, size_}; }
  std::vector<float> values() const { return {data_, data_ + size_}; }

 private:
  float* data_ = nullptr;
  size_t size_;
};

}  // namespace ndtrain::nccl_tests
