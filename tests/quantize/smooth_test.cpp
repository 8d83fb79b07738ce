#include "framework/quantize/smooth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/graph/precision.h"
#include "framework/passes/inference.h"
#include "framework/quantize/int8_model.h"
#include "framework/quantize/quantize.h"
#include "framework/runtime/executor.h"
#include "tests/quantize/transformer.h"
#include "tests/runtime/cpu_device.h"

namespace ndtrain {
namespace {

using testing::cpu;
using testing::random_tensor;
using testing::transformer_block;

std::vector<Tensor> tokens(size_t batches = 2) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < batches; ++i) {
    all.push_back(random_tensor({DType::kF32, {2, 64, 192}}, i, "tokens"));
  }
  return all;
}

std::vector<Tensor> outputs(const Model& m, const std::vector<Tensor>& batches) {
  const Plan plan(inference_graph(m, 2), cpu());
  Executor executor(plan);
  std::vector<Tensor> all;
  for (const Tensor& batch : batches) all.push_back(executor.run({&batch, 1}).at(0));
  return all;
}

// Of a few channels a hundred times the others'.
Model with_outliers() {
  Model m = transformer_block();
  Tensor scale({DType::kF32, {192}});
  for (size_t j = 0; j < 192; ++j) scale.mutable_as<float>()[j] = j % 40 == 7 ? 100 : 1;
  m.initialisers["norm.scale"] = scale;
  return m;
}

std::map<std::string, Activation> seen_of(const Model& m, const QuantizedPlaces& places) {
  std::vector<std::string> values;
  for (const auto& [name, group] : places.group_of) values.push_back(name);
  return watch_activations(m, values, tokens(), cpu());
}

double spread(const Activation& a) {
  const auto [least, most] = std::ranges::minmax(a.lane_largest);
  return most / least;
}

TEST(Smooth, IsTheSameFunctionWithLessOfAnOutlier) {
  const Model before = with_outliers();
  Model after = before;
  const QuantizedPlaces places = quantized_places(before, before.outputs, {});
  const auto seen = seen_of(before, places);
  EXPECT_EQ(smooth(after, before.outputs, places, seen), 1);
  EXPECT_GT(mean_cosine(outputs(before, tokens()), outputs(after, tokens())), 1 - 1e-9);
  EXPECT_GT(spread(seen.at("norm")), 50);
  EXPECT_LT(spread(seen_of(after, places).at("norm")), spread(seen.at("norm")) / 4);
}

TEST(Smooth, LeavesANormalisationThatOthersReadToo) {
  Model m = with_outliers();
  m.outputs.push_back("norm");
  const QuantizedPlaces places = quantized_places(m, m.outputs, {});
  EXPECT_EQ(smooth(m, m.outputs, places, seen_of(m, places)), 0);
  m.outputs.pop_back();
  EXPECT_EQ(smooth(m, {"out", "norm"}, places, seen_of(m, places)), 0);
}

TEST(Smooth, MakesInt8MorePrecise) {
  const Model m = with_outliers();
  const auto given = tokens();
  const auto wanted = outputs(m, given);
  const QuantizedPlaces places = quantized_places(m, m.outputs, {});
  const Quantization q = quantize(m, given, cpu(), {.least_cosine = 0});
  EXPECT_EQ(q.smoothed, 1);
  const Model rough = int8_model(m, places, seen_of(m, places));
  const double with = mean_cosine(outputs(q.model, given), wanted),
               without = mean_cosine(outputs(rough, given), wanted);
  EXPECT_LT(1 - with, (1 - without) / 2) << with << " and " << without;
}

}  // namespace
}  // namespace ndtrain
