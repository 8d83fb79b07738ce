#pragma once

#include <span>
#include <vector>

#include "framework/core/tensor.h"

namespace ndtrain {

// Labelled rows that training and evaluation read in any order. fetch() may be called by one thread
// at a time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Soft labels are of several classes, each with its weight(); as many for every row.
  virtual int64_t labels_of_row() const { return 1; }
  // Fills the first rows.size() rows of each input (shape [batch, …], one per input of the trained
  // graph, batch >= rows.size()) and `labels`, a row's one after the other.
  virtual void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
                     std::span<int64_t> labels) = 0;
  // What the loss by this label of the row is multiplied by in training; evaluation does not ask.
  virtual double weight(int64_t /*row*/, int64_t /*label*/) const { return 1; }
};

// Rows held in memory.
class TensorDataset final : public Dataset {
 public:
  // inputs[k] is [n, …] f32; labels has n entries.
  TensorDataset(std::vector<Tensor> inputs, std::vector<int64_t> labels);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override;

 private:
  std::vector<Tensor> inputs_;
  std::vector<int64_t> labels_;
};

}  // namespace ndtrain
