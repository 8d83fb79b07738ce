// Models that came from elsewhere are imported in a process of their own first, which can do
// nothing else (confinement.h): one for each model. A model by which that crashes, hangs, asks for
// memory without end, or asks the kernel for what no importer needs, is refused, and its owner does
// not import it. One that gets through is imported by its owner once more, from the same bytes.
// Deltas are applied there and nowhere else: what comes of one is the file that it names, by its
// SHA-256, or nothing.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "ndp/http/metrics.h"
#include "ndp/jobs/model_check.h"
#include "ndp/sandbox/worker_process.h"

namespace ndtrain::ndp {

class ModelSandbox final : public ModelCheck {
 public:
  struct Config {
    std::string program = "/proc/self/exe";  // see WorkerProcess::Config
    // Bytes of address space, beyond the program's own and beyond kMemoryOfByte for each of the
    // file's.
    int64_t memory = int64_t{4} << 30;
    int64_t cpu_seconds = 600;
    std::chrono::nanoseconds deadline = std::chrono::minutes(2);  // of a model
    bool filter = true, landlock = true;                          // see ConfinementLimits
  };
  static constexpr int64_t kMemoryOfByte = 4;
  static constexpr size_t kKnown = 1024;  // models of which the answer is remembered, at most

  // Starts a worker, to see what holds it, logs that, and warns of what does not. Throws Error
  // where it cannot be started.
  explicit ModelSandbox(const Config& config);

  // Remembers its answer to a file, unless the worker hung or was killed by others.
  Status check(const Digest& digest, std::string_view file) override;

  Result<std::string> apply(std::string_view base, std::string_view delta) override;

  std::string missing() const { return confinement_.lacks(); }  // on this machine

  struct Counts {
    int64_t models = 0, deltas = 0;                       // that were tried
    std::array<int64_t, kWorkerEnds.size() + 1> ended{};  // workers, by WorkerEnd
  };
  Counts counts() const;
  void add_metrics(MetricsText& to) const;

 private:
  WorkerProcess::Config worker_for(int64_t file_bytes) const;
  Status tried(const Digest& digest, std::string_view file);
  Status stopped(const WorkerProcess& worker, const std::string& what, const std::string& done);

  const Config config_;
  Confinement confinement_;
  mutable std::mutex mutex_;  // of all below
  std::map<Digest, Status> known_;
  Counts counts_;
};

}  // namespace ndtrain::ndp
