// Jobs that keep photos which look the same on one side of the split.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "framework/core/rng.h"
#include "ndp/jobs/photo_duplicates.h"
#include "ndp/photos/dataset.h"
#include "tests/tuner/claims.h"
#include "tuner/ingest/row_ingest.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::AllOf;
using testing::claims;
using ::testing::Contains;
using ::testing::HasSubstr;

// Each photo looks like itself, but for every fifth, which looks like the one before it.
std::vector<PhotoClaim> looked_at(int n) {
  std::vector<PhotoClaim> all = claims(0, n);
  Rng rng(3, "looks");
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].hash = rng.next_bits();
    if (i % 5 == 4) all[i].hash = *all[i - 1].hash ^ uint64_t { 1 } << rng.next_below(64);
  }
  return all;
}

ManifestRules grouped() {
  return {.seed = 4, .runs = 3, .val_split = 0.3, .group_duplicates = true};
}

std::map<Digest, uint32_t> runs_of(const Manifest& m) {
  std::map<Digest, uint32_t> runs;
  for (uint64_t n = 0; n < m.size(); ++n) runs[m.entry(n).digest] = m.entry(n).run;
  return runs;
}

TEST(GroupedPhotos, AreOnTheSideOfTheLowestAndTheOthersWhereTheyWere) {
  std::vector<PhotoClaim> all = looked_at(400);
  all[7].hash = all[11].hash = std::nullopt;
  ManifestRules plain = grouped();
  plain.group_duplicates = false;
  const std::vector<std::vector<PhotoClaim>> stores = {all};
  const Manifest m(stores, grouped());
  const auto before = runs_of(Manifest(stores, plain)), after = runs_of(m);
  uint64_t moved = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const uint32_t run = after.at(all[i].digest), was = before.at(all[i].digest);
    if (i % 5 < 3) {
      EXPECT_EQ(run, was) << i;
      continue;
    }
    const size_t other = i % 5 == 4 ? i - 1 : i + 1;
    const Digest& lowest = std::min(all[i].digest, all[other].digest);
    EXPECT_EQ(run == 0, in_validation(lowest, 0.3)) << i;
    EXPECT_EQ(run == 0, after.at(all[other].digest) == 0) << i;
    if ((run == 0) == (was == 0)) {
      EXPECT_EQ(run, was) << "of a training run it stays in that";
    } else {
      ++moved;
    }
  }
  EXPECT_GT(moved, 10U);
  EXPECT_EQ(m.alike().photos, 160U);
  EXPECT_EQ(m.alike().groups, 80U);
  EXPECT_EQ(m.alike().moved, moved);
  EXPECT_EQ(m.alike().unhashed, 2U);
  uint64_t in_runs = 0;
  for (uint32_t r = 0; r <= m.runs(); ++r) {
    for (const uint64_t n : m.run(r)) EXPECT_EQ(m.entry(n).run, r);
    in_runs += m.run(r).size();
  }
  EXPECT_EQ(in_runs, 400U);
}

// Also where a photo that is not trained on connects two that are, and where only one of those who
// hold a photo can decode it.
TEST(GroupedPhotos, AreTheSameHoweverTheyAreSpreadOverStores) {
  const std::vector<PhotoClaim> all = looked_at(300);
  std::vector<std::vector<PhotoClaim>> spread(3);
  for (size_t i = 0; i < all.size(); ++i) {
    spread[i % 3].push_back(all[i]);
    spread[(i + 1 + i / 7 % 2) % 3].push_back(all[i]);
    if (i % 4 == 0) spread[i % 3].back().hash.reset();
  }
  const std::vector<std::vector<PhotoClaim>> one = {all};
  const Manifest whole(one, grouped()), parts(spread, grouped());
  EXPECT_EQ(runs_of(whole), runs_of(parts));
  ManifestRules some = grouped();
  some.choose = [](std::span<const ManifestEntry> photos, const std::vector<std::string>&) {
    std::vector<bool> stays(photos.size());
    for (size_t i = 0; i < photos.size(); ++i) stays[i] = i % 3 != 0;
    return stays;
  };
  for (const auto& [photo, run] : runs_of(Manifest(one, some))) {
    EXPECT_EQ(run, runs_of(whole).at(photo));
  }
}

class GroupedIngest : public ::testing::Test {
 protected:
  GroupedIngest() {
    rules_.job.set_job(9);
    rules_.job.set_with_hashes(true);
    rules_.row_bytes = 4;
    rules_.manifest = grouped();
  }
  static wire::FromStore inventory(const std::vector<PhotoClaim>& photos) {
    std::vector<PhotoClaim> sorted = photos;
    std::ranges::sort(sorted, {}, &PhotoClaim::digest);
    wire::FromStore m;
    wire::Inventory& i = *m.mutable_inventory();
    i.set_job(9);
    i.add_names("cat");
    i.set_last(true);
    for (const PhotoClaim& p : sorted) {
      i.mutable_digests()->append(p.digest.begin(), p.digest.end());
      i.add_labels(1);
      i.mutable_sources()->push_back(static_cast<char>(LabelSource::kFolder));
      const uint64_t hash = p.hash.value_or(0);
      i.mutable_hashes()->append(reinterpret_cast<const char*>(&hash), sizeof hash);
      i.mutable_hashed()->push_back(p.hash ? '\1' : '\0');
    }
    return m;
  }

  IngestRules rules_;
};

TEST_F(GroupedIngest, AsksForHashesUntilTheSplitIsMadeAndSaysWhatItMade) {
  RowIngest ingest(rules_);
  EXPECT_TRUE(ingest.arrive({}, "a").send.at(0).second.job().with_hashes());
  std::vector<PhotoClaim> photos = looked_at(50);
  photos[1].hash.reset();
  EXPECT_FALSE(ingest.message({}, "a", inventory(photos)).end_session);
  const std::vector<std::string> names = {"a"};
  const RowIngest::Actions made = ingest.count_in(names);
  EXPECT_THAT(made.notes, Contains(AllOf(HasSubstr("20 photos are in 10 groups"),
                                         HasSubstr("of 1 nobody could say"))));
  EXPECT_EQ(ingest.manifest().alike().groups, 10U);
  (void)ingest.begin({}, {});
  (void)ingest.leave({}, "a");
  EXPECT_FALSE(ingest.arrive({}, "a").send.at(0).second.job().with_hashes());
  wire::FromStore without = inventory(photos);
  without.mutable_inventory()->clear_hashes();
  without.mutable_inventory()->clear_hashed();
  EXPECT_FALSE(ingest.message({}, "a", without).end_session);
}

TEST_F(GroupedIngest, TakesNoInventoryWithoutThemOrWithOthersThanItHasPhotos) {
  const wire::FromStore good = inventory(looked_at(10));
  const auto end_of = [&](const auto& change) {
    RowIngest ingest(rules_);
    (void)ingest.arrive({}, "a");
    wire::FromStore m = good;
    change(*m.mutable_inventory());
    return ingest.message({}, "a", m).end_session.value_or("");
  };
  using Message = wire::Inventory;
  EXPECT_EQ(end_of([](Message&) {}), "");
  EXPECT_THAT(end_of([](Message& m) {
                m.clear_hashes();
                m.clear_hashed();
              }),
              HasSubstr("without the perceptual hashes"));
  EXPECT_THAT(end_of([](Message& m) { m.mutable_hashes()->pop_back(); }), HasSubstr("do not fit"));
  EXPECT_THAT(end_of([](Message& m) { m.mutable_hashed()->push_back('\1'); }),
              HasSubstr("do not fit"));
  EXPECT_THAT(end_of([](Message& m) {
                m.mutable_hashed()->resize(5);
                m.mutable_hashes()->resize(40);
              }),
              HasSubstr("do not fit"));
}

}  // namespace
}  // namespace ndtrain::tuner
