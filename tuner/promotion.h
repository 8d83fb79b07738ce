// Promotion by rule: a new version is put in force when it is at least as good as the one that is,
// on the same validation photos.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/runtime/devices.h"
#include "tuner/model_store.h"
#include "tuner/spool.h"
#include "tuner/versions.h"

namespace ndtrain {

// What versions are compared on, and with.
struct ValidationRows {
  SpoolDataset& rows;                       // features, labelled
  const std::vector<std::string>& classes;  // what the labels count
  const std::vector<TensorType>& row_types;
  Digest extractor{};  // the file that made them
  Fs& fs;
  const ModelStore& models;
  const Device& device;
  int64_t batch = 64;
};

// How many of the rows the version's head labels right. A photo of a class that the version does
// not know is one that it gets wrong. nullopt: it has another extractor, so the rows say nothing of
// it. Throws Error when its files cannot be read.
std::optional<int64_t> right_answers(const PublishedModel& version, const ValidationRows& on);

// What the rule says of a candidate.
struct Promotion {
  // It takes the place of this version (0: nothing is in force), if that is still there; nullopt:
  // it waits.
  std::optional<uint64_t> instead_of = {};
  std::optional<double> production = {};  // top-1 of what is in force, where it could be compared
  std::string why;                        // for people, with both figures
};

// `right` of the rows are the candidate's. `production`: what is in force, if anything is.
Promotion judge(const std::optional<PublishedModel>& production, int64_t right,
                const ValidationRows& on);

}  // namespace ndtrain
