#include "tuner/state_scrub.h"

#include <algorithm>
#include <condition_variable>
#include <stop_token>

#include "framework/core/file_digest.h"
#include "framework/core/log.h"
#include "ndp/labels/label_counts_check.h"
#include "ndp/sqlite/database_check.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int64_t kLookedAtFirst = int64_t{1} << 30;  // bytes, which take a second or two
constexpr std::chrono::milliseconds kBetweenModels{100};
constexpr const char* kPutBack = "put back a backup of it";

// Until the time is over, or `stop` is requested.
void wait(StateScrub::Time time, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any woken;
  std::unique_lock lock(mutex);
  woken.wait_for(lock, stop, time, [] { return false; });
}

// Called as its SHA-256, with an extension.
Status check_model(Fs& fs, const std::string& path) {
  const Result<Digest> is = sha256_of_file(fs, path);
  if (!is.ok()) return is.status();
  if (name_of_path(path).starts_with(to_hex(*is))) return {};
  return {Code::kCorrupt, path + ": its bytes are others than those that it is called after"};
}

}  // namespace

StateScrub::StateScrub(Setting setting, Fs& fs, Clock& clock)
    : setting_(std::move(setting)), fs_(fs), clock_(clock) {
  const Result<FileInfo> labels = fs_.info(setting_.labels);
  if (!setting_.labels.empty() && labels.ok() && labels->size <= kLookedAtFirst) {
    found(setting_.labels, sql::check_database(setting_.labels, sql::DatabaseCheck::kPages),
          kPutBack);
  }
  if (setting_.period.count() == 0) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

StateScrub::Counts StateScrub::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void StateScrub::run(const std::stop_token& stop) {
  for (wait(setting_.first, stop); !stop.stop_requested(); wait(setting_.period, stop)) {
    const Time begun = clock_.monotonic();
    look_at_all(stop);
    if (stop.stop_requested()) return;
    const std::lock_guard lock(mutex_);
    ++counts_.rounds;
    log::info("labels and models were read in {} s, damaged are {} files",
              std::chrono::duration_cast<std::chrono::seconds>(clock_.monotonic() - begun).count(),
              counts_.damaged.size());
  }
}

void StateScrub::look_at_all(const std::stop_token& stop) {
  forget_removed();
  if (!setting_.labels.empty() && !is_gone(setting_.labels)) look_at_labels(stop);
  const Result<std::vector<std::string>> models = fs_.list(setting_.models);
  if (!models.ok()) return;  // none was ever added
  for (const std::string& name : *models) {
    if (!name.ends_with(".onnx")) continue;
    if (stop.stop_requested()) return;
    const std::string path = join(setting_.models, name);
    found(path, check_model(fs_, path), kPutBack);
    wait(kBetweenModels, stop);
  }
}

void StateScrub::look_at_labels(const std::stop_token& stop) {
  const std::string& file = setting_.labels;
  if (Status s = sql::check_database(file, sql::DatabaseCheck::kWhole, stop); !s.ok()) {
    return found(file, s, kPutBack);
  }
  found(file, check_label_counts(file, stop),
        "ndtrain fsck --repair counts its labels again while the Tuner is stopped");
}

bool StateScrub::is_gone(const std::string& file) const {
  return fs_.info(file).status().code() == Code::kNotFound;
}

void StateScrub::forget_removed() {
  const std::lock_guard lock(mutex_);
  std::erase_if(counts_.damaged, [this](const auto& d) { return is_gone(d.first); });
}

void StateScrub::found(const std::string& file, const Status& s, const char* remedy) {
  if (s.code() == Code::kCancelled) return;
  const std::lock_guard lock(mutex_);
  ++counts_.files;
  if (s.ok() || s.code() == Code::kNotFound) {  // put right, or removed meanwhile
    counts_.damaged.erase(file);
  } else if (std::string& said = counts_.damaged[file]; said != s.message()) {
    said = s.message();
    log::error("{}: is damaged: {}; {}", file, said, remedy);
  }
}

}  // namespace ndtrain::tuner
