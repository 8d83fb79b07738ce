// What stores say of uploads, on its way into the label database: each once, whatever comes twice.
#include "tuner/service/uploaded_labels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "ndp/wire/message_limits.h"
#include "tests/labels/labels_fixture.h"
#include "tests/support/failing_fsync.h"
#include "tests/tuner/upload_lines.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using upload_lines::labelled;
using upload_lines::line;
using upload_lines::model_of;
using upload_lines::truth;

class UploadedLabelsTest : public ::testing::Test {
 protected:
  void keep(const std::vector<wire::Upload>& lines) {
    uploaded_.keep({"attic"}, lines, {{1, model_of(1)}, {2, model_of(2)}}).or_throw();
  }
  std::vector<LabelRow> labels() const {
    const int64_t collection = db_->collection(kDefaultCollection).or_throw();
    return db_->query({.collection = collection, .task = db_->task(kDefaultTask).or_throw()})
        .or_throw()
        .rows;
  }
  std::vector<LabelRow> history(int64_t photo) const {
    return db_->history(db_->task(kDefaultTask).or_throw(), photo).or_throw();
  }

  const testing_labels::TemporaryDb file_;
  const std::unique_ptr<LabelDb> db_ = file_.open();
  UploadedLabels uploaded_{[this]() -> LabelDb& { return *db_; }};
};

TEST_F(UploadedLabelsTest, AreOfTheTaskThatTheyNameAndOfTheStoresCollection) {
  PublishedModel birds = model_of(2);
  birds.task = "birds";
  const auto of_task = [](wire::Upload u) {
    u.set_task("birds");
    return u;
  };
  const std::vector<wire::Upload> lines = {
      labelled(1, 0, 1, "rose"), of_task(labelled(2, 0, 2, "tulip")), of_task(truth(3, 0, "finch")),
      of_task(labelled(4, 1, 1, "rose")),  // version 1 is of another
      labelled(5, 1, 2, "rose")};
  uploaded_.keep({"attic", "garden"}, lines, {{1, model_of(1)}, {2, birds}}).or_throw();
  const auto rows = [&](const char* collection, const char* task) {
    return db_
        ->query({.collection = db_->collection(collection).or_throw(),
                 .task = db_->task(task).or_throw()})
        .or_throw()
        .rows;
  };
  ASSERT_EQ(rows("garden", "default").size(), 1U);
  EXPECT_EQ(rows("garden", "default")[0].class_name, "rose");
  ASSERT_EQ(rows("garden", "birds").size(), 1U);
  EXPECT_EQ(rows("garden", "birds")[0].class_name, "finch") << "a person's word";
  EXPECT_TRUE(rows("default", "birds").empty());
  EXPECT_EQ(db_->history(db_->task("birds").or_throw(), rows("garden", "birds")[0].photo)
                .or_throw()
                .size(),
            2U);
}

TEST_F(UploadedLabelsTest, AreOfTheClassesTheyNameInTheOrderInWhichTheyCome) {
  keep({truth(1, 1, "tulip"), truth(2, 2, "aster"), truth(3, 3, "tulip")});
  std::map<std::string, std::set<int64_t>> ids;
  for (const LabelRow& row : labels()) ids[row.class_name].insert(row.class_id);
  EXPECT_EQ(ids, (std::map<std::string, std::set<int64_t>>{{"tulip", {0}}, {"aster", {1}}}));
  EXPECT_EQ(labels().size(), 3U);
}

TEST_F(UploadedLabelsTest, OfMoreTasksThanThereMayBeAreLeftOut) {
  const std::string past = "task " + std::to_string(wire::kMostTasks);
  std::vector<wire::Upload> lines;
  for (int64_t i = 0; i <= wire::kMostTasks; ++i) {
    lines.push_back(truth(static_cast<uint64_t>(i + 1), 0, "finch"));
    lines.back().set_task("task " + std::to_string(i));
  }
  keep(lines);
  const std::vector<std::string> tasks = db_->tasks().or_throw();
  EXPECT_EQ(std::ssize(tasks), wire::kMostTasks);
  EXPECT_EQ(std::ranges::count(tasks, past), 0);
}

TEST_F(UploadedLabelsTest, AreThereOnceHoweverOftenTheyCome) {
  const std::vector<wire::Upload> lines = {labelled(1, 1, 1, "rose"), line(2, 2),
                                           labelled(3, 2, 2, "tulip"), truth(4, 1, "peony"),
                                           labelled(5, 1, 2, "tulip")};
  keep(lines);
  keep(lines);
  keep({lines.begin() + 2, lines.end()});
  const std::vector<LabelRow> rows = labels();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].path, "attic/uploads/photo 1");
  EXPECT_EQ(rows[0].class_name, "peony");
  EXPECT_EQ(rows[0].source, LabelSource::kHuman);
  EXPECT_EQ(rows[1].class_name, "tulip");
  EXPECT_EQ(rows[1].version_content, model_of(2).content);
  EXPECT_EQ(rows[1].version_number, 2) << "as the Tuner counts";
  EXPECT_EQ(rows[1].top_k.size(), 2U);
  EXPECT_EQ(rows[1].time, 1003);
  EXPECT_EQ(history(rows[0].photo).size(), 3U);
  EXPECT_EQ(history(rows[1].photo).size(), 1U);
}

TEST_F(UploadedLabelsTest, AreNotTriedAgainAfterAnFsyncThatFailed) {
  const FsyncThrows throws;
  keep({labelled(1, 1, 1, "rose")});
  const support::FailingFsync failing;
  EXPECT_THROW(keep({labelled(2, 2, 1, "rose")}), FsyncFailed);
  EXPECT_THROW((void)uploaded_.forget({sha256("photo 1")}).ok(), FsyncFailed);
}

// Of the audit log, here.
TEST_F(UploadedLabelsTest, AreNotForgottenOverAnFsyncThatFailed) {
  const FsyncThrows throws;
  MemoryFs fs;
  ManualClock clock;
  AuditLog audit(fs, clock, "");
  audit
      .add({.what = "label",
            .request = "PUT /photos/" + to_hex(sha256("photo 1")),
            .asked = "{\"class\":\"rose\"}"})
      .or_throw();
  UploadedLabels uploaded([this]() -> LabelDb& { return *db_; }, &audit);
  fs.fail_call(3);  // the audit log as it is from now on is made, written, and synced
  EXPECT_THROW((void)uploaded.forget({sha256("photo 1")}).ok(), FsyncFailed);
}

TEST_F(UploadedLabelsTest, ADeletedPhotoLeavesTheCollection) {
  keep({labelled(1, 1, 1, "rose"), labelled(2, 2, 1, "rose")});
  for (int i = 0; i < 2; ++i) uploaded_.forget({sha256("photo 1"), sha256("photo 9")}).or_throw();
  const std::vector<LabelRow> rows = labels();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].path, "attic/uploads/photo 2");
  const int64_t collection = db_->collection(kDefaultCollection).or_throw();
  EXPECT_EQ(db_->find_photo(collection, "attic/uploads/photo 1").status().code(), Code::kNotFound);
}

TEST_F(UploadedLabelsTest, OfAVersionThatWasUndoneAreLeftOutAndTheOthersGoOn) {
  keep({labelled(1, 1, 1, "rose")});
  const int64_t task = db_->task(kDefaultTask).or_throw();
  (void)db_->undo(db_->versions(task).or_throw().at(0).id, 5).or_throw();
  keep({labelled(2, 2, 1, "rose"), labelled(3, 3, 2, "tulip"), truth(4, 4, "peony")});
  EXPECT_EQ(labels().size(), 2U);
}

TEST_F(UploadedLabelsTest, OfAVersionThatHadItsNumberBeforeARestoreAreLeftOut) {
  wire::Upload other = labelled(1, 1, 1, "rose");
  other.set_head(bytes_of(sha256("another head")));
  keep({other, labelled(2, 2, 7, "rose"), labelled(3, 3, 1, "tulip")});
  const std::vector<LabelRow> rows = labels();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].path, "attic/uploads/photo 3");
  EXPECT_TRUE(
      db_->find_photo(db_->collection(kDefaultCollection).or_throw(), "attic/uploads/photo 1")
          .ok());
}

}  // namespace
}  // namespace ndtrain::tuner
