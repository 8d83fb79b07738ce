// A decode worker or a model worker (decode_worker.h, model_worker.h) as its owner sees it: a
// process that is trusted with nothing, nor is what it answers.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "framework/core/descriptor.h"
#include "framework/core/status.h"
#include "ndp/photos/photo_decoder.h"
#include "ndp/sandbox/confinement.h"
#include "ndp/sandbox/worker_channel.h"

namespace ndtrain::ndp {

enum class WorkerTask : uint8_t { kDecode, kImport };

// How a worker came to its end.
enum class WorkerEnd : uint8_t {
  kNone,       // it lives
  kForbidden,  // it asked the kernel for what its task does not need
  kCrashed,
  kHung,    // it took longer than it may, and was killed
  kLied,    // it answered what no worker answers, and was killed
  kKilled,  // by others: the kernel, for lack of memory
};
inline constexpr std::array kWorkerEnds = {WorkerEnd::kForbidden, WorkerEnd::kCrashed,
                                           WorkerEnd::kHung, WorkerEnd::kLied, WorkerEnd::kKilled};
std::string_view name_of(WorkerEnd end);  // "forbidden", …

class WorkerProcess {
 public:
  struct Config {
    // Of a program that serves the task where it is called with kDecodeWorker or kModelWorker.
    std::string program = "/proc/self/exe";
    WorkerTask task = WorkerTask::kDecode;
    ConfinementLimits limits = {};
    // Of a photo or a model, and of the start.
    std::chrono::nanoseconds deadline = std::chrono::seconds(30);
  };
  // kIo: it cannot be started, or not be confined.
  static Result<std::unique_ptr<WorkerProcess>> start(const Config& config);
  ~WorkerProcess();  // kills it

  const Confinement& confinement() const { return confinement_; }
  int64_t photos() const { return photos_; }  // that it was given

  // PhotoDecoder::decode(), but nullopt where the worker came to its end by this photo. One thread
  // at a time.
  std::optional<Result<Image>> decode(const std::string& name, std::string_view file,
                                      const DecodeOptions& options, const Preprocess* crop,
                                      PhotoCost& cost);
  // Whether a model worker can import this file; nullopt as above.
  std::optional<Status> try_model(std::string_view file);
  // What a model worker makes of these by apply_delta(), which is not what it should be for
  // certain; nullopt as above.
  std::optional<Result<std::string>> apply(std::string_view base, std::string_view delta);
  WorkerEnd end() const { return end_; }
  // What became of it, for people: "it crashed (SIGSEGV)".
  const std::string& how() const { return how_; }

 private:
  WorkerProcess(const Config& config, int socket, std::byte* window, pid_t pid);
  static Result<std::unique_ptr<WorkerProcess>> spawn(const Config& config);
  Status begin();
  std::optional<WorkerRecord> ask(const WorkerRecord& record, std::string_view file,
                                  WorkerChannel::Time deadline);
  std::optional<Result<Image>> image_of(const WorkerRecord& answer, const Preprocess* crop,
                                        WorkerChannel::Time deadline, PhotoCost& cost);
  std::optional<Status> refusal_in(const WorkerRecord& answer);
  std::optional<std::string> text_of(const WorkerRecord& answer);
  void finish(WorkerChannel::Time deadline);  // it answered nothing, or nonsense
  void reap();

  const Config config_;
  const Descriptor socket_;
  std::byte* const window_;
  pid_t pid_;
  WorkerChannel channel_;
  Confinement confinement_;
  int64_t photos_ = 0;
  WorkerEnd end_ = WorkerEnd::kNone;
  std::string how_;
};

}  // namespace ndtrain::ndp
