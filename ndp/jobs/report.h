#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/core/fs.h"
#include "ndp/jobs/run_directory.h"

namespace ndtrain::ndp {

struct ReportPhoto {
  std::string path;
  int64_t label = 0, predicted = 0;
  float true_probability = 0;  // given to the true class
};

struct ReportInput {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<std::string> classes;
  std::vector<EpochRow> epochs;
  int64_t best_epoch = 0;
  std::vector<int64_t> confusion;   // [classes, classes], rows are the truth
  std::vector<ReportPhoto> photos;  // validation photos; the worst are shown
};

// One page that stands alone: inline SVG curves, the confusion matrix with each class's precision,
// recall and F1, the photos whose true class got the least probability (as small inline JPEGs).
// Deterministic.
std::string report_html(Fs& fs, const ReportInput& report);

// The mean F1 of the classes, "0.8813", or "-" where no photo is of any.
std::string macro_f1_text(const std::vector<int64_t>& confusion);

// A header line with class names, then one row per true class.
std::string confusion_csv(const std::vector<std::string>& classes,
                          const std::vector<int64_t>& confusion);

}  // namespace ndtrain::ndp
