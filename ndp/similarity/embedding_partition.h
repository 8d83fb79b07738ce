// A space of embeddings cut into cells: a cell is all that is nearer to its centre than to any
// other's (the coarse quantizer of an inverted file; Sivic and Zisserman, "Video Google", 2003).
// What is near to a query is, mostly, in the few cells whose centres are.
//
// Immutable; any number of threads may read it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/thread_pool.h"
#include "ndp/similarity/embedding_rows.h"

namespace ndtrain::ndp {

class EmbeddingPartition {
 public:
  // Spherical k-means (Dhillon and Modha, 2001) over `sample`, rows of length 1; `photos`: how many
  // it is made for. As many cells as `sample` has rows at most. The same for any number of threads.
  // Nullopt: stopped. Throws Error for 0 rows or cells.
  static std::optional<EmbeddingPartition> of(const EmbeddingRows& sample, size_t cells,
                                              uint64_t photos, ThreadPool& threads,
                                              const std::stop_token& stop = {});

  // As many as make the centres and the rows of the cells that are looked at take about as long.
  static size_t cells_for(size_t photos);

  size_t cells() const { return centres_.size(); }
  size_t dimensions() const { return centres_.dimensions; }
  uint64_t photos() const { return photos_; }

  size_t cell_of(std::span<const float> row) const;
  // Of each of `rows`, by all threads.
  std::vector<uint32_t> cells_of(const EmbeddingRows& rows, ThreadPool& threads) const;
  // All of them, the one with the nearest centre first.
  std::vector<uint32_t> by_nearness(std::span<const float> query) const;

  // As bytes, with the extractor whose embeddings it is of. read() throws Error where they are of
  // another one, of another number of dimensions, or no partition.
  std::string bytes(const Digest& extractor) const;
  static EmbeddingPartition read(std::span<const std::byte> bytes, const Digest& extractor,
                                 size_t dimensions);

 private:
  EmbeddingPartition(EmbeddingRows centres, uint64_t photos)
      : centres_(std::move(centres)), photos_(photos) {}

  EmbeddingRows centres_;
  uint64_t photos_;
};

}  // namespace ndtrain::ndp
