#include "ndp/similarity/index_division.h"

#include <optional>
#include <utility>

namespace ndtrain::ndp {
namespace {

constexpr size_t kSampleOfACell = 32;  // rows that its centre is the mean of, on average

}  // namespace

IndexDivision division_of(const EmbeddingIndex& index, std::shared_mutex& mutex,
                          ThreadPool& threads, const std::stop_token& stop) {
  std::optional<EmbeddingPartition> made;
  {
    std::shared_lock lock(mutex);
    const size_t photos = index.size(), cells = EmbeddingPartition::cells_for(photos);
    const EmbeddingRows sample = index.sample(kSampleOfACell * cells);
    lock.unlock();
    made = EmbeddingPartition::of(sample, cells, photos, threads, stop);
  }
  if (!made) return {};
  IndexDivision division{std::make_shared<const EmbeddingPartition>(std::move(*made)), {}};
  for (size_t i = 0;; ++i) {
    if (stop.stop_requested()) return {};
    std::shared_lock lock(mutex);
    if (i >= index.blocks()) return division;
    const EmbeddingIndex::Block block = index.block(i);
    lock.unlock();
    const std::vector<uint32_t> cells =
        division.partition->cells_of(EmbeddingIndex::rows_of(block, index.dimensions()), threads);
    for (size_t row = 0; row < cells.size(); ++row) division.cells[block.photos[row]] = cells[row];
  }
}

}  // namespace ndtrain::ndp
