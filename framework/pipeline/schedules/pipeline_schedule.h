// In which order the ranks of a pipeline work: a function from its shape to a list for each rank.
// Pure, so that all ranks make the same lists.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "framework/pipeline/schedules/instruction.h"
#include "framework/pipeline/schedules/pipe_shape.h"

namespace ndtrain {

class PipelineSchedule {
 public:
  virtual ~PipelineSchedule() = default;
  virtual std::string_view name() const = 0;
  // Every micro-batch is computed on the newest parameters, as without a pipeline.
  virtual bool synchronous() const = 0;
  // By how many updates a stage is late: mini-batch t is forwarded, and taken back, on version
  // max(0, t - delay), and update t is applied to version t. delay + 1 versions are there at most.
  virtual int delay(const PipeShape& shape, int stage) const = 0;
  // Of one rank, with a flush at the end. Micro-batches are forwarded and taken back in their order
  // at each stage. Sends and receives of any two stages match, and cannot wait for each other in a
  // circle, however long each takes, where a send waits at most while most_in_flight() messages on
  // that edge are not received. Values between stages of one rank are no messages. Throws Error of
  // a shape that validate() refuses, or that the schedule does not take.
  virtual std::vector<Instruction> instructions(const PipeShape& shape, int rank) const = 0;
  // Micro-batches at most that a stage has forwarded, and not yet done with.
  virtual int64_t most_in_flight(const PipeShape& shape, int stage) const = 0;
};

// Throws Error, which lists those there are.
std::unique_ptr<PipelineSchedule> pipeline_schedule(std::string_view name);
std::span<const std::string_view> pipeline_schedules();

}  // namespace ndtrain
