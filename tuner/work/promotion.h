// Promotion by rule: a new version is put in force when it is better than the one that is, on the
// same validation photos and by more than chance explains; a tie keeps what is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/ingest/manifest.h"
#include "tuner/models/versions.h"
#include "tuner/work/answers.h"

namespace ndtrain::tuner {
using namespace ndp;

// The version that a job's own is compared with: what is in force, or what was when the job's own
// took its place. nullopt: nothing.
std::optional<PublishedModel> compared_with(const Versions& versions, uint64_t job,
                                            std::string_view task);

// McNemar's test in its exact form, one-sided: how likely it is that of the photos which one of two
// models alone labels right `gained` or more are the one's and `lost` or fewer the other's, when
// both are equally good. Q. McNemar, "Note on the sampling error of the difference between
// correlated proportions or percentages", Psychometrika 12 (1947); for two classifiers on one test
// set T. G. Dietterich, Neural Computation 10 (1998), recommends it.
double mcnemar(int64_t gained, int64_t lost);
inline constexpr double kByChance = 0.05;  // a gain as likely as this, or likelier, is chance

// What validation photos show by what people say now.
struct Truths {
  Answers of;
  int64_t changed = 0;  // that people label otherwise than when the job began
};
// Of the photos of run 0. `now`: what people say elsewhere than at the stores, which the manifest
// has as of its making; a label of one outranks it where they differ.
Truths truths_of(const Manifest& manifest, const std::vector<PhotoClaim>& now);

// A class of whose photos a candidate labels fewer right.
struct ClassFall {
  std::string name;
  int64_t photos = 0, before = 0, after = 0;  // compared; labelled right by production, and now
  // mcnemar() of the fall, times the classes that were compared (Bonferroni): of many classes a
  // few fall by chance.
  double chance = 1;
  bool beyond_chance() const { return chance < kByChance; }
};

// Two versions' answers for the same photos.
struct Comparison {
  int64_t photos = 0;
  int64_t right = 0, production_right = 0;
  int64_t gained = 0, lost = 0;  // photos that one alone labels right
  std::vector<ClassFall> falls;  // the least likely first, then by name
};
// Of the photos that all three have.
Comparison compare(const Answers& candidate, const Answers& production, const Answers& truths);

// What the rule says of a candidate.
struct Promotion {
  // It takes the place of this version (0: nothing is in force), if that is still there; nullopt:
  // it waits.
  std::optional<uint64_t> instead_of = {};
  std::optional<Comparison> compared = {};  // with what is in force, where it could be
  double chance = 1;                        // mcnemar() of both, if so
  std::string figures = {};                 // of both, for people
  std::string why = {};                     // the figures and what follows from them
};

// `production`: what is in force, if anything is. `theirs`: its answers; nullopt: it has none, as
// these features say nothing of it. Photos of a class that a version does not know are its
// mistakes.
Promotion judge(const std::optional<PublishedModel>& production, const Answers& ours,
                const std::optional<Answers>& theirs, const Truths& truths);

// Lines for people: the classes that fall, the first `most`, and how many more; {}: none.
std::vector<std::string> text_of(const std::vector<ClassFall>& falls, size_t most);

}  // namespace ndtrain::tuner
