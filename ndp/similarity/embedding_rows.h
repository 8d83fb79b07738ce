// Embeddings of many photos, in one piece.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace ndtrain::ndp {

// Rows of as many numbers each, one behind the other.
struct EmbeddingRows {
  size_t dimensions = 0;
  std::vector<float> values = {};

  size_t size() const { return dimensions == 0 ? 0 : values.size() / dimensions; }
  std::span<const float> row(size_t i) const {
    return std::span(values).subspan(i * dimensions, dimensions);
  }
  void add(std::span<const float> row) { values.insert(values.end(), row.begin(), row.end()); }
};

// The same, less their mean, and scaled so that their numbers have a variance of 1 on average: C
// means the same then, whatever the features. Of one row, or of equal ones: all 0.
EmbeddingRows centred(EmbeddingRows rows);

// The sum of the products of two rows of as many numbers; the same bits every time.
float product(std::span<const float> a, std::span<const float> b);

// to += times * row
void add_scaled(std::span<float> to, float times, std::span<const float> row);

}  // namespace ndtrain::ndp
