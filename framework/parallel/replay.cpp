#include "framework/parallel/replay.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/hash.h"
#include "framework/core/rng.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/exchange_sync.h"

namespace ndtrain {
namespace {

using std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;

constexpr double kLearningRate = 1e-3;
constexpr size_t kNoise = 1 << 16;             // numbers, of which gradients are cut out
constexpr auto kAtOnce = nanoseconds(10'000);  // waits no longer than that waited for nobody

nanoseconds as_time(double seconds) {
  return std::chrono::duration_cast<nanoseconds>(Seconds(seconds));
}

// A parameter for each layer that has elements, those first whose gradients are.
Graph parameters_of(const CostProfile& costs, const std::vector<float>& noise) {
  Graph g;
  for (size_t l = costs.layers.size(); l-- > 0;) {
    const int64_t elements = costs.layers[l].elements;
    if (elements == 0) continue;
    Tensor values({DType::kF32, {elements}});
    const auto to = values.mutable_as<float>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = noise[(i + l) % noise.size()];
    g.add_param("layer" + std::to_string(l), values);
  }
  return g;
}

}  // namespace

void SleepingDevice::compute(double seconds) {
  free_at_ += as_time(seconds);
  const nanoseconds left = free_at_ - clock_.monotonic();
  if (left > nanoseconds(0)) clock_.sleep(left);
}

void SleepingDevice::run(const std::function<void()>& work,
                         const std::function<double()>& waited_s) {
  const double waited_before = waited_s();
  const nanoseconds begun = clock_.monotonic();
  work();
  const nanoseconds took = clock_.monotonic() - begun, waited = as_time(waited_s() - waited_before);
  if (waited > kAtOnce) free_at_ = begun + waited;  // what was waited for came then
  free_at_ += std::max(nanoseconds(0), took - waited);
}

void make_timers_exact() { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

// What a Trainer has of a training.
struct Replay::Training {
  Training(const Replay& of, const MakeExchange& make)
      : graph(parameters_of(of.costs_, of.noise_)),
        parameters(graph, graph.params(), of.device_),
        optimizer(of.optimizer_, parameters, of.device_),
        own{of.first_shards_[static_cast<size_t>(of.communicator_.rank())],
            of.first_shards_[static_cast<size_t>(of.communicator_.rank()) + 1]},
        sums(parameters.size(), own, of.first_shards_.back(), of.device_, parameters.gradients()),
        reports(static_cast<size_t>(of.first_shards_.back())),
        exchange(make({parameters, optimizer, sums, nullptr, of.device_})) {}

  Graph graph;
  ParameterSpace parameters;
  Optimizer optimizer;
  ShardRange own;
  ShardSums sums;
  std::vector<ShardReport> reports;
  Exchange exchange;
};

Replay::Replay(const CostProfile& costs, std::vector<int> first_shards,
               const OptimizerConfig& optimizer, uint64_t seed, const Device& device,
               Communicator& communicator, Clock& clock)
    : costs_(costs),
      first_shards_(std::move(first_shards)),
      optimizer_(optimizer),
      device_(device),
      communicator_(communicator),
      clock_(clock),
      noise_(kNoise) {
  validate(costs);
  if (!device.shares_host_memory()) throw Error("replay: the device's memory is not the host's");
  if (std::ssize(first_shards_) != communicator.ranks() + 1) {
    throw Error("replay: shards of ", std::ssize(first_shards_) - 1, " ranks, but there are ",
                communicator.ranks());
  }
  for (const CostProfile::Layer& l : costs.layers) {
    if (l.elements % ParameterSpace::kAlign == 0) continue;
    throw Error("replay: a layer of ", l.elements, " elements, not a multiple of ",
                ParameterSpace::kAlign);
  }
  const Rng rng(seed, "replay");
  for (size_t i = 0; i < kNoise; ++i) noise_[i] = static_cast<float>(rng.normal(i)) / 16;
}

double Replay::optimizer_s_per_element() {
  const Graph graph = parameters_of(costs_, noise_);
  ParameterSpace parameters(graph, graph.params(), device_);
  Optimizer optimizer(optimizer_, parameters, device_);
  double least = 0;
  for (int round = 0; round < 4; ++round) {
    const HyperParameters hyper = optimizer.next(kLearningRate);
    const nanoseconds begun = clock_.monotonic();
    for (const ParameterSlot& s : parameters.slots()) {
      float* const values = parameters.values(s.range.begin);
      optimizer.apply(s.range, hyper, parameters.gradients(s.range.begin), values, values);
    }
    const double took = Seconds(clock_.monotonic() - begun).count();
    // The first makes plans; of the others the one that was least disturbed counts.
    if (round == 1 || (round > 1 && took < least)) least = took;
  }
  return least / static_cast<double>(parameters.size());
}

// In the order of the shards, as their runs would write it and add it up.
void Replay::give_gradient(Training& training, size_t slot) const {
  const ParameterRange range = training.parameters.slots()[slot].range;
  for (int v = training.own.begin; v < training.own.end; ++v) {
    float* to = training.sums.shard(v) + range.begin;
    const int64_t step = training.optimizer.steps();
    auto from = static_cast<size_t>(range.begin + step * 7919 + int64_t{v} * 104'729) % kNoise;
    for (auto left = static_cast<size_t>(range.size()); left > 0; from = 0) {
      const size_t n = std::min(left, kNoise - from);
      to = std::copy_n(noise_.data() + from, n, to);
      left -= n;
    }
    training.sums.add(v, range);
  }
}

void Replay::step(Training& training, SleepingDevice& device,
                  const std::function<void()>& at_backward) {
  const auto run = [&](const auto& work) { device.run(work, training.exchange.waited_s); };
  GradientSync& sync = *training.exchange.sync;
  run([&] { sync.begin(training.optimizer.next(kLearningRate)); });
  size_t slot = training.parameters.slots().size();
  for (const CostProfile::Layer& l : costs_.layers) {
    if (l.elements > 0) run([&] { sync.before_read(--slot, nullptr); });
    device.compute(l.forward_s);
  }
  at_backward();
  for (size_t l = costs_.layers.size(); l-- > 0;) {
    if (costs_.layers[l].elements > 0) give_gradient(training, slot);
    device.compute(costs_.layers[l].backward_s);
    if (costs_.layers[l].elements > 0) run([&] { sync.gradient_ready(slot++, nullptr); });
  }
  run([&] {
    sync.share(training.reports);
    sync.backward_done();
  });
}

ReplayResult Replay::run(const CommPlan& plan, int warmup, int steps) {
  validate(plan, costs_.parameter_count());
  return run(
      [&](const Trainer::Shared& shared) {
        return Exchange{std::make_unique<ExchangeSync>(shared, communicator_, plan, first_shards_),
                        [this] { return communicator_.waited_s(); }};
      },
      warmup, steps);
}

ReplayResult Replay::run(const MakeExchange& make, int warmup, int steps) {
  Training training(*this, make);
  const Exchange& exchange = training.exchange;
  barrier(communicator_);
  SleepingDevice device(clock_);
  ReplayResult result;
  std::vector<nanoseconds> begins;
  double waited = 0, waited_before = 0;
  for (int i = 0; i <= warmup + steps; ++i) {
    step(training, device, [&] {
      if (i < warmup) return;
      begins.push_back(clock_.monotonic());
      waited = exchange.waited_s();
      if (i == warmup) waited_before = waited;
    });
  }
  exchange.sync->flush();
  for (size_t i = 1; i < begins.size(); ++i) {
    result.step_s.push_back(Seconds(begins[i] - begins[i - 1]).count());
  }
  result.exposed_s = (waited - waited_before) / std::max(1, steps);
  if (exchange.sent_bytes) result.sent_bytes = exchange.sent_bytes() / (warmup + steps + 1);
  result.parameters = xxh3(training.parameters.values(),
                           static_cast<size_t>(training.parameters.size()) * sizeof(float));
  check_same(communicator_, {{"parameters", std::to_string(result.parameters)}});
  return result;
}

}  // namespace ndtrain
