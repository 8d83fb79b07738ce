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
#include "ndp/engine/feature_rows.h"
#include "ndp/pipestore/network.h"
#include "ndp/pipestore/photo_inventory.h"
#include "ndp/pipestore/photo_row_config.h"
#include "ndp/pipestore/row_producer.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

class PhotoRowProducer : public RowProducer {
 public:
  // Throws Error when the catalogue or the cache cannot be had.
  PhotoRowProducer(PhotoRowConfig config, Devices& devices, Fs& fs, Clock& clock);
  ~PhotoRowProducer() override;

  uint64_t photos() const override { return inventory_.size(); }
  Result<StoreInventory> scan() override { return inventory_.scan(); }
  Result<RowDelivery::RowSize> open(const wire::Job& job, const std::string& extractor,
                                    const std::string& head) override;
  Result<Made> make(std::span<const size_t> places) override;
  Result<std::string> sample(std::span<const std::string> photos) override;
  double bf16_gain() override;
  void give_up(uint64_t job) override { given_up_ = job; }
  void close() override;

  SegmentStore& cache() { return *cache_; }
  PhotoInventory& inventory() { return inventory_; }

 protected:
  // What there is, when it is not a directory that says so.
  void take(StoreInventory inventory) { inventory_.take(std::move(inventory)); }

 private:
  // How many of `n` photos the next piece of work has.
  size_t next_piece(size_t n) const;
  bool given_up() const { return given_up_ == job_.job(); }
  Made features(std::span<const size_t> places);
  Made labels(std::span<const size_t> places);
  // "" where there is none that holds.
  std::string cached_row(const FeatureRows& features, const Digest& photo) const;
  // A row of the extractor's outputs for each place: from the cache, from a kept crop, or from the
  // photo; empty where it is bad.
  std::vector<std::string> extract(std::span<const size_t> places, Made& made);

  PhotoRowConfig config_;
  Devices& devices_;
  Fs& fs_;
  PhotoInventory inventory_;
  std::unique_ptr<SegmentStore> cache_;
  std::atomic<uint64_t> given_up_ = UINT64_MAX;  // a job
  wire::Job job_;
  EnergyMeter energy_;
  Preprocess preprocess_;
  std::unique_ptr<Network> network_;  // of the job in progress
};

}  // namespace ndtrain::ndp
