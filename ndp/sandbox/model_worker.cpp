#include "ndp/sandbox/model_worker.h"

#include <new>
#include <optional>
#include <span>

#include "framework/core/hash.h"
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

Result<std::string> applied_delta(const ModelTasks& tasks, std::string_view base,
                                  std::string_view delta) {
  try {
    return tasks.applier(base, delta);
  } catch (const std::bad_alloc&) {
    return Status(Code::kTooLarge, "applying it takes more memory than a model worker may have");
  } catch (const Error& e) {
    return Status(Code::kCorrupt, e.what());
  }
}

// False: the other end is gone, or says what no owner says.
bool serve_delta(WorkerChannel& channel, const ModelTasks& tasks, const WorkerRecord& delta) {
  std::string both;
  const std::optional<std::string_view> bytes = received(channel, delta, both);
  if (!bytes || delta.base > bytes->size()) return false;
  if (both.empty()) both = *bytes;  // the window is the answer's, too
  const std::string_view all = both;
  const Result<std::string> made =
      applied_delta(tasks, all.substr(0, delta.base), all.substr(delta.base));
  if (!made.ok()) return refuse(channel, made.status());
  return channel.send_all({.kind = WorkerRecord::kFile}, std::as_bytes(std::span(*made)), {});
}

bool serve_next(WorkerChannel& channel, const ModelTasks& tasks, const WorkerRecord& next) {
  if (next.kind == WorkerRecord::kModel) return serve_model(channel, tasks.importer, next);
  return next.kind == WorkerRecord::kDelta && serve_delta(channel, tasks, next);
}

}  // namespace

int serve_importing(const ModelTasks& tasks) {
  // What looks at the machine does so before it is confined: it could not later.
  std::optional<WorkerChannel> channel = begin_work(kModelWorker, [] {
    (void)usable_memory();
    (void)sha256("");  // its library reads its settings the first time
  });
  if (!channel) return kWorkerFailed;
  while (const std::optional<WorkerRecord> next = channel->receive()) {
    if (!serve_next(*channel, tasks, *next)) return kWorkerFailed;
  }
  return kWorkerDone;
}

}  // namespace ndtrain::ndp
