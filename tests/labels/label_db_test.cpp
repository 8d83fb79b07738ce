#include "ndp/labels/label_db.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "framework/core/limits.h"
#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using enum LabelSource;

TEST_P(LabelsTest, ALabelComesBackAsItWasPut) {
  const int64_t v = version("model", 5);
  const std::vector<ScoredClass> top_k{{dog, 0.75f}, {cat, 0.1f}};
  const LabelBatch batch{.task = task,
                         .version = v,
                         .labels = {{.photo = photos[3],
                                     .class_id = dog,
                                     .score = 0.75,
                                     .top_k = top_k,
                                     .time = 99,
                                     .store = db->store("attic").or_throw()}}};
  EXPECT_EQ(db->put_labels(batch).or_throw().added, 1);
  const auto rows = db->query({.collection = collection, .task = task}).or_throw().rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].photo, photos[3]);
  EXPECT_EQ(rows[0].digest, sha256("photo 3.jpg"));
  EXPECT_EQ(rows[0].path, "photo 3.jpg");
  EXPECT_EQ(rows[0].class_id, dog);
  EXPECT_EQ(rows[0].class_name, "dog");
  EXPECT_EQ(rows[0].score, 0.75);
  EXPECT_EQ(rows[0].top_k, top_k);
  EXPECT_EQ(rows[0].source, kModel);
  EXPECT_EQ(rows[0].version, v);
  EXPECT_EQ(rows[0].version_content, sha256("model"));
  EXPECT_EQ(rows[0].time, 99);
  EXPECT_EQ(rows[0].store, "attic");
}

TEST_P(LabelsTest, ClassIdsSurviveAddingAndReordering) {
  const std::vector<std::string> names{"bird", "dog", "ant", "cat", "bird"};
  const auto ids = db->class_ids(task, names).or_throw();
  EXPECT_EQ(ids[1], dog);
  EXPECT_EQ(ids[3], cat);
  EXPECT_EQ(ids[0], ids[4]);
  const std::vector<std::string> fewer{"cat"};
  EXPECT_THAT(db->class_ids(task, fewer).or_throw(), ElementsAre(cat));
  std::vector<std::string> all;
  for (const ClassInfo& c : db->classes(task).or_throw()) all.push_back(c.name);
  EXPECT_THAT(all, ElementsAre("cat", "dog", "bird", "ant"));
  // Another task has ids of its own.
  const int64_t other = db->task("colour").or_throw();
  EXPECT_THAT(db->classes(other).or_throw(), IsEmpty());
  const std::vector<std::string> red{"red"};
  EXPECT_THAT(db->class_ids(other, red).or_throw(), ElementsAre(cat));
}

TEST_P(LabelsTest, SettlingChangesNothingThatIsAsked) {
  const auto all = [&] {
    return db->query({.collection = collection, .task = task}).or_throw().rows;
  };
  for (const char* name : {"first", "second"}) {
    LabelBatch batch{.task = task, .version = version(name, 1)};
    for (const int64_t photo : photos) batch.labels.push_back({.photo = photo, .class_id = dog});
    EXPECT_EQ(db->put_labels(batch).or_throw().added, std::ssize(photos));
  }
  const auto before = all();
  db->settle().or_throw();
  EXPECT_EQ(all().size(), before.size());
  EXPECT_EQ(db->history(task, photos[0]).or_throw().size(), 2u);
}

TEST_P(LabelsTest, NamesAreFoundAgain) {
  EXPECT_EQ(db->collection(kDefaultCollection).or_throw(), collection);
  EXPECT_NE(db->collection("other").or_throw(), collection);
  EXPECT_EQ(db->task(kDefaultTask).or_throw(), task);
  const int64_t v = version("a", 1);
  EXPECT_EQ(version("a", 2), v);
  const int64_t child =
      db->version(
            task,
            {.content = sha256("b"), .parent = sha256("a"), .created = 3, .metrics = "top1=0.9"})
          .or_throw();
  const auto versions = db->versions(task).or_throw();
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_EQ(versions[0].id, child);
  EXPECT_EQ(versions[0].parent, v);
  EXPECT_EQ(versions[0].metrics, "top1=0.9");
  EXPECT_EQ(versions[1].created, 1) << "what is there stays";
}

TEST_P(LabelsTest, NamesThatAreNotThereAreNotMadeByLookingForThem) {
  db->task("birds").or_throw();
  EXPECT_EQ(existing_task(*db, "birds").or_throw(), db->task("birds").or_throw());
  EXPECT_EQ(existing_collection(*db, "default").or_throw(), collection);
  const Status s = existing_task(*db, "bird").status();
  EXPECT_EQ(s.code(), Code::kNotFound);
  EXPECT_NE(s.message().find("birds, default"), std::string::npos) << s.message();
  EXPECT_EQ(existing_collection(*db, "attic").status().code(), Code::kNotFound);
  EXPECT_EQ(db->tasks().or_throw(), (std::vector<std::string>{"birds", "default"}));
  EXPECT_EQ(db->collections().or_throw(), std::vector<std::string>{"default"});
}

TEST_P(LabelsTest, TheHighestSourceIsCurrentInWhateverOrderTheyCome) {
  const int64_t v = version("v", 1);
  const LabelSource sources[] = {kModel, kFolder, kImport, kHuman};
  // Labels get newer as their source gets lower, so that time alone would choose the wrong one.
  int order[] = {0, 1, 2, 3};
  for (size_t p = 0; std::next_permutation(std::begin(order), std::end(order)); ++p) {
    const auto place = places(100 + static_cast<int>(p), 1);
    const int64_t photo = db->add_photos(collection, place).or_throw()[0];
    int highest = -1;
    for (const int i : order) {
      const bool human = sources[i] == kHuman;
      const PutReport report = put(sources[i], photo, human ? dog : cat, 100 - i,
                                   i == 0 ? std::optional(v) : std::nullopt);
      EXPECT_EQ(report.current, i > highest);
      highest = std::max(highest, i);
    }
    const auto rows =
        db->query({.collection = collection, .task = task, .after = {photo, ""}}).or_throw().rows;
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].source, kHuman);
    EXPECT_EQ(rows[0].class_id, dog);
    EXPECT_EQ(db->history(task, photo).or_throw().size(), 4u);
  }
}

TEST_P(LabelsTest, AmongModelsTheNewestVersionIsCurrent) {
  const int64_t older = version("older", 10), newer = version("newer", 20);
  put(kModel, photos[0], cat, 100, newer);
  EXPECT_EQ(put(kModel, photos[0], dog, 200, older).current, 0);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat"));
  const int64_t newest = version("newest", 20);  // as old as newer, but came later
  EXPECT_EQ(put(kModel, photos[0], dog, 50, newest).current, 1);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=dog"));
}

TEST_P(LabelsTest, TheLastWordOfAPersonCounts) {
  put(kHuman, photos[0], cat, 1);
  put(kHuman, photos[0], dog, 2);
  EXPECT_EQ(put(kHuman, photos[0], dog, 3).added, 0) << "says nothing new";
  put(kHuman, photos[0], cat, 4);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat"));
  EXPECT_EQ(db->history(task, photos[0]).or_throw().size(), 3u);
}

TEST_P(LabelsTest, TheLastWordOfAPersonCountsThoughTheClockWasSetBack) {
  const auto say = [&](const std::string& name, int64_t time) {
    set_label(*db, collection, task, "photo 0.jpg", name, time).or_throw();
  };
  put(kImport, photos[0], dog, 5000);
  say("cat", 1000);
  say("dog", 10);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=dog"));
  say("dog", 5);
  say("cat", 5);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat"));
  std::vector<std::pair<std::string, int64_t>> history;
  for (const LabelRow& row : db->history(task, photos[0]).or_throw()) {
    history.emplace_back(row.class_name, row.time);
  }
  EXPECT_THAT(history, ElementsAre(std::pair("dog", 5000), std::pair("cat", 1002),
                                   std::pair("dog", 1001), std::pair("cat", 1000)));
}

TEST_P(LabelsTest, LabelsWithTimesOfTheirOwnCountByThemInWhateverOrderTheyCome) {
  set_label(*db, collection, task, "photo 0.jpg", "cat", 1000).or_throw();
  for (int twice = 0; twice < 2; ++twice) {  // a store's outbox, say
    put(kHuman, photos[0], dog, 900);
    put(kHuman, photos[0], dog, 1100);
    put(kHuman, photos[0], cat, 1050);
    EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=dog"));
    EXPECT_EQ(db->history(task, photos[0]).or_throw().size(), 4u);
  }
}

TEST_P(LabelsTest, AfterALabelOfTheEndOfTimeAPersonStillHasTheLastWord) {
  put(kHuman, photos[0], cat, INT64_MAX);
  set_label(*db, collection, task, "photo 0.jpg", "dog", 10).or_throw();
  set_label(*db, collection, task, "photo 0.jpg", "cat", 10).or_throw();
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat"));
}

TEST_P(LabelsTest, AVersionLabelsAPhotoOnce) {
  const int64_t v = version("v", 1);
  EXPECT_EQ(put(kModel, photos[0], cat, 1, v).added, 1);
  EXPECT_EQ(put(kModel, photos[0], dog, 2, v).added, 0);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat"));
  EXPECT_THAT(db->labelled_by(v, photos).or_throw(), ElementsAre(photos[0]));
}

TEST_P(LabelsTest, WhichPhotosAVersionHasLabelledIsSaidOfAnyPhotosInAnyOrder) {
  const int64_t v = version("v", 1), other = version("other", 2);
  for (const size_t i : {1u, 4u, 9u}) put(kModel, photos[i], cat, 1, v);
  for (const size_t i : {4u, 5u}) put(kModel, photos[i], dog, 2, other);
  EXPECT_THAT(db->labelled_by(v, photos).or_throw(), ElementsAre(photos[1], photos[4], photos[9]));
  const std::vector<int64_t> some{photos[9], photos[2], photos[1], 999, photos[9]};
  EXPECT_THAT(db->labelled_by(v, some).or_throw(), ElementsAre(photos[9], photos[1], photos[9]));
  const auto many = db->add_photos(collection, places(100, 30)).or_throw();
  const std::vector<int64_t> far{photos[4], many.back(), photos[5]};
  EXPECT_THAT(db->labelled_by(v, far).or_throw(), ElementsAre(photos[4]));
  EXPECT_THAT(db->labelled_by(v, {}).or_throw(), IsEmpty());
}

TEST_P(LabelsTest, PhotosAreFoundByTheirDigests) {
  const std::vector<Digest> digests{sha256("photo 7.jpg"), sha256("nobody's"),
                                    sha256("photo 2.jpg")};
  EXPECT_THAT(db->photos_with(digests).or_throw(), ElementsAre(photos[7], 0, photos[2]));
}

TEST_P(LabelsTest, OfAPathThatIsNamedTwiceAtOnceTheLastPhotoCounts) {
  const Digest first = sha256("first"), second = sha256("second");
  for (const auto& [one, other] : {std::pair{first, second}, {first, second}, {second, first}}) {
    const std::vector<PhotoPlace> twice{{"b.jpg", one}, {"a.jpg", first}, {"b.jpg", other}};
    const auto ids = db->add_photos(collection, twice).or_throw();
    EXPECT_NE(ids[0], ids[2]);
    EXPECT_EQ(db->find_photo(collection, "b.jpg").or_throw(), ids[2]);
    EXPECT_EQ(db->find_photo(collection, "a.jpg").or_throw(), ids[1]);
  }
}

TEST_P(LabelsTest, ABatchGetsInWholeOrNotAtAll) {
  const int64_t v = version("v", 1);
  LabelBatch batch{.task = task, .version = v, .labels = {{.photo = photos[0], .class_id = cat}}};
  for (const NewLabel& bad :
       {NewLabel{.photo = 999, .class_id = cat}, NewLabel{.photo = photos[1], .class_id = 999}}) {
    batch.labels.resize(1);
    batch.labels.push_back(bad);
    EXPECT_EQ(db->put_labels(batch).status().code(), Code::kNotFound);
    EXPECT_THAT(labels(), IsEmpty());
  }
  batch.labels.resize(1);
  batch.version = 999;
  EXPECT_EQ(db->put_labels(batch).status().code(), Code::kNotFound);
  batch.version.reset();
  EXPECT_THROW(db->put_labels(batch).ok(), Error);
  batch.source = kHuman;
  EXPECT_TRUE(db->put_labels(batch).ok());
  batch.labels[0].score = NAN;
  batch.labels[0].class_id = dog;
  EXPECT_THROW(db->put_labels(batch).ok(), Error);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat"));
}

TEST_P(LabelsTest, AVersionOfAnotherTaskIsRefused) {
  const int64_t other = db->task("other").or_throw();
  const int64_t v = db->version(other, {.content = sha256("v")}).or_throw();
  const LabelBatch batch{
      .task = task, .version = v, .labels = {{.photo = photos[0], .class_id = cat}}};
  EXPECT_EQ(db->put_labels(batch).status().code(), Code::kNotFound);
}

TEST_P(LabelsTest, QueriesFilterByEverythingTogether) {
  const int64_t old_version = version("old", 1), new_version = version("new", 2);
  put(kModel, photos[0], cat, 10, old_version, 0.9);
  put(kModel, photos[1], cat, 11, new_version, 0.5);
  put(kModel, photos[2], dog, 12, new_version, 0.7);
  put(kHuman, photos[3], cat, 13);
  EXPECT_THAT(labels({.class_id = cat}),
              ElementsAre("photo 0.jpg=cat", "photo 1.jpg=cat", "photo 3.jpg=cat"));
  EXPECT_THAT(labels({.min_score = 0.7}), ElementsAre("photo 0.jpg=cat", "photo 2.jpg=dog"));
  EXPECT_THAT(labels({.max_score = 0.7}), ElementsAre("photo 1.jpg=cat", "photo 2.jpg=dog"));
  EXPECT_THAT(labels({.sources = {kHuman, kImport}}), ElementsAre("photo 3.jpg=cat"));
  EXPECT_THAT(labels({.since = 11, .until = 12}),
              ElementsAre("photo 1.jpg=cat", "photo 2.jpg=dog"));
  EXPECT_THAT(labels({.version = new_version}), ElementsAre("photo 1.jpg=cat", "photo 2.jpg=dog"));
  EXPECT_THAT(labels({.stale = true}), IsEmpty()) << "no version is in force yet";
  ASSERT_TRUE(db->put_in_force(task, new_version).ok());
  EXPECT_THAT(labels({.stale = true}), ElementsAre("photo 0.jpg=cat"));
  EXPECT_THAT(labels({.class_id = dog, .stale = true}), IsEmpty());
  EXPECT_THAT(labels({.sources = {kHuman}, .stale = true}), IsEmpty());
  EXPECT_THAT(labels({.class_id = cat, .max_score = 0.6, .sources = {kModel}, .since = 5}),
              ElementsAre("photo 1.jpg=cat"));
  EXPECT_THAT(labels({.photo = photos[2]}), ElementsAre("photo 2.jpg=dog"));
  EXPECT_THAT(labels({.photo = photos[2], .class_id = cat}), IsEmpty());
}

TEST_P(LabelsTest, APartOfThePathIsFoundByteByByte) {
  const std::vector<PhotoPlace> odd{{"july/100%_a.jpg", sha256("1")},
                                    {"july/\xff\xc3\xbc.jpg", sha256("2")},
                                    {"July/b.jpg", sha256("3")}};
  for (const int64_t p : db->add_photos(collection, odd).or_throw()) put(kHuman, p, cat, 1);
  put(kHuman, photos[1], dog, 1);
  EXPECT_THAT(labels({.path = "july/"}),
              ElementsAre("july/100%_a.jpg=cat", "july/\xff\xc3\xbc.jpg=cat"));
  EXPECT_THAT(labels({.path = "0%_a"}), ElementsAre("july/100%_a.jpg=cat")) << "no pattern";
  EXPECT_THAT(labels({.path = "%"}), ElementsAre("july/100%_a.jpg=cat"));
  EXPECT_THAT(labels({.path = "\xff"}), ElementsAre("july/\xff\xc3\xbc.jpg=cat"));
  EXPECT_THAT(labels({.path = ".jpg", .class_id = dog}), ElementsAre("photo 1.jpg=dog"));
  EXPECT_THAT(labels({.path = "' OR 1=1 --"}), IsEmpty());
}

TEST_P(LabelsTest, LabelsAreFoundByTheStoreThatMadeThem) {
  const int64_t v = version("v", 1), attic = db->store("attic").or_throw();
  EXPECT_EQ(db->store("attic").or_throw(), attic);
  const int64_t cellar = db->store("cellar").or_throw();
  LabelBatch batch{.task = task, .version = v};
  for (size_t i = 0; i < 3; ++i) {
    batch.labels.push_back({.photo = photos[i], .class_id = cat, .store = i < 2 ? attic : cellar});
  }
  ASSERT_TRUE(db->put_labels(batch).ok());
  put(kHuman, photos[4], cat, 1);
  EXPECT_THAT(labels({.store = attic}), ElementsAre("photo 0.jpg=cat", "photo 1.jpg=cat"));
  EXPECT_THAT(labels({.class_id = cat, .store = cellar}), ElementsAre("photo 2.jpg=cat"));
  EXPECT_EQ(db->stores().or_throw(), (std::vector<std::string>{"attic", "cellar"}));
  EXPECT_EQ(existing_store(*db, "roof").status().code(), Code::kNotFound);
  EXPECT_EQ(db->history(task, photos[4]).or_throw()[0].store, "");
}

TEST_P(LabelsTest, PagesMakeUpTheWhole) {
  // Two paths of one photo are two rows.
  const PhotoPlace copy{"a copy.jpg", sha256("photo 4.jpg")};
  EXPECT_EQ(db->add_photos(collection, {&copy, 1}).or_throw()[0], photos[4]);
  for (const int64_t photo : photos) put(kFolder, photo, cat, 1);
  const auto whole = labels();
  EXPECT_EQ(whole.size(), 11u);
  for (int64_t limit = 1; limit <= 12; ++limit) {
    std::vector<std::string> paged;
    LabelQuery query{.collection = collection, .task = task, .limit = limit};
    for (;;) {
      const LabelPage page = db->query(query).or_throw();
      ASSERT_LE(static_cast<int64_t>(page.rows.size()), limit);
      for (const LabelRow& row : page.rows) paged.push_back(row.path + "=" + row.class_name);
      if (!page.next) break;
      query.after = *page.next;
    }
    EXPECT_EQ(paged, whole) << limit;
  }
}

TEST_P(LabelsTest, APathWhoseBytesChangeHoldsAnotherPhoto) {
  put(kHuman, photos[0], cat, 1);
  const PhotoPlace changed{"photo 0.jpg", sha256("new bytes")};
  const int64_t photo = db->add_photos(collection, {&changed, 1}).or_throw()[0];
  EXPECT_NE(photo, photos[0]);
  EXPECT_EQ(db->find_photo(collection, "photo 0.jpg").or_throw(), photo);
  EXPECT_THAT(labels(), IsEmpty());
  EXPECT_EQ(db->history(task, photos[0]).or_throw().size(), 1u) << "the old label is kept";
  const std::vector<std::string> gone{"photo 0.jpg", "never there"};
  ASSERT_TRUE(db->remove_paths(collection, gone).ok());
  EXPECT_EQ(db->find_photo(collection, "photo 0.jpg").status().code(), Code::kNotFound);
}

TEST_P(LabelsTest, PathsMayBeAsLongAsTheLimit) {
  for (const int beyond : {-1, 0, 1}) {
    const PhotoPlace place{std::string(static_cast<size_t>(limits::kPathBytes + beyond), 'x'),
                           sha256("x")};
    EXPECT_EQ(db->add_photos(collection, {&place, 1}).ok(), beyond <= 0);
  }
}

TEST_P(LabelsTest, TextFromOutsideIsNeverSql) {
  const std::string nasty = "'); DROP TABLE labels; --\"\n\\";
  const PhotoPlace place{nasty, sha256("nasty")};
  ASSERT_TRUE(db->add_photos(collection, {&place, 1}).ok());
  ASSERT_TRUE(set_label(*db, collection, task, nasty, nasty, 7).ok());
  EXPECT_THAT(labels(), ElementsAre(nasty + "=" + nasty));
  EXPECT_TRUE(db->task(nasty).ok());
  EXPECT_EQ(set_label(*db, collection, task, "no such path", "cat", 7).code(), Code::kNotFound);
}

TEST_P(LabelsTest, StatisticsCountPhotosOfTheCollection) {
  const int64_t old_version = version("old", 1), new_version = version("new", 2);
  put(kModel, photos[0], cat, 1, old_version);
  put(kModel, photos[1], dog, 1, new_version);
  put(kModel, photos[2], dog, 1, new_version);
  put(kHuman, photos[2], cat, 1);
  ASSERT_TRUE(db->put_in_force(task, new_version).ok());
  const LabelStats stats = db->stats(collection, task).or_throw();
  EXPECT_EQ(stats.photos, 10);
  EXPECT_EQ(stats.labelled, 3);
  EXPECT_EQ(stats.stale, 1);
  EXPECT_THAT(stats.by_class, ElementsAre(std::pair("cat", 2), std::pair("dog", 1)));
  EXPECT_THAT(stats.by_source, ElementsAre(std::pair("model", 2), std::pair("human", 1)));
  const int64_t other = db->collection("other").or_throw();
  EXPECT_EQ(db->stats(other, task).or_throw().labelled, 0);
}

NDT_FOR_ALL_DATABASES(LabelsTest);

TEST(LabelDb, RefusesOtherKindsOfDatabases) {
  for (const char* url : {"mysql://host/db", "sqlite:", "labels.db", ""}) {
    EXPECT_EQ(open_label_db(url).status().code(), Code::kUnsupported) << url;
  }
  EXPECT_EQ(open_label_db("sqlite:/no/such/directory/x.db").status().code(), Code::kIo);
}

TEST(LabelDb, IsNotMadeWhereOneIsExpected) {
  const TemporaryDb file;
  const std::string url = "sqlite:" + file.path();
  EXPECT_EQ(open_label_db(url, OpenLabelDb::kExisting).status().code(), Code::kNotFound);
  EXPECT_FALSE(real_fs().exists(file.path()));
  file.open();
  EXPECT_TRUE(open_label_db(url, OpenLabelDb::kExisting).ok());
}

TEST(LabelDb, SourcesHaveNames) {
  for (const LabelSource s : {kModel, kFolder, kImport, kHuman}) {
    EXPECT_EQ(label_source_named(name_of(s)), s);
  }
  EXPECT_EQ(label_source_named("nobody"), std::nullopt);
}

}  // namespace
}  // namespace ndtrain::ndp
