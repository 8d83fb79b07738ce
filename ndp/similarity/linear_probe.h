// A linear probe: multinomial logistic regression on embeddings. It minimises, as scikit-learn's
// LogisticRegression does,
//   sum over examples of -log p(label | row)  +  |W|^2 / (2 C),   p = softmax(W row + b),
// by L-BFGS (Liu and Nocedal, "On the limited memory BFGS method for large scale optimization",
// 1989). The bias is free of the penalty. Given the same examples in the same order, it comes to
// the same bits on any number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/thread_pool.h"
#include "ndp/similarity/embedding_rows.h"

namespace ndtrain::ndp {

struct LinearProbe {
  size_t classes = 0, dimensions = 0;
  std::vector<float> weights;  // [classes, dimensions], then a bias of each class

  // Of a row, softmax; `to` has as many numbers as there are classes.
  void probabilities(std::span<const float> row, std::span<double> to) const;
};

struct ProbeExample {
  size_t row = 0;
  size_t label = 0;  // below the classes
};

// `c`: the inverse of the penalty, above 0. `begin`: a probe of as many classes and dimensions to
// begin with, which may save steps. Classes without an example get what their bias comes to, which
// is little. Throws Error without examples, or when a row or label is not there.
LinearProbe fit_probe(const EmbeddingRows& rows, std::span<const ProbeExample> examples,
                      size_t classes, double c, ThreadPool& threads,
                      const LinearProbe* begin = nullptr);

}  // namespace ndtrain::ndp
