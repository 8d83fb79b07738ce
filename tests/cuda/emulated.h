// The plugin on the fakes, for tests that give the fakes orders.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "framework/runtime/backend.h"
#include "tests/cuda/fake_cudart.h"

namespace ndtrain::testing {

// Begins and ends with fakes that have no orders.
class OnFakes : public ::testing::Test {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override { fake::reset(); }

  static const Backend& cuda() { return Backend::find("cuda"); }
  static const ndt_backend& abi() { return cuda().abi(); }
};

// A stream, and buffers in device memory.
class Work {
 public:
  explicit Work(const Device& device) : device_(device) {
    device.backend().check(abi().stream_create(device.handle(), &stream_), "stream");
  }
  ~Work() { abi().stream_destroy(stream_); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  const ndt_backend& abi() const { return device_.abi(); }
  ndt_stream* stream() const { return stream_; }

  DeviceBuffer upload(const std::vector<float>& values) const {
    DeviceBuffer b(device_, values.size() * sizeof(float));
    EXPECT_EQ(abi().upload(stream_, b.data(), values.data(), b.bytes()), NDT_OK);
    return b;
  }
  std::vector<float> download(const DeviceBuffer& b) const {
    std::vector<float> values(b.bytes() / sizeof(float));
    EXPECT_EQ(abi().download(stream_, values.data(), b.data(), b.bytes()), NDT_OK);
    EXPECT_EQ(abi().stream_wait(stream_), NDT_OK);
    return values;
  }

 private:
  const Device& device_;
  ndt_stream* stream_ = nullptr;
};

// y[m,n] = x[m,k] w[k,n] in f32, prepared; w is constant when `weights` has values.
class MatMul {
 public:
  MatMul(const Device& device, int64_t m, int64_t k, int64_t n, const std::vector<float>& weights,
         uint64_t id)
      : abi_(device.abi()) {
    const ndt_tensor_type in[] = {abi_type({DType::kF32, {m, k}}), abi_type({DType::kF32, {k, n}})};
    const ndt_tensor_type out = abi_type({DType::kF32, {m, n}});
    const void* constants[] = {nullptr, weights.empty() ? nullptr : weights.data()};
    const uint64_t ids[] = {0, id};
    const ndt_node node{.op = "MatMul",
                        .inputs = in,
                        .outputs = &out,
                        .attrs = nullptr,
                        .n_inputs = 2,
                        .n_outputs = 1,
                        .n_attrs = 0,
                        .constants = constants,
                        .constant_ids = ids};
    status_ = abi_.prepare(device.handle(), &node, &prepared_);
  }
  ~MatMul() {
    if (prepared_.kernel) abi_.release(prepared_.kernel);
  }
  MatMul(const MatMul&) = delete;
  MatMul& operator=(const MatMul&) = delete;

  ndt_status status() const { return status_; }
  const ndt_prepared& prepared() const { return prepared_; }

 private:
  const ndt_backend& abi_;
  ndt_prepared prepared_{};
  ndt_status status_;
};

}  // namespace ndtrain::testing
