// Rows from a directory of photos: features and labels through the engine and the feature cache,
// crops and files as they are.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ndp/engine/energy.h"
#include "ndp/engine/feature_rows.h"
#include "ndp/jobs/kept_hashes.h"
#include "ndp/jobs/view_rule.h"
#include "ndp/pipestore/network.h"
#include "ndp/pipestore/photo_inventory.h"
#include "ndp/pipestore/photo_row_config.h"
#include "ndp/pipestore/row_producer.h"
#include "ndp/store/segment_store.h"

namespace ndtrain::ndp {

class PhotoJobRows final : public JobRows {
 public:
  struct Ports {
    const PhotoRowConfig& config;
    Fs& fs;
    const PhotoInventory& files;
    SegmentStore& cache;  // what several jobs make is kept once
  };
  struct What {
    wire::Job job;
    std::shared_ptr<const StoreInventory> photos;
    std::unique_ptr<Network> network = {};  // of features and labels
    Preprocess preprocess = {};             // of crops
    ViewRule views = {};                    // of photos to train on, where it has some
    RowDelivery::RowSize row = {};
  };
  PhotoJobRows(const Ports& ports, What what);

  RowDelivery::RowSize row() const override { return what_.row; }
  Result<Made> make(std::span<const size_t> places) override;
  Result<Made> make_views(std::span<const size_t> places) override;
  Result<std::string> sample(std::span<const std::string> photos) override;
  Result<std::vector<std::optional<uint64_t>>> hashes(std::span<const size_t> places) override;
  void give_up() override { given_up_ = true; }

 private:
  // How many of `n` photos the next piece of work has.
  size_t next_piece(size_t n) const;
  const StorePhoto& photo(size_t place) const { return what_.photos->photos[place]; }
  // With the time and energy it takes; kUnavailable where photos are away.
  Result<Made> measured(const std::function<Result<Made>()>& make);
  Made features(std::span<const size_t> places);
  Made views(std::span<const size_t> places);
  Made labels(std::span<const size_t> places);
  void tell_of_labels(std::span<const size_t> places,
                      const std::vector<std::vector<ClassScore>>& best) const;
  // "" where there is none that holds.
  std::string cached_row(const FeatureRows& features, const Digest& photo) const;
  // By which engine features are made, and where they are kept.
  struct Extraction {
    Engine& engine;
    FeatureRows features;
    bool from_crops = true;  // that are kept
  };
  Extraction of_photos();
  void take_bad(size_t place, const Status& why, Made& made);
  // A row of the extractor's outputs for each place: from the cache, from a kept crop, or from the
  // photo; empty where it is bad.
  std::vector<std::string> extract(std::span<const size_t> places, Extraction by, Made& made);

  const Ports ports_;
  const What what_;
  EnergyMeter energy_;
  KeptHashes hashes_;
  std::atomic<bool> given_up_ = false;
  Status away_;  // why photos are, which stops what is made now
  // What is made now.
  struct View {
    std::span<const size_t> places;
    int64_t number = 0;
  };
  View view_;
  std::unique_ptr<Engine> view_engine_;  // of the places of `view_`
};

}  // namespace ndtrain::ndp
