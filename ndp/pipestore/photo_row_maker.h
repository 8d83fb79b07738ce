// Rows from a directory of photos: features and labels through the engine and the feature cache,
// crops and files as they are.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "framework/core/clock.h"
#include "framework/runtime/devices.h"
#include "ndp/engine/energy.h"
#include "ndp/jobs/photo_set.h"
#include "ndp/pipestore/courtesy.h"
#include "ndp/pipestore/network.h"
#include "ndp/pipestore/row_maker.h"
#include "ndp/pipestore/store_photos.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/store/segment_store.h"

namespace ndtrain {

struct PhotoRowConfig {
  std::string photos;      // the directory
  std::string state = {};  // where uploads/ is; "": nobody uploads
  // What the photos show: "none", nobody says; "folder", the first directory on their path (below
  // train or val, where there are such); or a CSV file,class.
  std::string labels = "none";
  std::string cache;        // where the catalogue and the features are kept
  int64_t cache_bytes = 0;  // of features and crops; 0: a tenth of the volume
  bool compress_crops = false;
  int64_t batch = 32;
  // Only a part of the photos: those whose path's hash is `shard` modulo `shards`.
  uint32_t shard = 0, shards = 1;
  // What people said of photos here, if anybody can; it counts more than `labels`.
  const UploadLog* uploads = nullptr;
  // Removes photos that were deleted and are there all the same: no scan had seen the file yet, or
  // somebody put it back. Durable on return.
  std::function<Status(std::span<const Digest>)> forget = {};
  Courtesy* courtesy = nullptr;  // to those who upload
};

class PhotoRowMaker : public RowMaker {
 public:
  // Throws Error when the catalogue or the cache cannot be had.
  PhotoRowMaker(PhotoRowConfig config, Devices& devices, Fs& fs, Clock& clock);
  ~PhotoRowMaker() override;

  uint64_t photos() const override { return count_; }
  Result<StoreInventory> scan() override;
  Result<RowWork::RowSize> open(const wire::Job& job, const std::string& extractor,
                                const std::string& head) override;
  Result<Made> make(std::span<const size_t> places) override;
  Result<std::string> sample(std::span<const std::string> photos) override;
  double bf16_gain() override;
  void give_up(uint64_t job) override { given_up_ = job; }
  void close() override;

  SegmentStore& cache() { return *cache_; }

 protected:
  // What there is, when it is not a directory that says so.
  void take(StoreInventory inventory);

 private:
  // How many of `n` photos the next piece of work has.
  size_t next_piece(size_t n) const;
  bool given_up() const { return given_up_ == job_.job(); }
  std::string label_of(const std::string& path) const;
  void say_what_was_found();
  bool in_shard(const std::string& path) const;
  uint64_t count();  // reads no photo
  void forget(std::span<const Digest> deleted) const;
  Result<std::string> read(size_t place) const;
  Made features(std::span<const size_t> places);
  Made labels(std::span<const size_t> places);
  Made crops(std::span<const size_t> places, bool packed);
  Made files(std::span<const size_t> places);
  // A row of the extractor's outputs for each place: from the cache, from a kept crop, or from the
  // photo; empty where it is bad.
  std::string cached_row(const Digest& photo) const;  // "" where there is none that holds
  std::vector<std::string> extract(std::span<const size_t> places, Made& made);

  PhotoRowConfig config_;
  Devices& devices_;
  Fs& fs_;
  StorePhotos photos_;
  bool said_folders_ = false, said_older_ = false;  // once each
  std::unique_ptr<Catalogue> catalogue_;
  std::unique_ptr<SegmentStore> cache_;
  std::atomic<uint64_t> count_ = 0;              // photos()
  int64_t collection_ = 0;                       // how many were no uploads in the last scan
  std::atomic<uint64_t> given_up_ = UINT64_MAX;  // a job
  std::map<std::string, std::string> csv_;       // label by path, of a CSV
  StoreInventory inventory_;
  wire::Job job_;
  EnergyMeter energy_;
  Preprocess preprocess_;
  std::unique_ptr<Network> network_;  // of the job in progress
};

}  // namespace ndtrain
