// Decodes photos in processes of their own, which can do nothing else (confinement.h): what a photo
// does to its decoder ends there. A worker that crashes, hangs, or asks the kernel for what no
// decoder needs is replaced, and its photo is refused, once it has done so to a worker that had
// seen no other photo.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ndp/photos/photo_decoder.h"
#include "ndp/sandbox/worker_process.h"

namespace ndtrain::ndp {

// Bytes beyond the program's own, for the largest photo that limits.h lets in.
inline constexpr int64_t kDecodeMemory = int64_t{4} << 30;

class DecoderPool final : public PhotoDecoder {
 public:
  struct Config {
    WorkerProcess::Config worker = {.limits = {.memory = kDecodeMemory, .cpu_seconds = 3600}};
    size_t workers = 1;     // at most, begun when there are photos for them
    int64_t photos = 1024;  // that a worker sees before another takes its place
  };
  // Starts one worker, to see what holds it. Throws Error where it cannot be started.
  explicit DecoderPool(const Config& config);
  ~DecoderPool() override;

  // Waits for a worker where all are at work.
  Result<Image> decode(const std::string& name, std::string_view file, const DecodeOptions& options,
                       const Preprocess* crop, PhotoCost& cost) override;

  size_t workers() const { return config_.workers; }
  // What holds them, for people: "a filter of system calls, Landlock 7, 4.0 GiB of memory"; and
  // what does not on this machine.
  std::string held_by() const;
  std::string missing() const;

  struct Counts {
    int64_t photos = 0;
    size_t alive = 0;
    std::array<int64_t, kWorkerEnds.size() + 1> ended{};  // by WorkerEnd
  };
  Counts counts() const;

 private:
  using Worker = std::unique_ptr<WorkerProcess>;
  class Turn;  // a place among those at work

  Result<Worker> take(bool fresh);
  void give_back(Worker worker);
  void count(const WorkerProcess& ended);

  const Config config_;
  Confinement confinement_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable freed_;
  size_t at_work_ = 0;
  std::vector<Worker> idle_;
  Counts counts_;
};

}  // namespace ndtrain::ndp
