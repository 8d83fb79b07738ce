// The schedules of an all-reduce under backward and forward passes: functions from a network's
// costs to a plan, a file each.
#pragma once

#include <span>
#include <string_view>

#include "framework/parallel/comm_plan.h"
#include "framework/parallel/cost_profile.h"

namespace ndtrain {

struct ScheduleOptions {
  int64_t bucket_bytes = int64_t{25} << 20;       // ddp, dear
  int64_t first_bucket_bytes = int64_t{1} << 20;  // ddp
  int bucket_layers = 0;                          // dear: so many instead of bytes
  double bucket_wait_s = 0;  // dear: cut where a bucket waits so long, instead of bytes; 0.005
  int prefetch = 1;          // dear, rb: CommPlan::prefetch
  int64_t partition_bytes = int64_t{4} << 20, credit_bytes = int64_t{16} << 20;  // bytescheduler
  int evaluations = 20'000;      // auto: steps that its searches may simulate
  bool shard_optimizer = false;  // CommPlan::shard_optimizer; a sum is then two halves
};

using MakePlan = CommPlan (*)(const CostProfile& costs, const ScheduleOptions& options);
struct NamedSchedule {
  std::string_view name;
  MakePlan make;
};
std::span<const NamedSchedule> schedules();  // auto is the last

// The plan of a name, and all that is done for any of them. Throws Error where there is no such
// schedule, which lists those there are; for costs that validate() refuses; for sizes that are not
// above 0; for rb with a sharded optimizer.
CommPlan make_comm_plan(std::string_view schedule, const CostProfile& costs,
                        const ScheduleOptions& options = {});

// Behind the backward pass, a layer at a time.
CommPlan blocking_plan(const CostProfile& costs, const ScheduleOptions&);

// Wait-free backpropagation: every layer when its gradient is ready (Zhang et al., "Poseidon",
// ATC'17). The next forward pass waits for each in front of it.
CommPlan wfbp_plan(const CostProfile& costs, const ScheduleOptions&);

// Buckets from the back, a small one first; all updates behind them (Li et al., "PyTorch
// distributed", VLDB'20).
CommPlan ddp_plan(const CostProfile& costs, const ScheduleOptions& options);

// Every layer is reduced to rank 0 when ready, and broadcast under the next forward pass.
CommPlan rb_plan(const CostProfile& costs, const ScheduleOptions& options);

// Layers are merged where that ends earlier than two latencies (Shi et al., "MG-WFBP", INFOCOM'19).
CommPlan mg_wfbp_plan(const CostProfile& costs, const ScheduleOptions&);

// Pieces of layers by priority, front layers first, with a limit to what is in flight (Peng et al.,
// "A generic communication scheduler", SOSP'19). The order is that of its queue in virtual time.
CommPlan bytescheduler_plan(const CostProfile& costs, const ScheduleOptions& options);

// Reduce-scatter under the backward pass, all-gather under the next forward pass (Zhang et al.,
// "DeAR", ICDCS'23).
CommPlan dear_plan(const CostProfile& costs, const ScheduleOptions& options);

// DeAR's order of single layers, with all-gathers moved to gaps of the backward pass.
CommPlan pipedap_plan(const CostProfile& costs, const ScheduleOptions&);

// The simulator's best: of all the others, and of a search for better places of all-gathers.
CommPlan auto_plan(const CostProfile& costs, const ScheduleOptions& options);

// What PipeDAP's published cost model says of a step, in its order and without any move. It takes
// two latencies off for an all-gather beside the next layer's reduce-scatter, and one for those of
// one layer after each other: more than a grouped call saves. simulate() does neither.
struct PublishedTimes {
  double pipedap_s, dear_s;
};
PublishedTimes published_times(const CostProfile& costs);

}  // namespace ndtrain
