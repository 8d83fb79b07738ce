// The version in force, undoing one, and what changed between two.
#include <gmock/gmock.h>

#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using enum LabelSource;

class LabelVersionsTest : public LabelsTest {
 protected:
  // What the history says of the photo, newest first.
  std::vector<std::string> history(int64_t photo) {
    std::vector<std::string> all;
    for (const LabelRow& r : db->history(task, photo).or_throw()) {
      all.push_back(r.class_name + (r.withdrawn ? " withdrawn" : ""));
    }
    return all;
  }
};

TEST_P(LabelVersionsTest, ALabelIsStaleWhileAnotherVersionIsInForce) {
  const int64_t v1 = version("v1", 1), v2 = version("v2", 2);
  EXPECT_EQ(db->in_force(task).or_throw(), std::nullopt);
  ASSERT_TRUE(db->put_in_force(task, v1).ok());
  put(kModel, photos[0], cat, 1, v1);
  put(kModel, photos[1], cat, 1, v1);
  put(kHuman, photos[2], cat, 1);
  EXPECT_THAT(labels({.stale = true}), IsEmpty());
  ASSERT_TRUE(db->put_in_force(task, v2).ok());
  EXPECT_EQ(db->in_force(task).or_throw(), v2);
  EXPECT_THAT(labels({.stale = true}), ElementsAre("photo 0.jpg=cat", "photo 1.jpg=cat"));
  put(kModel, photos[1], dog, 2, v2);
  EXPECT_THAT(labels({.stale = true}), ElementsAre("photo 0.jpg=cat"));
  EXPECT_EQ(db->stats(collection, task).or_throw().stale, 1);
}

TEST_P(LabelVersionsTest, StaleLabelsOfManyVersionsComeInPagesInOrder) {
  std::vector<std::string> expected;
  for (size_t i = 0; i < 9; ++i) {
    put(kModel, photos[i], cat, 1, version("v" + std::to_string(i % 3), 1 + i % 3));
    expected.push_back("photo " + std::to_string(i) + ".jpg");
  }
  ASSERT_TRUE(db->put_in_force(task, version("new", 9)).ok());
  for (int64_t limit = 1; limit < 11; ++limit) {
    LabelQuery q{.collection = collection, .task = task, .stale = true, .limit = limit};
    std::vector<std::string> paths;
    for (bool more = true; more;) {
      const LabelPage page = db->query(q).or_throw();
      for (const LabelRow& r : page.rows) paths.push_back(r.path);
      more = page.next.has_value();
      if (more) q.after = *page.next;
    }
    EXPECT_EQ(paths, expected) << limit;
  }
}

TEST_P(LabelVersionsTest, GoingBackToAnEarlierVersionMakesItsLabelsCurrentAgain) {
  const int64_t v1 = version("v1", 1), v2 = version("v2", 2);
  put(kModel, photos[0], cat, 1, v1);
  put(kModel, photos[0], dog, 2, v2);
  put(kModel, photos[1], dog, 2, v2);
  put(kModel, photos[2], cat, 1, v1);
  put(kModel, photos[2], dog, 2, v2);
  put(kHuman, photos[2], dog, 3);
  ASSERT_TRUE(db->put_in_force(task, v1).ok());
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat", "photo 1.jpg=dog", "photo 2.jpg=dog"));
  EXPECT_EQ(put(kModel, photos[1], cat, 1, v1).current, 1) << "though v2 is newer";
  ASSERT_TRUE(db->put_in_force(task, v2).ok());
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=dog", "photo 1.jpg=dog", "photo 2.jpg=dog"));
}

TEST_P(LabelVersionsTest, ANewVersionInForceLeavesALabelThatWasOnlyCurrentWhileItsVersionWas) {
  const int64_t v1 = version("v1", 1), v2 = version("v2", 2), v3 = version("v3", 3);
  ASSERT_TRUE(db->put_in_force(task, v1).ok());
  put(kModel, photos[0], cat, 1, v1);
  put(kModel, photos[0], dog, 2, v2);
  put(kModel, photos[1], cat, 1, v1);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat", "photo 1.jpg=cat"));
  ASSERT_TRUE(db->put_in_force(task, v3).ok());
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=dog", "photo 1.jpg=cat"));
}

TEST_P(LabelVersionsTest, OnlyAVersionOfTheTaskCanBePutInForce) {
  const int64_t other = db->task("other").or_throw();
  const int64_t v = db->version(other, {.content = sha256("v")}).or_throw();
  EXPECT_EQ(db->put_in_force(task, v).code(), Code::kNotFound);
  EXPECT_EQ(db->put_in_force(task, 999).code(), Code::kNotFound);
  EXPECT_EQ(db->in_force(task).or_throw(), std::nullopt);
}

TEST_P(LabelVersionsTest, UndoingAVersionBringsTheLabelsBeforeItBack) {
  const int64_t v1 = version("v1", 1), v2 = version("v2", 2);
  put(kModel, photos[0], cat, 1, v1);
  put(kModel, photos[0], dog, 2, v2);
  put(kModel, photos[1], dog, 2, v2);
  put(kModel, photos[2], dog, 2, v2);
  put(kHuman, photos[2], cat, 3);
  ASSERT_TRUE(db->put_in_force(task, v2).ok());
  const UndoReport report = db->undo(v2, 50).or_throw();
  EXPECT_EQ(report.withdrawn, 2) << "the person's label was current anyway";
  EXPECT_EQ(report.restored, 1);
  EXPECT_EQ(report.in_force, v1);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat", "photo 2.jpg=cat"));
  EXPECT_THAT(history(photos[0]), ElementsAre("dog withdrawn", "cat"));
  EXPECT_EQ(db->versions(task).or_throw()[0].withdrawn, 50);

  const UndoReport again = db->undo(v2, 60).or_throw();
  EXPECT_EQ(again.withdrawn, 0);
  EXPECT_EQ(again.in_force, v1);
  EXPECT_EQ(db->versions(task).or_throw()[0].withdrawn, 50);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat", "photo 2.jpg=cat"));
  EXPECT_EQ(db->undo(999, 60).status().code(), Code::kNotFound);
}

TEST_P(LabelVersionsTest, APreviewSaysWhatUndoingDoesAndChangesNothing) {
  const int64_t v1 = version("v1", 1), v2 = version("v2", 2);
  put(kModel, photos[0], cat, 1, v1);
  put(kModel, photos[0], dog, 2, v2);
  put(kModel, photos[1], dog, 2, v2);
  ASSERT_TRUE(db->put_in_force(task, v2).ok());
  const UndoReport will = db->preview_undo(v2).or_throw();
  EXPECT_EQ(will, (UndoReport{.withdrawn = 2, .restored = 1, .in_force = v1}));
  EXPECT_EQ(db->in_force(task).or_throw(), v2);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=dog", "photo 1.jpg=dog"));
  EXPECT_EQ(db->undo(v2, 50).or_throw(), will);
  EXPECT_EQ(db->preview_undo(v2).or_throw(), (UndoReport{.in_force = v1}));
  EXPECT_EQ(db->preview_undo(999).status().code(), Code::kNotFound);
}

TEST_P(LabelVersionsTest, AVersionHasTheGreatestNumberThatItsContentWasGiven) {
  const auto add = [&](const char* content, std::optional<int64_t> number) {
    return db->version(task, {.number = number, .content = sha256(content), .created = 1})
        .or_throw();
  };
  const auto number_of = [&](int64_t id) {
    for (const VersionInfo& v : db->versions(task).or_throw()) {
      if (v.id == id) return v.number;
    }
    return std::optional<int64_t>();
  };
  const int64_t a = add("a", std::nullopt);
  EXPECT_EQ(number_of(a), std::nullopt) << "labelled without a Tuner";
  EXPECT_EQ(add("a", 6), a) << "the Tuner publishes the same model";
  EXPECT_EQ(number_of(a), 6);
  add("a", 8);  // trained again, to the same bytes
  add("a", 6);
  add("a", std::nullopt);
  EXPECT_EQ(number_of(a), 8);
  EXPECT_EQ(existing_version(*db, task, "8").or_throw().id, a);
  EXPECT_EQ(existing_version(*db, task, to_hex(sha256("a")).substr(0, 4)).or_throw().id, a);
  add("b", 8);  // of another Tuner, or one that was restored
  const Result<VersionInfo> two = existing_version(*db, task, "8");
  EXPECT_EQ(two.status().code(), Code::kNotFound);
  EXPECT_THAT(two.status().message(), ::testing::HasSubstr("name it by its content"));
}

TEST_P(LabelVersionsTest, AnUndoneVersionPutsNoLabelsUntilItIsInForceAgain) {
  const int64_t v = version("v", 1);
  put(kModel, photos[0], dog, 2, v);
  db->undo(v, 50).or_throw();
  EXPECT_EQ(db->in_force(task).or_throw(), std::nullopt);
  const LabelBatch batch{
      .task = task, .version = v, .labels = {{.photo = photos[1], .class_id = cat}}};
  EXPECT_EQ(db->put_labels(batch).status().code(), Code::kCancelled);
  EXPECT_THAT(labels(), IsEmpty());
  put(kHuman, photos[0], cat, 1);
  ASSERT_TRUE(db->put_in_force(task, v).ok());
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat")) << "a person said so meanwhile";
  EXPECT_TRUE(db->put_labels(batch).ok());
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat", "photo 1.jpg=cat"));
  EXPECT_THAT(history(photos[0]), ElementsAre("dog", "cat"));
}

TEST_P(LabelVersionsTest, ADiffCountsWhatBecameWhatAndListsThePhotos) {
  const int64_t v1 = version("v1", 1), v2 = version("v2", 2);
  for (size_t i = 0; i < 6; ++i) put(kModel, photos[i], cat, 1, v1, 0.5);
  for (size_t i = 1; i < 8; ++i) put(kModel, photos[i], i % 2 ? dog : cat, 2, v2, 0.25);
  put(kModel, photos[0], dog, 1, v2);
  put(kHuman, photos[1], cat, 9);  // changes nothing between the two
  const std::vector<std::string> names{"bird"};
  const int64_t bird = db->class_ids(task, names).or_throw()[0];
  put(kModel, photos[8], bird, 1, v1);
  put(kModel, photos[8], cat, 1, v2);
  put(kModel, photos[9], cat, 1, v1);
  const LabelDiff diff = db->diff(collection, v1, v2).or_throw();
  EXPECT_EQ(diff.same, 2);
  EXPECT_EQ(diff.changed, 5);
  EXPECT_EQ(diff.only_from, 1);
  EXPECT_EQ(diff.only_to, 2);
  ASSERT_EQ(diff.changes.size(), 2u);
  EXPECT_EQ(diff.changes[0].from + diff.changes[0].to, "catdog");
  EXPECT_EQ(diff.changes[0].photos, 4);
  EXPECT_EQ(diff.changes[1].from + diff.changes[1].to, "birdcat");

  DiffQuery q{.collection = collection, .from = v1, .to = v2, .limit = 2};
  std::vector<std::string> paths;
  for (std::vector<ChangedPhoto> page; page = db->changed_photos(q).or_throw(), !page.empty();) {
    for (const ChangedPhoto& c : page) paths.push_back(c.path + " " + c.from + " " + c.to);
    q.after = page.back().photo;
  }
  EXPECT_THAT(paths,
              ElementsAre("photo 0.jpg cat dog", "photo 1.jpg cat dog", "photo 3.jpg cat dog",
                          "photo 5.jpg cat dog", "photo 8.jpg bird cat"));
  const auto birds =
      db->changed_photos({.collection = collection, .from = v1, .to = v2, .from_class = bird})
          .or_throw();
  ASSERT_EQ(birds.size(), 1u);
  EXPECT_EQ(birds[0].from_score, std::nullopt);
  const int64_t elsewhere = db->collection("elsewhere").or_throw();
  EXPECT_EQ(db->diff(elsewhere, v1, v2).or_throw().changed, 0);
  std::vector<PhotoPlace> some;
  for (const size_t i : {0, 7, 9}) {
    some.push_back({std::to_string(i) + ".jpg", db->digest_of(photos[i]).or_throw()});
  }
  db->add_photos(elsewhere, some).or_throw();
  const LabelDiff few = db->diff(elsewhere, v1, v2).or_throw();
  EXPECT_EQ(few.same, 0);
  EXPECT_EQ(few.changed, 1);
  EXPECT_EQ(few.only_from, 1);
  EXPECT_EQ(few.only_to, 1);
  EXPECT_EQ(db->stats(elsewhere, task).or_throw().labelled, 3);
}

NDT_FOR_ALL_DATABASES(LabelVersionsTest);

}  // namespace
}  // namespace ndtrain::ndp
