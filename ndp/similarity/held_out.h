// What is likely of each class of an example, by the others: cross-validation over embeddings, of a
// linear probe and of nearest neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "framework/core/thread_pool.h"
#include "ndp/similarity/linear_probe.h"

namespace ndtrain::ndp {

// Of each example, of each class.
struct Probabilities {
  size_t classes = 0;
  std::vector<double> values = {};

  Probabilities() = default;
  Probabilities(size_t examples, size_t of_classes)
      : classes(of_classes), values(examples * of_classes) {}

  size_t size() const { return classes == 0 ? 0 : values.size() / classes; }
  std::span<double> of(size_t example) {
    return std::span(values).subspan(example * classes, classes);
  }
  std::span<const double> of(size_t example) const {
    return std::span(values).subspan(example * classes, classes);
  }
};

// The mean of two.
Probabilities mean_of(const Probabilities& a, const Probabilities& b);

// Which fold each example is in: each class is spread over all of them (stratified), in the order
// in which its examples come.
std::vector<size_t> folds_of(std::span<const ProbeExample> examples, size_t classes, size_t folds);

// By probes that are fitted to the other folds. `rows` as centred() gives them.
Probabilities held_out_by_probe(const EmbeddingRows& rows, std::span<const ProbeExample> examples,
                                size_t classes, std::span<const size_t> fold_of, double c,
                                ThreadPool& threads);

// A penalty, and what it gives.
struct HeldOutProbe {
  double c = 0;
  Probabilities held_out;
};

// That of 0.001, 0.01, 0.1 and 1 by which what is held out is likeliest.
HeldOutProbe choose_probe(const EmbeddingRows& rows, std::span<const ProbeExample> examples,
                          size_t classes, std::span<const size_t> fold_of, ThreadPool& threads);

// How likely the examples' labels are: the mean of -log p, and the share whose label is likeliest.
double mean_loss(std::span<const ProbeExample> examples, const Probabilities& held_out);
double accuracy(std::span<const ProbeExample> examples, const Probabilities& held_out);

// Nearest neighbours vote for their labels with exp(cosine / kVoteTemperature), as in Wu et al.,
// "Unsupervised feature learning via non-parametric instance discrimination", CVPR 2018; one
// hundredth of the votes is spread over the classes, so that none is impossible. `rows` of
// length 1.
inline constexpr size_t kVoters = 20;
inline constexpr double kVoteTemperature = 0.1;

// Of rows that need not be examples; an example has no vote on its own row. Throws Error without
// examples.
Probabilities by_neighbours(const EmbeddingRows& rows, std::span<const size_t> asked,
                            std::span<const ProbeExample> examples, size_t classes,
                            ThreadPool& threads);

}  // namespace ndtrain::ndp
