// The photos that a PipeStore has: those of its directory, those that people uploaded, and what
// both are said to show. One thread at a time, but for size(); follow() and count() may be called
// by a thread of their own, and wait for scan() as it does for them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/directory_watch.h"
#include "framework/core/fs.h"
#include "ndp/photos/catalogue.h"
#include "ndp/pipestore/fetched_files.h"
#include "ndp/pipestore/photo_row_config.h"
#include "ndp/pipestore/row_producer.h"
#include "ndp/pipestore/store_photos.h"

namespace ndtrain::ndp {

// What a look at the photo directory found there.
struct FolderLook {
  int64_t found = 0, moved = 0, gone = 0, unreadable = 0;  // photos: new, at other paths, …
  std::vector<std::string> unfinished;                     // paths: they are being written
  bool changed = false;
};

class PhotoInventory {
 public:
  // Throws Error when the catalogue cannot be had. `config` must outlive this.
  PhotoInventory(const PhotoRowConfig& config, Fs& fs);

  // How many there are: as of the last scan, or, before one, as a look at the directory says, and
  // what was uploaded and deleted since.
  uint64_t size() const;
  // PhotoRowConfig::gained as of the last look at all: so many times photos came from other stores,
  // and are known here. Any thread.
  uint64_t gained() const { return gained_; }
  // What is there now. A Status when the photo directory cannot be read.
  Result<StoreInventory> scan();
  // Looks at what may have changed, and has what is new labelled (PhotoRowConfig::found). A Status
  // when that cannot be, or when `stopping` is true.
  Result<FolderLook> follow(const DirectoryChanges& changes, Clock& clock,
                            const std::function<bool()>& stopping);
  void count();  // size() again, from what follow() found
  // Whether reading a photo waits for a network; then where files are kept that were fetched, which
  // outlives this: none before.
  bool is_far() const;
  void keep_in(FetchedFiles& files) { fetched_ = &files; }
  // Its file; kCorrupt when that has other bytes by now, kUnavailable when all are away. Any
  // thread.
  Result<std::string> read(const StorePhoto& photo) const;

 private:
  std::string label_of(const std::string& path) const;
  void say_what_was_found();
  bool in_shard(const std::string& path) const;
  bool in_trash(const Digest& photo) const { return config_.trash && config_.trash->has(photo); }
  uint64_t look();  // reads no photo
  int64_t uploads() const { return config_.uploads ? config_.uploads->counts().photos : 0; }
  bool is_deleted(const Digest& photo) const;
  void set_size(size_t photos, int64_t uploads);  // with so many uploads among them
  // Under the mutex.
  Status read_csv();  // of labels, where there is one
  Status is_there();  // that not all photos of the directory have gone at once
  ScanOptions options_for(std::vector<PhotoChange>& changes);
  bool keep(std::span<const PhotoRead> part) const;
  Status take_found(std::span<const PhotoChange> changes) const;
  void forget(std::span<const Digest> deleted) const;

  const PhotoRowConfig& config_;
  Fs& fs_;
  StorePhotos photos_;
  FetchedFiles* fetched_ = nullptr;
  std::mutex mutex_;                                // of the catalogue, and of what follows
  bool said_folders_ = false, said_older_ = false;  // once each
  std::unique_ptr<Catalogue> catalogue_;
  int64_t collection_ = 0;  // how many were no uploads when they were counted last
  std::atomic<int64_t> without_uploads_ = 0;  // of size()
  std::atomic<uint64_t> gained_ = 0;
  std::map<std::string, std::string> csv_;  // label by path, of a CSV
};

}  // namespace ndtrain::ndp
