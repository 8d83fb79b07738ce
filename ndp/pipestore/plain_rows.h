// Rows of photos without a model: their crops, and their files as they are.
#pragma once

#include <span>

#include "ndp/engine/crops.h"
#include "ndp/pipestore/photo_inventory.h"
#include "ndp/pipestore/row_producer.h"

namespace ndtrain::ndp {

// From `kept` where they are, else from the photos by `decoder`, then kept. `packed`: by zstd.
// kUnavailable: the photos are away; so it is with files.
Result<JobRows::Made> crop_rows(const PhotoInventory& files, const StoreInventory& photos,
                                std::span<const size_t> places, CropCache& kept,
                                const Preprocess& preprocess, PhotoDecoder& decoder, bool packed);

Result<JobRows::Made> file_rows(const PhotoInventory& files, const StoreInventory& photos,
                                std::span<const size_t> places);

}  // namespace ndtrain::ndp
