#include "tuner/jobs/job_progress.h"

#include <fmt/format.h>

#include <utility>

namespace ndtrain::tuner {

void JobProgress::begin(const std::string& stage, int64_t total, const std::string& unit) {
  const std::lock_guard lock(mutex_);
  stage_ = stage;
  unit_ = unit;
  note_.clear();
  done_ = 0;
  total_ = total;
}

void JobProgress::update(int64_t done, const std::string& note) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  note_ = note;
}

void JobProgress::end() {
  const std::lock_guard lock(mutex_);
  if (!stage_.empty() && !note_.empty()) lines_.push_back(stage_ + ": " + note_);
  stage_.clear();
}

void JobProgress::say(const std::string& line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(line);
}

std::vector<std::string> JobProgress::take_lines() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

std::string JobProgress::now() const {
  const std::lock_guard lock(mutex_);
  if (stage_.empty()) return "";
  return fmt::format("{}: {} of {} {}", stage_, done_, total_, unit_);
}

}  // namespace ndtrain::tuner
