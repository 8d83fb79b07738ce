// Which nodes are a stage, on how many devices, and what that is predicted to cost. As a file:
//   {"format": 1, "model": "alexnet.onnx", "costs": "measured", "schedule": "async",
//    "sync": "auto", "micro_batches": 1, "seconds": 0.21, "one_device_s": 0.38,
//    "data_parallel_s": 2.4, "states": 21,
//    "stages": [{"nodes": ["/conv1/Conv", …], "replicas": 2, "versions": 2, "recompute": false,
//                "seconds": 0.2, "memory_bytes": 1.2e9}, …]}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain {

// Ranks take the stages in their order: the first `replicas` ranks are those of stage 0.
struct PlannedStage {
  std::vector<std::string> nodes;  // in the order of execution
  int replicas = 1;                // that split the rows of a mini-batch
  int versions = 1;                // of its parameters, at once
  bool recompute = false;          // the forward pass once more, instead of keeping values
  double seconds = 0;              // of a mini-batch, with what it waits for
  double memory_bytes = 0;         // of each replica

  bool operator==(const PlannedStage&) const = default;
};

struct PipelinePlan {
  std::string model;     // ModelProfile::model
  std::string costs;     // "measured" or "ashpipe"
  std::string schedule;  // of instructions
  std::string sync;      // the exchange of gradients between replicas
  int64_t micro_batches = 1;
  std::vector<PlannedStage> stages;
  double seconds = 0;  // of a mini-batch, in the steady state
  // By the same costs, whether the memory is there or not.
  double one_device_s = 0, data_parallel_s = 0;
  int states = 0;  // that were searched

  int devices() const;
  std::string text() const;  // plan.json

  bool operator==(const PipelinePlan&) const = default;
};

// Throws Error naming the file and the entry: not JSON, an unknown or missing entry, a value of
// another type, no stage, a stage without nodes, a node of two stages.
PipelinePlan parse_pipeline_plan(std::string_view json, const std::string& file);
PipelinePlan load_pipeline_plan(Fs& fs, const std::string& file);

}  // namespace ndtrain
