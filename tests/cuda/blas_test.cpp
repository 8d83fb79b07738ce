// Products by cuBLASLt: weights that plans share, and the tuning file.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/cuda/emulated.h"
#include "tests/graph/random_graph.h"
#include "tests/support/changed_tuning.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;
using testing::MatMul;
using testing::random_tensor;
using testing::Work;

constexpr int64_t kTerms = 70, kColumns = 9;

std::vector<float> numbers(int64_t count, std::string_view purpose) {
  const Tensor t = random_tensor({DType::kF32, {count}}, 1, purpose);
  const auto* data = static_cast<const float*>(t.data());
  std::vector<float> values(data, data + count);
  for (float& x : values) x /= 3;  // so that sums round
  return values;
}

class CudaBlas : public testing::OnFakes {
 protected:
  static size_t uploads_of(size_t bytes) {
    const std::vector<fake::Call> calls = fake::calls();
    return static_cast<size_t>(std::ranges::count_if(calls, [&](const fake::Call& c) {
      return c.name == "cudaMemcpy H2D" && c.bytes == bytes;
    }));
  }

  // One product with constant weights on a device of its own.
  std::vector<float> product(int64_t rows, const std::string& tuning_file) {
    const Device device(cuda(), {.tuning_file = tuning_file});
    const Work work(device);
    const MatMul matmul(device, rows, kTerms, kColumns, weights_, 0);
    EXPECT_EQ(matmul.status(), NDT_OK) << abi().last_error();
    const DeviceBuffer x = work.upload(numbers(rows * kTerms, "x"));
    const DeviceBuffer y = work.upload(std::vector<float>(static_cast<size_t>(rows * kColumns)));
    const DeviceBuffer workspace(device, std::max<size_t>(matmul.prepared().workspace, 1));
    fake::forget_calls();
    const void* in[] = {x.data(), nullptr};
    void* out[] = {y.data()};
    EXPECT_EQ(abi().run(matmul.prepared().kernel, work.stream(), in, out, workspace.data()), NDT_OK)
        << abi().last_error();
    return work.download(y);
  }

  // Products that were run while one was prepared.
  size_t measured(const std::string& tuning_file) {
    const Device device(cuda(), {.tuning_file = tuning_file, .on_choice = [](const auto&) {}});
    fake::forget_calls();
    const MatMul matmul(device, 4, kTerms, kColumns, weights_, 0);
    EXPECT_EQ(matmul.status(), NDT_OK) << abi().last_error();
    return fake::count("cublasLtMatmul");
  }

  void choose(const std::string& choice) const {
    support::change_tuning(file_, [&](const auto&, auto& c) { c.choice = choice; });
  }
  std::string text() const {
    std::ostringstream s;
    s << std::ifstream(file_).rdbuf();
    return s.str();
  }

  const std::vector<float> weights_ = numbers(kTerms * kColumns, "w");
  const support::TemporaryDirectory directory_;
  const std::string file_ = directory_.at("tuning.txt");
};

TEST_F(CudaBlas, WeightsAreUploadedOnceForPlansOfEveryBatch) {
  const Device device(cuda());
  const size_t bytes = weights_.size() * sizeof(float), before = fake::allocated_bytes();
  {
    const MatMul one(device, 1, kTerms, kColumns, weights_, 77);
    const MatMul many(device, 64, kTerms, kColumns, weights_, 77);
    EXPECT_EQ(one.prepared().packed_inputs, 2U);
    EXPECT_EQ(many.prepared().packed_inputs, 2U);
    EXPECT_EQ(uploads_of(bytes), 1U);
    EXPECT_EQ(fake::allocated_bytes(), before + bytes);
    const MatMul other(device, 1, kTerms, kColumns, weights_, 78);
    EXPECT_EQ(uploads_of(bytes), 2U);
  }
  EXPECT_EQ(fake::allocated_bytes(), before) << "weights outlived the kernels";
}

TEST_F(CudaBlas, WeightsOfTwoDevicesAreTwoCopies) {
  fake::set_devices({{}, {}});
  const Device first(cuda()), second(cuda(), {.index = 1});
  const MatMul a(first, 1, kTerms, kColumns, weights_, 79);
  const MatMul b(second, 1, kTerms, kColumns, weights_, 79);
  EXPECT_EQ(uploads_of(weights_.size() * sizeof(float)), 2U);
}

TEST_F(CudaBlas, ARunAllocatesNothingAndReadsNothingOfTheHosts) {
  product(4, "");
  std::vector<std::string> names;
  for (const fake::Call& call : fake::calls()) names.push_back(call.name);
  EXPECT_EQ(names.front(), "cublasLtMatmul");
  EXPECT_EQ(names.at(1), "cudaMemcpyAsync D2H") << "the test's own";
}

TEST_F(CudaBlas, WithoutAFileNothingIsMeasured) { EXPECT_EQ(measured(""), 0U); }

TEST_F(CudaBlas, ALayerIsMeasuredOnceWhateverItsBatch) {
  EXPECT_GT(measured(file_), 0U);
  const std::string before = text();
  EXPECT_EQ(std::count(before.begin(), before.end(), '\n'), 3) << before;
  EXPECT_THAT(before, HasSubstr("\ncuda Fake_T4 cudnn_"));
  EXPECT_EQ(measured(file_), 0U);
  product(30, file_);
  EXPECT_EQ(text(), before);
}

TEST_F(CudaBlas, AnotherDeviceMeasuresForItself) {
  measured(file_);
  fake::set_devices({{.name = "Fake A100", .major = 8, .minor = 0}});
  EXPECT_GT(measured(file_), 0U);
  EXPECT_THAT(text(), HasSubstr("\ncuda Fake_A100 "));
}

TEST_F(CudaBlas, TheFileIsObeyedAndNamedInTheNumericsWhereItDepartsFromTheRule) {
  const std::vector<float> rule = product(4, "");
  EXPECT_GT(measured(file_), 0U);
  EXPECT_EQ(product(4, file_), rule);
  EXPECT_EQ(Device(cuda(), {.tuning_file = file_}).numerics(), Device(cuda()).numerics());
  support::change_tuning(file_, [&](const auto&, auto& c) {
    ASSERT_EQ(c.choice[0], '2') << c.choice;  // of the fake's three, the one for many rows
    c.choice[0] = '0';
  });
  EXPECT_NE(product(4, file_), rule);
  EXPECT_THAT(Device(cuda(), {.tuning_file = file_}).numerics(),
              ::testing::StartsWith(Device(cuda()).numerics() + " tuned-"));
  EXPECT_EQ(product(4, ""), rule);
}

TEST_F(CudaBlas, AChoiceThatTheLibraryNoLongerHasIsTheRule) {
  const std::vector<float> rule = product(4, "");
  EXPECT_GT(measured(file_), 0U);
  choose("99.1.1.1.1.1.1");
  EXPECT_EQ(product(4, file_), rule);
}

}  // namespace
}  // namespace ndtrain
