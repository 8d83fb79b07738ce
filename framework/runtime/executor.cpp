#include "framework/runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "framework/core/log.h"
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
    if (recorded) p.device.abi().release(recorded);
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

  // All steps in their order; after_step(i) follows step i.
  template <typename F>
  void run_steps(const F& after_step) {
    for (size_t i = 0; i < p.steps.size(); ++i) {
      run_step(p.steps[i]);
      after_step(i);
    }
  }

  void wait(const char* what) {
    p.device.backend().check(p.device.abi().stream_wait(stream), what);
  }

  // The steps as one kernel, once a run has the addresses of the run before: they may be for good.
  const ndt_kernel* recording() {
    const ndt_backend& abi = p.device.abi();
    if (!abi.capture_begin || !abi.capture_end || p.steps.empty() || !recordable) return nullptr;
    const bool again =
        std::ranges::equal(bindings, last_bindings) && std::ranges::equal(outputs, last_outputs);
    if (again && recorded) return recorded;
    if (recorded) abi.release(std::exchange(recorded, nullptr));
    last_bindings.assign(bindings.begin(), bindings.end());
    last_outputs.assign(outputs.begin(), outputs.end());
    if (again) record(abi);
    return recorded;
  }

  void record(const ndt_backend& abi) {
    const std::string why = refusal_to_record(abi);
    if (why.empty()) return;
    if (recorded) abi.release(std::exchange(recorded, nullptr));
    recordable = false;
    log::info("{}: steps go one by one, since they cannot be recorded: {}",
              p.device.backend().name(), why);
  }

  // Empty when `recorded` is there. What fails while recording may do well without: it is run
  // again.
  std::string refusal_to_record(const ndt_backend& abi) {
    if (abi.capture_begin(stream) != NDT_OK) return abi.last_error();
    std::string why;
    try {
      run_steps([](size_t) {});
    } catch (const Error& e) {
      why = e.what();
    }
    const ndt_status ended = abi.capture_end(stream, &recorded);  // also of a failed one
    return ended == NDT_OK || !why.empty() ? why : abi.last_error();
  }

  void stage() {
    if (staged_inputs.size() == p.bindings.size() && staged_outputs.size() == p.outputs.size()) {
      return;
    }
    const auto buffers = [&](const std::vector<ValueId>& values, std::vector<DeviceBuffer>& made) {
      made.clear();
      for (ValueId v : values) {
        made.emplace_back(p.device, std::max<size_t>(p.types[index(v)].bytes(), 1));
      }
    };
    buffers(p.bindings, staged_inputs);
    buffers(p.outputs, staged_outputs);
  }

  const Plan::Program& p;
  DeviceBuffer arena, workspace;
  // Both work in the calling thread's time: backends with a fallback share the host's memory.
  ndt_stream *stream = nullptr, *fallback_stream = nullptr;
  std::span<const void* const> bindings;
  std::span<void* const> outputs;
  std::vector<const void*> inputs;
  std::vector<void*> step_outputs;
  // Where host tensors lie on a device with memory of its own.
  std::vector<DeviceBuffer> staged_inputs, staged_outputs;
  ndt_kernel* recorded = nullptr;
  bool recordable = true;
  std::vector<const void*> last_bindings;
  std::vector<void*> last_outputs;
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
  const ndt_kernel* whole = s.profiling || on_ready ? nullptr : s.recording();
  if (whole) {
    p.device.backend().check(p.device.abi().run(whole, s.stream, nullptr, nullptr, nullptr), "run");
  } else {
    auto start = std::chrono::steady_clock::now();
    s.run_steps([&](size_t i) {
      const std::vector<int>& complete = p.steps[i].completes;
      if (s.profiling || (on_ready && !complete.empty())) s.wait("run");
      const auto now = std::chrono::steady_clock::now();
      s.seconds[i] = std::chrono::duration<double>(now - std::exchange(start, now)).count();
      for (int k : complete) {
        ++reported;
        if (on_ready) on_ready(k);
      }
    });
  }
  for (int k : p.copied_outputs) {
    const auto i = static_cast<size_t>(k);
    const size_t bytes = p.types[index(p.outputs[i])].bytes();
    const void* from = s.address(p.output_places[i]);
    if (bytes == 0 || from == outputs[i]) continue;
    p.device.backend().check(p.device.abi().download(s.stream, outputs[i], from, bytes),
                             "copy an output");
  }
  s.wait("run");
  for (; on_ready && reported < p.ready_order.size(); ++reported) on_ready(p.ready_order[reported]);
}

std::vector<Tensor> Executor::run(std::span<const Tensor> bindings) {
  State& s = *state_;
  const Plan::Program& p = s.p;
  if (bindings.size() != p.bindings.size()) {
    throw Error("plan: takes ", p.bindings.size(), " tensors, was given ", bindings.size());
  }
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].type() == p.types[index(p.bindings[i])]) continue;
    throw Error("plan: binding ", i, " is ", p.types[index(p.bindings[i])], ", was given ",
                bindings[i].type());
  }
  std::vector<Tensor> results;
  for (ValueId v : p.outputs) results.emplace_back(p.types[index(v)]);
  std::vector<const void*> in;
  std::vector<void*> out;
  if (p.device.shares_host_memory()) {
    for (const Tensor& t : bindings) in.push_back(t.data());
    for (Tensor& t : results) out.push_back(t.mutable_data());
    run(in, out);
    return results;
  }
  s.stage();
  for (size_t i = 0; i < bindings.size(); ++i) {
    in.push_back(s.staged_inputs[i].data());
    p.device.backend().check(p.device.abi().upload(s.stream, s.staged_inputs[i].data(),
                                                   bindings[i].data(), bindings[i].bytes()),
                             "upload");
  }
  for (const DeviceBuffer& b : s.staged_outputs) out.push_back(b.data());
  run(in, out);
  for (size_t k = 0; k < results.size(); ++k) {
    p.device.backend().check(
        p.device.abi().download(s.stream, results[k].mutable_data(), out[k], results[k].bytes()),
        "download");
  }
  s.wait("download");
  return results;
}

void Executor::reserve() {
  if (!state_->p.device.shares_host_memory()) state_->stage();
}

void Executor::set_profiling(bool on) { state_->profiling = on; }

std::vector<Executor::NodeTime> Executor::profile() const {
  std::vector<NodeTime> times;
  for (size_t i = 0; i < state_->p.steps.size(); ++i) {
    const Step& s = state_->p.steps[i];
    times.push_back({s.op, s.name, s.dtype, s.operations, state_->seconds[i]});
  }
  return times;
}

}  // namespace ndtrain
