// Embeddings of many photos, and which of them are nearest to one: by a look at each (exact
// search). Each number is kept as a bfloat16, which is off by 2^-9 of it at most, and so is a
// similarity, by 2^-9 (0.002).
//
// Not thread-safe; const members may run beside each other.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "framework/core/hash.h"
#include "ndp/similarity/embedding.h"

namespace ndtrain::ndp {

// How many a question is about, if it does not say so, and may be about.
inline constexpr int64_t kNeighbours = 20, kMostNeighbours = 1000;

struct Neighbour {
  Digest photo{};
  float similarity = 0;  // the cosine: 1 is the same direction
};

// The nearer one; of two as near, the lower digest.
bool is_nearer(const Neighbour& a, const Neighbour& b);

class EmbeddingIndex {
 public:
  explicit EmbeddingIndex(size_t dimensions) : dimensions_(dimensions) {}

  size_t dimensions() const { return dimensions_; }
  size_t size() const { return photos_.size(); }
  static size_t bytes_of(size_t photos, size_t dimensions);  // in memory, about

  // Of length 1 and of these dimensions; replaces what there is of the photo.
  void put(const Digest& photo, const Embedding& embedding);
  void erase(const Digest& photo);

  // The k nearest that `accept` takes, nearest first; it is asked of few more than those.
  std::vector<Neighbour> nearest(const Embedding& query, size_t k,
                                 const std::function<bool(const Digest&)>& accept) const;

 private:
  struct Hash {
    size_t operator()(const Digest& d) const;
  };

  const size_t dimensions_;
  std::vector<Digest> photos_;  // of each row
  std::vector<uint16_t> rows_;
  std::unordered_map<Digest, size_t, Hash> row_of_;
};

}  // namespace ndtrain::ndp
