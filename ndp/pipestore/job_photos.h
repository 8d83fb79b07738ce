// The files of some of a job's photos: where they are far away, several are asked for at a time,
// ahead of their use.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "ndp/photos/read_ahead.h"
#include "ndp/pipestore/photo_inventory.h"
#include "ndp/pipestore/row_producer.h"

namespace ndtrain::ndp {

class JobPhotos {
 public:
  // All but `places` outlives it: they will be read in this order, about; so may others.
  JobPhotos(const PhotoInventory& files, const StoreInventory& photos,
            std::span<const size_t> places)
      : files_(files), photos_(photos) {
    if (!files.is_far()) return;
    ahead_ = std::make_unique<PhotoReadAhead>(PhotoReadAhead::Items{
        .in_order = places,
        .open = [this](size_t place) { return files_.read(photos_.photos[place]); },
        .bytes = [this](size_t place) { return photos_.photos[place].bytes; }});
  }

  // As PhotoInventory::read; any thread.
  Result<std::string> read(size_t place) {
    return ahead_ ? ahead_->take(place) : files_.read(photos_.photos[place]);
  }

 private:
  const PhotoInventory& files_;
  const StoreInventory& photos_;
  std::unique_ptr<PhotoReadAhead> ahead_;
};

}  // namespace ndtrain::ndp
