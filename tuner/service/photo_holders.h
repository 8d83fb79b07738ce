// Which store holds which photos, as far as the Tuner has heard: what a store says of itself in an
// inventory. It is on disk, a file for each store that is known; of each photo 10 bits are in
// memory. An inventory is in memory until its file is written, on the upload lane, and stays there
// where that fails. One thread.
//
// DIR/holders/SHA256.set   called after the store's name: digest_set_file.h
//
// A file that is damaged is removed: of that store nothing was heard until its next inventory. One
// that cannot be read says neither that its store holds a photo nor that it does not: whoever asks
// gets that error, and the file is tried again with the next question.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/lanes.h"
#include "tuner/jobs/job_files.h"
#include "tuner/service/digest_set_file.h"

namespace ndtrain::tuner {
using namespace ndp;

class PhotoHolders {
 public:
  struct Ports {
    Fs& fs;
    std::string directory;  // of the state
    Lanes& lanes;
    std::function<bool(const std::string& store)> known;  // else nothing of it is on disk
  };
  // Throws Error when the directory cannot be listed. Files of stores that are not known go.
  explicit PhotoHolders(Ports ports);

  // All that the store holds, in place of what it held before.
  void set(const std::string& store, PhotoClaims::Photos photos);
  // Of an earlier life of this process: what counts of stores that have said nothing since.
  void recall(const SavedManifest& kept);
  void forget(const std::string& store);

  // Deleted photos leave nothing here: in memory from begin_forgetting() on, and in the files once
  // forget_in() has written each again, which is for the upload lane, and end_forgetting() knows of
  // it. Not begun while writing().
  struct Rewrite {
    std::string store, path;
    DigestSetFacts before = {}, after = {};
    DigestFilter filter{};
    bool done = false;
    bool lost = false;  // it was damaged, and is gone
  };
  // Where it is not ok nothing has begun.
  Result<std::vector<Rewrite>> begin_forgetting(const std::set<Digest>& photos);
  static Status forget_in(Fs& fs, const std::set<Digest>& photos, Rewrite& file);
  void end_forgetting(std::vector<Rewrite> files);
  bool writing() const { return writing_ || !unwritten_.empty(); }

  Result<bool> holds(const std::string& store, const Digest& photo) const;
  Result<bool> held_elsewhere(const std::string& store, const Digest& photo) const;
  bool heard_of(const std::string& store) const;       // also where its file cannot be read
  uint64_t number_of(const std::string& store) const;  // 0: nothing was heard
  // Rising, read from the disk; none where nothing was heard.
  Result<std::vector<Digest>> photos_of(const std::string& store) const;

 private:
  struct Held {
    PhotoClaims::Photos photos = {};          // null: they are on disk
    DigestSetFacts facts = {};                // of the file
    std::optional<DigestFilter> filter = {};  // none: not read yet
    bool rewriting = false;                   // the file may be another than `facts` say
    bool lost = false;                        // the file is damaged
  };
  using Stores = std::map<std::string, Held>;

  std::string path_of(const std::string& store) const;
  void find_files();
  Status find_file(const std::string& path) const;
  Status try_again(const std::string& path) const;
  Status try_all_again() const;
  void write_next();
  void written(const std::string& store, const PhotoClaims::Photos& photos,
               const Result<DigestSetFacts>& facts, DigestFilter filter);
  Result<bool> is_held(const std::string& store, Held& held, const Digest& photo) const;
  // What goes wrong is logged; kCorrupt, kNotFound: nothing was heard of the store.
  Status read_file(const std::string& store, Held& held,
                   const std::function<Status(DigestSetFile&)>& read) const;
  void remove_file(const std::string& path) const;

  const Ports ports_;
  mutable Stores stores_;                 // what is wrong with a file is found when it is read
  mutable std::set<std::string> unread_;  // paths of files that could not be when they were found
  std::set<std::string> unwritten_;       // of stores that are known
  bool writing_ = false;
};

}  // namespace ndtrain::tuner
