#include "framework/runtime/backend.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "framework/core/fs.h"
#include "framework/core/log.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using testing::error_of;
using ::testing::HasSubstr;

std::string fake(const std::string& name) {
  return support::build_path("/tests/runtime/libndt_") + name + ".so";
}

// Looks for plugins in one directory while it lives.
class SearchPath {
 public:
  explicit SearchPath(const std::string& directory) {
    if (const char* was = std::getenv("NDTRAIN_BACKEND_PATH")) was_ = was;
    setenv("NDTRAIN_BACKEND_PATH", directory.c_str(), 1);
  }
  ~SearchPath() {
    if (was_.empty()) {
      unsetenv("NDTRAIN_BACKEND_PATH");
    } else {
      setenv("NDTRAIN_BACKEND_PATH", was_.c_str(), 1);
    }
  }

 private:
  std::string was_;
};

TEST(Backend, CpuIsFoundOnce) {
  const Backend& cpu = Backend::find("cpu");
  EXPECT_EQ(cpu.name(), "cpu");
  EXPECT_EQ(&cpu, &Backend::find("cpu"));
  EXPECT_THAT(Backend::available(), Contains("cpu"));
  EXPECT_FALSE(testing::cpu().numerics().empty());
}

TEST(Backend, AutoIsTheFirstOfTheAvailable) {
  const std::vector<std::string> all = Backend::available();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all.back(), "cpu") << "which is always there, and the slowest";
  EXPECT_EQ(&Backend::find("auto"), &Backend::find(all[0]));
}

TEST(Backend, AMissingFileIsRefusedByName) {
  EXPECT_THAT(error_of([] { Backend::load("/nowhere/libndt_none.so"); }),
              HasSubstr("/nowhere/libndt_none.so"));
  const SearchPath path("/nowhere");
  EXPECT_THAT(error_of([] { Backend::find("none"); }),
              AllOf(HasSubstr("'none'"), HasSubstr("NDTRAIN_BACKEND_PATH"), HasSubstr("/nowhere")));
}

TEST(Backend, AnotherVersionOfTheInterfaceIsRefused) {
  EXPECT_THAT(error_of([] { Backend::load(fake("newer")); }),
              AllOf(HasSubstr("version 3"), HasSubstr("2 is needed"), HasSubstr("rebuild")));
  EXPECT_THAT(error_of([] { Backend::load(fake("silent")); }), HasSubstr("cannot serve"));
}

TEST(Backend, TheCpuPluginRefusesTwoKernelsForOneOp) {
  const support::TemporaryDirectory directory;
  log::to_file(directory.at("log"));
  const std::string refusal = error_of([] { Backend::load(fake("second_relu")); });
  log::to_file("");
  EXPECT_THAT(refusal, HasSubstr("cannot serve"));
  EXPECT_THAT(real_fs().read(directory.at("log")).or_throw(), HasSubstr("two kernels for Relu"));
}

TEST(Backend, ALibraryThatIsNoPluginIsRefused) {
  EXPECT_THAT(error_of([] { Backend::load(fake("plain")); }), HasSubstr("ndt_backend_main"));
  const support::TemporaryDirectory directory;
  const std::string path = directory.at("libndt_text.so");
  std::ofstream(path) << "not a library";
  EXPECT_THAT(error_of([&] { Backend::load(path); }), HasSubstr(path));
}

TEST(Backend, FindingSaysWhyEachCandidateWasRefused) {
  const SearchPath path(support::build_path("/tests/runtime"));
  EXPECT_THAT(error_of([] { Backend::find("newer"); }),
              AllOf(HasSubstr("no backend 'newer'"), HasSubstr("version 3")));
}

TEST(Backend, WithoutTheDriverOneIsToldThatAndNoneIsAvailable) {
  if (dlopen("libcuda.so.1", RTLD_LAZY)) GTEST_SKIP() << "there is a driver on this machine";
  const std::string directory = support::build_path("/tests/runtime/driven");
  const SearchPath path(directory);
  EXPECT_EQ(Backend::refusal("cuda"), "backend: there is no NVIDIA driver on this machine: " +
                                          directory + "/libndt_cuda.so needs libcuda.so.1");
  EXPECT_TRUE(Backend::available().empty());
  EXPECT_EQ(Backend::refusal("onednn"), "not built: no libndt_onednn.so in " + directory);
}

TEST(Backend, DTypesAreNumberedAsInTheInterface) {
  const std::pair<DType, ndt_dtype> pairs[] = {
      {DType::kNone, NDT_ABSENT}, {DType::kF32, NDT_F32},  {DType::kF16, NDT_F16},
      {DType::kBF16, NDT_BF16},   {DType::kF64, NDT_F64},  {DType::kI8, NDT_I8},
      {DType::kU8, NDT_U8},       {DType::kI16, NDT_I16},  {DType::kU16, NDT_U16},
      {DType::kI32, NDT_I32},     {DType::kU32, NDT_U32},  {DType::kI64, NDT_I64},
      {DType::kU64, NDT_U64},     {DType::kBool, NDT_BOOL}};
  for (const auto& [ours, theirs] : pairs) EXPECT_EQ(static_cast<int>(ours), theirs);
  EXPECT_EQ(std::size(pairs), static_cast<size_t>(DType::kBool) + 1);
}

TEST(Backend, TensorTypesArePlainRowMajor) {
  const ndt_tensor_type t = abi_type({DType::kI8, {2, 3, 4}});
  EXPECT_EQ(t.dtype, NDT_I8);
  EXPECT_EQ(t.rank, 3);
  EXPECT_EQ(t.dims[2], 4);
  EXPECT_EQ(t.strides[0], 12);
  EXPECT_EQ(t.strides[2], 1);
  EXPECT_EQ(t.channel_block, 0);
}

TEST(Backend, DeviceMemoryHoldsWhatIsPutThere) {
  const Device& device = testing::cpu();
  DeviceBuffer a(device, 256);
  void* address = a.data();
  DeviceBuffer b = std::move(a);
  EXPECT_EQ(b.data(), address);
  EXPECT_EQ(b.bytes(), 256U);
  ndt_stream* stream = nullptr;
  ASSERT_EQ(device.abi().stream_create(device.handle(), &stream), NDT_OK);
  const std::vector<char> in(256, 'x');
  std::vector<char> out(256);
  EXPECT_EQ(device.abi().upload(stream, b.data(), in.data(), 256), NDT_OK);
  EXPECT_EQ(device.abi().download(stream, out.data(), b.data(), 256), NDT_OK);
  EXPECT_EQ(device.abi().stream_wait(stream), NDT_OK);
  device.abi().stream_destroy(stream);
  EXPECT_EQ(in, out);
}

TEST(Backend, MoreMemoryThanThereIsIsRefused) {
  if (support::under_sanitizer()) GTEST_SKIP() << "sanitizers end the process instead";
  EXPECT_THAT(error_of([] { DeviceBuffer(testing::cpu(), size_t{1} << 60); }),
              AllOf(HasSubstr("cpu"), HasSubstr("1152921504606846976")));
}

}  // namespace
}  // namespace ndtrain
