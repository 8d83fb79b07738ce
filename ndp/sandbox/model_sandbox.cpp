#include "ndp/sandbox/model_sandbox.h"

#include <memory>
#include <optional>

#include "framework/core/log.h"
#include "ndp/deltas/delta.h"

namespace ndtrain::ndp {
namespace {

// Whether it would be the same another time, on a machine that is less busy.
bool is_of_the_model(WorkerEnd end) { return end != WorkerEnd::kKilled && end != WorkerEnd::kHung; }

}  // namespace

ModelSandbox::ModelSandbox(const Config& config) : config_(config) {
  const WorkerProcess::Config worker = worker_for(0);
  confinement_ = WorkerProcess::start(worker).or_throw()->confinement();
  log::info("models from elsewhere are imported in a sandbox first: {}",
            confinement_.held_by(worker.limits));
  if (const std::string lacks = missing(); !lacks.empty()) {
    log::warn(
        "the sandbox in which models are imported lacks on this machine: {}; what a model may do "
        "to its importer is held by the rest (docs/security.md)",
        lacks);
  }
}

WorkerProcess::Config ModelSandbox::worker_for(int64_t file_bytes) const {
  return {.program = config_.program,
          .task = WorkerTask::kImport,
          .limits = {.memory = config_.memory + kMemoryOfByte * file_bytes,
                     .cpu_seconds = config_.cpu_seconds,
                     .filter = config_.filter,
                     .landlock = config_.landlock},
          .deadline = config_.deadline};
}

Status ModelSandbox::check(const Digest& digest, std::string_view file) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(digest); known != known_.end()) return known->second;
    ++counts_.models;
  }
  return tried(digest, file);
}

Status ModelSandbox::tried(const Digest& digest, std::string_view file) {
  Result<std::unique_ptr<WorkerProcess>> started =
      WorkerProcess::start(worker_for(static_cast<int64_t>(file.size())));
  if (!started.ok()) return started.status();
  WorkerProcess& worker = **started;
  std::optional<Status> answer = worker.try_model(file);
  const std::lock_guard lock(mutex_);
  if (!answer) {
    answer = stopped(worker, "model " + to_hex(digest).substr(0, 12), "imported");
    if (!is_of_the_model(worker.end())) return *answer;
  }
  if (known_.size() >= kKnown) known_.clear();
  known_[digest] = *answer;
  return *answer;
}

// Under mutex_.
Status ModelSandbox::stopped(const WorkerProcess& worker, const std::string& what,
                             const std::string& done) {
  ++counts_.ended[static_cast<size_t>(worker.end())];
  log::warn("{}: its importer was stopped: {}", what, worker.how());
  const Code code = worker.end() == WorkerEnd::kKilled ? Code::kIo : Code::kCorrupt;
  return {code, "it is not " + done + ": a process that tried was stopped: " + worker.how()};
}

Result<std::string> ModelSandbox::apply(std::string_view base, std::string_view delta) {
  const Result<DeltaEnds> ends = delta_ends(delta);
  if (!ends.ok()) return ends.status();
  if (sha256(base) != ends->base) return Status(Code::kNotFound, "it is a delta from another file");
  Result<std::unique_ptr<WorkerProcess>> started =
      WorkerProcess::start(worker_for(static_cast<int64_t>(base.size() + delta.size())));
  if (!started.ok()) return started.status();
  std::optional<Result<std::string>> made = (*started)->apply(base, delta);
  const std::lock_guard lock(mutex_);
  ++counts_.deltas;
  const std::string result = to_hex(ends->result).substr(0, 12);
  if (!made) return stopped(**started, "a delta to model " + result, "applied");
  if (!made->ok() || sha256(**made) == ends->result) return *std::move(made);
  return Status(Code::kCorrupt, "what was made of it is not model " + result);
}

ModelSandbox::Counts ModelSandbox::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void ModelSandbox::add_metrics(MetricsText& to) const {
  const Counts now = counts();
  to.counter("ndtrain_sandbox_models_total", "Models that were tried in the sandbox", {},
             static_cast<double>(now.models));
  to.counter("ndtrain_sandbox_deltas_total", "Deltas between models that were applied there", {},
             static_cast<double>(now.deltas));
  for (const WorkerEnd end : kWorkerEnds) {
    to.counter("ndtrain_sandbox_models_stopped_total",
               "Processes of the sandbox that a model or a delta ended",
               {{"why", std::string(name_of(end))}},
               static_cast<double>(now.ended[static_cast<size_t>(end)]));
  }
}

}  // namespace ndtrain::ndp
