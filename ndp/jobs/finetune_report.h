// What a fine-tuning makes of its best epoch besides the weights: probabilities that are what they
// seem, and a report for people.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "framework/train/evaluate.h"
#include "ndp/jobs/finetune.h"
#include "ndp/jobs/training_photos.h"

namespace ndtrain::ndp {

std::string size_text(double bytes);  // "1.5 MB"

// What crosses the cut of each photo, and in all of so many `rows`, photos or views of them; warns
// where features, if these are `kept`, are larger than the photos.
void say_feature_sizes(const FinetuneResult& result, size_t rows, bool kept, Progress& progress);

// `trained`, so that probabilities of `val` are what they seem, and by which temperature; as it is,
// and 0, where `val` is empty, which is said. `row_types`: of a row of it. Throws Error.
struct Calibrated {
  Model model;
  double temperature = 0;
};
Calibrated calibrated(const Model& trained, Dataset& val, const std::vector<TensorType>& row_types,
                      const Device& device, int64_t batch, Progress& progress);

// confusion.csv and report.html. `val_rows`: which of the photos `e` is of, in its order. Throws
// Error as RunDirectory::write() does.
void write_finetune_report(Fs& fs, RunDirectory& run, const FinetuneConfig& config,
                           const FinetuneResult& result, const TrainingPhotos& photos,
                           std::span<const size_t> val_rows, const Evaluation& e);

}  // namespace ndtrain::ndp
