// What jobs leave to later ones.
#include "tuner/ingest/kept_features.h"

#include <gmock/gmock.h>

#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"
#include "tuner/ingest/spool.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kRow = 100;

Digest kept_photo(int i) { return sha256("photo " + std::to_string(i)); }
std::string row_of(int i) { return std::string(kRow, static_cast<char>('a' + i)); }
std::span<const std::byte> bytes(const std::string& s) { return std::as_bytes(std::span(s)); }

Manifest manifest_of(int photos) {
  std::vector<PhotoClaim> claims;
  for (int i = 0; i < photos; ++i) claims.push_back({.digest = kept_photo(i), .label = "x"});
  std::ranges::sort(claims, {}, &PhotoClaim::digest);
  const std::vector<std::vector<PhotoClaim>> all = {claims};
  return {all, ManifestRules()};
}

class KeptFeaturesTest : public ::testing::Test {
 protected:
  using What = JobFeatures::What;

  // The spool of a job of this number, which counts in these stores, each with its numerics.
  std::unique_ptr<Spool> job(int number, const What& what,
                             const std::map<std::string, std::string>& stores) {
    const std::string directory = "jobs/" + std::to_string(number);
    auto spool = std::make_unique<Spool>(fs_, clock_, directory, what.extractor, int64_t{1} << 20);
    spool->share(std::make_unique<JobFeatures>(kept(), fs_, join(directory, "begun"), what));
    for (const auto& [store, numerics] : stores) {
      RowIngest::Inventory i{.store = store};
      i.numerics = numerics;
      spool->inventory(i).or_throw();
    }
    return spool;
  }
  // A job of so many photos that gets what it lacks from `store`, and leaves it.
  void run(int number, const What& what, const std::string& store, const std::string& numerics,
           int photos) {
    const auto spool = job(number, what, {{store, numerics}});
    const Manifest manifest = manifest_of(photos);
    (void)spool->open(manifest).or_throw();
    for (int i = 0; i < photos; ++i) {
      if (!spool->has(kept_photo(i))) spool->put(kept_photo(i), bytes(row_of(i)), store).or_throw();
    }
    spool->flush().or_throw();
    spool->leave(manifest, [] { return false; }).or_throw();
    spool->clear().or_throw();
  }
  static size_t found(Spool& spool, int photos) {
    return spool.open(manifest_of(photos)).or_throw().size();
  }
  KeptFeatures& kept() {
    if (!kept_) kept_ = std::make_unique<KeptFeatures>(fs_, clock_, "features", budget_);
    return *kept_;
  }

  MemoryFs fs_;
  ManualClock clock_;
  int64_t budget_ = int64_t{1} << 20;
  std::unique_ptr<KeptFeatures> kept_;
  const What one_{.extractor = sha256("one")};
};

TEST_F(KeptFeaturesTest, ALaterJobHasThemAndReadsThem) {
  run(1, one_, "a", "avx2", 3);
  kept_.reset();  // the Tuner starts again
  const auto spool = job(2, one_, {{"b", "avx2"}});
  EXPECT_EQ(found(*spool, 5), 3U);
  EXPECT_EQ(spool->shared(), 3U);
  EXPECT_FALSE(spool->has(kept_photo(4)));
  std::string row(kRow, ' ');
  spool->read(kept_photo(2), std::as_writable_bytes(std::span(row)));
  EXPECT_EQ(row, row_of(2));
  EXPECT_THROW(spool->read(kept_photo(4), std::as_writable_bytes(std::span(row))), Error);
}

TEST_F(KeptFeaturesTest, OnlyOfNumericsThatTheJobHasCompared) {
  run(1, one_, "a", "avx2", 3);
  EXPECT_EQ(found(*job(2, one_, {{"b", "avx512"}}), 3), 0U);
  EXPECT_EQ(found(*job(3, one_, {{"b", "avx512"}, {"c", "avx2"}}), 3), 3U);
}

TEST_F(KeptFeaturesTest, NeitherOfAnotherExtractorNorOfOtherKernels) {
  run(1, one_, "a", "avx2", 3);
  EXPECT_EQ(found(*job(2, {.extractor = sha256("other")}, {{"a", "avx2"}}), 3), 0U);
  EXPECT_EQ(found(*job(3, {.extractor = one_.extractor, .exact = true}, {{"a", "avx2"}}), 3), 0U);
}

TEST_F(KeptFeaturesTest, OfThisMachineWhereItExtracts) {
  const What here{.extractor = one_.extractor, .here = "avx2"};
  run(1, here, "", "", 3);
  EXPECT_EQ(found(*job(2, here, {{"a", "another"}}), 3), 3U);
  EXPECT_EQ(found(*job(3, {.extractor = one_.extractor, .here = "avx512"}, {}), 3), 0U);
}

TEST_F(KeptFeaturesTest, AJobThatGoesOnHasWhatItBeganWith) {
  run(1, one_, "a", "avx2", 3);
  EXPECT_EQ(found(*job(2, one_, {{"a", "avx2"}}), 3), 3U);
  EXPECT_EQ(found(*job(2, one_, {}), 3), 3U) << "no store has come yet";
  const std::string begun = fs_.read("jobs/2/begun").or_throw();
  publish(fs_, "jobs/2/begun", begun.substr(0, begun.size() / 2)).or_throw();
  EXPECT_EQ(found(*job(2, one_, {{"a", "avx2"}}), 3), 0U) << "they are sent again";
}

// Of a store that nobody has counted in, nothing is left: what computed it is not known.
TEST_F(KeptFeaturesTest, WhatIsOfNobodyIsNotLeft) {
  const auto spool = job(1, one_, {{"a", "avx2"}});
  (void)found(*spool, 2);
  spool->put(kept_photo(0), bytes(row_of(0)), "stranger").or_throw();
  spool->put(kept_photo(1), bytes(row_of(1)), "a").or_throw();
  spool->leave(manifest_of(2), [] { return false; }).or_throw();
  EXPECT_EQ(found(*job(2, one_, {{"a", "avx2"}}), 2), 1U);
}

TEST_F(KeptFeaturesTest, DeletedPhotosGoFromTheDiskToo) {
  run(1, one_, "a", "avx2", 3);
  run(2, {.extractor = sha256("other")}, "a", "avx2", 3);
  kept().forget({kept_photo(1), kept_photo(7)}).or_throw();
  EXPECT_EQ(found(*job(3, one_, {{"a", "avx2"}}), 3), 2U);
  for (const std::string& name : fs_.list("features").or_throw()) {
    EXPECT_EQ(fs_.read(join("features", name)).or_throw().find(row_of(1)), std::string::npos)
        << name;
  }
}

TEST_F(KeptFeaturesTest, TheExtractorThatWasUsedLeastRecentlyGoesFirst) {
  budget_ = 1500;
  run(1, one_, "a", "avx2", 3);
  clock_.advance(std::chrono::seconds(5));
  run(2, {.extractor = sha256("two")}, "a", "avx2", 3);
  clock_.advance(std::chrono::seconds(5));
  EXPECT_EQ(found(*job(3, one_, {{"a", "avx2"}}), 3), 3U);
  run(4, {.extractor = sha256("three")}, "a", "avx2", 3);
  EXPECT_EQ(found(*job(5, {.extractor = sha256("two")}, {{"a", "avx2"}}), 3) +
                found(*job(6, one_, {{"a", "avx2"}}), 3),
            3U)
      << "one of the two";
  EXPECT_EQ(found(*job(7, {.extractor = sha256("three")}, {{"a", "avx2"}}), 3), 3U);
}

TEST_F(KeptFeaturesTest, StoppedItHasLeftAPart) {
  const auto spool = job(1, one_, {{"a", "avx2"}});
  const Manifest manifest = manifest_of(3);
  (void)spool->open(manifest).or_throw();
  for (int i = 0; i < 3; ++i) spool->put(kept_photo(i), bytes(row_of(i)), "a").or_throw();
  int asked = 0;
  spool->leave(manifest, [&] { return ++asked > 2; }).or_throw();
  EXPECT_EQ(found(*job(2, one_, {{"a", "avx2"}}), 3), 2U);
}

// Rows of training photos have two views, and each is kept by itself.
TEST_F(KeptFeaturesTest, OfViewsAreFoundWhereTheirMakingIsTheSameAndAreDeletedWithTheirPhoto) {
  const ViewRule rule{.what = {.flip = true}, .seed = 5, .views = 2};
  const What viewed{.extractor = sha256("one"), .views = rule};
  const auto job_of = [&](int number, const What& what) {
    auto spool = std::make_unique<Spool>(fs_, clock_, "jobs/" + std::to_string(number),
                                         what.extractor, int64_t{1} << 20, what.views);
    spool->share(
        std::make_unique<JobFeatures>(kept(), fs_, "begun" + std::to_string(number), what));
    RowIngest::Inventory i{.store = "a"};
    i.numerics = "avx2";
    spool->inventory(i).or_throw();
    return spool;
  };
  const Manifest manifest = manifest_of(12);
  const auto first = job_of(1, viewed);
  EXPECT_TRUE(first->open(manifest).or_throw().empty());
  std::vector<RowIngest::Rows> rows(2);
  std::vector<std::string> bytes_of_rows;
  for (uint64_t n = 0; n < manifest.size(); ++n) {
    const bool trained = manifest.entry(n).run > 0;
    const auto mark = static_cast<int>(n);
    bytes_of_rows.push_back(trained ? row_of(mark) + row_of(mark + 12) : row_of(mark));
  }
  for (uint64_t n = 0; n < manifest.size(); ++n) {
    const uint32_t run = manifest.entry(n).run;
    rows[run].run = run;
    rows[run].store = "a";
    rows[run].rows.emplace_back(n, bytes_of_rows[n]);
  }
  ASSERT_FALSE(rows[0].rows.empty());
  ASSERT_GT(rows[1].rows.size(), 1U);
  (void)first->keep(rows).or_throw();
  const uint64_t trained = rows[1].rows[0].first;
  const Digest photo_of_it = manifest.entry(trained).digest;
  std::string view(kRow, '\0');
  first->read(photo_of_it, std::as_writable_bytes(std::span(view)), 1);
  EXPECT_EQ(view, row_of(static_cast<int>(trained) + 12));
  EXPECT_FALSE(first->has(photo_of_it)) << "as it is nobody has sent it";
  first->leave(manifest, [] { return false; }).or_throw();
  first->clear().or_throw();
  EXPECT_FALSE(first->has(photo_of_it, 0));

  const auto found_by = [&](int number, const What& what) {
    return job_of(number, what)->open(manifest).or_throw().size();
  };
  EXPECT_EQ(found_by(2, viewed), 12U);
  What other = viewed;
  other.views.what.mixup = 1;  // which is not of the views
  other.views.views = 1;
  EXPECT_EQ(found_by(3, other), 12U);
  EXPECT_EQ(kept().photos_of(viewed.extractor, false, rule),
            static_cast<int64_t>(rows[1].rows.size()));
  const size_t validation = rows[0].rows.size();
  other.views.views = 3;
  EXPECT_EQ(found_by(4, other), validation) << "one view is missing";
  EXPECT_EQ(kept().photos_of(viewed.extractor, false, other.views), 0);
  other = viewed;
  other.views.seed = 6;
  EXPECT_EQ(found_by(5, other), validation);
  other = viewed;
  other.views.what.crop = true;
  EXPECT_EQ(found_by(6, other), validation);
  EXPECT_EQ(found_by(7, one_), validation);

  kept().forget({photo_of_it}).or_throw();
  EXPECT_EQ(found_by(8, viewed), 11U);
  for (const std::string& name : fs_.list("features").or_throw()) {
    EXPECT_EQ(fs_.read(join("features", name)).or_throw().find(view), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace ndtrain::tuner
