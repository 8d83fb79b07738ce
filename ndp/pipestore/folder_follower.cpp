#include "ndp/pipestore/folder_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "framework/core/log.h"

namespace ndtrain::ndp {
namespace {

constexpr FolderFollower::Time kAgain = std::chrono::seconds(10);  // after a look that failed
constexpr int64_t kCountsShare = 10;  // counting takes no more of the time than one in so many
constexpr FolderFollower::Time kLongest = std::chrono::hours(1);

}  // namespace

FolderFollower::FolderFollower(Ports ports, Options options)
    : ports_(std::move(ports)), options_(options), all_due_(ports_.clock.monotonic()) {}

void FolderFollower::changed(const DirectoryChanges& changes) {
  const Time now = ports_.clock.monotonic();
  if (changes.all) all_due_ = std::min(all_due_, now + options_.quiet);
  const auto hear = [&](const std::string& path, bool file) {
    const auto [it, fresh] = heard_.try_emplace(path, Heard{.first = now, .last = now});
    it->second.last = now;
    it->second.file = file;
  };
  for (const std::string& path : changes.files) hear(path, true);
  for (const std::string& path : changes.places) hear(path, false);
  if (changes.files.empty() && changes.places.empty()) return;
  first_ = std::min(first_, now);
  last_ = now;
}

FolderFollower::Time FolderFollower::due() const {
  if (heard_.empty()) return all_due_;
  return std::min(all_due_, std::min(last_ + options_.quiet, first_ + options_.patience));
}

FolderFollower::Time FolderFollower::next() const {
  return std::min(std::max(due(), not_before_), count_due_);
}

// What has been quiet; where all is looked at, that and what was finished.
DirectoryChanges FolderFollower::take(Time now) {
  DirectoryChanges changes{.files = {}, .places = {}, .all = now >= all_due_};
  first_ = Time::max();
  last_ = Time(0);
  for (auto it = heard_.begin(); it != heard_.end();) {
    const Heard& h = it->second;
    if (now < h.last + options_.quiet) {
      first_ = std::min(first_, std::max(h.first, now - options_.patience + options_.quiet));
      last_ = std::max(last_, h.last);
      ++it;
      continue;
    }
    (h.file ? changes.files : changes.places).insert(it->first);
    it = heard_.erase(it);
  }
  return changes;
}

void FolderFollower::tick() {
  const Time now = ports_.clock.monotonic();
  if (count_wanted_.exchange(false)) count_due_ = std::max(now, not_before_count_);
  if (now >= count_due_) count(now);
  if (now < std::max(due(), not_before_)) return;
  const DirectoryChanges changes = take(now);
  if (changes.empty()) return;
  Result<FolderLook> look = Status(Code::kIo, "a look at the photo directory was broken off");
  try {
    look = ports_.look(changes);
  } catch (const std::exception& e) {
    look = Status(Code::kIo, e.what());
  }
  const Time end = ports_.clock.monotonic();
  if (look.ok()) {
    if (changes.all) {
      all_due_ = options_.rescan > Time(0) ? end + options_.rescan : Time::max();
    }
    return looked(*look, end);
  }
  if (look.status().code() == Code::kCancelled) return;
  changed(changes);
  not_before_ = end + kAgain;
  const std::string why = look.status().message();
  if (std::exchange(failed_, why) != why) log::warn("new photos wait: {}", why);
}

void FolderFollower::count(Time now) {
  count_due_ = Time::max();
  if (!ports_.count) return;
  try {
    ports_.count();
  } catch (const std::exception& e) {
    log::warn("photos are not counted: {}", e.what());
  }
  const Time end = ports_.clock.monotonic();
  not_before_count_ = end + kCountsShare * (end - now);
}

void FolderFollower::looked(const FolderLook& look, Time now) {
  failed_.clear();
  not_before_ = Time(0);
  since_said_.found += look.found;
  since_said_.moved += look.moved;
  since_said_.gone += look.gone;
  since_said_.unreadable += look.unreadable;
  if (look.changed) count_due_ = std::max(now, not_before_count_);
  for (const std::string& path : look.unfinished) {
    heard_[path] = {.first = now, .last = now + options_.patience, .file = false};
    first_ = std::min(first_, now + options_.patience);
    last_ = now + options_.patience;
  }
  if (heard_.empty()) say();
}

// A line for all that came together.
void FolderFollower::say() {
  const FolderLook all = std::exchange(since_said_, {});
  std::string text;
  const auto add = [&](int64_t n, const char* what) {
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, what);
  };
  add(all.found, "new, to be labelled");
  add(all.moved, "moved");
  add(all.gone, "gone");
  add(all.unreadable, "that cannot be read");
  if (!text.empty()) log::info("photos in the folder: {}", text);
}

FolderThread::FolderThread(std::unique_ptr<DirectoryWatch> watch, FolderFollower& follower,
                           Clock& clock, std::atomic<bool>& stopping)
    : watch_(std::move(watch)),
      follower_(follower),
      clock_(clock),
      stopping_(stopping),
      thread_([this] { run(); }) {}

FolderThread::~FolderThread() {
  stopping_ = true;
  watch_->wake();
}

void FolderThread::count_soon() {
  follower_.count_soon();
  watch_->wake();
}

void FolderThread::run() {
  std::string missed;
  while (!stopping_) {
    const auto wait = std::clamp<FolderFollower::Time>(follower_.next() - clock_.monotonic(),
                                                       FolderFollower::Time(0), kLongest);
    follower_.changed(watch_->wait(wait));
    const std::string why = watch_->complete().message();
    if (std::exchange(missed, why) != why && !why.empty()) {
      log::warn("not all new photos are heard of, until the next look at all: {}", why);
    }
    if (!stopping_) follower_.tick();
  }
}

}  // namespace ndtrain::ndp
