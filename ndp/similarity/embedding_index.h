// Embeddings of many photos, and which of them are nearest to one: by a look at each (exact
// search), or, once divided by a partition, at those in the cells nearest to it (an inverted file),
// which misses few. Each number is kept as a bfloat16, which is off by 2^-9 of it at most, and so
// is a similarity, by 2^-9 (0.002).
//
// Not thread-safe; const members may run beside each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "framework/core/hash.h"
#include "ndp/similarity/embedding.h"
#include "ndp/similarity/embedding_partition.h"
#include "ndp/similarity/embedding_rows.h"

namespace ndtrain::ndp {

// How many a question is about, if it does not say so, and may be about.
inline constexpr int64_t kNeighbours = 20, kMostNeighbours = 1000;

struct Neighbour {
  Digest photo{};
  float similarity = 0;  // the cosine: 1 is the same direction
};

// The nearer one; of two as near, the lower digest.
bool is_nearer(const Neighbour& a, const Neighbour& b);

struct DigestHash {
  size_t operator()(const Digest& d) const;
};
using CellOfPhoto = std::unordered_map<Digest, uint32_t, DigestHash>;

class EmbeddingIndex {
 public:
  // The photos of a cell, or some of those of an index that is not divided.
  struct Block {
    std::vector<Digest> photos;
    std::vector<uint16_t> rows;  // [photos, dimensions]
  };

  explicit EmbeddingIndex(size_t dimensions) : dimensions_(dimensions) {}

  size_t dimensions() const { return dimensions_; }
  size_t size() const { return where_.size(); }
  static size_t bytes_of(size_t photos, size_t dimensions);  // in memory, about

  // Of length 1 and of these dimensions; replaces what there is of the photo.
  void put(const Digest& photo, const Embedding& embedding) {
    put(photo, embedding, cell_of(embedding));
  }
  // The same for who has asked cell_of() before.
  void put(const Digest& photo, const Embedding& embedding, size_t cell);
  size_t cell_of(const Embedding& embedding) const;  // 0 in one that is not divided
  void erase(const Digest& photo);

  // The k nearest that `accept` takes, nearest first; it is asked of few more than those. Where it
  // is divided, cells are looked at until there are k. Else by a look at each.
  std::vector<Neighbour> nearest(const Embedding& query, size_t k,
                                 const std::function<bool(const Digest&)>& accept) const;
  std::vector<Neighbour> nearest_exactly(const Embedding& query, size_t k,
                                         const std::function<bool(const Digest&)>& accept) const;

  // Null: it is not divided.
  const EmbeddingPartition* partition() const { return partition_.get(); }
  // From now on by this partition, of as many dimensions; `cells` may lack photos, or have more.
  void divide(std::shared_ptr<const EmbeddingPartition> partition, const CellOfPhoto& cells);

  // What a partition is made of: about so many rows, from all over; and all, block by block.
  EmbeddingRows sample(size_t rows) const;
  size_t blocks() const { return blocks_.size(); }
  Block block(size_t i) const { return blocks_.at(i); }
  static EmbeddingRows rows_of(const Block& block, size_t dimensions);

 private:
  struct Place {
    uint32_t block = 0, row = 0;
  };

  size_t block_for(size_t cell);
  void make_room(std::span<const Block> rows, const CellOfPhoto& cells);
  void append(Block& to, const Digest& photo, std::span<const uint16_t> row) const;
  std::vector<Neighbour> nearest_in(const std::vector<uint32_t>& order, size_t first_blocks,
                                    const Embedding& query, size_t k,
                                    const std::function<bool(const Digest&)>& accept) const;

  const size_t dimensions_;
  std::shared_ptr<const EmbeddingPartition> partition_;
  std::vector<Block> blocks_;  // one a cell, where it is divided
  std::unordered_map<Digest, Place, DigestHash> where_;
};

}  // namespace ndtrain::ndp
