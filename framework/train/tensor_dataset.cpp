#include <cstring>

#include "framework/train/dataset.h"

namespace ndtrain {

TensorDataset::TensorDataset(std::vector<Tensor> inputs, std::vector<int64_t> labels)
    : inputs_(std::move(inputs)), labels_(std::move(labels)) {
  for (const Tensor& t : inputs_) {
    if (t.shape().rank() == 0 || t.shape()[0] != size()) {
      throw Error("dataset: an input of ", t.type(), " for ", size(), " labels");
    }
  }
}

void TensorDataset::fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                          std::span<int64_t> labels) {
  for (size_t k = 0; k < inputs_.size(); ++k) {
    const size_t bytes = inputs_[k].bytes() / static_cast<size_t>(size());
    auto* to = static_cast<std::byte*>(inputs[k].mutable_data());
    const auto* from = static_cast<const std::byte*>(inputs_[k].data());
    for (size_t i = 0; i < rows.size(); ++i) {
      std::memcpy(to + i * bytes, from + static_cast<size_t>(rows[i]) * bytes, bytes);
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) labels[i] = labels_[static_cast<size_t>(rows[i])];
}

}  // namespace ndtrain
