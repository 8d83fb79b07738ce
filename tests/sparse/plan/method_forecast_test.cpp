#include "framework/sparse/plan/method_forecast.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "framework/core/error.h"
#include "tests/sparse/control/known_profiles.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

constexpr double kPayload = 1448.0 / 1514.0;

// A matrix of a million elements and a vector of a thousand; a step computes .1 s.
TrainingCosts costs_on(double bits_per_s, int ranks = 2) {
  TrainingCosts c;
  c.step.layers = {{.elements = 1'000'000, .forward_s = 0.02, .backward_s = 0.05},
                   {.elements = 1000, .forward_s = 0.01, .backward_s = 0.02}};
  c.step.optimizer_s_per_element = 1e-9;
  c.tensors = {Shape{1000, 1000}, Shape{1000}};
  c.work = {.add_s = 0,
            .choose_s = 0,
            .sort_s = 0,
            .column_s = 0,
            .outer_s = 0,
            .encode_s = 0,
            .decode_s = 0,
            .update_s = 0};
  c.rows = 64;
  set_link(bits_per_s / 8, 1e-3, ranks, c.step);
  return c;
}

MethodForecast of(const char* word, const TrainingCosts& costs) {
  return forecast_step(parse_exchange_method(word), costs);
}

TEST(MethodForecast, BlockingIsComputingAndAnAllReduceOfEachLayer) {
  const TrainingCosts c = costs_on(100e6);
  const MethodForecast f = of("blocking", c);
  // Two ranks send as many bytes as there are, half for each half; two latencies for each layer.
  const double link_s = 2 * 2e-3 + 1'001'000 * 4 / (12.5e6 * kPayload);
  EXPECT_NEAR(f.step_s, 0.1 + 1'001'000e-9 + link_s, 1e-9);
  EXPECT_NEAR(f.exposed_s, link_s, 1e-9);
  EXPECT_EQ(f.sent_bytes, 4 * 1'001'000);
}

TEST(MethodForecast, TheBestScheduleIsNeverSlowerThanAnother) {
  for (const double rate : {10e6, 100e6, 1e9, 10e9}) {
    const TrainingCosts c = costs_on(rate);
    for (const char* other : {"blocking", "ddp", "wfbp", "dear"}) {
      EXPECT_LE(of("auto", c).step_s, of(other, c).step_s + 1e-12) << other;
    }
    EXPECT_GE(of("auto", c).step_s, 0.1);
  }
}

TEST(MethodForecast, SparseGradientsSendAHundredthBetweenAllRanks) {
  for (const int ranks : {2, 4}) {
    const TrainingCosts c = costs_on(100e6, ranks);
    const MethodForecast f = of("sparse:0:0.99", c);
    // A rank's part of a hundredth, in blocks of 16; of a thousand elements some.
    const double share = 0.01 / ranks;
    EXPECT_NEAR(f.sent_bytes, 1'001'000 * share * (4 + 2.0 / 16), 0.02 * f.sent_bytes);
    const double gather_s = 1e-3 + (ranks - 1) * f.sent_bytes / (12.5e6 * kPayload);
    EXPECT_NEAR(f.step_s, 0.1 + 2e-3 + gather_s, 1e-9) << "a vote, and a gather";
    EXPECT_NEAR(f.exposed_s, 2e-3 + gather_s, 1e-9);
  }
}

TEST(MethodForecast, OfWholeGradientsAllTravelsAndNoIndices) {
  EXPECT_EQ(of("sparse:0:0", costs_on(100e6)).sent_bytes, 4 * 1'001'000);
}

TEST(MethodForecast, WithStalenessTheSlowerOfComputingAndExchangingIsLeft) {
  TrainingCosts c = costs_on(100e6);
  c.epoch_steps = 1'000'000;
  ExchangeMethod stale = parse_exchange_method("sparse:1:0.99");
  stale.drain_every = 1'000'000;
  const double sent = forecast_step(stale, c).sent_bytes;
  EXPECT_NEAR(forecast_step(stale, c).step_s, 0.1 + 2e-3, 1e-6);
  c = costs_on(1e6);
  c.epoch_steps = 1'000'000;
  EXPECT_NEAR(forecast_step(stale, c).step_s, 1e-3 + sent / (0.125e6 * kPayload), 1e-6);
  // Where everything is waited for behind each step nothing is won.
  c.epoch_steps = 1;
  EXPECT_NEAR(forecast_step(stale, c).step_s, of("sparse:0:0.99", c).step_s, 1e-9);
}

TEST(MethodForecast, WorkBesideComputingTakesItsPartOfTheProcessor) {
  TrainingCosts c = costs_on(1e9);
  c.work.choose_s = 20e-9;
  c.work.add_s = 5e-9;
  c.epoch_steps = 1'000'000;
  ExchangeMethod stale = parse_exchange_method("sparse:1:0.99");
  stale.drain_every = 1'000'000;
  EXPECT_NEAR(forecast_step(stale, c).step_s, 0.1 + 2e-3 + 1.001e6 * 25e-9, 1e-6);
  c.threads = 4;
  EXPECT_NEAR(forecast_step(stale, c).step_s, 0.1 + 2e-3 + 1.001e6 * 10e-9, 1e-6);
  const MethodForecast waits = of("sparse:0:0.99", c);
  EXPECT_NEAR(waits.work_s, 1.001e6 * 25e-9, 1e-9) << "nothing computes meanwhile";
}

TEST(MethodForecast, EachKindOfWorkIsOfItsElements) {
  const TrainingCosts free = costs_on(1e9);
  const auto more = [&](const char* word, double ExchangeWork::*member) {
    TrainingCosts c = free;
    c.work.*member = 1e-6;
    return (of(word, c).step_s - of(word, free).step_s) * 1e6;  // elements
  };
  const double sent = 5000 + 5;
  EXPECT_NEAR(more("sparse:0:0.99", &ExchangeWork::add_s), 1'001'000, 1);
  EXPECT_NEAR(more("sparse:0:0.99", &ExchangeWork::choose_s), 1'001'000, 1);
  EXPECT_NEAR(more("sparse:0:0.99", &ExchangeWork::encode_s), sent, 1);
  EXPECT_NEAR(more("sparse:0:0.99", &ExchangeWork::decode_s), 2 * sent, 1);
  EXPECT_NEAR(more("sparse:0:0.99", &ExchangeWork::update_s), 2 * sent, 1);
  EXPECT_NEAR(more("sparse:0:0.99:topk", &ExchangeWork::sort_s), 1'001'000, 1);
  EXPECT_NEAR(more("sparse:0:0.99:topk", &ExchangeWork::choose_s), 0, 1);
  EXPECT_NEAR(more("powersgd:4", &ExchangeWork::column_s), 4e6, 1);
  EXPECT_NEAR(more("powersgd:4", &ExchangeWork::add_s), 2e6, 1);
  EXPECT_NEAR(more("local:50", &ExchangeWork::outer_s), 1'001'000 / 50.0, 1);
  for (const char* word : {"ddp", "auto"}) {
    EXPECT_NEAR(more(word, &ExchangeWork::outer_s), 0, 1e-3);
  }
}

TEST(MethodForecast, PowerSgdSendsThinMatricesAndVectorsWhole) {
  const TrainingCosts c = costs_on(100e6);
  const MethodForecast f = of("powersgd:4", c);
  const double p = 1000 * 4 + 1000, q = 1000 * 4;
  EXPECT_EQ(f.sent_bytes, 4 * (p + q));
  const double link_s = 2 * 2e-3 + 4 * (p + q) / (12.5e6 * kPayload);
  EXPECT_NEAR(f.step_s, 0.1 + 1'001'000e-9 + 2e-3 + link_s, 1e-9);
  TrainingCosts small = c;
  small.step.layers = {{.elements = 64, .forward_s = 0.1}};
  small.tensors = {Shape{8, 8}};
  EXPECT_EQ(of("powersgd:4", small).sent_bytes, 4 * 64) << "factors would be as large";
  EXPECT_EQ(of("powersgd:2", small).sent_bytes, 4 * 32);
}

TEST(MethodForecast, RanksThatTrainByThemselvesAgreeEveryHSteps) {
  TrainingCosts c = costs_on(100e6);
  const double step_s = 0.1 + 1'001'000e-9;
  const double all_s = 2e-3 + 4 * 1'001'000 / (12.5e6 * kPayload);
  EXPECT_NEAR(of("local:50", c).step_s, step_s + all_s / 50, 1e-9);
  EXPECT_NEAR(of("diloco:10", c).step_s, step_s + all_s / 10, 1e-9);
  EXPECT_NEAR(of("local:50", c).sent_bytes, 4 * 1'001'000 / 50.0, 1e-6);
  c.epoch_steps = 5;
  EXPECT_NEAR(of("diloco:50", c).step_s, step_s + all_s / 5, 1e-9) << "short epochs agree sooner";
  c.epoch_steps = 120;
  EXPECT_NEAR(of("diloco:50", c).step_s, step_s + 3 * all_s / 120, 1e-9);
}

TEST(MethodForecast, FragmentsTravelUnderSteps) {
  TrainingCosts c = costs_on(100e6);
  c.epoch_steps = 200;
  ExchangeMethod whole = parse_exchange_method("diloco:50"),
                 parts = parse_exchange_method("diloco:50:5"),
                 hidden = parse_exchange_method("diloco:50:5:5");
  for (ExchangeMethod* m : {&whole, &parts, &hidden}) m->drain_every = 200;
  const double step_s = 0.1 + 1'001'000e-9;
  const double beta = 4 * 1'001'000 / (12.5e6 * kPayload);
  // Behind 50, 100, 150; at 200 all agree.
  EXPECT_NEAR(forecast_step(whole, c).step_s, step_s + 4 * (2e-3 + beta) / 200, 1e-9);
  // Behind 10, 20 … 190.
  EXPECT_NEAR(forecast_step(parts, c).step_s, step_s + (19 * (2e-3 + beta / 5) + 2e-3 + beta) / 200,
              1e-9);
  EXPECT_NEAR(forecast_step(hidden, c).step_s, step_s + (2e-3 + beta) / 200, 1e-9);
  c = costs_on(0.1e6);
  c.epoch_steps = 200;
  const double part_s = 2e-3 + 1000 * beta / 5, all_s = 2e-3 + 1000 * beta;
  // Five of ten steps hide some of it; under the other five nothing travels.
  EXPECT_NEAR(forecast_step(hidden, c).step_s, step_s + (19 * (part_s - 5 * step_s) + all_s) / 200,
              1e-6);
  // With a fragment under way at any time the link never rests.
  ExchangeMethod always = parse_exchange_method("diloco:50:5:20");
  always.drain_every = 200;
  EXPECT_NEAR(forecast_step(always, c).step_s, (19 * part_s + all_s) / 200, 1e-6);
}

TEST(MethodForecast, WhatIsSentInFewerBitsTravelsSooner) {
  const TrainingCosts c = costs_on(10e6);
  ExchangeMethod diloco = parse_exchange_method("diloco:50");
  const double whole = forecast_step(diloco, c).sent_bytes;
  auto& options = std::get<LocalStepsOptions>(diloco.options);
  options.wire = ValueCoding::kBF16;
  EXPECT_NEAR(forecast_step(diloco, c).sent_bytes, whole / 2, 1e-6);
  options.wire = ValueCoding::kInt8;
  // Each rank's own to each other, instead of slices of sums.
  EXPECT_NEAR(forecast_step(diloco, c).sent_bytes, whole / 4, 0.02 * whole);
  options.compressor = "topk";
  EXPECT_LT(forecast_step(diloco, c).sent_bytes, whole / 50);
  ExchangeMethod sparse = parse_exchange_method("sparse:0:0.99");
  const double f32 = forecast_step(sparse, c).sent_bytes;
  std::get<SparseSyncOptions>(sparse.options).wire = ValueCoding::kInt8;
  EXPECT_LT(forecast_step(sparse, c).sent_bytes, 0.4 * f32);
  std::get<SparseSyncOptions>(sparse.options).compressor = "signum";
  EXPECT_NEAR(forecast_step(sparse, c).sent_bytes, 1'001'000 / 8.0, 20);
}

// What two ranks of a core took on shaped links: bench/RESULTS.md, "Training by ranks over slow
// links". A step computes .35 s there, alexnet's classifier has 54.6 million parameters, an epoch
// five steps.
TEST(MethodForecast, IsNearWhatAlexnetsClassifierTook) {
  TrainingCosts c;
  c.step.layers = {{.elements = int64_t{9216} * 4096, .forward_s = 0.08, .backward_s = 0.15},
                   {.elements = 4096, .forward_s = 0, .backward_s = 0},
                   {.elements = int64_t{4096} * 4096, .forward_s = 0.03, .backward_s = 0.07},
                   {.elements = 4096 + 4096 * 5 + 5, .forward_s = 0, .backward_s = 0}};
  c.step.optimizer_s_per_element = 4e-10;
  c.tensors = {Shape{4096, 9216}, Shape{4096},    Shape{4096, 4096},
               Shape{4096},       Shape{5, 4096}, Shape{5}};
  c.epoch_steps = 5;
  const auto near = [&](const char* word, double bits_per_s, double measured_s) {
    set_link(bits_per_s / 8, 1e-4, 2, c.step);
    const double s = of(word, c).step_s;
    EXPECT_GT(s, 0.85 * measured_s) << word;
    EXPECT_LT(s, 1.15 * measured_s) << word;
  };
  near("blocking", 100e6, 18.95);
  near("blocking", 500e6, 4.01);
  near("sparse:1:0.99", 100e6, 0.41);
  near("sparse:1:0.99", 500e6, 0.387);
  near("sparse:0:0.99", 500e6, 0.415);
  near("powersgd:4", 100e6, 0.846);
  near("diloco:20", 100e6, 4.08);
}

TEST(MethodForecast, AreInTheOrderOfTimeToAccuracy) {
  const std::vector<ExchangeMethod> methods = usual_methods();
  const auto best = [&](double rate) {
    const std::vector<MethodForecast> all = forecast(methods, costs_on(rate), nullptr);
    EXPECT_EQ(all.size(), methods.size());
    EXPECT_TRUE(std::ranges::is_sorted(all, {}, &MethodForecast::seconds_to_accuracy));
    for (const MethodForecast& f : all) {
      EXPECT_EQ(f.steps_factor == 1, f.method.is_exact()) << f.method.text();
      EXPECT_NEAR(f.computing_s + f.work_s + f.exposed_s, f.step_s, 1e-9) << f.method.text();
    }
    return all.front().method;
  };
  EXPECT_FALSE(best(1e6).is_exact());
  EXPECT_TRUE(best(100e9).is_exact());
  EXPECT_EQ(best(100e9).sync, "auto");
}

TEST(MethodForecast, AConvergenceProfileSaysWhatADropCosts) {
  const TrainingCosts c = costs_on(100e6);
  ConvergenceProfile profile = known_profile(ConvergenceProfile::Over::kDrop, 64, 256, {});
  const std::vector<ExchangeMethod> sparse = {parse_exchange_method("sparse:0:0.99")};
  const double cheap = forecast(sparse, c, nullptr)[0].steps_factor;
  for (ConvergenceProfile::Point& p : profile.points) p.penalty = p.second > 0.9 ? 0.2 : 0;
  const LossPenalty dear(profile);
  const MethodForecast f = forecast(sparse, c, &dear)[0];
  EXPECT_GT(f.steps_factor, 2 * cheap);
  EXPECT_THAT(f.source, HasSubstr("penalty 0."));
}

TEST(MethodForecast, ALinkIsWhatItsCollectivesCarry) {
  CostProfile step;
  for (const int ranks : {2, 3, 8}) {
    set_link(12.5e6, 1e-3, ranks, step);
    EXPECT_NEAR(link_bytes_per_s(step), 12.5e6, 1) << ranks;
    EXPECT_EQ(step.ranks, ranks);
  }
  step.all_gather.beta_s_per_byte = 0;
  EXPECT_EQ(link_bytes_per_s(step), std::numeric_limits<double>::infinity());
}

TEST(MethodForecast, CostsThatCannotBeAreRefused) {
  const auto refused = [](const std::function<void(TrainingCosts&)>& change, const char* word) {
    TrainingCosts c = costs_on(100e6);
    change(c);
    try {
      (void)of(word, c);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused([](auto& c) { c.step.ranks = 1; }, "ddp"), HasSubstr("1 ranks"));
  EXPECT_THAT(refused([](auto& c) { c.threads = 0; }, "ddp"), HasSubstr("0 threads"));
  EXPECT_THAT(refused([](auto& c) { c.epoch_steps = 0; }, "ddp"), HasSubstr("epoch of 0 steps"));
  EXPECT_THAT(refused([](auto& c) { c.work.add_s = -1; }, "ddp"), HasSubstr("add_s is -1"));
  EXPECT_THAT(refused([](auto& c) { c.tensors = {Shape{10}}; }, "ddp"),
              HasSubstr("trained parameters 10; they are not of the same model"));
  EXPECT_THAT(refused([](auto& c) { c.tensors.clear(); }, "powersgd:4"),
              HasSubstr("shapes of the parameters are not known"));
  EXPECT_EQ(refused([](auto& c) { c.tensors.clear(); }, "sparse:0:0.99"), "");
}

}  // namespace
}  // namespace ndtrain
