// Trainings by ranks in threads, and what one process makes of the same: everything after each
// epoch.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "framework/comm/memory_transport.h"
#include "framework/parallel/data_parallel.h"
#include "framework/parallel/plan_by_sizes.h"
#include "framework/parallel/schedules/schedules.h"
#include "tests/graph/model_builder.h"
#include "tests/runtime/cpu_device.h"
#include "tests/train/small_net.h"

namespace ndtrain::testing {

inline constexpr int64_t kRows = 70, kEpochs = 2;

inline TrainerConfig config_of(const OptimizerConfig& optimizer, int shards) {
  return {.epochs = kEpochs,
          .batch = 24,
          .optimizer = optimizer,
          .schedule = {.kind = Schedule::Kind::kCosine, .lr = 0.01},
          .seed = 5,
          .shards = shards};
}

// Everything after each epoch.
using Bytes = std::vector<std::string>;

inline std::string bytes_of(const Checkpoint& c, const EpochResult& result) {
  return bytes_of(c) + " " + std::to_string(result.loss) + " " + std::to_string(result.top1) + " " +
         std::to_string(result.top5);
}

inline Bytes train(Training& training, Dataset& data, int64_t epochs,
                   const Training::OnStep& on_step = {}) {
  Bytes bytes;
  for (int64_t e = 0; e < epochs; ++e) {
    EpochResult result;
    EXPECT_TRUE(training.train_epoch(data, result, on_step));
    bytes.push_back(bytes_of(training.checkpoint(), result));
  }
  return bytes;
}

inline Bytes train(Training& training, int64_t epochs = kEpochs,
                   const Training::OnStep& on_step = {}) {
  TensorDataset data = stripes(kRows, 3);
  return train(training, data, epochs, on_step);
}

inline Bytes alone(const TrainerConfig& config, int64_t epochs = kEpochs) {
  const Model m = small_net(true, 0.3);
  Trainer trainer(m, weights_of(m), cpu(), config);
  return train(trainer, epochs);
}

inline std::unique_ptr<Communicator> talk(std::unique_ptr<Transport> transport) {
  return std::make_unique<Communicator>(std::move(transport),
                                        Communicator::Options{.in_flight = 1});
}

// A layer a bucket, from the back.
inline std::vector<ParameterRange> slots_from_front(const ParameterSpace& parameters) {
  std::vector<ParameterRange> buckets;
  for (const ParameterSlot& s : parameters.slots()) buckets.insert(buckets.begin(), s.range);
  for (size_t i = 0; i + 1 < buckets.size(); ++i) buckets[i].begin = buckets[i + 1].end;
  buckets.front().end = parameters.size();
  return buckets;
}

inline CommPlan all_reduce_at_once(const ParameterSpace& parameters) {
  return {.buckets = {{0, parameters.size()}},
          .ops = {{PlannedOp::Kind::kAllReduce, 0}},
          .update_late = false};
}

inline CommPlan halves(const ParameterSpace& parameters, int prefetch) {
  CommPlan plan{.buckets = slots_from_front(parameters), .prefetch = prefetch};
  add_from_back(plan, PlannedOp::Kind::kReduceScatter);
  add_from_front(plan, PlannedOp::Kind::kAllGather);
  return plan;
}

inline CommPlan by_rank_0(const ParameterSpace& parameters) {
  CommPlan plan{.buckets = slots_from_front(parameters)};
  add_from_back(plan, PlannedOp::Kind::kReduce);
  add_from_front(plan, PlannedOp::Kind::kBroadcast);
  return plan;
}

// Buckets that do not end where slots do.
inline CommPlan pieces_of_32(const ParameterSpace& parameters) {
  CommPlan plan;
  for (int64_t end = parameters.size(); end > 0; end -= 32) {
    plan.buckets.push_back({std::max<int64_t>(end - 32, 0), end});
  }
  add_from_back(plan, PlannedOp::Kind::kAllReduce);
  return plan;
}

// R3 R2+A3 R1+A2 …
inline CommPlan grouped(const ParameterSpace& parameters) {
  CommPlan plan{.buckets = slots_from_front(parameters)};
  const int last = static_cast<int>(plan.buckets.size()) - 1;
  for (int b = last; b >= 0; --b) {
    plan.ops.push_back({PlannedOp::Kind::kReduceScatter, b});
    if (b < last) plan.ops.push_back({PlannedOp::Kind::kAllGather, b + 1, true});
  }
  plan.ops.push_back({PlannedOp::Kind::kAllGather, 0});
  return plan;
}

inline std::vector<Bytes> by_ranks(int ranks, const TrainerConfig& config,
                                   const DataParallel::Options& options) {
  auto transports = memory_transports(ranks);
  std::vector<Bytes> bytes(static_cast<size_t>(ranks));
  std::vector<std::jthread> threads;
  for (size_t r = 0; r < bytes.size(); ++r) {
    threads.emplace_back([&, r] {
      const Model m = small_net(true, 0.3);
      DataParallel training(m, weights_of(m), cpu(), config, talk(std::move(transports[r])),
                            options);
      bytes[r] = train(training);
      training.barrier();
    });
  }
  threads.clear();
  return bytes;
}

// As if layers took times that let the schedules differ.
inline CostProfile with_times(const ParameterSpace& parameters) {
  CostProfile costs = sizes_of(parameters, 4);
  for (CostProfile::Layer& l : costs.layers) l.forward_s = l.backward_s = 1e-3;
  for (auto* c : {&costs.reduce_scatter, &costs.all_gather, &costs.reduce, &costs.broadcast}) {
    *c = {.alpha_s = 2e-4, .beta_s_per_byte = 1e-6};
  }
  costs.all_reduce = {.alpha_s = 4e-4, .beta_s_per_byte = 2e-6};
  return costs;
}

// Of every schedule, such costs.
inline std::vector<std::pair<std::string, DataParallel::MakePlan>> plans_of_schedules(
    const ScheduleOptions& options = {.evaluations = 500}) {
  std::vector<std::pair<std::string, DataParallel::MakePlan>> plans;
  for (const NamedSchedule& s : schedules()) {
    if (options.shard_optimizer && s.name == "rb") continue;
    plans.emplace_back(s.name, [name = s.name, options](const ParameterSpace& parameters) {
      return make_comm_plan(name, with_times(parameters), options);
    });
  }
  return plans;
}

}  // namespace ndtrain::testing
