#include "ndp/similarity/embedding_partition.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "framework/core/error.h"
#include "ndp/similarity/embedding.h"

namespace ndtrain::ndp {
namespace {

constexpr int kRounds = 8;         // of k-means; later ones move few rows
constexpr size_t kRowsAtOnce = 8;  // that a centre is compared with while it is in the first cache
constexpr int64_t kRowsOfAThread = 256;
constexpr uint64_t kMagic = 0x3154524150544e44;  // "NDTPART1"

struct PartitionHeader {
  uint64_t magic = kMagic;
  Digest extractor{};
  uint64_t dimensions = 0, cells = 0, photos = 0;
};

// The cell of each of some rows that stand behind each other.
void nearest_centres(const EmbeddingRows& centres, const EmbeddingRows& rows, size_t begin,
                     size_t end, uint32_t* cell) {
  for (size_t first = begin; first < end; first += kRowsAtOnce) {
    const size_t last = std::min(end, first + kRowsAtOnce);
    std::array<float, kRowsAtOnce> best{};
    best.fill(-std::numeric_limits<float>::infinity());
    for (size_t c = 0; c < centres.size(); ++c) {
      for (size_t i = first; i < last; ++i) {
        const float p = product(centres.row(c), rows.row(i));
        if (p <= best[i - first]) continue;
        best[i - first] = p;
        cell[i] = static_cast<uint32_t>(c);
      }
    }
  }
}

std::vector<uint32_t> assigned(const EmbeddingRows& centres, const EmbeddingRows& rows,
                               ThreadPool& threads, const std::stop_token& stop) {
  std::vector<uint32_t> cells(rows.size());
  threads.parallel_for(static_cast<int64_t>(rows.size()), kRowsOfAThread,
                       [&](int64_t begin, int64_t end) {
                         if (stop.stop_requested()) return;
                         nearest_centres(centres, rows, static_cast<size_t>(begin),
                                         static_cast<size_t>(end), cells.data());
                       });
  return cells;
}

// Of each cell the sum of its rows, at length 1. One that has none, or whose rows cancel out, keeps
// its centre.
void move_centres(EmbeddingRows& centres, const EmbeddingRows& rows,
                  const std::vector<uint32_t>& cells) {
  EmbeddingRows sums{.dimensions = rows.dimensions};
  sums.values.resize(centres.values.size());
  const std::span<float> all(sums.values);
  for (size_t i = 0; i < rows.size(); ++i) {
    add_scaled(all.subspan(cells[i] * rows.dimensions, rows.dimensions), 1, rows.row(i));
  }
  for (size_t c = 0; c < centres.size(); ++c) {
    const std::span<const float> sum = sums.row(c);
    Embedding centre(sum.begin(), sum.end());
    if (!normalise(centre)) continue;
    std::ranges::copy(centre,
                      centres.values.begin() + static_cast<std::ptrdiff_t>(c * rows.dimensions));
  }
}

}  // namespace

size_t EmbeddingPartition::cells_for(size_t photos) {
  return std::max<size_t>(1, static_cast<size_t>(4 * std::sqrt(static_cast<double>(photos))));
}

std::optional<EmbeddingPartition> EmbeddingPartition::of(const EmbeddingRows& sample, size_t cells,
                                                         uint64_t photos, ThreadPool& threads,
                                                         const std::stop_token& stop) {
  cells = std::min(cells, sample.size());
  if (cells == 0) throw Error("a partition of ", sample.size(), " embeddings into ", cells);
  EmbeddingRows centres{.dimensions = sample.dimensions};
  for (size_t c = 0; c < cells; ++c) centres.add(sample.row(c * sample.size() / cells));
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<uint32_t> of = assigned(centres, sample, threads, stop);
    if (stop.stop_requested()) return std::nullopt;
    move_centres(centres, sample, of);
  }
  return EmbeddingPartition(std::move(centres), photos);
}

size_t EmbeddingPartition::cell_of(std::span<const float> row) const {
  size_t cell = 0;
  float best = -std::numeric_limits<float>::infinity();
  for (size_t c = 0; c < cells(); ++c) {
    const float p = product(centres_.row(c), row);
    if (p > best) {
      best = p;
      cell = c;
    }
  }
  return cell;
}

std::vector<uint32_t> EmbeddingPartition::cells_of(const EmbeddingRows& rows,
                                                   ThreadPool& threads) const {
  return assigned(centres_, rows, threads, {});
}

std::vector<uint32_t> EmbeddingPartition::by_nearness(std::span<const float> query) const {
  std::vector<float> likeness(cells());
  for (size_t c = 0; c < cells(); ++c) likeness[c] = product(centres_.row(c), query);
  std::vector<uint32_t> order(cells());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    return likeness[a] != likeness[b] ? likeness[a] > likeness[b] : a < b;
  });
  return order;
}

std::string EmbeddingPartition::bytes(const Digest& extractor) const {
  const PartitionHeader header{
      .extractor = extractor, .dimensions = dimensions(), .cells = cells(), .photos = photos_};
  const size_t values = centres_.values.size() * sizeof(float);
  std::string all(sizeof header + values, '\0');
  std::memcpy(all.data(), &header, sizeof header);
  std::memcpy(all.data() + sizeof header, centres_.values.data(), values);
  return all;
}

EmbeddingPartition EmbeddingPartition::read(std::span<const std::byte> bytes,
                                            const Digest& extractor, size_t dimensions) {
  PartitionHeader header;
  if (bytes.size() < sizeof header) {
    throw Error("a partition of ", bytes.size(), " bytes, which is less than its header");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) throw Error("no partition of embeddings, or one of another version");
  if (header.extractor != extractor) {
    throw Error("a partition of the embeddings of extractor ", to_hex(header.extractor), ", not ",
                to_hex(extractor));
  }
  const size_t values = (bytes.size() - sizeof header) / sizeof(float);
  if (header.dimensions != dimensions || header.cells == 0 || values / dimensions != header.cells ||
      bytes.size() != sizeof header + header.cells * dimensions * sizeof(float)) {
    throw Error("a partition of ", header.cells, " cells in ", header.dimensions,
                " dimensions, not ", dimensions, ", by ", bytes.size(), " bytes");
  }
  EmbeddingRows centres{.dimensions = dimensions};
  centres.values.resize(values);
  std::memcpy(centres.values.data(), bytes.data() + sizeof header, values * sizeof(float));
  if (!std::ranges::all_of(centres.values, [](float x) { return std::isfinite(x); })) {
    throw Error("a partition whose centres are no numbers");
  }
  return {std::move(centres), header.photos};
}

}  // namespace ndtrain::ndp
