// Reads the photos of a store again and again, each once in a while, for what disks do to files
// that lie on them: uploads first, then those of the photo directory. A file that has other bytes
// than it is known by, though its size, time and inode are as they were, is damaged. An upload is
// put right from another file of the store that has its bytes; otherwise the photo is quarantined
// in the catalogue, so that nothing else is taken for it, and people are told.
//
// STATE/scrub.json says how far a round is, without names of photos, which may be deleted; lost, it
// begins anew: {"begun": 1763900000, "uploads": false, "passed": 1000, "photos": 1200}
//
// One thread, but for what says otherwise.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "ndp/photos/catalogue.h"
#include "ndp/pipestore/store_photos.h"

namespace ndtrain::ndp {

class PhotoScrub {
 public:
  using Time = std::chrono::nanoseconds;

  struct Setting {
    std::string photos, state;  // directories
    Time period{0};             // in which each photo is read once; 0: suspects alone are
    // Writes an upload anew; kNotFound when it was deleted meanwhile. Absent: nobody does.
    std::function<Status(const Digest& photo, const std::string& file)> put_back = {};
  };
  struct Counts {
    int64_t photos = 0, bytes = 0;     // read so far
    int64_t unreadable = 0;            // files that the disk does not give
    int64_t restored = 0, rounds = 0;  // uploads put right; all photos read
    int64_t damaged = 0;               // photos that are, now
  };

  // `catalogue`: of the store's photos, for this alone. Throws Error.
  PhotoScrub(Setting setting, Fs& fs, Clock& clock, std::unique_ptr<Catalogue> catalogue);

  // The file at this path seems to have other bytes than it is known by, or was written anew: it is
  // read soon. Any thread.
  void suspect(const std::string& path);
  // These from any thread, too.
  Counts counts() const;
  std::vector<Digest> damaged_uploads() const;
  void restored(const Digest& photo);  // the file of one was written anew

  // Reads what is due, one photo at most, and says when the next one is.
  Time step();

 private:
  struct Round {
    int64_t begun = 0;    // Unix seconds
    bool uploads = true;  // are read now; else the others
    int64_t passed = 0;   // of these, in byte order of their paths
    int64_t photos = 0;   // read in it
  };

  std::optional<std::string> take_suspect();
  void look_at(const std::string& path);
  void set_pace();
  bool load();
  void save();
  void begin_round();
  void end_round();
  std::optional<CatalogueEntry> next_of_round();
  bool fill_page();
  void others();
  void check(const CatalogueEntry& e);
  bool is_untouched(const CatalogueEntry& e) const;
  void damaged(const CatalogueEntry& e, const Digest& now);
  bool restore(const CatalogueEntry& e);
  void count_damaged();

  const Setting setting_;
  Fs& fs_;
  Clock& clock_;
  const StorePhotos photos_;
  const std::unique_ptr<Catalogue> catalogue_;
  Round round_;
  std::string after_;  // the path up to which `passed` goes
  std::deque<CatalogueEntry> page_;
  Time between_{0}, last_{0};  // photos of the round; the last was due then
  Time saved_{0}, counted_{0}, paced_{0};

  mutable std::mutex mutex_;  // of all below
  std::deque<std::string> suspects_;
  Counts counts_;
  std::vector<Digest> damaged_uploads_;
};

}  // namespace ndtrain::ndp
