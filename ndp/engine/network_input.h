#pragma once

#include "framework/runtime/batch_plans.h"
#include "ndp/photos/preprocess.h"

namespace ndtrain::ndp {

// Lets the plans read crops as bytes where their device has memory of its own: a quarter of what
// floats are on the way there. Before they run anything.
void send_bytes_where_faster(BatchPlans& plans, const Preprocess& preprocess);

// The rows of a batch as plans read them: normalised floats, or the crops' bytes. Rows may be
// filled by several threads at once.
class NetworkInput {
 public:
  // `to`, if any: the device to which rows go again and again, from memory of host_tensor().
  NetworkInput(const Preprocess& preprocess, bool bytes, const Device* to = nullptr);

  void resize(int64_t rows);  // what they hold is lost; allocates when there never were as many
  void put(int64_t row, const Image& crop);
  void copy(int64_t from, int64_t to);
  Tensor first(int64_t rows) const;  // as they lie: later changes show

 private:
  std::byte* row(int64_t i);

  const Preprocess& preprocess_;
  const bool bytes_;
  const Device* const to_;
  size_t row_bytes_;
  Tensor room_;  // for the most rows there ever were
};

}  // namespace ndtrain::ndp
