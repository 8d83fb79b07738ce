// Photos that people have put into the trash: nothing shows them, at the Tuner and at every store,
// until somebody restores them or their time is over; then they are deleted for good. One thread,
// the service's; the label database is told on the upload lane.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/core/lanes.h"
#include "ndp/http/audit.h"
#include "tuner/service/photo_deletions.h"
#include "tuner/service/store_registry.h"
#include "tuner/service/trash_log.h"
#include "tuner/service/uploaded_labels.h"

namespace ndtrain::tuner {
using namespace ndp;

class PhotoTrash {
 public:
  using Time = StoreRegistry::Time;
  static constexpr int64_t kKept =
      int64_t{30} * 24 * 3600;  // seconds, unless somebody says otherwise

  struct Ports {
    Fs& fs;
    std::string directory;  // of the state
    Clock& clock;
    Lanes& lanes;
    StoreRegistry& stores;
    PhotoDeletions& deletions;
    UploadSink* uploads = nullptr;
    AuditLog* audit = nullptr;  // of photos whose time is over
  };
  // Throws Error when what is in the trash cannot be read.
  explicit PhotoTrash(Ports ports);

  // Into the trash; one that is there stays until the new time. Deleted photos are left out.
  // Durable on return; the rest follows. Throws Error.
  PhotoDeletions::Deletion put(std::vector<TrashedPhoto> photos);
  // Those that are in it, and put there at this revision at the latest.
  Status restore(std::span<const Digest> photos, uint64_t revision = UINT64_MAX);

  // Whether restore() at this revision changes something.
  bool would_restore(const Digest& photo, uint64_t revision) const;

  const std::map<Digest, TrashedPhoto>& photos() const { return log_.photos(); }
  bool has(const Digest& photo) const { return log_.photos().contains(photo); }
  // In the trash or deleted: no job is about it.
  bool hides(const Digest& photo) const { return has(photo) || ports_.deletions.has(photo); }

  // A store's session begins: it hears what is in the trash.
  void greet(const wire::Hello& hello);
  void pump();
  Time next() const;  // when pump() has something to do; Time::max() for never
  void stop() { stopping_ = true; }

 private:
  Time now() const { return ports_.clock.monotonic(); }
  void tell(const std::string& store, std::span<const Digest> photos,
            std::span<const Digest> restored, bool whole);
  void tell_all(std::span<const Digest> photos, std::span<const Digest> restored);
  void changed();     // what is in it
  void take_leave();  // of what is deleted
  Status delete_for_good(std::span<const Digest> photos);
  void keep_labels();
  void labels_kept(const std::set<Digest>& photos, const Status& status);

  const Ports ports_;
  TrashLog log_;
  std::set<std::string> understand_;  // stores that know the message
  std::set<Digest> due_;              // of which the label database has not heard
  std::set<Digest> audited_;          // that are about to be deleted
  uint64_t deletions_ = 0;            // that were looked at
  int64_t soonest_ = INT64_MAX;       // when the first one's time is over; Unix seconds
  bool keeping_ = false;              // a task is out
  bool stopping_ = false;
  Time again_at_{0};  // not 0: the last attempt failed
};

}  // namespace ndtrain::tuner
