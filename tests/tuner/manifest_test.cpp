#include "tuner/ingest/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/core/rng.h"
#include "framework/testing/memory_fs.h"
#include "ndp/photos/dataset.h"
#include "tests/tuner/claims.h"
#include "tuner/jobs/job_files.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::claim;
using testing::claims;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Not;
using Inventories = std::vector<std::vector<PhotoClaim>>;

TEST(Manifest, IsTheSameHoweverPhotosAreSpreadOverStores) {
  const std::vector<PhotoClaim> all = claims(0, 300);
  const ManifestRules rules{.seed = 4, .runs = 3};
  const Manifest one(Inventories{all}, rules);
  Inventories spread(3);
  for (size_t i = 0; i < all.size(); ++i) {
    spread[i % 7 % 3].push_back(all[all.size() - 1 - i]);
    if (i % 5 == 0) spread[i % 3].push_back(all[all.size() - 1 - i]);
  }
  const Manifest many(spread, rules);
  ASSERT_EQ(many.size(), one.size());
  EXPECT_EQ(many.classes(), one.classes());
  for (uint64_t n = 0; n < one.size(); ++n) {
    EXPECT_EQ(many.entry(n).digest, one.entry(n).digest);
    EXPECT_EQ(many.entry(n).run, one.entry(n).run);
    EXPECT_EQ(many.entry(n).label, one.entry(n).label);
  }
}

// A job that goes on draws by the times that it began with, and by the same photos.
TEST(Manifest, KeepsWhenLabelsWereSaid) {
  Inventories photos = {claims(0, 20)};
  for (size_t i = 0; i < photos[0].size(); ++i) photos[0][i].time = static_cast<int64_t>(100 + i);
  ManifestRules rules{.seed = 4, .runs = 2};
  rules.choose = [](std::span<const ManifestEntry> all, const std::vector<std::string>&) {
    std::vector<bool> stays;
    for (const ManifestEntry& e : all) stays.push_back(e.label_time >= 110);
    return stays;
  };
  const Manifest made(photos, rules);
  ASSERT_EQ(made.size(), 10U);
  MemoryFs fs;
  fs.make_directories("jobs/1").or_throw();
  JobFiles files(fs, "jobs/1");
  files.save_manifest(made, {"a"}).or_throw();
  const std::optional<SavedManifest> kept = files.load_manifest().or_throw();
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->manifest.size(), made.size());
  for (uint64_t n = 0; n < made.size(); ++n) {
    EXPECT_EQ(kept->manifest.entry(n).digest, made.entry(n).digest);
    EXPECT_EQ(kept->manifest.entry(n).label_time, made.entry(n).label_time);
    EXPECT_GE(made.entry(n).label_time, 110);
  }
}

// The lengths and numbers that a file holds are written by how many bytes they need.
TEST(Manifest, IsKeptWhateverItsNumbersAre) {
  const std::vector<int64_t> edges = {0,      23,         24,        UINT8_MAX, 256,       65'535,
                                      65'536, UINT32_MAX, 1LL << 32, INT64_MAX, INT64_MIN, -1};
  for (const size_t photos : {0, 1, 23, 24, 255, 256, 65'536}) {
    Manifest::Entries entries(photos);
    for (size_t i = 0; i < photos; ++i) {
      Manifest::Entry& e = entries[i];
      for (int byte = 0; byte < 4; ++byte) {
        e.digest[static_cast<size_t>(byte)] = static_cast<uint8_t>(i >> (24 - 8 * byte));
      }
      e.run = static_cast<uint32_t>(i % 3);
      e.label = static_cast<int32_t>(i % 27) - 1;
      e.label_time = edges[i % edges.size()];
      for (size_t h = 0; h < i % 30 + 1; ++h) e.holders.push_back(static_cast<uint32_t>(h * 9000));
    }
    const Manifest made(entries, std::vector<std::string>(26, std::string(photos / 64, 'c')), 2);
    MemoryFs fs;
    fs.make_directories("jobs/1").or_throw();
    JobFiles files(fs, "jobs/1");
    files.save_manifest(made, {"a"}).or_throw();
    const std::optional<SavedManifest> kept = files.load_manifest().or_throw();
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->manifest.size(), photos);
    EXPECT_EQ(kept->manifest.classes(), made.classes());
    EXPECT_EQ(kept->manifest.digest(), made.digest());
    EXPECT_THAT(kept->stores, ElementsAre("a"));
    for (size_t i = 0; i < photos; ++i) {
      ASSERT_EQ(kept->manifest.entry(i).label_time, entries[i].label_time);
      ASSERT_EQ(kept->manifest.entry(i).holders, entries[i].holders);
    }
  }
}

// What they say is of another task: only what people said of this one counts.
TEST(Manifest, TakesNoLabelsOfHoldersWhereTheyAreOfAnotherTask) {
  const Inventories photos = {claims(0, 6)};
  ManifestRules rules{.seed = 4, .holders_label = false};
  rules.truths = {
      {.digest = photos[0][2].digest, .label = "blurred", .source = LabelSource::kHuman}};
  const Manifest m(photos, rules);
  ASSERT_EQ(m.size(), 1U);
  EXPECT_EQ(m.entry(0).digest, photos[0][2].digest);
  EXPECT_THAT(m.classes(), ElementsAre("blurred"));
  EXPECT_EQ(m.unlabelled(), 5U);
}

TEST(Manifest, NumbersPhotosByDigestAndEveryPhotoIsInOneRun) {
  const Manifest m(Inventories{claims(0, 400)}, {.seed = 1, .runs = 4, .val_split = 0.25});
  uint64_t sum = 0;
  for (uint32_t run = 0; run <= m.runs(); ++run) {
    EXPECT_GT(m.run(run).size(), 40u);
    EXPECT_TRUE(std::ranges::is_sorted(m.run(run)));
    for (uint64_t n : m.run(run)) {
      EXPECT_EQ(m.entry(n).run, run);
      EXPECT_EQ(run == 0, in_validation(m.entry(n).digest, 0.25));
    }
    sum += m.run(run).size();
  }
  EXPECT_EQ(sum, 400u);
  for (uint64_t n = 1; n < m.size(); ++n) EXPECT_LT(m.entry(n - 1).digest, m.entry(n).digest);
}

TEST(Manifest, WhatPeopleSayElsewhereCountsForPhotosThatAreHeld) {
  const Inventories photos{{claim(1, "cat"), claim(2, ""), claim(3, "dog", LabelSource::kHuman)}};
  const Manifest m(
      photos,
      {.truths = {claim(1, "lion", LabelSource::kHuman), claim(2, "dog", LabelSource::kImport),
                  claim(3, "wolf", LabelSource::kImport), claim(4, "bird", LabelSource::kHuman)}});
  ASSERT_EQ(m.size(), 3u);
  std::map<Digest, std::string> labels;
  for (uint64_t n = 0; n < m.size(); ++n) {
    labels[m.entry(n).digest] = m.classes().at(static_cast<size_t>(m.entry(n).label));
  }
  EXPECT_EQ(labels.at(claim(1, "").digest), "lion");
  EXPECT_EQ(labels.at(claim(2, "").digest), "dog");
  EXPECT_EQ(labels.at(claim(3, "").digest), "dog") << "an import does not outrank a person";
  EXPECT_EQ(std::ranges::count(m.classes(), "bird"), 0) << "nobody holds that photo";
}

TEST(Manifest, HasThePhotosThatAreChosenByLabelsWithTheTimesOfTheWordsThatCount) {
  Inventories photos{claims(0, 40)};
  PhotoClaim truth = photos[0][3];
  truth.source = LabelSource::kHuman;
  truth.time = 70;
  PhotoClaim older = truth;
  older.time = 60;
  std::vector<int64_t> times;
  const Manifest m(photos, {.truths = {truth, older},
                            .choose = [&](std::span<const ManifestEntry> all,
                                          const std::vector<std::string>& classes) {
                              EXPECT_EQ(all.size(), 40u);
                              EXPECT_FALSE(classes.empty());
                              std::vector<bool> stays;
                              for (const ManifestEntry& e : all) stays.push_back(e.label_time > 0);
                              return stays;
                            }});
  ASSERT_EQ(m.size(), 1u);
  EXPECT_EQ(m.entry(0).digest, truth.digest);
  EXPECT_EQ(m.entry(0).label_time, 70);
  EXPECT_THAT(m.run(m.entry(0).run), ElementsAre(0));
}

// Of photos that are chosen, too, which have other numbers than before.
TEST(Manifest, ConflictsHaveTheNumbersOfTheirPhotos) {
  Inventories photos{claims(0, 30), {}};
  for (const int of : {4, 11, 20}) photos[1].push_back(claim(of, "another"));
  const auto odd = [](std::span<const ManifestEntry> all, const std::vector<std::string>&) {
    std::vector<bool> stays(all.size());
    for (size_t n = 0; n < stays.size(); ++n) stays[n] = n % 2 == 1 || all[n].holders.size() > 1;
    return stays;
  };
  const Manifest m(photos, {.choose = odd});
  ASSERT_EQ(m.conflicts().size(), 3u);
  for (const Manifest::Conflict& c : m.conflicts()) {
    EXPECT_THAT(m.entry(c.number).holders, ElementsAre(0u, 1u));
    EXPECT_THAT(c.labels, ::testing::Contains("another"));
  }
}

// Against the definition: a map of all that is said of each photo.
TEST(Manifest, TakesOfManyStoresTheLabelThatCountsMost) {
  Rng rng(5, "labels");
  Inventories photos(20);
  std::vector<PhotoClaim> truths;
  const auto drawn = [&] {
    const auto source = static_cast<LabelSource>(1 + rng.next_below(4));
    return claim(static_cast<int>(rng.next_below(200)), "c" + std::to_string(rng.next_below(9)),
                 source);
  };
  std::map<Digest, std::map<std::pair<int, std::string>, int64_t>> said;
  std::map<Digest, std::set<uint32_t>> holders;
  const auto say = [&](const PhotoClaim& c) {
    int64_t& time = said[c.digest][{-static_cast<int>(c.source), c.label}];
    time = std::max(time, c.time);
  };
  for (uint32_t s = 0; s < photos.size(); ++s) {
    for (int i = 0; i < 30; ++i) {
      photos[s].push_back(drawn());
      holders[photos[s].back().digest].insert(s);
      say(photos[s].back());
    }
  }
  for (int i = 0; i < 50; ++i) {
    truths.push_back(drawn());
    truths.back().time = static_cast<int64_t>(rng.next_below(100));
    if (holders.contains(truths.back().digest)) say(truths.back());
  }
  const Manifest m(photos, {.truths = truths});
  ASSERT_EQ(m.size(), holders.size());
  for (uint64_t n = 0; n < m.size(); ++n) {
    const ManifestEntry& e = m.entry(n);
    const auto& [best, time] = *said.at(e.digest).begin();
    EXPECT_EQ(m.classes().at(static_cast<size_t>(e.label)), best.second);
    EXPECT_EQ(e.label_time, time);
    EXPECT_TRUE(std::ranges::equal(e.holders, holders.at(e.digest)));
  }
}

TEST(Manifest, TheSeedDealsTrainingPhotosToRunsAndNeverMovesTheSplit) {
  const Inventories photos{claims(0, 200)};
  const Manifest a(photos, {.seed = 1, .runs = 2}), b(photos, {.seed = 2, .runs = 2});
  EXPECT_THAT(a.run(0), ElementsAreArray(b.run(0)));
  EXPECT_THAT(a.run(1), Not(ElementsAreArray(b.run(1))));
}

TEST(Manifest, AClassThatAStoreLacksShiftsNothing) {
  const Manifest m(Inventories{{claim(1, "rose")}, {claim(2, "lily"), claim(3, "tulip")}}, {});
  EXPECT_THAT(m.classes(), ElementsAre("lily", "rose", "tulip"));
  const Manifest kept(Inventories{{claim(1, "rose")}, {claim(2, "lily")}},
                      {.classes = {"tulip", "rose"}, .add_classes = true});
  EXPECT_THAT(kept.classes(), ElementsAre("tulip", "rose", "lily"));
}

TEST(Manifest, APersonsLabelWinsAndTheConflictIsNamed) {
  const Manifest m(Inventories{{claim(1, "lily", LabelSource::kFolder)},
                               {claim(1, "rose", LabelSource::kHuman)},
                               {claim(1, "aster", LabelSource::kImport)}},
                   {});
  ASSERT_EQ(m.size(), 1u);
  EXPECT_EQ(m.classes().at(static_cast<size_t>(m.entry(0).label)), "rose");
  EXPECT_THAT(m.entry(0).holders, ElementsAre(0u, 1u, 2u));
  ASSERT_EQ(m.conflicts().size(), 1u);
  EXPECT_THAT(m.conflicts()[0].labels, ElementsAre("aster", "lily", "rose"));
}

TEST(Manifest, PhotosWithoutALabelAreCountedAndLeftOut) {
  const Manifest m(Inventories{{claim(1, ""), claim(2, "a")}, {claim(1, ""), claim(2, "")}}, {});
  EXPECT_EQ(m.size(), 1u);
  EXPECT_EQ(m.unlabelled(), 1u);
  EXPECT_TRUE(m.conflicts().empty());
  EXPECT_THROW(Manifest(Inventories{}, {.runs = 0}), Error);
}

}  // namespace
}  // namespace ndtrain::tuner
