// The table of the cuda plugin, against a record of what it calls.
#include <gmock/gmock.h>

#include <algorithm>

#include "framework/runtime/device_tensor.h"
#include "tests/cuda/emulated.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::error_of;
using ::testing::HasSubstr;
using testing::MatMul;
using ::testing::Not;
using testing::Work;

class CudaPlugin : public testing::OnFakes {};

TEST_F(CudaPlugin, GoesFirstWhereADeviceAnswers) {
  EXPECT_EQ(Backend::available().front(), "cuda");
  const Device device(cuda());
  EXPECT_THAT(device.numerics(), AllOf(HasSubstr("cuda "), HasSubstr("sm_75"), HasSubstr("cudnn "),
                                       HasSubstr("cublasLt ")));
  EXPECT_EQ(device.fallback(), nullptr);
}

TEST_F(CudaPlugin, IsNotAvailableWithoutADriverAndTheErrorSaysSo) {
  fake::set_driver_error(cudaErrorInsufficientDriver);
  EXPECT_THAT(Backend::available(), AllOf(Not(Contains("cuda")), Contains("cpu")));
  EXPECT_THAT(error_of([] { Device device(cuda()); }),
              AllOf(HasSubstr("cuda"), HasSubstr("there is no CUDA driver on this machine")));
}

TEST_F(CudaPlugin, IsNotAvailableWithoutADeviceAndTheErrorSaysSo) {
  fake::set_devices({});
  EXPECT_THAT(Backend::available(), Not(Contains("cuda")));
  EXPECT_THAT(error_of([] { Device device(cuda()); }), HasSubstr("finds no device"));
}

TEST_F(CudaPlugin, ADeviceThatIsNotThereIsRefusedByNumber) {
  fake::set_devices({{}, {}});
  EXPECT_THAT(error_of([] { Device device(cuda(), {.index = 2}); }),
              AllOf(HasSubstr("2 CUDA devices"), HasSubstr("asked for 2")));
}

TEST_F(CudaPlugin, ADeviceOlderThanTheBuildIsRefusedByName) {
  fake::set_devices({{.name = "Fake P100", .major = 6, .minor = 0}});
  EXPECT_THAT(error_of([] { Device device(cuda()); }),
              AllOf(HasSubstr("Fake P100"), HasSubstr("sm_60"), HasSubstr("sm_75")));
}

TEST_F(CudaPlugin, WorksOnTheDeviceItWasOpenedForAndLeavesTheCurrentOneAlone) {
  fake::set_devices({{}, {}});
  const Device second(cuda(), {.index = 1});
  size_t first_before = 0, all = 0, free = 0;
  ASSERT_EQ(cudaMemGetInfo(&first_before, &all), cudaSuccess);
  const DeviceBuffer buffer(second, 1024);
  ASSERT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  EXPECT_EQ(free, first_before) << "taken from the first device";
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  EXPECT_EQ(free, all - 1024);
}

TEST_F(CudaPlugin, RunningOutOfMemorySaysWhatWasAskedForAndWhatWasFree) {
  const Device device(cuda());
  fake::set_free_bytes(1000);
  void* ptr = nullptr;
  EXPECT_EQ(abi().alloc(device.handle(), 4096, &ptr), NDT_OUT_OF_MEMORY);
  EXPECT_EQ(ptr, nullptr);
  EXPECT_THAT(abi().last_error(),
              AllOf(HasSubstr("4096 bytes"), HasSubstr("1000 of"), HasSubstr("Fake T4")));
  ASSERT_EQ(abi().alloc(device.handle(), 900, &ptr), NDT_OK) << "smaller is tried next";
  abi().free(device.handle(), ptr);
}

TEST_F(CudaPlugin, WeightsThatDoNotFitAreAnAnswerOfPrepareThatNamesTheNode) {
  const Device device(cuda());
  fake::set_free_bytes(100);
  const MatMul product(device, 2, 8, 8, std::vector<float>(64, 1), 0);
  EXPECT_EQ(product.status(), NDT_OUT_OF_MEMORY);
  EXPECT_THAT(abi().last_error(),
              AllOf(HasSubstr("MatMul(f32[2,8]"), HasSubstr("256 bytes"), HasSubstr("100 of")));
}

TEST_F(CudaPlugin, ALostDeviceIsReportedAndTheProcessGoesOn) {
  {
    const Device device(cuda());
    const Work work(device);
    const DeviceBuffer x = work.upload({1, 2}), w = work.upload({3, 4}), y = work.upload({0});
    const MatMul product(device, 1, 2, 1, {}, 0);
    ASSERT_EQ(product.status(), NDT_OK) << abi().last_error();
    const void* in[] = {x.data(), w.data()};
    void* out[] = {y.data()};
    fake::fail("cublasLtMatmul", 1, cudaErrorIllegalAddress);
    EXPECT_EQ(abi().run(product.prepared().kernel, work.stream(), in, out, nullptr),
              NDT_DEVICE_LOST);
    EXPECT_THAT(abi().last_error(), AllOf(HasSubstr("illegal memory access"), HasSubstr("lost")));
    EXPECT_EQ(abi().stream_wait(work.stream()), NDT_DEVICE_LOST);
    void* ptr = nullptr;
    EXPECT_EQ(abi().alloc(device.handle(), 16, &ptr), NDT_DEVICE_LOST);
  }
  fake::reset();
  const Device again(cuda());
  EXPECT_EQ(DeviceBuffer(again, 16).bytes(), 16U);
}

TEST_F(CudaPlugin, AnErrorOfEarlierWorkComesWithTheWait) {
  const Device device(cuda());
  const Work work(device);
  fake::fail("cudaStreamSynchronize", 1, cudaErrorLaunchFailure);
  EXPECT_EQ(abi().stream_wait(work.stream()), NDT_DEVICE_LOST);
  EXPECT_THAT(abi().last_error(), HasSubstr("unspecified launch failure"));
}

TEST_F(CudaPlugin, AnErrorOnceReportedIsNotReportedAgain) {
  const Device device(cuda());
  const Work work(device);
  fake::fail("cudaMemcpyAsync H2D", 1, cudaErrorInvalidValue);
  const DeviceBuffer b(device, 4);
  const float value = 3;
  EXPECT_EQ(abi().upload(work.stream(), b.data(), &value, 4), NDT_INVALID);
  EXPECT_EQ(abi().upload(work.stream(), b.data(), &value, 4), NDT_OK);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaPlugin, PinnedMemoryIsTheRuntimes) {
  const Device device(cuda());
  void* ptr = nullptr;
  fake::forget_calls();
  ASSERT_EQ(abi().host_alloc(device.handle(), 4096, &ptr), NDT_OK);
  std::memset(ptr, 1, 4096);
  EXPECT_EQ(fake::count("cudaHostAlloc"), 1U);
  EXPECT_FALSE(fake::is_device(ptr));
  abi().host_free(device.handle(), ptr);
  EXPECT_EQ(fake::count("cudaFreeHost"), 1U);
}

TEST_F(CudaPlugin, DownloadsCopyWithinTheDeviceToo) {
  const Device device(cuda());
  const Work work(device);
  const DeviceBuffer from = work.upload({1, 2, 3}), to = work.upload({0, 0, 0});
  EXPECT_EQ(abi().download(work.stream(), to.data(), from.data(), from.bytes()), NDT_OK);
  EXPECT_EQ(fake::count("cudaMemcpyAsync D2D"), 1U);
  EXPECT_EQ(work.download(to), (std::vector<float>{1, 2, 3}));
}

TEST_F(CudaPlugin, AGraphReplaysWhatWasCapturedAndNothingBefore) {
  const Device device(cuda());
  const Work work(device);
  const DeviceBuffer x = work.upload({1, 2}), w = work.upload({3, 4}), y = work.upload({0});
  const MatMul product(device, 1, 2, 1, {}, 0);
  const void* in[] = {x.data(), w.data()};
  void* out[] = {y.data()};
  ASSERT_EQ(abi().capture_begin(work.stream()), NDT_OK);
  ASSERT_EQ(abi().run(product.prepared().kernel, work.stream(), in, out, nullptr), NDT_OK);
  ndt_kernel* graph = nullptr;
  ASSERT_EQ(abi().capture_end(work.stream(), &graph), NDT_OK) << abi().last_error();
  EXPECT_EQ(work.download(y), std::vector<float>{0});
  const size_t matmuls = fake::count("cublasLtMatmul");
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(abi().run(graph, work.stream(), nullptr, nullptr, nullptr), NDT_OK);
  }
  EXPECT_EQ(work.download(y), std::vector<float>{11});
  EXPECT_EQ(fake::count("cublasLtMatmul"), matmuls) << "the host enqueued it again";
  EXPECT_EQ(fake::count("cudaGraphLaunch"), 3U);
  abi().release(graph);
  EXPECT_EQ(fake::count("cudaGraphExecDestroy"), 1U);
  EXPECT_EQ(fake::count("cudaGraphDestroy"), 1U);
}

TEST_F(CudaPlugin, ACaptureThatAllocatesIsRefusedSoThatTheHostGoesOnWithout) {
  const Device device(cuda());
  const Work work(device);
  ASSERT_EQ(abi().capture_begin(work.stream()), NDT_OK);
  void* ptr = nullptr;
  EXPECT_EQ(abi().alloc(device.handle(), 16, &ptr), NDT_UNSUPPORTED);
  ndt_kernel* graph = nullptr;
  fake::fail("cudaStreamEndCapture", 1, cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(abi().capture_end(work.stream(), &graph), NDT_UNSUPPORTED);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(abi().stream_wait(work.stream()), NDT_OK);
}

// What a stream copies out of memory into which another one copies `now`, with an event between
// them or not.
float copied_meanwhile(const Device& device, bool ordered) {
  const ndt_backend& abi = device.abi();
  const Work copies(device), compute(device);
  const DeviceBuffer x = copies.upload({1}), y = compute.upload({0});
  EXPECT_EQ(abi.stream_wait(copies.stream()), NDT_OK);
  Tensor now = host_tensor(device, {DType::kF32, {1}});
  now.mutable_as<float>()[0] = 2;
  ndt_event* event = nullptr;
  EXPECT_EQ(abi.event_create(device.handle(), &event), NDT_OK);
  EXPECT_EQ(abi.upload(copies.stream(), x.data(), now.data(), 4), NDT_OK);
  EXPECT_EQ(abi.event_record(copies.stream(), event), NDT_OK);
  if (ordered) {
    EXPECT_EQ(abi.event_wait(compute.stream(), event), NDT_OK);
  }
  EXPECT_EQ(abi.download(compute.stream(), y.data(), x.data(), 4), NDT_OK);
  abi.event_destroy(event);
  return compute.download(y)[0];
}

TEST_F(CudaPlugin, EventsOrderStreamsAndNothingElseDoes) {
  const Device device(cuda());
  EXPECT_EQ(copied_meanwhile(device, true), 2);
  EXPECT_EQ(copied_meanwhile(device, false), 1);
}

}  // namespace
}  // namespace ndtrain
