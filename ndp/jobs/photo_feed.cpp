#include "ndp/jobs/photo_feed.h"

#include <utility>

#include "framework/core/log.h"
#include "framework/runtime/backend.h"

namespace ndtrain::ndp {
namespace {

constexpr std::chrono::milliseconds kFeedGlance{200};  // at whether to stop

}  // namespace

PhotoFeed::PhotoFeed(PhotoSource& source, Catalogue& catalogue, std::chrono::nanoseconds again)
    : source_(source), catalogue_(catalogue), again_(again), thread_([this] { run(); }) {}

PhotoFeed::~PhotoFeed() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
}

void PhotoFeed::run() {
  std::exception_ptr failure;
  try {
    report_ = scan().or_throw();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  failure_ = failure;
  over_ = true;
  changed_.notify_all();
}

// From the beginning, where the source was away: what was read before is known by then.
Result<ScanReport> PhotoFeed::scan() {
  ScanOptions options;
  options.far = true;
  options.on_read = [this](std::vector<PhotoRead> part) { return give(std::move(part)); };
  while (true) {
    Result<ScanReport> report = catalogue_.scan(source_, shared_threads(), options);
    if (report.status().code() != Code::kUnavailable) {
      if (report.ok()) there();
      return report;
    }
    if (!std::exchange(away_, true)) {
      log::warn("labelling waits for photos: {}", report.status().message());
    }
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, again_, [&] { return ending_; })) return report;
  }
}

void PhotoFeed::there() {
  if (std::exchange(away_, false)) log::info("the photos can be read again");
}

bool PhotoFeed::give(std::vector<PhotoRead> part) {
  there();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ending_ || !part_; });
  if (ending_) return false;
  part_ = std::move(part);
  changed_.notify_all();
  return true;
}

std::optional<std::vector<PhotoRead>> PhotoFeed::next(const std::function<bool()>& stop) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kFeedGlance, [&] { return part_ || over_; })) {
    if (stop()) return std::nullopt;
  }
  if (part_) {
    changed_.notify_all();
    return std::exchange(part_, std::nullopt);
  }
  if (failure_) std::rethrow_exception(failure_);
  return std::nullopt;
}

}  // namespace ndtrain::ndp
