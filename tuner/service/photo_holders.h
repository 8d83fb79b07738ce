// Which store holds which photos, as far as the Tuner has heard: what a store says of itself in an
// inventory. One thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tuner/jobs/job_files.h"

namespace ndtrain::tuner {
using namespace ndp;

class PhotoHolders {
 public:
  // All that the store holds, in place of what it held before.
  void set(const std::string& store, PhotoClaims::Photos photos) {
    photos_[store] = std::move(photos);
  }
  // Of an earlier life of this process: what counts of stores that have said nothing since.
  void recall(const SavedManifest& kept);
  void forget(const std::string& store) { photos_.erase(store); }

  bool holds(const std::string& store, const Digest& photo) const;
  bool held_elsewhere(const std::string& store, const Digest& photo) const;
  // Rising, borrowed until the next change; none where nothing was heard.
  std::span<const Digest> photos_of(const std::string& store) const;

 private:
  std::map<std::string, PhotoClaims::Photos> photos_;  // rising
};

}  // namespace ndtrain::tuner
