// What is known of a collection's photos: path -> content hash and state, kept in one SQLite file,
// so that a scan reads only what is new or changed. Losing the file costs one full scan (and what
// decoders said of bad photos), nothing else.
//
// A photo of a known path counts as unchanged when size, mtime and inode are as before; otherwise
// its bytes are hashed. A path that is new is hashed too, unless a known photo has the same name,
// size, mtime and inode: then a directory was renamed. What a scan tells apart:
//   added    a new path, and no known photo that is gone had the same bytes
//   moved    a new path whose bytes a known photo had that is gone: the old path is forgotten
//   changed  a known path with other bytes
//   missing  a known path not seen in this scan, for the first time in a row
//   deleted  a known path not seen for the second scan in a row; seen again, it counts as added
//   returned a missing path seen again, whatever its bytes
// Photos below a place that could not be looked at stay as they were. A scan may be of a few places
// only: all else stays as it was, and a photo that is missing may be found there as moved.
//
// Where photos are far away several are asked for at a time (read_ahead.h). One that is
// kUnavailable ends the scan, which is so then: what was read before is kept, and nothing is said
// of that photo.
//
// One thread at a time. A crash loses at most the page being scanned; what an unfinished scan added
// is reported as added or moved by the next one that finishes.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/thread_pool.h"
#include "ndp/photos/photo_source.h"
#include "ndp/photos/verdict.h"

namespace ndtrain::ndp {

struct CatalogueEntry {
  PhotoRef ref;
  std::optional<Digest> digest;  // none when the bytes could not be read
  PhotoState state = PhotoState::kOk;
  std::string reason;
};

struct PhotoChange {
  enum class Kind : uint8_t { kAdded, kMoved, kChanged, kMissing, kDeleted, kReturned };
  Kind kind = Kind::kAdded;
  std::string path;
  std::string from;                   // of kMoved
  std::optional<Digest> digest = {};  // as it is now; none of what is gone, or cannot be read
  PhotoState state = PhotoState::kOk;
  bool new_bytes = false;  // that no scan which ended had seen, at this path or another
};

// A photo whose file has other bytes than those that it is known by, though nobody seems to have
// written it: what it was.
struct DamagedPhoto {
  std::string path;
  Digest photo{};
  bool operator==(const DamagedPhoto&) const = default;
};

// Why such a file is quarantined.
std::string damaged_by_disk(const Digest& photo);

// A photo that a scan has read.
struct PhotoRead {
  CatalogueEntry entry;
  std::string file;  // its bytes
};

struct ScanOptions {
  // Of photos that are far away, with their bytes, in memory together.
  static constexpr size_t kPartPhotos = 512;  // the first part has 32, the next ones twice as many
  static constexpr int64_t kPartBytes = int64_t{64} << 20;

  size_t page = 4096;  // photos looked up, hashed and committed together
  bool far = false;    // reading one waits for a network
  // Of photos that are far away, when what is known of them is written: those that were read just
  // now and are kOk. By the calling thread; false ends the scan, kCancelled.
  std::function<bool(std::vector<PhotoRead> part)> on_read = {};
  std::function<void(const PhotoChange&)> on_change = {};  // by the calling thread
  // Only of these, each a photo's path or that of a directory with all that is below it; the source
  // lists what is there (PlacesSource). Empty: of all.
  std::vector<std::string> places = {};
  // Called when all changes are told. What it returns ends the scan, and they are told by the next
  // one again; so are they after a crash before its return.
  std::function<Status()> on_end = {};
  std::function<void(int64_t seen, int64_t hashed)> on_page = {};  // for progress
};

struct ScanReport {
  int64_t seen = 0, hashed = 0;  // photos in the source; files read
  int64_t added = 0, moved = 0, changed = 0, missing = 0, deleted = 0, returned = 0;
  std::vector<PhotoProblem> problems;
};

struct CatalogueCounts {
  int64_t ok = 0, quarantined = 0, skipped = 0, missing = 0, deleted = 0;
  bool operator==(const CatalogueCounts&) const = default;
};

class Catalogue {
 public:
  static constexpr std::string_view kFile = "catalogue.sqlite";  // in its directory
  // `state_directory` is made if absent and must not be shared by two collections. kCorrupt when
  // the file there is damaged or of another version: remove it to start over.
  static Result<std::unique_ptr<Catalogue>> open(Fs& fs, const std::string& state_directory);
  ~Catalogue();
  const std::string& directory() const;

  // One process at a time, which the caller sees to.
  // One bad photo never stops a scan: it is quarantined, or listed among the problems. An error
  // means that the source cannot be listed at all or that the catalogue cannot be written.
  Result<ScanReport> scan(PhotoSource& source, ThreadPool& pool, const ScanOptions& options = {});

  Result<std::optional<CatalogueEntry>> find(const std::string& path);
  // Those with these bytes, as of the last scan; of any state but kMissing and kDeleted.
  Result<std::vector<CatalogueEntry>> with_digest(const Digest& digest);
  // In byte order of the path, after `path` ("" to begin), all states.
  Result<std::vector<CatalogueEntry>> entries_after(const std::string& path, size_t limit);
  Result<CatalogueCounts> counts();
  // Whether a scan of all has ever come to its end.
  Result<bool> scanned();

  // A decoder found these bytes bad: every photo that has them now or later is quarantined.
  Status quarantine(const Digest& digest, const std::string& reason);
  // The file of a photo has other bytes, `now`: it is quarantined until somebody puts another
  // there. A scan does the same to a file that is called after another photo than it has. kNotFound
  // for an unknown path.
  Status set_damaged(const std::string& path, const Digest& now);
  // In byte order of the path.
  Result<std::vector<DamagedPhoto>> damaged();
  // The file at this path was put right: nothing is known of it, and the next scan reads it.
  Status forget_damage(const std::string& path);
  // Deleted from now on, without waiting for a second scan. kNotFound for an unknown path.
  Status forget(const std::string& path);
  // Photos with these bytes, or that had them before they were damaged, leave no trace, as if they
  // had never been seen.
  Status remove(const Digest& digest);
  // Rewrites the file, so that it holds nothing of what was removed. kIo while somebody reads it.
  Status scrub();

 private:
  struct State;
  explicit Catalogue(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace ndtrain::ndp
