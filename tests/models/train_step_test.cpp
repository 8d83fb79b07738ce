// One training step against PyTorch, in double precision there: tools/golden/train_step.py says how
// the files came to be and what is in them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "framework/runtime/device_fusion.h"
#include "framework/runtime/executor.h"
#include "framework/train/head.h"
#include "framework/train/step_graph.h"
#include "models/zoo.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

constexpr int64_t kStepClasses = 10;
constexpr uint64_t kCell = 16;
constexpr uint64_t kCells = uint64_t{1} << 32, kSeed = uint64_t{1} << 40;
constexpr uint64_t kLabels = uint64_t{1} << 62;

uint64_t mix(uint64_t x) {
  uint64_t z = x + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

uint64_t fnv1a(const std::string& name) {
  uint64_t h = 0xCBF29CE484222325;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return h;
}

struct Digits {
  double norm = 0;
  std::array<double, 4> projections = {};
};

Digits digits_of(const std::string& name, const Tensor& t) {
  Digits d;
  const uint64_t start = fnv1a(name);
  const std::vector<double> values = t.to_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = mix(start + i);
    d.norm += values[i] * values[i];
    for (int k = 0; k < 4; ++k) d.projections[k] += (bits >> (60 + k) & 1) ? values[i] : -values[i];
  }
  d.norm = std::sqrt(d.norm);
  return d;
}

// An estimate of the 2-norm of the difference.
double difference(const Digits& got, const Digits& expected) {
  double sum = 0;
  for (int k = 0; k < 4; ++k) sum += std::pow(got.projections[k] - expected.projections[k], 2);
  return std::max(std::sqrt(sum / 4), std::abs(got.norm - expected.norm));
}

struct Golden {
  int64_t side = 0, rows = 0;
  uint64_t seed = 0;
  double loss = 0;
  std::map<std::string, Digits> gradients, states;
};

Golden read_golden(const std::string& name) {
  const std::string path = support::source_path("/tests/models/golden/") + name + ".txt";
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  Golden golden;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind, of;
    words >> kind;
    if (kind == "pictures") words >> golden.side >> golden.rows >> golden.seed;
    if (kind == "loss") words >> golden.loss;
    if (kind != "gradient" && kind != "state") continue;
    Digits d;
    words >> of >> d.norm;
    for (double& p : d.projections) words >> p;
    EXPECT_TRUE(words) << path << ": " << line;
    (kind == "gradient" ? golden.gradients : golden.states)[of] = d;
  }
  return golden;
}

// Without Dropout, and with activations kept from the kinks: train_step.py says why.
Model conditioned(Model m) {
  for (ModelNode& n : m.nodes) {
    if (n.op == "Dropout") n = {"Identity", {n.inputs[0]}, n.outputs, {}};
    if (n.op != "BatchNormalization") continue;
    Tensor shift(m.initialisers.at(n.inputs[2]).type());
    const std::span<float> values = shift.mutable_as<float>();
    for (size_t c = 0; c < values.size(); ++c) values[c] = c % 2 == 0 ? 2 : -2;
    m.initialisers.insert_or_assign(n.inputs[2], shift);
  }
  return m;
}

double unit(uint64_t i) { return static_cast<double>(mix(i) >> 40) * 0x1p-23 - 1; }

// Coarse and fine noise.
Tensor pictures(const Golden& golden) {
  Tensor t({DType::kF32, {golden.rows, 3, golden.side, golden.side}});
  const auto side = static_cast<uint64_t>(golden.side), per_side = (side + kCell - 1) / kCell;
  const uint64_t start = golden.seed * kSeed;
  const std::span<float> pixels = t.mutable_as<float>();
  for (uint64_t i = 0; i < pixels.size(); ++i) {
    const uint64_t x = i % side, y = i / side % side, plane = i / (side * side);
    const uint64_t cell = (plane * per_side + y / kCell) * per_side + x / kCell;
    pixels[i] = static_cast<float>(unit(start + i) / 4 + unit(start + kCells + cell));
  }
  return t;
}

// Pictures, labels and weights of the rows.
std::vector<Tensor> batch(const Golden& golden) {
  Tensor labels({DType::kI64, {golden.rows}}), weights({DType::kF32, {golden.rows}});
  for (size_t n = 0; n < labels.as<int64_t>().size(); ++n) {
    labels.mutable_as<int64_t>()[n] = static_cast<int64_t>(mix(kLabels + n) % kStepClasses);
    weights.mutable_as<float>()[n] = 1.0f / static_cast<float>(golden.rows);
  }
  return {pictures(golden), labels, weights};
}

class TrainStep : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(TrainStep, GivesPyTorchsGradientsAndRunningStatistics) {
  const auto [network, backend] = GetParam();
  const Golden golden = read_golden(network);
  ASSERT_GT(golden.rows, 0);
  const Model model = conditioned(
      build_model(network, {.classes = kStepClasses, .img_size = golden.side, .seed = 1}));
  const std::vector<std::string> names = trainable_parameters(model, "none");
  const Device device(Backend::find(backend));
  const StepGraph step =
      make_step_graph(bind(model, golden.rows), names, 0, DType::kF32, 1, accepts_of(device));
  ASSERT_EQ(step.dropout_seed, kNone);

  const Plan plan(step.graph, device, {.bound_params = step.trainable});
  std::vector<Tensor> given = batch(golden);
  ASSERT_EQ(plan.bindings().size(), given.size() + names.size());
  for (const std::string& name : names) given.push_back(model.initialisers.at(name));
  const std::vector<Tensor> out = Executor(plan).run(given);

  EXPECT_NEAR(out[0].to_doubles()[0], golden.loss, 1e-5 * golden.loss);
  EXPECT_EQ(names.size(), golden.gradients.size());
  EXPECT_EQ(step.states.size(), golden.states.size());
  // Some gradients are zero but for rounding, since normalisation takes out again what the
  // parameter does: a shift of all of a channel, say. These are compared with the largest there is.
  double largest = 0, worst = 0;
  for (const auto& [name, digits] : golden.gradients) largest = std::max(largest, digits.norm);
  const double nothing = 1e-6 * largest;
  const auto compare = [&](const std::string& name, const Tensor& got,
                           const std::map<std::string, Digits>& expected) {
    ASSERT_TRUE(expected.contains(name)) << name;
    const Digits& e = expected.at(name);
    const double d = difference(digits_of(name, got), e);
    EXPECT_LE(d, std::max(1e-3 * e.norm, nothing)) << name << " of norm " << e.norm;
    if (e.norm > nothing) worst = std::max(worst, d / e.norm);
  };
  for (size_t i = 0; i < names.size(); ++i) compare(names[i], out[2 + i], golden.gradients);
  for (size_t i = 0; i < step.states.size(); ++i) {
    compare(step.graph.value(step.states[i].param).name, out[2 + names.size() + i], golden.states);
  }
  RecordProperty("largest_difference", std::to_string(worst));
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<const char*, const char*>>& test) {
  return std::string(std::get<0>(test.param)) + "_on_" + std::get<1>(test.param);
}

constexpr auto kNetworks = {"resnet18", "mobilenet_v2", "vit"};
INSTANTIATE_TEST_SUITE_P(Models, TrainStep,
                         ::testing::Combine(::testing::ValuesIn(kNetworks),
                                            ::testing::Values("cpu")),
                         name_of);
#ifdef NDT_ONEDNN
INSTANTIATE_TEST_SUITE_P(Onednn, TrainStep,
                         ::testing::Combine(::testing::ValuesIn(kNetworks),
                                            ::testing::Values("onednn")),
                         name_of);
#endif

class MixedPrecision : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

double norm(const Tensor& t, const Tensor* less = nullptr) {
  const std::vector<double> values = t.to_doubles(),
                            others = less ? less->to_doubles() : std::vector<double>(values.size());
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += std::pow(values[i] - others[i], 2);
  return std::sqrt(sum);
}

TEST_P(MixedPrecision, GradientsAreThoseOfF32ButForRounding) {
  const auto [network, backend] = GetParam();
  Golden like;
  like.side = 64;
  like.rows = 3;
  like.seed = 1;
  const Model model = conditioned(
      build_model(network, {.classes = kStepClasses, .img_size = like.side, .seed = 1}));
  const std::vector<std::string> names = trainable_parameters(model, "none");
  const Device device(Backend::find(backend));
  const auto step_in = [&](DType compute) {
    const StepGraph step =
        make_step_graph(bind(model, like.rows), names, 0, compute, 1, accepts_of(device));
    const Plan plan(step.graph, device, {.bound_params = step.trainable});
    std::vector<Tensor> given = batch(like);
    if (step.loss_scale != kNone) given.push_back(Tensor::of<float>(DType::kF32, {}, {1024}));
    for (const std::string& name : names) given.push_back(model.initialisers.at(name));
    std::vector<Tensor> out = Executor(plan).run(given);
    if (step.loss_scale != kNone) {
      EXPECT_EQ(out.back().to_doubles()[0], 0);
    }
    return out;
  };
  const std::vector<Tensor> expected = step_in(DType::kF32);
  double largest = 0;
  for (size_t i = 0; i < names.size(); ++i) largest = std::max(largest, norm(expected[2 + i]));
  // bf16 has three bits less of a number.
  for (const auto& [compute, share] : {std::pair(DType::kBF16, 0.4), {DType::kF16, 0.05}}) {
    SCOPED_TRACE(name_of(compute));
    const std::vector<Tensor> got = step_in(compute);
    EXPECT_NEAR(got[0].to_doubles()[0], expected[0].to_doubles()[0], 0.05);
    for (size_t i = 0; i < names.size(); ++i) {
      ASSERT_EQ(got[2 + i].type(), expected[2 + i].type()) << names[i];
      EXPECT_LT(norm(got[2 + i], &expected[2 + i]), share * largest) << names[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MixedPrecision,
                         ::testing::Combine(::testing::Values("squeezenet1_1", "tinynet", "vit"),
                                            ::testing::Values("cpu")),
                         name_of);
#ifdef NDT_ONEDNN
INSTANTIATE_TEST_SUITE_P(Onednn, MixedPrecision,
                         ::testing::Combine(::testing::Values("squeezenet1_1", "tinynet", "vit",
                                                              "resnet18"),
                                            ::testing::Values("onednn")),
                         name_of);
#endif

// More gradients than one Sum takes.
TEST(StepGraphInF16, AllGradientsOfAManyLayeredNetworkAreChecked) {
  const Model model = build_model("resnet50", {.classes = kStepClasses, .img_size = 64});
  const std::vector<std::string> names = trainable_parameters(model, "none");
  const StepGraph step = make_step_graph(bind(model, 1), names, 0, DType::kF16);
  EXPECT_EQ(step.graph.type(step.graph.outputs().back()), (TensorType{DType::kF32, {}}));
  for (const ValueId p : step.trainable) {
    const std::vector<bool> after = depends_on(step.graph, {{p}});
    EXPECT_TRUE(after[index(step.graph.outputs().back())]) << step.graph.value(p).name;
  }
}

}  // namespace
}  // namespace ndtrain
