// Rows of photos without a model: their crops, and their files as they are.
#pragma once

#include <span>

#include "ndp/engine/crops.h"
#include "ndp/pipestore/photo_inventory.h"
#include "ndp/pipestore/row_maker.h"

namespace ndtrain {

// From `kept` where they are, else from the photos, then kept. `packed`: by zstd.
RowMaker::Made crop_rows(const PhotoInventory& inventory, std::span<const size_t> places,
                         CropCache& kept, const Preprocess& preprocess, bool packed);

RowMaker::Made file_rows(const PhotoInventory& inventory, std::span<const size_t> places);

}  // namespace ndtrain
