#include "ndp/sandbox/model_sandbox.h"

#include <memory>
#include <optional>

#include "framework/core/log.h"

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
    ++counts_.ended[static_cast<size_t>(worker.end())];
    log::warn("model {}: its importer was stopped: {}", to_hex(digest).substr(0, 12), worker.how());
    const Code code = worker.end() == WorkerEnd::kKilled ? Code::kIo : Code::kCorrupt;
    answer.emplace(code, "it is not imported: a process that tried was stopped: " + worker.how());
    if (!is_of_the_model(worker.end())) return *answer;
  }
  if (known_.size() >= kKnown) known_.clear();
  known_[digest] = *answer;
  return *answer;
}

ModelSandbox::Counts ModelSandbox::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void ModelSandbox::add_metrics(MetricsText& to) const {
  const Counts now = counts();
  to.counter("ndtrain_sandbox_models_total", "Models that were tried in the sandbox", {},
             static_cast<double>(now.models));
  for (const WorkerEnd end : kWorkerEnds) {
    to.counter("ndtrain_sandbox_models_stopped_total",
               "Processes of the sandbox that a model ended", {{"why", std::string(name_of(end))}},
               static_cast<double>(now.ended[static_cast<size_t>(end)]));
  }
}

}  // namespace ndtrain::ndp
