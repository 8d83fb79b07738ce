#pragma once

#include <string>
#include <vector>

#include "framework/train/class_quality.h"
#include "ndp/jobs/classify.h"

namespace ndtrain::ndp {

struct PhotoEvaluation {
  int64_t photos = 0, quarantined = 0, skipped = 0;
  double top1 = 0, top5 = 0;
  CalibrationError calibration;
  std::vector<int64_t> confusion;  // [classes, classes], rows are the truth
  EngineStats engine;
  std::vector<QuarantinedPhoto> bad;
};

// Accuracy of a model on labelled photos. Throws Error when a label is beyond the model's classes.
PhotoEvaluation evaluate_photos(const ModelFile& model, const Device& device, Fs& fs,
                                const PhotoSet& set, int64_t batch, Progress& progress);

}  // namespace ndtrain::ndp
