// The photos that a PipeStore has: those of its directory, those that people uploaded, and what
// both are said to show. One thread at a time, but for size().
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "framework/core/fs.h"
#include "ndp/photos/catalogue.h"
#include "ndp/pipestore/photo_row_config.h"
#include "ndp/pipestore/row_producer.h"
#include "ndp/pipestore/store_photos.h"

namespace ndtrain::ndp {

class PhotoInventory {
 public:
  // Throws Error when the catalogue cannot be had. `config` must outlive this.
  PhotoInventory(const PhotoRowConfig& config, Fs& fs);

  // How many there are: as of the last scan, or, before one, as a look at the directory says.
  uint64_t size() const { return size_; }
  // What is there now. A Status when the photo directory cannot be read.
  Result<StoreInventory> scan();
  // As of the last scan, or as it was given.
  const StoreInventory& last() const { return last_; }
  void take(StoreInventory inventory);

  Result<std::string> read(size_t place) const;  // the file of a photo of last(); any thread

 private:
  std::string label_of(const std::string& path) const;
  void say_what_was_found();
  bool in_shard(const std::string& path) const;
  uint64_t look();  // reads no photo
  void forget(std::span<const Digest> deleted) const;

  const PhotoRowConfig& config_;
  Fs& fs_;
  StorePhotos photos_;
  bool said_folders_ = false, said_older_ = false;  // once each
  std::unique_ptr<Catalogue> catalogue_;
  std::atomic<uint64_t> size_ = 0;
  int64_t collection_ = 0;                  // how many were no uploads in the last scan
  std::map<std::string, std::string> csv_;  // label by path, of a CSV
  StoreInventory last_;
};

}  // namespace ndtrain::ndp
