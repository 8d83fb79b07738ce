// The model that a fine-tuning begins with, cut where training does.
#pragma once

#include <optional>
#include <string>

#include "ndp/jobs/model_file.h"
#include "ndp/jobs/transfer.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/work/job_context.h"

namespace ndtrain::tuner {
using namespace ndp;

struct CutModel {
  ModelFile model;
  std::optional<Model> lowered;  // whose extractor it is, where a precision was asked for
  TransferModel transfer;        // for any classes: the extractor does not depend on them
  Digest extractor{};            // of its file
};
// `directory`: of the job, after its PrecisionSurvey if it needs one. The extractor is among the
// Tuner's models from then on. Throws Error when nothing is frozen.
CutModel cut_model(const JobContext& context, const JobSpec& spec, const std::string& directory);

}  // namespace ndtrain::tuner
