#pragma once

#include <algorithm>
#include <vector>

#include "framework/runtime/program.h"

namespace ndtrain {

// What a thread that runs steps has of its own. Its streams are where memory is the host's: there
// work is done in the calling thread's time.
struct Worker {
  Worker(const Plan::Program& p, int i) : program(p), number(static_cast<size_t>(i)) {
    if (p.tiled_steps > 0) stream = new_stream(p.device);
    if (const Device* d = p.device.fallback()) fallback = new_stream(*d);
    size_t in = 0, out = 0;
    for (const Step& s : p.steps) {
      in = std::max(in, s.inputs.size());
      out = std::max(out, s.outputs.size());
    }
    inputs.resize(in);
    outputs.resize(out);
    seconds.resize(p.tiled_steps);
  }
  ~Worker() {
    if (stream) program.device.abi().stream_destroy(stream);
    if (fallback) program.device.fallback()->abi().stream_destroy(fallback);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  static ndt_stream* new_stream(const Device& d) {
    ndt_stream* s = nullptr;
    d.backend().check(d.abi().stream_create(d.handle(), &s), "stream");
    return s;
  }

  const Plan::Program& program;
  const size_t number;
  ndt_stream* stream = nullptr;  // of tiled steps
  ndt_stream* fallback = nullptr;
  std::vector<const void*> inputs;  // of the step that runs
  std::vector<void*> outputs;
  std::vector<double> seconds;  // of each step of the tiling, in the last run
};

}  // namespace ndtrain
