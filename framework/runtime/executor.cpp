#include "framework/runtime/executor.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>

#include "framework/core/log.h"
#include "framework/runtime/run_slot.h"
#include "framework/runtime/worker.h"

namespace ndtrain {
namespace {

using Time = std::chrono::steady_clock::time_point;

// Seconds from `start`, which becomes now.
double since(Time& start) {
  const Time now = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(now - std::exchange(start, now)).count();
}

}  // namespace

struct Executor::State {
  State(const Plan::Program& program, std::shared_ptr<WorkMemory> shared)
      : p(program),
        recordable(!shared),
        memory(shared ? std::move(shared) : std::make_shared<WorkMemory>(p.device)),
        seconds(p.steps.size()) {
    memory->reserve(p.memory.arena_bytes);
    on = &slot(0);
    for (int thread = 0; thread < p.tiling.threads; ++thread) workers.emplace_back(p, thread);
  }

  RunSlot& slot(size_t i) {
    while (slots.size() <= i) slots.push_back(std::make_unique<RunSlot>(p));
    return *slots[i];
  }

  void* address(const ValueLocation& at, size_t worker = 0, size_t tile = 0) const {
    void* const base = base_of(at, worker);
    return base ? static_cast<std::byte*>(base) + at.offset + tile * at.step : nullptr;
  }

  void* base_of(const ValueLocation& at, size_t worker) const {
    switch (at.kind) {
      case ValueLocation::Kind::kAbsent:
        return nullptr;
      case ValueLocation::Kind::kArena:
        return memory->arena() + at.at;
      case ValueLocation::Kind::kTileArena:
        return memory->arena() + p.memory.tile_arenas_at + worker * p.memory.tile_arena_bytes +
               at.at;
      case ValueLocation::Kind::kBinding:
        return const_cast<void*>(bindings[at.at]);
      case ValueLocation::Kind::kOutput:
        return outputs[at.at];
      case ValueLocation::Kind::kConstant:
        break;
    }
    const auto it = p.constants.find(at.at);
    return it == p.constants.end() ? nullptr : const_cast<void*>(it->second);
  }

  void run_step(const Step& s, Worker& w, ndt_stream* stream, size_t tile = 0) {
    for (size_t k = 0; k < s.inputs.size(); ++k) {
      w.inputs[k] = address(s.inputs[k], w.number, tile);
    }
    for (size_t k = 0; k < s.outputs.size(); ++k) {
      w.outputs[k] = address(s.outputs[k], w.number, tile);
    }
    if (const ReferenceKernel* r = s.kernel.reference()) return r->run(w.inputs, w.outputs);
    const Device& d = s.kernel.device();
    std::byte* const scratch =
        memory->arena() + s.workspace_at + w.number * p.memory.tile_workspace;
    const ndt_status status = d.abi().run(s.kernel.get(), &d == &p.device ? stream : w.fallback,
                                          w.inputs.data(), w.outputs.data(), scratch);
    if (status != NDT_OK) d.backend().check(status, s.op + " computing '" + s.name + "'");
  }

  // Each tile of the batch through all nodes of the tiling, a few tiles at once.
  void run_tiled() {
    std::atomic<size_t> next{0};
    const auto tiles = static_cast<size_t>(p.tiling.tiles);
    const auto work = [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        Worker& w = workers[i];
        std::ranges::fill(w.seconds, 0);
        for (size_t tile; (tile = next.fetch_add(1)) < tiles;) run_tile(w, tile);
      }
    };
    shared_threads().parallel_for(p.tiling.threads, 1, std::ref(work));
  }

  void run_tile(Worker& w, size_t tile) {
    auto start = profiling ? std::chrono::steady_clock::now() : Time{};
    for (size_t i = 0; i < p.tiled_steps; ++i) {
      run_step(p.steps[i], w, w.stream, tile);
      if (profiling) w.seconds[i] += since(start);
    }
  }

  // All steps in their order, `watch` standing between them; those of a tiling are one for it.
  template <typename W>
  void run_steps(W& watch) {
    for (size_t i = 0; i < p.tiled_steps; ++i) watch.before(i);
    if (p.tiled_steps > 0) run_tiled();
    for (size_t i = 0; i < p.steps.size(); ++i) {
      if (i >= p.tiled_steps) {
        watch.before(i);
        run_step(p.steps[i], workers[0], on->stream());
      }
      watch.after(i);
    }
    watch.before_copies();
  }

  struct NobodyWatches {
    void before(size_t) {}
    void after(size_t) {}
    void before_copies() {}
  };

  // Calls hooks, and takes the steps' times: those of waits in hooks are not among them.
  class Watch {
   public:
    Watch(State& s, const Hooks& hooks) : s_(s), hooks_(hooks) {}

    void before(size_t i) { need(s_.p.steps[i].needs); }
    void after(size_t i) {
      if (s_.profiling) {
        s_.on->wait("run");
        const double seconds = since(start_);
        s_.seconds[i] = i < s_.p.tiled_steps ? s_.seconds_in_tiles(i) : seconds;
      }
      tell_ready(s_.p.steps[i].completes);
    }
    void before_copies() { need(std::span(s_.p.need_order).subspan(s_.p.needed_by_steps)); }
    void after_copies() { tell_ready(std::span(s_.p.ready_order).subspan(s_.p.ready_by_steps)); }

   private:
    void need(std::span<const int> bindings) {
      if (hooks_.before) {
        for (const int k : bindings) hooks_.before(k, s_.on->stream());
      }
      if (s_.profiling) start_ = std::chrono::steady_clock::now();
    }
    void tell_ready(std::span<const int> outputs) {
      if (!hooks_.ready) return;
      for (const int k : outputs) hooks_.ready(k, s_.on->stream());
    }

    State& s_;
    const Hooks& hooks_;
    Time start_;
  };

  // Of the last run, the threads' mean.
  double seconds_in_tiles(size_t step) const {
    double sum = 0;
    for (const Worker& w : workers) sum += w.seconds[step];
    return sum / static_cast<double>(workers.size());
  }

  // Queues the steps, as they were recorded where they were. Then what is left to copy.
  void queue() {
    if (const ndt_kernel* whole = recording()) {
      p.device.backend().check(p.device.abi().run(whole, on->stream(), nullptr, nullptr, nullptr),
                               "run");
    } else {
      NobodyWatches nobody;
      run_steps(nobody);
    }
    copy_outputs();
  }

  // The same, one by one.
  void queue(const Hooks& hooks) {
    Watch watch(*this, hooks);
    run_steps(watch);
    copy_outputs();
    watch.after_copies();
  }

  void copy_outputs() {
    for (int k : p.memory.copied_outputs) {
      const auto i = static_cast<size_t>(k);
      const size_t bytes = p.types[index(p.outputs[i])].bytes();
      const void* from = address(p.output_locations[i]);
      if (bytes == 0 || from == outputs[i]) continue;
      p.device.backend().check(p.device.abi().download(on->stream(), outputs[i], from, bytes),
                               "copy an output");
    }
  }

  // The steps as one kernel; null when they go one by one.
  const ndt_kernel* recording() {
    const ndt_backend& abi = p.device.abi();
    if (!abi.capture_begin || !abi.capture_end || p.steps.empty() || !recordable) return nullptr;
    const bool again = on->again(bindings, outputs);
    if (again && !on->recorded().get()) record(abi);
    return on->recorded().get();
  }

  void record(const ndt_backend& abi) {
    const std::string why = refusal_to_record(abi);
    if (why.empty()) return;
    recordable = false;
    log::info("{}: steps go one by one, since they cannot be recorded: {}",
              p.device.backend().name(), why);
  }

  // Empty when it is recorded. What fails while recording may do well without: it is run again.
  std::string refusal_to_record(const ndt_backend& abi) {
    if (abi.capture_begin(on->stream()) != NDT_OK) return abi.last_error();
    std::string why;
    try {
      NobodyWatches nobody;
      run_steps(nobody);
    } catch (const Error& e) {
      why = e.what();
    }
    ndt_kernel* graph = nullptr;
    const ndt_status ended = abi.capture_end(on->stream(), &graph);  // also of a failed one
    PreparedKernel recorded(p.device, graph);
    if (ended != NDT_OK && why.empty()) why = abi.last_error();
    if (why.empty()) on->recorded() = std::move(recorded);
    return why;
  }

  void use(RunSlot& l, std::span<const void* const> in, std::span<void* const> out) {
    on = &l;
    bindings = in;
    outputs = out;
  }

  size_t start(std::span<const Tensor> given) {
    size_t free = 0;
    while (free < slots.size() && slots[free]->busy()) ++free;
    RunSlot& l = slot(free);
    l.stage();
    try {
      l.upload(given);
      for (const auto& other : slots) {
        if (other.get() != &l && other->busy()) l.follow(*other);
      }
      use(l, l.inputs(), l.outputs());
      queue();
      l.mark();
      l.download();
    } catch (const Error&) {
      if (l.busy()) drop(l);
      throw;
    }
    return free;
  }

  // What went wrong first is told, not what this meets.
  static void drop(RunSlot& l) {
    try {
      l.finish();
    } catch (const Error&) {
    }
  }

  const Plan::Program& p;
  bool recordable;
  const std::shared_ptr<WorkMemory> memory;
  std::deque<Worker> workers;  // by thread of the tiling; the first for other steps too
  std::vector<std::unique_ptr<RunSlot>> slots;  // the first for runs that are waited for
  size_t most_slots = SIZE_MAX;                 // for which there was memory
  RunSlot* on = nullptr;                        // of the run that is queued
  std::span<const void* const> bindings;
  std::span<void* const> outputs;
  bool profiling = false;
  std::vector<double> seconds;
};

namespace {

void check_count(const Plan::Program& p, size_t given) {
  if (given == p.bindings.size()) return;
  throw Error("plan: takes ", p.bindings.size(), " tensors, was given ", given);
}

}  // namespace

Executor::Executor(const Plan& plan, std::shared_ptr<WorkMemory> shared)
    : state_(std::make_unique<State>(*plan.program_, std::move(shared))) {}
Executor::~Executor() = default;

void Executor::run(std::span<const void* const> bindings, std::span<void* const> outputs,
                   const Hooks& hooks) {
  State& s = *state_;
  const Plan::Program& p = s.p;
  if (bindings.size() != p.bindings.size() || outputs.size() != p.outputs.size()) {
    throw Error("plan: takes ", p.bindings.size(), " bindings and ", p.outputs.size(),
                " outputs, was given ", bindings.size(), " and ", outputs.size());
  }
  if (std::ranges::any_of(s.slots, [](const auto& l) { return l->busy(); })) {
    throw Error("plan: a run that was started is not finished");
  }
  s.use(*s.slots[0], bindings, outputs);
  try {
    if (s.profiling || hooks) {
      s.queue(hooks);
    } else {
      s.queue();
    }
  } catch (...) {
    (void)p.device.abi().stream_wait(s.on->stream());  // it may use what the caller then lets go of
    throw;
  }
  s.on->wait("run");
}

std::vector<Tensor> Executor::run(std::span<const Tensor> bindings) {
  const Plan::Program& p = state_->p;
  std::vector<Tensor> results;
  for (ValueId v : p.outputs) results.emplace_back(p.types[index(v)]);
  if (!p.device.shares_host_memory()) {
    const std::span<const Tensor> got = finish(start(bindings));
    for (size_t k = 0; k < results.size(); ++k) {
      std::memcpy(results[k].mutable_data(), got[k].data(), got[k].bytes());
    }
    return results;
  }
  check_count(p, bindings.size());
  for (size_t i = 0; i < bindings.size(); ++i) {
    if (bindings[i].type() == p.types[index(p.bindings[i])]) continue;
    throw Error("plan: binding ", i, " is ", p.types[index(p.bindings[i])], ", was given ",
                bindings[i].type());
  }
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const Tensor& t : bindings) in.push_back(t.data());
  for (Tensor& t : results) out.push_back(t.mutable_data());
  run(in, out);
  return results;
}

size_t Executor::start(std::span<const Tensor> bindings) {
  if (state_->p.device.shares_host_memory()) {
    throw Error("plan: on a device that shares the host's memory a run is not started, but run");
  }
  check_count(state_->p, bindings.size());
  return state_->start(bindings);
}

std::span<const Tensor> Executor::finish(size_t started) {
  RunSlot& slot = *state_->slots.at(started);
  if (!slot.busy()) throw Error("plan: run ", started, " was not started, or is finished");
  slot.finish();
  return slot.results();
}

size_t Executor::reserve(size_t at_once) {
  State& s = *state_;
  if (s.p.device.shares_host_memory()) return 0;
  if (!s.p.device.abi().event_create) at_once = 1;
  for (size_t i = 0; i < std::min(at_once, s.most_slots); ++i) {
    try {
      s.slot(i).stage();
    } catch (const OutOfMemory& e) {
      if (i == 0) throw;
      log::info("no memory for a run to begin while another computes: {}", e.what());
      s.most_slots = i;
    }
  }
  return std::min(at_once, s.most_slots);
}

void Executor::set_profiling(bool on) { state_->profiling = on; }

std::vector<Executor::NodeTime> Executor::profile() const {
  std::vector<NodeTime> times;
  for (size_t i = 0; i < state_->p.steps.size(); ++i) {
    const Step& s = state_->p.steps[i];
    times.push_back(
        {s.op, s.name, s.dtype, s.operations, state_->seconds[i], s.makes, s.workspace});
  }
  return times;
}

}  // namespace ndtrain
