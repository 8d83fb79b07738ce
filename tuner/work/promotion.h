// Promotion by rule: a new version is put in force when it is better than the one that is, on the
// same validation photos and by more than chance explains; a tie keeps what is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "framework/runtime/devices.h"
#include "framework/train/evaluate.h"
#include "tuner/ingest/spool.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

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

// Of each row whether the version's head labels it right. A photo of a class that the version does
// not know is one that it gets wrong. nullopt: it has another extractor, so the rows say nothing of
// it. Throws Error when its files cannot be read.
std::optional<std::vector<bool>> right_answers(const PublishedModel& version,
                                               const ValidationRows& on);

// Whether an evaluated row is right, by its top-1.
bool right_at(const Evaluation& e, size_t row, int64_t label);

// McNemar's test in its exact form, one-sided: how likely it is that of the photos which one of two
// models alone labels right `gained` or more are the one's and `lost` or fewer the other's, when
// both are equally good. Q. McNemar, "Note on the sampling error of the difference between
// correlated proportions or percentages", Psychometrika 12 (1947); for two classifiers on one test
// set T. G. Dietterich, Neural Computation 10 (1998), recommends it.
double mcnemar(int64_t gained, int64_t lost);
inline constexpr double kByChance = 0.05;  // a gain as likely as this, or likelier, is chance

// What the rule says of a candidate.
struct Promotion {
  // It takes the place of this version (0: nothing is in force), if that is still there; nullopt:
  // it waits.
  std::optional<uint64_t> instead_of = {};
  std::optional<double> production = {};  // top-1 of what is in force, where it could be compared
  std::optional<double> chance = {};      // mcnemar() of the two
  std::string figures = {};               // both, for people
  std::string why = {};                   // the figures and what follows from them
};

// `right`: which of the rows are the candidate's. `production`: what is in force, if anything is.
Promotion judge(const std::optional<PublishedModel>& production, const std::vector<bool>& right,
                const ValidationRows& on);

}  // namespace ndtrain::tuner
