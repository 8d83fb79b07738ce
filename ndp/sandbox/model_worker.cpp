#include "ndp/sandbox/model_worker.h"

#include <new>
#include <optional>

#include "framework/core/memory.h"
#include "ndp/sandbox/worker_start.h"

namespace ndtrain::ndp {
namespace {

Status imported(const std::function<void(std::string)>& importer, std::string file) {
  try {
    importer(std::move(file));
    return {};
  } catch (const std::bad_alloc&) {
    return {Code::kTooLarge, "importing it takes more memory than a model worker may have"};
  } catch (const Error& e) {
    return {Code::kCorrupt, e.what()};
  }
}

// False: the other end is gone.
bool serve_model(WorkerChannel& channel, const std::function<void(std::string)>& importer,
                 const WorkerRecord& model) {
  std::string file;
  const std::optional<std::string_view> bytes = received(channel, model, file);
  if (!bytes) return false;
  if (file.empty()) file = *bytes;
  const Status status = imported(importer, std::move(file));
  if (!status.ok()) return refuse(channel, status);
  return channel.send({.kind = WorkerRecord::kImported});
}

}  // namespace

int serve_importing(const std::function<void(std::string file)>& importer) {
  // What looks at the machine does so before it is confined: it could not later.
  std::optional<WorkerChannel> channel = begin_work(kModelWorker, [] { (void)usable_memory(); });
  if (!channel) return kWorkerFailed;
  while (const std::optional<WorkerRecord> next = channel->receive()) {
    if (next->kind != WorkerRecord::kModel || !serve_model(*channel, importer, *next))
      return kWorkerFailed;
  }
  return kWorkerDone;
}

}  // namespace ndtrain::ndp
