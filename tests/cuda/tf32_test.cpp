// f32 stays f32 unless tf32 is asked for.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "framework/runtime/executor.h"
#include "tests/cuda/emulated.h"
#include "tests/cuda/fake_cudnn.h"
#include "tests/graph/random_graph.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::random_tensor;
using ::testing::StartsWith;

class CudaTf32 : public testing::OnFakes {
 protected:
  void SetUp() override {
    OnFakes::SetUp();
    fake::reset_dnn();
  }

  static Graph product(DType t = DType::kF32) {
    Graph g;
    const ValueId x = g.add_input("x", {t, {4, 40}});
    const ValueId w = g.add_param("w", random_tensor({t, {40, 7}}, 1, "w"));
    g.mark_output(g.add1("Gemm", {x, w}));
    return g;
  }
  static Graph convolution(DType t = DType::kF32) {
    Graph g;
    const ValueId x = g.add_input("x", {t, {2, 8, 6, 6}});
    const ValueId w = g.add_param("w", random_tensor({t, {8, 8, 3, 3}}, 1, "w"));
    g.mark_output(g.add1("Conv", {x, w}));
    return g;
  }

  static std::vector<double> run(const Graph& g, const DeviceOptions& options) {
    const Device device(cuda(), options);
    std::vector<Tensor> x = testing::random_inputs(g, 3);
    if (x[0].type().dtype == DType::kF32) {
      for (float& v : x[0].mutable_as<float>()) v /= 3;  // more bits than tf32 has
    }
    return Executor(Plan(g, device)).run(x)[0].to_doubles();
  }
  static double farthest(const std::vector<double>& a, const std::vector<double>& b) {
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
    return worst;
  }
};

TEST_F(CudaTf32, ProductsRoundTheirFactorsWhereItIsAskedFor) {
  const std::vector<double> exact = run(product(), {.deterministic = true}),
                            rounded = run(product(), {.deterministic = true, .tf32 = true});
  EXPECT_GT(farthest(exact, rounded), 1e-5);
  EXPECT_LT(farthest(exact, rounded), 1e-2);
  EXPECT_EQ(run(product(DType::kF16), {.deterministic = true}),
            run(product(DType::kF16), {.deterministic = true, .tf32 = true}));
}

TEST_F(CudaTf32, ConvolutionsUseTensorCoresWhereItIsAskedFor) {
  run(convolution(), {.deterministic = true});
  EXPECT_THAT(fake::dnn_runs(), Each("plain"));
  fake::reset_dnn();
  run(convolution(), {.deterministic = true, .tf32 = true});
  EXPECT_THAT(fake::dnn_runs(), Each(StartsWith("tensor cores")));
}

TEST_F(CudaTf32, ItIsInTheNumericsAndInTheKeysOfTheTuningFile) {
  const support::TemporaryDirectory directory;
  const std::string file = directory.at("tuning.txt");
  const auto keys = [&] {
    std::ostringstream s;
    s << std::ifstream(file).rdbuf();
    return s.str();
  };
  const auto measure = [&](const Graph& g, bool tf32) {
    const Device device(cuda(),
                        {.tuning_file = file, .on_choice = [](const auto&) {}, .tf32 = tf32});
    const Plan plan(g, device);
  };
  measure(product(), false);
  measure(convolution(), false);
  EXPECT_THAT(keys(), Not(HasSubstr("tf32")));
  measure(product(), true);
  measure(convolution(), true);
  EXPECT_THAT(keys(), HasSubstr(" product f32 tf32 "));
  EXPECT_THAT(keys(), ::testing::ContainsRegex("conv.* tf32"));
  EXPECT_THAT(Device(cuda(), {.tf32 = true}).numerics(), HasSubstr(" tf32"));
  EXPECT_THAT(Device(cuda()).numerics(), Not(HasSubstr("tf32")));
}

}  // namespace
}  // namespace ndtrain
