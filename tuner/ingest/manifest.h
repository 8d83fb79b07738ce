// Which photos a job is about, numbered: the union of what the stores hold, in byte order of the
// digests. Split and run of a photo follow from its digest, the seed and the job's own numbers, so
// that neither where a photo lies nor who answers first changes anything.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <functional>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tuner/ingest/photo_claims.h"

namespace ndtrain::tuner {
using namespace ndp;

struct ManifestEntry {
  Digest digest{};
  uint32_t run = 0;
  int32_t label = 0;                              // of Manifest::classes(); -1: none
  absl::InlinedVector<uint32_t, 2> holders = {};  // stores, rising
  int64_t label_time = 0;                         // as PhotoClaim has it
};

struct ManifestRules {
  uint64_t seed = 0;
  uint32_t runs = 1;       // of training photos, numbered from 1; run 0 is validation
  double val_split = 0.2;  // the share of photos for validation
  std::vector<std::string> classes = {};  // whose ids are kept, where they are among the labels
  // All of `classes` stay, and labels beyond them are added behind. Otherwise `classes` count only
  // when every label is one of them.
  bool add_classes = false;
  bool only_labelled = true;  // leaves out photos without a label
  bool holders_label = true;  // false: what those who hold photos say they show is no label here
  // Said of photos besides by those who hold them; of photos that nobody holds it is ignored.
  std::vector<PhotoClaim> truths = {};
  std::function<bool(const Digest&)> leave_out = {};  // photos that were deleted
  // Photos that look the same, by what stores say of it (ndp/jobs/photo_duplicates.h), are all
  // trained on or all validated with, as the lowest of their digests has it.
  bool group_duplicates = false;
  // Of all photos, which there are, told with the classes; none: all. Throws Error.
  std::function<std::vector<bool>(std::span<const ManifestEntry>, const std::vector<std::string>&)>
      choose = {};
  // Of what there is of each photo; it outlives the manifest, what stores say and who asks them.
  std::pmr::memory_resource* memory = std::pmr::new_delete_resource();
};

// Run of a photo: 0 for validation, else 1 to rules.runs.
uint32_t run_of(const Digest& photo, const ManifestRules& rules);

class Manifest {
 public:
  using Entry = ManifestEntry;
  using Entries = std::pmr::vector<Entry>;
  // A photo that somebody labels otherwise than the manifest does.
  struct Conflict {
    uint64_t number = 0;
    std::vector<std::string> labels;  // all, in byte order
  };

  // Photos that look the same, of ManifestRules::group_duplicates.
  struct Alike {
    uint64_t photos = 0, groups = 0;
    uint64_t moved = 0;     // to the other side of the split
    uint64_t unhashed = 0;  // nobody says what they look like
  };

  // `inventories[s]` is store s's. Photos without any label are counted. Of several labels the
  // highest source's counts, then the first in byte order. New classes are numbered in byte order.
  Manifest(std::span<const SharedClaims> inventories, const ManifestRules& rules);
  Manifest(std::span<const std::vector<PhotoClaim>> inventories, const ManifestRules& rules);
  // What an earlier one was. `entries` are sorted by digest. Throws Error when they contradict
  // themselves.
  Manifest(Entries entries, std::vector<std::string> classes, uint32_t runs);

  uint64_t size() const { return entries_.size(); }
  const Entry& entry(uint64_t number) const { return entries_.at(number); }
  std::optional<uint64_t> number_of(const Digest& photo) const;
  std::span<const uint64_t> run(uint32_t run) const { return runs_.at(run); }  // rising
  uint32_t runs() const { return static_cast<uint32_t>(runs_.size()) - 1; }
  const std::vector<std::string>& classes() const { return classes_; }
  Digest digest() const;  // of photos, splits, runs and labels: what decides a training on them
  const std::vector<Conflict>& conflicts() const { return conflicts_; }
  uint64_t unlabelled() const { return unlabelled_; }
  std::pmr::memory_resource* memory() const { return entries_.get_allocator().resource(); }
  const Alike& alike() const { return alike_; }

 private:
  void number_runs(uint32_t runs);
  void keep_together(std::span<const std::optional<uint64_t>> hashes, const ManifestRules& rules);
  void choose(const std::vector<bool>& stays);

  Entries entries_;
  std::vector<std::pmr::vector<uint64_t>> runs_;
  std::vector<std::string> classes_;
  std::vector<Conflict> conflicts_;
  uint64_t unlabelled_ = 0;
  Alike alike_;
};

}  // namespace ndtrain::tuner
