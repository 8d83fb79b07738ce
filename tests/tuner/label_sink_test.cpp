// Label rows of stores on their way into the label database.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ndp/labels/top_k_row.h"
#include "tests/support/temporary_directory.h"
#include "tests/tuner/claims.h"
#include "tuner/work/label_work.h"
#include "tuner/work/relabel_preview.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

class LabelSinkTest : public ::testing::Test {
 protected:
  using Inventories = std::vector<std::vector<PhotoClaim>>;
  static constexpr uint64_t kPhotos = 8;

  // Row of a photo: the class, then the other one.
  static std::string row(uint32_t best) {
    return top_k_row(std::vector<RankedClass>{{best, 0.75F}, {1 - best, 0.25F}});
  }
  PublishedModel model(const std::string& content) const {
    return {.version = 1, .content = sha256(content), .classes = {"cat", "dog"}};
  }
  // What the sink is asked for, in the order of the manifest.
  std::vector<uint64_t> wanted(RowSink& sink) {
    sink.inventory({.store = "a", .photos = std::make_shared<const PhotoClaims>(claims_)})
        .or_throw();
    const std::vector<uint64_t> durable = sink.open(manifest_).or_throw();
    std::vector<uint64_t> rest;
    for (uint64_t n = 0; n < manifest_.size(); ++n) {
      if (!std::ranges::count(durable, n)) rest.push_back(n);
    }
    return rest;
  }
  std::vector<RowIngest::BadRow> keep(RowSink& sink, const std::vector<uint64_t>& numbers) {
    RowIngest::Rows rows{.store = "a"};
    for (const uint64_t n : numbers) rows.rows.emplace_back(n, rows_[n % 2]);
    return sink.keep(std::vector{rows}).or_throw();
  }
  LabelPage labels() {
    return db_
        ->query({.collection = db_->collection("default").or_throw(),
                 .task = db_->task("default").or_throw()})
        .or_throw();
  }

  static std::vector<PhotoClaim> photos() {
    std::vector<PhotoClaim> all = testing::claims(0, kPhotos);
    for (size_t i = 0; i < all.size(); ++i) all[i].path = std::to_string(i) + ".jpg";
    return all;
  }

  support::TemporaryDirectory directory_;
  std::unique_ptr<LabelDb> db_ = open_label_db("sqlite:" + directory_.at("labels.db")).or_throw();
  ManualClock clock_;
  std::vector<PhotoClaim> claims_ = photos();
  Manifest manifest_{Inventories{claims_}, {.only_labelled = false}};
  const std::string rows_[2] = {row(0), row(1)};
};

TEST_F(LabelSinkTest, APhotoThatIsDeletedMeanwhileCostsTheOthersNothing) {
  const PublishedModel m = model("first");
  const JobSpec spec{.kind = JobKind::kRelabel};
  LabelSink sink(*db_, clock_, m, spec);
  const std::vector<uint64_t> all = wanted(sink);
  ASSERT_EQ(all.size(), kPhotos);
  const int64_t gone = db_->find_photo(db_->collection("default").or_throw(), "a/3.jpg").or_throw();
  ASSERT_EQ(db_->remove_photos(std::vector{gone}).or_throw(), 1);
  const std::vector<RowIngest::BadRow> bad = keep(sink, all);
  ASSERT_EQ(bad.size(), 1U);
  EXPECT_EQ(manifest_.entry(bad[0].number).digest, claims_[3].digest);
  EXPECT_EQ(labels().rows.size(), kPhotos - 1);
  EXPECT_EQ(sink.labelled(), static_cast<int64_t>(kPhotos - 1));
}

TEST_F(LabelSinkTest, OnlySomeAreAskedFor) {
  const PublishedModel first = model("first"), second = model("second");
  JobSpec spec{.kind = JobKind::kRelabel};
  {
    LabelSink sink(*db_, clock_, first, spec);
    EXPECT_TRUE(keep(sink, {wanted(sink)[0], wanted(sink)[1]}).empty());
    EXPECT_EQ(wanted(sink).size(), kPhotos - 2) << "the version has labelled two";
  }
  const int64_t collection = db_->collection("default").or_throw();
  const int64_t task = db_->task("default").or_throw();
  const auto path_of = [&](uint64_t n) {
    const auto c = std::ranges::find(claims_, manifest_.entry(n).digest, &PhotoClaim::digest);
    return "a/" + c->path;
  };
  set_label(*db_, collection, task, path_of(1), "cat", 5).or_throw();
  for (const auto& [only, expected] : {std::pair{RelabelOnly::kAll, kPhotos},
                                       {RelabelOnly::kStale, uint64_t{1}},
                                       {RelabelOnly::kMissing, kPhotos - 2}}) {
    spec.only = only;
    LabelSink sink(*db_, clock_, second, spec);
    EXPECT_EQ(wanted(sink).size(), expected);
    PreviewSink preview(*db_, clock_, second, spec);
    EXPECT_EQ(wanted(preview).size(), expected);
  }
}

TEST_F(LabelSinkTest, APreviewCountsWhatWouldChangeAndWritesNothing) {
  const PublishedModel first = model("first"), second = model("second");
  const JobSpec spec{.kind = JobKind::kRelabel};
  {
    LabelSink sink(*db_, clock_, first, spec);
    const std::vector<uint64_t> all = wanted(sink);
    std::vector<uint64_t> twisted;
    for (const uint64_t n : all) twisted.push_back(n < 2 ? n + 1 : n);  // two of the other class
    RowIngest::Rows rows{.store = "a"};
    for (size_t i = 0; i < all.size(); ++i) rows.rows.emplace_back(all[i], rows_[twisted[i] % 2]);
    ASSERT_TRUE(sink.keep(std::vector{rows}).or_throw().empty());
  }
  PreviewSink preview(*db_, clock_, second, spec);
  EXPECT_TRUE(keep(preview, wanted(preview)).empty());
  const auto said = nlohmann::json::parse(preview.report());
  EXPECT_EQ(said["to_label"], kPhotos);
  EXPECT_EQ(said["without_label"], 0);
  EXPECT_DOUBLE_EQ(said["changed"], 2.0 / kPhotos);
  EXPECT_LT(said["changed_low"], 0.25);
  EXPECT_GT(said["changed_high"], 0.25);
  for (const LabelRow& l : labels().rows) EXPECT_EQ(l.version_content, first.content);
}

}  // namespace
}  // namespace ndtrain::tuner
