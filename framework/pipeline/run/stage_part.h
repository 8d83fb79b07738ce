// A part of what a stage does with a micro-batch, forward or backward, made ready to run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "framework/pipeline/stages/stage.h"
#include "framework/runtime/device_tensor.h"
#include "framework/runtime/executor.h"
#include "framework/train/prepared_step.h"
#include "framework/train/running_statistics.h"
#include "framework/train/shard_sums.h"

namespace ndtrain {

// What a stage has of a micro-batch, by what it is in the graph of the step. Not thread-safe.
class StageValues {
 public:
  // Keeps references.
  StageValues(const Graph& step, const Device& device) : step_(step), device_(device) {}

  bool has(ValueId v) const;
  const void* read(ValueId v) const;  // device addresses; of what is not there Error
  void* write(ValueId v);             // from now on it is there
  const TensorType& type(ValueId v) const { return step_.type(v); }
  void forget();          // for the next micro-batch: nothing is there, the memory stays
  int64_t bytes() const;  // of that memory

 private:
  struct Entry {
    DeviceTensor tensor;
    bool there = false;
  };
  const Graph& step_;
  const Device& device_;
  std::map<ValueId, Entry> entries_;
};

// What a rank keeps of the model, beside values: of all its stages.
struct RankState {
  const Device& device;
  const ParameterSpace& parameters;
  ShardSums& gradients;           // of one shard, its replica, in parts: the micro-batches
  RunningStatistics* statistics;  // null: its stages have none
  // What passes work in, one after the other.
  std::shared_ptr<WorkMemory> work = std::make_shared<WorkMemory>(device);
};

// From one place on the device to another.
void copy_on(const Device& device, void* to, const void* from, size_t bytes);

// What is computed at a time: a part of a step.
struct MicroBatch {
  int64_t number = 0;  // since the last flush
  ShardPart part;
  // Device address of the first of the stage's parameters, in the version it is computed on.
  const float* parameters = nullptr;
  // Told of parameters that are read, and, in the last part, of gradients; null: nobody is.
  GradientSync* sync = nullptr;
};

// One thread.
class StagePart {
 public:
  // Keeps references.
  StagePart(const StepGraph& step, const Stage& stage, const StageGraph& part,
            const RankState& state);

  // `there`: what comes in, a value in the first that has it. What goes out is written to `to`;
  // gradients of parameters are added up over the parts of a step, which come in their order,
  // running statistics follow one another.
  // Once more: statistics that are there already are made in vain.
  void run(const MicroBatch& micro_batch, std::span<const StageValues* const> there,
           StageValues& to, bool once_more = false);

  int64_t constant_bytes() const { return static_cast<int64_t>(plan_.constant_bytes()); }

 private:
  struct Binding {
    ValueId value = kNone;  // or
    int slot = -1;          // of a parameter, or
    std::string state;      // a running statistic
  };
  void bind_inputs(const StepGraph& step, const StageGraph& part);
  void bind_outputs(const StepGraph& step, const Stage& stage, const StageGraph& part);
  std::vector<const void*> bindings(const MicroBatch& micro_batch,
                                    std::span<const StageValues* const> there) const;
  float* statistic(const std::string& name, const ShardPart& part, bool once_more);
  float* gradient(size_t slot, const ShardPart& part) const;
  Hooks hooks(const MicroBatch& micro_batch, const StageValues& to) const;
  void take_gradients(size_t output, const MicroBatch& micro_batch, const StageValues& to,
                      ndt_stream* stream) const;
  ParameterRange range(size_t slot) const { return state_.parameters.slots()[slot].range; }

  const RankState& state_;
  Plan plan_;
  Executor executor_;
  std::vector<Binding> in_, out_;
  std::map<std::string, DeviceTensor> made_in_vain_;  // statistics
  // Gradients of parameters that are also something else: the output, and the slot.
  std::vector<std::pair<size_t, size_t>> copies_;
};

}  // namespace ndtrain
