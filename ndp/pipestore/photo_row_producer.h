// Makes rows from a directory of photos, for any number of jobs (PhotoJobRows).
#pragma once

#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "framework/runtime/devices.h"
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
  Result<std::unique_ptr<JobRows>> open(const wire::Job& job,
                                        std::shared_ptr<const StoreInventory> inventory,
                                        const std::string& extractor,
                                        const std::string& head) override;
  double bf16_gain() override;

  SegmentStore& cache() { return *cache_; }
  PhotoInventory& inventory() { return inventory_; }

 private:
  PhotoRowConfig config_;
  Devices& devices_;
  Fs& fs_;
  PhotoInventory inventory_;
  std::unique_ptr<SegmentStore> cache_;
  std::unique_ptr<FetchedFiles> fetched_;  // where photos are far away
};

}  // namespace ndtrain::ndp
