// How an index of embeddings is divided while others search it and one thread changes it.
#pragma once

#include <memory>
#include <shared_mutex>
#include <stop_token>

#include "framework/core/thread_pool.h"
#include "ndp/similarity/embedding_index.h"

namespace ndtrain::ndp {

struct IndexDivision {
  std::shared_ptr<const EmbeddingPartition> partition;  // null: stopped
  CellOfPhoto cells;  // of those that were there; EmbeddingIndex::divide() takes them over
};

// A partition for as many photos as the index has, and the cell of each. Takes `mutex` for reading,
// for as long as a block is copied. Throws Error for an index without photos.
IndexDivision division_of(const EmbeddingIndex& index, std::shared_mutex& mutex,
                          ThreadPool& threads, const std::stop_token& stop = {});

}  // namespace ndtrain::ndp
