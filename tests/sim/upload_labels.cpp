#include "tests/sim/upload_labels.h"

#include <algorithm>
#include <set>

#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "tests/sim/labelling.h"

namespace ndtrain::sim {
using namespace ndp;

void UploadLabels::put_in_force(const VersionsInForce& versions) {
  versions_ = versions;
  std::erase_if(versions_, [](const auto& of_task) { return of_task.second.version == 0; });
  std::set<std::string, std::less<>> tasks;
  for (const auto& [task, version] : versions_) tasks.insert(task);
  if (tasks.empty()) tasks.emplace(kDefaultTask);
  log_.label_in(std::move(tasks));
  due_ = true;
}

wire::Upload UploadLabels::line_of(const Digest& photo) const {
  wire::Upload line;
  line.set_digest(bytes_of(photo));
  line.set_path("uploads/" + to_hex(photo));
  line.set_time(std::clamp<int64_t>(clock_.unix_seconds(), 0, wire::kLatestTime));
  return line;
}

wire::Upload UploadLabels::labelled(const Digest& photo, const std::string& task,
                                    const VersionInForce& version) const {
  wire::Upload line = line_of(photo);
  if (task != kDefaultTask && bug_ != Bug::kTaskUnsaid) line.set_task(task);
  line.set_version(version.version);
  line.set_extractor(bytes_of(version.extractor.value()));
  if (version.head) line.set_head(bytes_of(*version.head));
  wire::TopClass& top = *line.add_top();
  top.set_name(class_name(
      task, labelled_class(photo, version.head ? *version.head : version.extractor.value())));
  top.set_score(0.5F);
  return line;
}

bool UploadLabels::take(const Digest& photo) {
  if (log_.feedback(photo).removed) return false;
  std::vector<wire::Upload> lines;
  for (const auto& [task, version] : versions_) lines.push_back(labelled(photo, task, version));
  if (lines.empty()) lines.push_back(line_of(photo));
  const bool restores = trash_.has(photo);
  lines.front().set_restores(restores ? trash_.revision() : 0);
  if (!log_.commit(std::move(lines)).ok()) return false;
  return !restores || trash_.restore(photo).ok();
}

std::optional<int64_t> UploadLabels::say(const Digest& photo, const std::string& task,
                                         const std::string& class_name) {
  const auto known = log_.find(photo, task);
  if (!log_.find(photo) || log_.feedback(photo).removed || trash_.has(photo)) return std::nullopt;
  wire::Upload line = line_of(photo);
  line.set_truth(class_name);
  if (task != kDefaultTask && bug_ != Bug::kTaskUnsaid) line.set_task(task);
  if (known && !known->truth.empty()) {
    line.set_time(std::min(std::max(line.time(), known->said + 1), wire::kLatestTime));
  }
  const int64_t time = line.time();
  return log_.commit({line}).ok() ? std::optional(time) : std::nullopt;
}

bool UploadLabels::waits(const Digest& photo, const std::string& task) const {
  if (trash_.has(photo)) return false;
  const std::vector<std::string> tasks = log_.tasks_of(photo);
  return bug_ != Bug::kOneTaskAnswersForAll || std::ranges::none_of(tasks, [&](const auto& other) {
           const auto known = log_.find(photo, other);
           return other != task && known && known->version > 0;
         });
}

void UploadLabels::label_waiting() {
  constexpr size_t kAtOnce = 4;
  due_ = false;
  for (const auto& [task, version] : versions_) {
    std::vector<wire::Upload> lines;
    for (const Digest& photo : log_.unlabelled(std::nullopt, UINT32_MAX, task)) {
      if (!waits(photo, task)) continue;
      if (lines.size() == kAtOnce) break;
      lines.push_back(labelled(photo, task, version));
    }
    if (lines.empty()) continue;
    due_ = true;
    (void)log_.commit(std::move(lines)).ok();  // a full disk is tried again
  }
}

}  // namespace ndtrain::sim
