#include "tuner/service/task_removal.h"

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "ndp/labels/label_db.h"
#include "tuner/service/service_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

std::string TaskRemoval::objection(const std::string& task) const {
  if (task == kDefaultTask) {
    return "the task default cannot be taken away: it is meant wherever none is named, and what "
           "photos' folders say is of it; ndtrain labels undo withdraws a version's labels";
  }
  for (const auto& [id, job] : ports_.records.all()) {
    if (!job.open() || job.spec.task != task) continue;
    return "job " + std::to_string(id) + " is of the task " + task + " and " +
           std::string(name_of(job.state)) + "; wait for it, or ndtrain job cancel " +
           std::to_string(id);
  }
  return "";
}

void TaskRemoval::remove(const std::string& task) {
  if (const std::string why = objection(task); !why.empty()) throw Error(why);
  const Status s = ports_.versions.remove_task(task, ports_.clock.unix_seconds());
  if (!s.ok()) {
    throw Error("the task ", task, " is as before: ", s.message(),
                "; make room on the Tuner's volume and say it again");
  }
  log::info("the task {} is taken away", task);
  again_ = Time(0);
  ports_.removed();
  pump();
}

void TaskRemoval::pump() {
  if (working_ || stopping_ || ports_.clock.monotonic() < again_) return;
  again_ = Time::max();
  if (!ports_.uploads) return;
  for (const auto& [task, removed] : ports_.versions.removed_tasks()) {
    if (!removed.labels) continue;
    working_ = true;
    return ports_.lanes.start(kUploadLane, [this, task = task]() -> Continuation {
      const Status s = ports_.uploads->remove_task(task);
      return [this, task, s] {
        working_ = false;
        const Status done = s.ok() ? ports_.versions.labels_are_gone(task) : s;
        if (!done.ok()) {
          log::warn("the labels of the task {}, which was taken away, are still there: {}", task,
                    done.message());
        }
        again_ = done.ok() ? Time(0) : ports_.clock.monotonic() + kRetry;
        pump();
      };
    });
  }
}

}  // namespace ndtrain::tuner
