// Photos in the trash, each with who put it there, when, and until when it stays: an append-only
// file of lines in the Tuner's state directory, each a checksum (XXH3, 16 digits) and JSON:
//
//   {"photo": SHA-256, "revision": 7, "who": "ann", "since": 1764209000, "until": 1766801000,
//    "paths": ["attic/july/1.jpg"]}                 into the trash, or there with another end
//   {"photo": SHA-256, "revision": 8, "restored": true}
//   {"photo": SHA-256, "revision": 8, "gone": true}    there is nothing more to do about it
//   {"revision": 8}                                    of a file that was rewritten
//
// A revision counts the changes. A restored photo is kept in mind until the label database has
// heard of it. A line that the disk has damaged costs no other; what a crash left of a last one
// goes.
//
// One thread.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "framework/core/json.h"

namespace ndtrain::tuner {

struct TrashedPhoto {
  Digest photo{};
  uint64_t revision = 0;           // set by the log
  std::string who;                 // put it there
  int64_t since = 0, until = 0;    // Unix seconds
  std::vector<std::string> paths;  // as people may read them; perhaps none
};

class TrashLog {
 public:
  TrashLog(Fs& fs, const std::string& directory);  // of this directory; throws Error

  // Whether the lines of a file are as they were written: kCorrupt, and which one is not.
  static Status check(std::string_view bytes);

  // All of these are durable on return, or nothing has changed.
  Status put(std::vector<TrashedPhoto> photos);
  Status restore(std::span<const Digest> photos);
  Status gone(std::span<const Digest> photos);

  const std::map<Digest, TrashedPhoto>& photos() const { return photos_; }
  const std::set<Digest>& restored() const { return restored_; }  // and not gone yet
  uint64_t revision() const { return revision_; }                 // 0: never was one in it

 private:
  void read(std::string_view bytes);
  void take(const Json& line);
  Status commit(const std::vector<Json>& lines);
  Status rewrite();
  Status append(std::string_view bytes);

  Fs& fs_;
  const std::string path_;
  std::map<Digest, TrashedPhoto> photos_;
  std::set<Digest> restored_;
  uint64_t revision_ = 0;
  int64_t size_ = 0;      // of the file as far as it counts
  size_t dead_ = 0;       // lines that others have replaced
  bool damaged_ = false;  // a line was
};

}  // namespace ndtrain::tuner
