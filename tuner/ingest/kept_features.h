// Features of earlier jobs on the Tuner's disk, so that a job asks stores only for those that are
// missing. Under a budget: those of the extractor that was used least recently go first. All of it
// can be had again.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/store/segment_store.h"
#include "tuner/ingest/manifest.h"
#include "tuner/ingest/row_groups.h"

namespace ndtrain::tuner {
using namespace ndp;

// Thread-safe.
class KeptFeatures {
 public:
  // `budget` in bytes, 0: a tenth of the volume. Throws Error when the directory cannot be had.
  KeptFeatures(Fs& fs, const Clock& clock, const std::string& directory, int64_t budget);

  ~KeptFeatures();

  SegmentStore& store() { return *store_; }
  // Photos whose features of the extractor with this file are here, by whichever numerics; of all
  // these views, where there are any.
  int64_t photos_of(const Digest& extractor, bool exact, const ViewRule& views = {}) const;
  // Removes all that was made of these photos, and its bytes from the disk.
  Status forget(const std::set<Digest>& photos);

 private:
  std::unique_ptr<SegmentStore> store_;
};

// What one job reads of them, and leaves to later ones. A feature is used where the numerics (see
// feature_numerics()) that computed it are those of a store that was counted in, so that its
// features have been compared with the others' (MixedNumerics).
class JobFeatures {
 public:
  struct What {
    Digest extractor{};     // of its file
    ViewRule views = {};    // of photos to train on
    bool exact = false;     // by kernels that give the same bytes everywhere: never with others
    std::string here = {};  // numerics of this machine, where it is the one that extracts; "": none
  };
  // `record`: a file of the job, which has what it began with. `kept` must outlive this.
  JobFeatures(KeptFeatures& kept, Fs& fs, std::string record, const What& what);

  // Any thread may ask for the tag of what a store sends; 0: it is not known.
  void count_in(const std::string& store, const std::string& numerics);
  uint64_t tag_of(const std::string& store) const;

  // Once, when the stores that the job begins with are counted in: finds what there is of these
  // photos. A job that goes on finds what it found when it began, if it is there still.
  void begin(const Manifest& manifest);
  // Of a photo whose whole row is there; any thread, from then on.
  bool has(const Digest& photo, int64_t view) const;
  size_t size() const { return photos_.size(); }
  // Reads into `to`, which may be longer, as SegmentStore::get() does. `view`: see RowGroups.
  Result<Found> get(const Digest& photo, int64_t view, std::span<std::byte> to);

  // A feature for later jobs; nothing where it is there, or `numerics` is 0. Durable after end().
  Status leave(const Digest& photo, int64_t view, uint64_t numerics,
               std::span<const std::byte> row);
  Status end();

 private:
  std::set<uint64_t> begun_with();  // tags
  bool is_whole(const ManifestEntry& photo, const std::set<uint64_t>& tags) const;

  KeptFeatures& kept_;
  Fs& fs_;
  const std::string record_;
  const RowGroups groups_;
  const bool extracts_here_;
  mutable std::mutex mutex_;              // of the next one
  std::map<std::string, uint64_t> tags_;  // by store; "": of this machine
  std::map<Digest, uint32_t> photos_;     // that are there, and their runs
};

}  // namespace ndtrain::tuner
