#include "ndp/similarity/embedding_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "framework/core/dtype.h"
#include "framework/core/error.h"

namespace ndtrain::ndp {
namespace {

// Sums side by side, which the compiler keeps in vector registers.
constexpr size_t kLanes = 16;

float product(const uint16_t* row, const float* query, size_t n) {
  std::array<float, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += std::bit_cast<float>(uint32_t{row[i + lane]} << 16) * query[i + lane];
    }
  }
  float sum = 0;
  for (; i < n; ++i) sum += f32_from_bf16(row[i]) * query[i];
  for (const float s : sums) sum += s;
  return sum;
}

}  // namespace

bool is_nearer(const Neighbour& a, const Neighbour& b) {
  return a.similarity != b.similarity ? a.similarity > b.similarity : a.photo < b.photo;
}

size_t EmbeddingIndex::Hash::operator()(const Digest& d) const {
  size_t hash = 0;
  std::memcpy(&hash, d.data(), sizeof hash);
  return hash;
}

size_t EmbeddingIndex::bytes_of(size_t photos, size_t dimensions) {
  constexpr size_t kOfAPhoto = 2 * sizeof(Digest) + 4 * sizeof(void*);
  return photos * (dimensions * sizeof(uint16_t) + kOfAPhoto);
}

void EmbeddingIndex::put(const Digest& photo, const Embedding& embedding) {
  if (embedding.size() != dimensions_) {
    throw Error("an embedding of ", embedding.size(), " numbers among those of ", dimensions_);
  }
  const auto [at, is_new] = row_of_.emplace(photo, photos_.size());
  if (is_new) {
    photos_.push_back(photo);
    rows_.resize(photos_.size() * dimensions_);
  }
  std::ranges::transform(embedding, &rows_[at->second * dimensions_], bf16_from_f32);
}

void EmbeddingIndex::erase(const Digest& photo) {
  const auto at = row_of_.find(photo);
  if (at == row_of_.end()) return;
  const size_t row = at->second, last = photos_.size() - 1;
  row_of_.erase(at);
  if (row != last) {
    photos_[row] = photos_[last];
    row_of_[photos_[row]] = row;
    std::copy_n(&rows_[last * dimensions_], dimensions_, &rows_[row * dimensions_]);
  }
  photos_.pop_back();
  rows_.resize(photos_.size() * dimensions_);
}

std::vector<Neighbour> EmbeddingIndex::nearest(
    const Embedding& query, size_t k, const std::function<bool(const Digest&)>& accept) const {
  if (query.size() != dimensions_) {
    throw Error("an embedding of ", query.size(), " numbers is compared with those of ",
                dimensions_);
  }
  std::vector<Neighbour> all(photos_.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = {photos_[i], product(&rows_[i * dimensions_], query.data(), dimensions_)};
  }
  std::vector<Neighbour> best;
  // As many are sorted as are asked of; twice as many when too few of them are taken.
  for (size_t sorted = 0, some = k; best.size() < k && sorted < all.size(); some *= 2) {
    const size_t end = std::min(all.size(), sorted + some);
    std::partial_sort(all.begin() + static_cast<std::ptrdiff_t>(sorted),
                      all.begin() + static_cast<std::ptrdiff_t>(end), all.end(), is_nearer);
    for (; sorted < end; ++sorted) {
      if (best.size() < k && accept(all[sorted].photo)) best.push_back(all[sorted]);
    }
  }
  return best;
}

}  // namespace ndtrain::ndp
