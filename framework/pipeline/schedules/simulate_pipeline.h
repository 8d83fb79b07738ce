// A pipeline in virtual time: all ranks and their replicas work through their lists, each
// instruction when the one before it is done and what it needs is there.
#pragma once

#include <span>
#include <vector>

#include "framework/pipeline/schedules/pipeline_schedule.h"

namespace ndtrain {

struct PipelineCosts {
  // Seconds for all rows of a micro-batch. A replica takes its rows' part of them, but an exchange
  // and an update as they are.
  struct Stage {
    double forward_s = 0, input_s = 0, weight_s = 0;  // a whole backward pass takes the last two
    double recompute_s = 0;
    double exchange_s = 0;  // of gradients, once all replicas have come; nothing without others
    double update_s = 0;
  };
  // Bytes of all rows of a micro-batch; as LinkModel of framework/comm has it, the bytes of a
  // direction of a pair of replicas follow each other, and a latency holds up nobody.
  struct Edge {
    double activation_bytes = 0, gradient_bytes = 0;
    double latency_s = 0;
    double bytes_per_s = 0;  // 0: unlimited
  };

  int64_t rows = 1;           // of a micro-batch
  std::vector<Stage> stages;  // one for each
  std::vector<int> replicas;  // of each rank; none: one
  std::vector<Edge> edges;    // as edges_of(); none: sends take no time
};

struct PipelinePrediction {
  // A receive and an exchange begin when they are waited for, a send ends when there is room for
  // it.
  struct Span {
    Instruction instruction;
    double begin_s = 0, end_s = 0;
  };
  struct Row {
    int rank = 0, replica = 0;
    std::vector<Span> spans;  // in the order of the list
    double computing_s = 0;
    double waiting_s = 0;  // the rest of `seconds`
  };
  struct Stage {
    int64_t most_in_flight = 0;  // micro-batches
    int64_t most_versions = 1;   // of its parameters, at once
  };

  double seconds = 0;       // until the last is done
  double mini_batch_s = 0;  // between updates of the last stage, in the second half; of one: all
  std::vector<Row> rows;    // replicas of rank 0, of rank 1 …
  std::vector<Stage> stages;
};

// Throws Error of costs that do not fit the shape, of fewer rows than replicas, and of shapes that
// instructions() refuses.
PipelinePrediction simulate_pipeline(const PipelineSchedule& schedule, const PipeShape& shape,
                                     const PipelineCosts& costs);

// The same of any lists, one for each rank. `buffers`: how many messages of a stage's edges to
// later ones, each way, may be sent and not received. Throws Error, too, where ranks wait for each
// other in a circle, where sends and receives do not match, and where StageAccount does; it says of
// whom.
PipelinePrediction simulate_pipeline(std::span<const std::vector<Instruction>> lists,
                                     std::span<const int64_t> buffers, const PipeShape& shape,
                                     const PipelineCosts& costs);

}  // namespace ndtrain
