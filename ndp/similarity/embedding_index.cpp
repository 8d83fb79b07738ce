#include "ndp/similarity/embedding_index.h"

#include <malloc.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "framework/core/dtype.h"
#include "framework/core/error.h"
#include "ndp/similarity/lanes.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kRowsOfABlock = 4096;  // of an index that is not divided
constexpr size_t kGivenBack = 16;       // such blocks that go between two malloc_trim()
constexpr size_t kCellsLookedAt = 32;   // at least
constexpr size_t kRowsPerResult = 16;   // looked at, at least

}  // namespace

bool is_nearer(const Neighbour& a, const Neighbour& b) {
  return a.similarity != b.similarity ? a.similarity > b.similarity : a.photo < b.photo;
}

size_t DigestHash::operator()(const Digest& d) const {
  size_t hash = 0;
  std::memcpy(&hash, d.data(), sizeof hash);
  return hash;
}

size_t EmbeddingIndex::bytes_of(size_t photos, size_t dimensions) {
  constexpr size_t kOfAPhoto = 2 * sizeof(Digest) + 4 * sizeof(void*);
  return photos * (dimensions * sizeof(uint16_t) + kOfAPhoto);
}

size_t EmbeddingIndex::cell_of(const Embedding& embedding) const {
  if (embedding.size() != dimensions_) {
    throw Error("an embedding of ", embedding.size(), " numbers among those of ", dimensions_);
  }
  return partition_ ? partition_->cell_of(embedding) : 0;
}

size_t EmbeddingIndex::block_for(size_t cell) {
  if (partition_) return cell;
  if (blocks_.empty() || blocks_.back().photos.size() >= kRowsOfABlock) blocks_.emplace_back();
  return blocks_.size() - 1;
}

// An eighth at a time: doubling would keep up to twice the memory.
void EmbeddingIndex::append(Block& to, const Digest& photo, std::span<const uint16_t> row) const {
  if (to.photos.size() == to.photos.capacity()) {
    const size_t photos = to.photos.size() + std::max<size_t>(16, to.photos.size() / 8);
    to.photos.reserve(photos);
    to.rows.reserve(photos * dimensions_);
  }
  to.photos.push_back(photo);
  to.rows.insert(to.rows.end(), row.begin(), row.end());
}

void EmbeddingIndex::put(const Digest& photo, const Embedding& embedding, size_t cell) {
  if (embedding.size() != dimensions_) {
    throw Error("an embedding of ", embedding.size(), " numbers among those of ", dimensions_);
  }
  erase(photo);
  std::vector<uint16_t> row(dimensions_);
  std::ranges::transform(embedding, row.begin(), bf16_from_f32);
  const size_t block = block_for(cell);
  append(blocks_.at(block), photo, row);
  where_[photo] = {static_cast<uint32_t>(block),
                   static_cast<uint32_t>(blocks_[block].photos.size() - 1)};
}

void EmbeddingIndex::erase(const Digest& photo) {
  const auto at = where_.find(photo);
  if (at == where_.end()) return;
  const Place place = at->second;
  Block& block = blocks_[place.block];
  const size_t last = block.photos.size() - 1;
  where_.erase(at);
  if (place.row != last) {
    block.photos[place.row] = block.photos[last];
    where_[block.photos[place.row]] = place;
    std::copy_n(&block.rows[last * dimensions_], dimensions_, &block.rows[place.row * dimensions_]);
  }
  block.photos.pop_back();
  block.rows.resize(block.photos.size() * dimensions_);
}

EmbeddingRows EmbeddingIndex::rows_of(const Block& block, size_t dimensions) {
  EmbeddingRows rows{.dimensions = dimensions};
  rows.values.resize(block.rows.size());
  std::ranges::transform(block.rows, rows.values.begin(), f32_from_bf16);
  return rows;
}

EmbeddingRows EmbeddingIndex::sample(size_t rows) const {
  EmbeddingRows some{.dimensions = dimensions_};
  const size_t step = std::max<size_t>(1, size() / std::max<size_t>(1, rows));
  some.values.reserve((size() / step + 1) * dimensions_);
  size_t seen = 0;
  for (const Block& b : blocks_) {
    for (size_t i = 0; i < b.photos.size(); ++i) {
      if (seen++ % step != 0) continue;
      for (size_t d = 0; d < dimensions_; ++d) {
        some.values.push_back(f32_from_bf16(b.rows[i * dimensions_ + d]));
      }
    }
  }
  return some;
}

// In cells that are empty. Nothing is written there yet, so that it takes no memory either.
void EmbeddingIndex::make_room(std::span<const Block> rows, const CellOfPhoto& cells) {
  std::vector<size_t> photos(blocks_.size());
  for (const Block& b : rows) {
    for (const Digest& photo : b.photos) {
      const auto known = cells.find(photo);
      if (known != cells.end() && known->second < photos.size()) ++photos[known->second];
    }
  }
  for (size_t cell = 0; cell < photos.size(); ++cell) {
    blocks_[cell].photos.reserve(photos[cell]);
    blocks_[cell].rows.reserve(photos[cell] * dimensions_);
  }
}

// Block by block, each of which goes before the next: never twice all rows. What a block took lies
// free in the middle of the heap, and the system would not have it by itself.
void EmbeddingIndex::divide(std::shared_ptr<const EmbeddingPartition> partition,
                            const CellOfPhoto& cells) {
  if (partition->dimensions() != dimensions_) {
    throw Error("a partition in ", partition->dimensions(), " dimensions divides embeddings of ",
                dimensions_);
  }
  partition_ = std::move(partition);
  std::vector<Block> before(partition_->cells());
  before.swap(blocks_);
  make_room(before, cells);
  size_t gone = 0;
  for (Block& b : before) {
    const EmbeddingRows rows = rows_of(b, dimensions_);
    for (size_t i = 0; i < b.photos.size(); ++i) {
      const auto known = cells.find(b.photos[i]);
      const size_t cell = known != cells.end() && known->second < blocks_.size()
                              ? known->second
                              : partition_->cell_of(rows.row(i));
      append(blocks_[cell], b.photos[i], std::span(b.rows).subspan(i * dimensions_, dimensions_));
      where_[b.photos[i]] = {static_cast<uint32_t>(cell),
                             static_cast<uint32_t>(blocks_[cell].photos.size() - 1)};
    }
    b = {};
    if (++gone % kGivenBack == 0) malloc_trim(0);
  }
}

std::vector<Neighbour> EmbeddingIndex::nearest(
    const Embedding& query, size_t k, const std::function<bool(const Digest&)>& accept) const {
  if (!partition_ || query.size() != dimensions_) return nearest_exactly(query, k, accept);
  return nearest_in(partition_->by_nearness(query), kCellsLookedAt, query, k, accept);
}

std::vector<Neighbour> EmbeddingIndex::nearest_exactly(
    const Embedding& query, size_t k, const std::function<bool(const Digest&)>& accept) const {
  if (query.size() != dimensions_) {
    throw Error("an embedding of ", query.size(), " numbers is compared with those of ",
                dimensions_);
  }
  std::vector<uint32_t> all(blocks_.size());
  std::iota(all.begin(), all.end(), 0U);
  return nearest_in(all, all.size(), query, k, accept);
}

// In the blocks in this order: the first ones, and twice as many while those have too few.
std::vector<Neighbour> EmbeddingIndex::nearest_in(
    const std::vector<uint32_t>& order, size_t first_blocks, const Embedding& query, size_t k,
    const std::function<bool(const Digest&)>& accept) const {
  std::vector<Neighbour> seen, best;
  size_t looked = 0;
  for (size_t until = first_blocks; looked < order.size() && best.size() < k; until *= 2) {
    for (; looked < order.size() && (looked < until || seen.size() < kRowsPerResult * k);
         ++looked) {
      const Block& b = blocks_[order[looked]];
      for (size_t i = 0; i < b.photos.size(); ++i) {
        seen.push_back(
            {b.photos[i], product_in_lanes(&b.rows[i * dimensions_], query.data(), dimensions_)});
      }
    }
    best.clear();
    // As many are sorted as are asked of; twice as many when too few of them are taken.
    for (size_t sorted = 0, some = k; best.size() < k && sorted < seen.size(); some *= 2) {
      const size_t end = std::min(seen.size(), sorted + some);
      std::partial_sort(seen.begin() + static_cast<std::ptrdiff_t>(sorted),
                        seen.begin() + static_cast<std::ptrdiff_t>(end), seen.end(), is_nearer);
      for (; sorted < end; ++sorted) {
        if (best.size() < k && accept(seen[sorted].photo)) best.push_back(seen[sorted]);
      }
    }
  }
  return best;
}

}  // namespace ndtrain::ndp
