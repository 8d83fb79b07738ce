// What a version answers for photos whose features are here.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "framework/runtime/devices.h"
#include "framework/train/evaluate.h"
#include "tuner/ingest/spool.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

// By photo: a class's name; "" where the model's scores are not numbers.
using Answers = std::map<Digest, std::string>;

// Of rows that were evaluated: `photos`, in their order, by a model of these classes.
Answers answers_in(const Evaluation& e, std::span<const Digest> photos,
                   const std::vector<std::string>& classes);

struct AnswerRules {
  const ModelStore& models;
  const Device& device;
  int64_t batch = 64;
};
// Of those of `photos` whose features by the version's own extractor are in `spool`; `row_types`:
// what such a row is made of. Throws Error when the version's head cannot be read.
Answers answers_of(const PublishedModel& version, Spool& spool, std::span<const Digest> photos,
                   const std::vector<TensorType>& row_types, const AnswerRules& rules);

}  // namespace ndtrain::tuner
