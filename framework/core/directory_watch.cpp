#include "framework/core/directory_watch.h"

#include <dirent.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain {
namespace {

constexpr uint32_t kHeard = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                            IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK;
constexpr std::chrono::seconds kTryAgain{5};  // a directory that is not there
constexpr size_t kReadBytes = size_t{64} << 10;

bool is_at_or_below(const std::string& path, const std::string& place) {
  if (place.empty()) return true;
  return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

class InotifyWatch final : public DirectoryWatch {
 public:
  explicit InotifyWatch(std::string root)
      : root_(std::move(root)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    begin();
  }
  ~InotifyWatch() override {
    end();
    if (wake_ >= 0) close(wake_);
  }

  DirectoryChanges wait(std::chrono::nanoseconds at_most) override {
    DirectoryChanges changes = std::exchange(due_, {});
    if (!changes.empty()) at_most = std::chrono::nanoseconds(0);
    if (lost_) at_most = std::min<std::chrono::nanoseconds>(at_most, kTryAgain);
    pollfd fds[] = {{wake_, POLLIN, 0}, {queue_, POLLIN, 0}};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(at_most).count();
    poll(fds, queue_ < 0 ? 1 : 2, static_cast<int>(std::clamp<int64_t>(ms, 0, 3'600'000)));
    uint64_t woken = 0;
    static_cast<void>(::read(wake_, &woken, sizeof woken));
    if (lost_) {
      begin();
      if (!lost_) changes.all = true;
      return changes;
    }
    take(changes);
    return changes;
  }

  void wake() override {
    const uint64_t one = 1;
    static_cast<void>(::write(wake_, &one, sizeof one));
  }

  Status complete() const override { return complete_; }

 private:
  using Paths = std::vector<std::string>;

  // Anew, with all there is.
  void begin() {
    end();
    complete_ = {};
    lost_ = true;
    queue_ = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (queue_ < 0) {
      complete_ = {Code::kIo, std::string("inotify: ") + std::strerror(errno) +
                                  " (fs.inotify.max_user_instances)"};
      return;
    }
    add("");
    lost_ = paths_.empty();
    if (lost_ && complete_.ok()) complete_ = {Code::kNotFound, root_ + " is not there"};
  }

  void end() {
    if (queue_ >= 0) close(queue_);
    queue_ = -1;
    paths_.clear();
  }

  std::string full(const std::string& path) const {
    return path.empty() ? root_ : join(root_, path);
  }

  // A directory and those below it. First the watch, then a look at what is there by now: what
  // comes in between is heard of twice.
  void add(const std::string& path) {
    const int watch = inotify_add_watch(queue_, full(path).c_str(), kHeard);
    if (watch < 0) {
      if (errno == ENOSPC) {
        complete_ = {Code::kNoSpace,
                     root_ +
                         ": has more directories than the kernel watches for one user (sysctl "
                         "fs.inotify.max_user_watches)"};
      } else if (errno != ENOENT && errno != ENOTDIR && complete_.ok()) {
        complete_ = {Code::kIo, full(path) + ": " + std::strerror(errno)};
      }
      return;
    }
    Paths& paths = paths_[watch];
    for (const std::string& other : paths) {
      if (other != path && is_at_or_below(path, other)) return;  // a link back
    }
    if (std::ranges::find(paths, path) == paths.end()) paths.push_back(path);
    for (const std::string& below : directories_of(path)) add(below);
  }

  std::vector<std::string> directories_of(const std::string& path) const {
    std::vector<std::string> all;
    DIR* directory = opendir(full(path).c_str());
    if (!directory) return all;
    while (const dirent* entry = readdir(directory)) {
      if (entry->d_name[0] == '.') continue;
      std::string below = path.empty() ? entry->d_name : join(path, entry->d_name);
      const bool unsaid = entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN;
      if (entry->d_type == DT_DIR || (unsaid && is_directory(below))) {
        all.push_back(std::move(below));
      }
    }
    closedir(directory);
    return all;
  }

  bool is_directory(const std::string& path) const {
    struct stat info {};
    return stat(full(path).c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  // What is whole as soon as it is there: a link, of either kind.
  bool is_link(const std::string& path) const {
    struct stat info {};
    return lstat(full(path).c_str(), &info) == 0 && (S_ISLNK(info.st_mode) || info.st_nlink > 1);
  }

  void take(DirectoryChanges& changes) {
    alignas(inotify_event) char bytes[kReadBytes];
    for (ssize_t n; queue_ >= 0 && (n = ::read(queue_, bytes, sizeof bytes)) > 0;) {
      for (ssize_t at = 0; at < n && !lost_;) {
        const auto* event = reinterpret_cast<const inotify_event*>(bytes + at);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
        take(*event, changes);
      }
      if (lost_) break;
    }
    if (!lost_) return;
    begin();  // all the directories: of those that came meanwhile nobody heard
    changes.all = true;
  }

  void take(const inotify_event& event, DirectoryChanges& changes) {
    if (event.mask & IN_Q_OVERFLOW) {
      lost_ = true;
      return;
    }
    const auto at = paths_.find(event.wd);
    if (at == paths_.end()) return;
    const Paths paths = at->second;
    const bool root = std::ranges::find(paths, "") != paths.end();
    if (event.mask & (IN_IGNORED | IN_UNMOUNT | IN_DELETE_SELF)) {
      paths_.erase(at);
      lost_ = lost_ || root || (event.mask & IN_UNMOUNT);
      return;
    }
    if (event.mask & IN_MOVE_SELF) {
      lost_ = lost_ || root;
      return;
    }
    const std::string_view name = event.len > 0 ? event.name : "";
    if (name.empty() || name.starts_with('.')) return;
    for (const std::string& in : paths) {
      take(event.mask, in.empty() ? std::string(name) : join(in, name), changes);
    }
  }

  void take(uint32_t mask, const std::string& path, DirectoryChanges& changes) {
    const bool came = mask & (IN_CREATE | IN_MOVED_TO);
    if ((mask & IN_ISDIR) || (came && is_directory(path))) {
      if (mask & IN_MOVED_FROM) drop(path);
      if (came) add(path);
      changes.places.insert(path);
    } else if (!(mask & IN_CREATE) || is_link(path)) {
      changes.files.insert(path);
      if (mask & (IN_MOVED_FROM | IN_DELETE)) dropped_link(path, changes);
    }
  }

  // A link to a directory may have gone; it is no directory to the kernel.
  void dropped_link(const std::string& path, DirectoryChanges& changes) {
    const bool watched = std::ranges::any_of(paths_, [&](const auto& watch) {
      return std::ranges::find(watch.second, path) != watch.second.end();
    });
    if (!watched) return;
    drop(path);
    changes.places.insert(path);
  }

  // It is elsewhere now, with all that is below it.
  void drop(const std::string& path) {
    for (auto& [watch, paths] : paths_) {
      const bool had =
          std::erase_if(paths, [&](const std::string& p) { return is_at_or_below(p, path); }) > 0;
      if (had && paths.empty()) inotify_rm_watch(queue_, watch);
    }
    std::erase_if(paths_, [](const auto& watch) { return watch.second.empty(); });
  }

  const std::string root_;
  const int wake_;
  int queue_ = -1;
  bool lost_ = true;  // nothing is heard, or was lost
  Status complete_;
  std::unordered_map<int, Paths> paths_;  // by watch: a directory may have several
  DirectoryChanges due_{.files = {}, .places = {}, .all = true};
};

}  // namespace

std::unique_ptr<DirectoryWatch> watch_directory(const std::string& root) {
  return std::make_unique<InotifyWatch>(root);
}

std::string network_file_system(const std::string& directory) {
  constexpr std::pair<int64_t, const char*> kNetwork[] = {
      {NFS_SUPER_MAGIC, "NFS"}, {0xff534d42, "CIFS"},       {0xfe534d42, "SMB"},
      {SMB_SUPER_MAGIC, "SMB"}, {0x65735546, "FUSE"},       {V9FS_MAGIC, "9P"},
      {AFS_SUPER_MAGIC, "AFS"}, {CEPH_SUPER_MAGIC, "Ceph"}, {0x0bd00bd0, "Lustre"},
      {0x19830326, "BeeGFS"},   {0x47504653, "GPFS"}};
  struct statfs info {};
  if (statfs(directory.c_str(), &info) != 0) return "";
  const auto type = static_cast<int64_t>(static_cast<uint32_t>(info.f_type));
  for (const auto& [magic, name] : kNetwork) {
    if (type == magic) return name;
  }
  return "";
}

}  // namespace ndtrain
