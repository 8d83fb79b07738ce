// How the matrix products of a convolution are shared out over threads: a task is one group, one
// block of columns, some of the row panels. Rows are cut only where blocks are few.
#pragma once

#include <algorithm>

#include "backends/cpu/gemm/packed_gemm.h"
#include "backends/cpu/kernels/conv_columns.h"

namespace ndtrain::cpu {

class ConvTasks {
 public:
  struct Task {
    int64_t group, block;
    int64_t first_panel, last_panel;
  };

  ConvTasks(int64_t groups, const ConvColumns& columns, const RowPanels& rows, int slots)
      : groups_(groups), blocks_(static_cast<int64_t>(columns.blocks().size())), rows_(rows) {
    const int64_t wanted = kTasksPerThread * slots, tasks = groups_ * blocks_;
    if (slots < 2 || tasks == 0 || tasks >= wanted) return;
    row_chunks_ = std::clamp<int64_t>((wanted + tasks - 1) / tasks, 1,
                                      std::max<int64_t>(1, rows.count() / 2));
  }

  int64_t count() const { return groups_ * blocks_ * row_chunks_; }
  int64_t most_panels() const { return (rows_.count() + row_chunks_ - 1) / row_chunks_; }
  Task operator[](int64_t i) const {
    const int64_t chunk = i % row_chunks_, rest = i / row_chunks_;
    return {rest % groups_, rest / groups_, chunk * rows_.count() / row_chunks_,
            (chunk + 1) * rows_.count() / row_chunks_};
  }

 private:
  static constexpr int64_t kTasksPerThread = 3;

  int64_t groups_, blocks_, row_chunks_ = 1;
  RowPanels rows_;
};

}  // namespace ndtrain::cpu
