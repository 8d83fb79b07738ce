#include "tuner/shared_state.h"

#include <unistd.h>

#include <filesystem>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/publish.h"

namespace ndtrain::tuner {
namespace {

constexpr std::string_view kRoot = SharedState::kDirectory;

// A file of this name, or the temporary one that becomes it.
bool is_of(std::string_view file, std::string_view name) {
  return file == name ||
         (is_temporary(file) && file.substr(1).starts_with(std::string(name) + ".ndt-tmp-"));
}

// Sends each path where it belongs.
class SharedFs final : public Fs {
 public:
  SharedFs(Fs& shared, std::string scratch) : shared_(shared), scratch_(std::move(scratch)) {}

  Result<std::unique_ptr<File>> open(const std::string& path, Mode mode) override {
    const Place to = place(path);
    if (to.scratch && mode != Mode::kRead) {
      if (Status s = to.fs->make_directories(parent_of(to.path)); !s.ok()) return s;
    }
    return to.fs->open(to.path, mode);
  }
  Result<FileInfo> info(const std::string& path) override {
    const Place to = place(path);
    return to.fs->info(to.path);
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    const Place to = place(directory);
    return to.fs->list(to.path);
  }
  Status make_directories(const std::string& path) override {
    const Place to = place(path);
    return to.fs->make_directories(to.path);
  }
  Status rename(const std::string& from, const std::string& to) override {
    const Place before = place(from), after = place(to);
    if (before.fs == after.fs) return before.fs->rename(before.path, after.path);
    return {Code::kUnsupported,
            from + " -> " + to + ": cannot rename: one is in the database, the other is not"};
  }
  Status remove(const std::string& path) override {
    const Place to = place(path);
    return to.fs->remove(to.path);
  }
  // Features and rows are what room is asked for.
  Result<Space> space(const std::string& path) override {
    const Place to = place(path);
    return to.fs == &shared_ ? real_fs().space(scratch_) : to.fs->space(to.path);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    const Place to = place(path);
    return to.fs->lock(to.path);
  }

 private:
  struct Place {
    Fs* fs;
    std::string path;
    bool scratch = false;
  };

  Place place(const std::string& path) const {
    const bool below =
        path.starts_with(kRoot) && (path.size() == kRoot.size() || path[kRoot.size()] == '/');
    if (!below) return {&real_fs(), path};
    const std::string rest = path.substr(kRoot.size());
    if (is_scratch(rest)) return {&real_fs(), scratch_ + rest, true};
    return {&shared_, rest};
  }
  Status try_sync_directory(const std::string& path) override {
    const Place to = place(path);
    to.fs->sync_directory(to.path);
    return {};
  }

  Fs& shared_;
  const std::string scratch_;
};

std::string this_process() {
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  return "process " + std::to_string(::getpid()) + " on " + host;
}

// What is in it stays where this directory was the last to be written under the state's lease.
Status prepare(const std::string& scratch, const std::string& url, int64_t term) {
  const std::string file = join(scratch, "term"), files = join(scratch, "state");
  const auto text = [&](int64_t t) { return to_hex(sha256(url)) + " " + std::to_string(t) + "\n"; };
  const Result<std::string> last = real_fs().read(file);
  if (!last.ok() && last.status().code() != Code::kNotFound) return last.status();
  if (!last.ok() || *last != text(term - 1)) {
    std::error_code error;
    std::filesystem::remove_all(files, error);
    if (error) return {Code::kIo, files + ": cannot be emptied: " + error.message()};
  }
  if (Status s = real_fs().make_directories(files); !s.ok()) return s;
  return publish(real_fs(), file, text(term));
}

}  // namespace

bool is_scratch(std::string_view path) {
  bool first = true, of_job = false;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    const std::string_view name = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
    if (name.empty()) continue;
    if (std::exchange(first, false)) {
      if (is_of(name, "features") || name == "holders") return true;
      of_job = name == "jobs";
    } else if (of_job && (name == "spool" || is_of(name, "closed.json"))) {
      return true;
    }
  }
  return false;
}

bool is_shared_state(std::string_view state) {
  return state.starts_with("postgresql:") || state.starts_with("postgres:");
}

Result<std::unique_ptr<SharedState>> SharedState::take(const Setting& setting) {
  std::unique_ptr<SharedState> state(new SharedState());
  if (Status s = real_fs().make_directories(setting.scratch); !s.ok()) return s;
  auto lock = real_fs().lock(join(setting.scratch, "lock"));
  if (!lock.ok()) return lock.status();
  state->scratch_ = std::move(*lock);
  auto lease = postgres::StateLease::take(
      {.url = setting.url, .holder = this_process(), .lasts = setting.lasts});
  if (!lease.ok()) return lease.status();
  state->lease_ = std::move(*lease);
  if (Status s = prepare(setting.scratch, setting.url, state->term()); !s.ok()) return s;
  auto files = postgres::PostgresFs::open(state->lease_->url());
  if (!files.ok()) return files.status();
  state->files_ = std::move(*files);
  state->fs_ = std::make_unique<SharedFs>(*state->files_, join(setting.scratch, "state"));
  return state;
}

}  // namespace ndtrain::tuner
