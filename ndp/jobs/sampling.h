// Which of a collection's training photos are trained on, how often, and how much each counts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/train/dataset.h"
#include "ndp/jobs/training_photos.h"

namespace ndtrain::ndp {

struct Sampling {
  // Only photos with a label of this time or later, in Unix seconds; with `truth_share` these are
  // the recent ones.
  std::optional<int64_t> since = {};
  std::vector<std::string> labels = {};  // only photos that show one of these; {}: all
  // Only so many photos, drawn by their content; with `truth_share` of the older ones. 0: all
  int64_t sample = 0;
  // So much of what is drawn for an epoch is recent; above 0, below 1.
  std::optional<double> truth_share = {};
  bool balanced = false;  // each class is drawn equally often
  // Of the loss: "balanced", by n / (k n_c), as scikit-learn has it, of n photos, k classes that
  // have some, and n_c photos of the class; or "cat=2,dog=0.5", see names_between_commas(), and 1
  // for the others; "": 1.
  std::string class_weights = {};

  bool draws() const { return balanced || truth_share.has_value(); }
  bool weighs() const { return draws() || !class_weights.empty(); }
  bool any() const { return weighs() || since || !labels.empty() || sample > 0; }
  // Throws Error where members are out of range or contradict each other.
  void check() const;
};

// What stands between commas; "\," is a comma of a name.
std::vector<std::string> names_between_commas(std::string_view text);

// All of it, the same text for equal ones.
std::string describe(const Sampling& sampling);

// A photo that may be trained on.
struct Candidate {
  Digest photo{};
  int64_t label = 0;
  bool recent = false;  // see Sampling::since
};

// Which of them are. The same photos are drawn wherever they lie, whatever their order. Throws
// Error for a label that is none of `classes`, and where nothing is left.
std::vector<bool> chosen(std::span<const Candidate> photos, const Sampling& sampling,
                         const std::vector<std::string>& classes, uint64_t seed);

// Takes out the photos to train on that are not chosen; those for validation all stay, so that
// accuracies can be compared. Says how many are left, where some are not. Throws Error as chosen()
// does.
void choose_photos(TrainingPhotos& photos, const Sampling& sampling, uint64_t seed,
                   Progress& progress);

// A row that is trained on.
struct SampledRow {
  int64_t label = 0;
  bool recent = false;  // as `since` has it
};

// Of each row, by Sampling::class_weights. Throws Error for a class that is none of `classes`, and
// for a weight that is not a positive number.
std::vector<double> loss_weights(std::span<const SampledRow> rows, const Sampling& sampling,
                                 const std::vector<std::string>& classes);
// The probability of each row at each draw for a place of its shard (ShardRows): of PyTorch's
// WeightedRandomSampler, with replacement. Throws Error where the recent rows of a shard are none
// or all, and a share is asked for.
std::vector<double> draw_probabilities(std::span<const SampledRow> rows, const Sampling& sampling,
                                       int64_t shards = 1);

// As many rows as `rows` has, drawn anew in each epoch by `probabilities`, each from the shard of
// its place, or in their places where there are none. What is drawn for a place is a function of
// the seed, the epoch and the place, so the same for any number of ranks, and when a training is
// resumed.
class SampledRows final : public Dataset {
 public:
  // `epoch`: the current one. `weights`: of the loss, one for each of `rows`.
  SampledRows(std::unique_ptr<Dataset> rows, std::vector<double> weights,
              std::span<const double> probabilities, uint64_t seed, std::function<int64_t()> epoch,
              int64_t shards = 1);

  int64_t size() const override { return rows_->size(); }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override;
  int64_t labels_of_row() const override { return rows_->labels_of_row(); }
  double weight(int64_t row, int64_t label) const override;

  int64_t drawn(int64_t row) const;  // in the current epoch, of the rows it was made of

 private:
  std::unique_ptr<Dataset> rows_;
  std::vector<double> weights_;
  // By shard, of each row: the sum of its probability and those before. {}: nothing is drawn.
  std::vector<std::vector<double>> until_;
  uint64_t seed_;
  std::function<int64_t()> epoch_;
};

// `rows` as `sampling` has them drawn and weighed; the same where it says nothing of that. Row k is
// `photos`' photo `of_rows[k]`.
std::unique_ptr<Dataset> sampled(std::unique_ptr<Dataset> rows, std::span<const size_t> of_rows,
                                 const TrainingPhotos& photos, const Sampling& sampling,
                                 uint64_t seed, std::function<int64_t()> epoch);

}  // namespace ndtrain::ndp
