#include "framework/runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "framework/runtime/program.h"

namespace ndtrain {

struct Executor::State {
  explicit State(const Plan::Program& program)
      : p(program),
        arena(p.device, std::max<size_t>(p.arena_bytes, 1)),
        workspace(p.device, std::max<size_t>(p.workspace_bytes, 1)),
        seconds(p.steps.size()) {
    stream = stream_of(p.device);
    if (p.device.fallback()) fallback_stream = stream_of(*p.device.fallback());
    size_t in = 0, out = 0;
    for (const Step& s : p.steps) {
      in = std::max(in, s.inputs.size());
      out = std::max(out, s.outputs.size());
    }
    inputs.resize(in);
    step_outputs.resize(out);
  }
  ~State() {
    if (fallback_stream) p.device.fallback()->abi().stream_destroy(fallback_stream);
    p.device.abi().stream_destroy(stream);
  }

  static ndt_stream* stream_of(const Device& d) {
    ndt_stream* made = nullptr;
    d.backend().check(d.abi().stream_create(d.handle(), &made), "stream");
    return made;
  }

  void* address(const Place& place) const {
    void* const base = base_of(place);
    return base ? static_cast<std::byte*>(base) + place.offset : nullptr;
  }

  void* base_of(const Place& place) const {
    switch (place.kind) {
      case Place::Kind::kAbsent:
        return nullptr;
      case Place::Kind::kArena:
        return static_cast<std::byte*>(arena.data()) + place.at;
      case Place::Kind::kBinding:
        return const_cast<void*>(bindings[place.at]);
      case Place::Kind::kOutput:
        return outputs[place.at];
      case Place::Kind::kConstant:
        break;
    }
    const auto it = p.constants.find(place.at);
    return it == p.constants.end() ? nullptr : const_cast<void*>(it->second);
  }

  void run_step(const Step& s) {
    for (size_t k = 0; k < s.inputs.size(); ++k) inputs[k] = address(s.inputs[k]);
    for (size_t k = 0; k < s.outputs.size(); ++k) step_outputs[k] = address(s.outputs[k]);
    const Device& d = s.kernel.device();
    ndt_stream* on = &d == &p.device ? stream : fallback_stream;
    const ndt_status status =
        d.abi().run(s.kernel.get(), on, inputs.data(), step_outputs.data(), workspace.data());
    if (status != NDT_OK) d.backend().check(status, s.op + " computing '" + s.name + "'");
  }

  const Plan::Program& p;
  DeviceBuffer arena, workspace;
  // Both work in the calling thread's time: backends with a fallback share the host's memory.
  ndt_stream *stream = nullptr, *fallback_stream = nullptr;
  std::span<const void* const> bindings;
  std::span<void* const> outputs;
  std::vector<const void*> inputs;
  std::vector<void*> step_outputs;
  bool profiling = false;
  std::vector<double> seconds;
};

Executor::Executor(const Plan& plan) : state_(std::make_unique<State>(*plan.program_)) {}
Executor::~Executor() = default;

void Executor::run(std::span<const void* const> bindings, std::span<void* const> outputs,
                   const OnReady& on_ready) {
  State& s = *state_;
  const Plan::Program& p = s.p;
  if (bindings.size() != p.bindings.size() || outputs.size() != p.outputs.size()) {
    throw Error("plan: takes ", p.bindings.size(), " bindings and ", p.outputs.size(),
                " outputs, was given ", bindings.size(), " and ", outputs.size());
  }
  s.bindings = bindings;
  s.outputs = outputs;
  size_t reported = 0;
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    s.run_step(p.steps[i]);
    if (s.profiling) {
      p.device.backend().check(p.device.abi().stream_wait(s.stream), "run");
      s.seconds[i] =
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    for (int k : p.steps[i].completes) {
      ++reported;
      if (on_ready) on_ready(k);
    }
  }
  for (int k : p.copied_outputs) {
    const auto i = static_cast<size_t>(k);
    const size_t bytes = p.types[index(p.outputs[i])].bytes();
    const void* from = s.address(p.output_places[i]);
    if (bytes == 0 || from == outputs[i]) continue;
    p.device.backend().check(p.device.abi().download(s.stream, outputs[i], from, bytes),
                             "copy an output");
  }
  p.device.backend().check(p.device.abi().stream_wait(s.stream), "run");
  for (; on_ready && reported < p.ready_order.size(); ++reported) on_ready(p.ready_order[reported]);
}

std::vector<Tensor> Executor::run(std::span<const Tensor> bindings) {
  const Plan::Program& p = state_->p;
  const ndt_backend& abi = p.device.abi();
  const bool shared = abi.shares_host_memory != 0;
  if (bindings.size() != p.bindings.size()) {
    throw Error("plan: takes ", p.bindings.size(), " tensors, was given ", bindings.size());
  }
  std::vector<DeviceBuffer> buffers;
  std::vector<const void*> in;
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].type() != p.types[index(p.bindings[i])]) {
      throw Error("plan: binding ", i, " is ", p.types[index(p.bindings[i])], ", was given ",
                  bindings[i].type());
    }
    if (shared) {
      in.push_back(bindings[i].data());
      continue;
    }
    DeviceBuffer& b = buffers.emplace_back(p.device, std::max<size_t>(bindings[i].bytes(), 1));
    p.device.backend().check(
        abi.upload(state_->stream, b.data(), bindings[i].data(), bindings[i].bytes()), "upload");
    in.push_back(b.data());
  }
  std::vector<Tensor> results;
  std::vector<void*> out;
  for (ValueId v : p.outputs) {
    Tensor& t = results.emplace_back(p.types[index(v)]);
    out.push_back(shared ? t.mutable_data()
                         : buffers.emplace_back(p.device, std::max<size_t>(t.bytes(), 1)).data());
  }
  run(in, out);
  if (!shared) {
    for (size_t k = 0; k < results.size(); ++k) {
      p.device.backend().check(
          abi.download(state_->stream, results[k].mutable_data(), out[k], results[k].bytes()),
          "download");
    }
    p.device.backend().check(abi.stream_wait(state_->stream), "download");
  }
  return results;
}

void Executor::set_profiling(bool on) { state_->profiling = on; }

std::vector<Executor::NodeTime> Executor::profile() const {
  std::vector<NodeTime> times;
  for (size_t i = 0; i < state_->p.steps.size(); ++i) {
    times.push_back({state_->p.steps[i].op, state_->p.steps[i].name, state_->seconds[i]});
  }
  return times;
}

}  // namespace ndtrain
