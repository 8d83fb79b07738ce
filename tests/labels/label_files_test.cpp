#include "ndp/labels/label_files.h"

#include <gmock/gmock.h>

#include "tests/labels/labels_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_labels;
using ::testing::ElementsAre;

class LabelFilesTest : public LabelsTest {
 protected:
  Result<LabelImport> import(std::string_view csv) {
    return import_labels(*db, collection, task, csv, 1000);
  }
  std::string exported(const LabelQuery& query = {}) {
    LabelQuery q = query;
    q.collection = collection;
    q.task = task;
    std::string text;
    export_labels(*db, q, [&](std::string_view part) {
      text += part;
      return Status();
    }).or_throw();
    return text;
  }
};

TEST_P(LabelFilesTest, ReadsColumnsByNameOrByPlace) {
  const LabelImport named =
      import("\xef\xbb\xbftime,label,ignored,file\r\n5,cat,x,photo 0.jpg\r\n\r\n,dog,y,photo 1.jpg")
          .or_throw();
  EXPECT_EQ(named.rows, 2);
  EXPECT_EQ(named.added, 2);
  EXPECT_EQ(import("photo 2.jpg,bird\n").or_throw().added, 1);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat", "photo 1.jpg=dog", "photo 2.jpg=bird"));
  const auto rows = db->query({.collection = collection, .task = task}).or_throw().rows;
  EXPECT_EQ(rows[0].time, 5);
  EXPECT_EQ(rows[1].time, 1000);
  EXPECT_EQ(rows[0].source, LabelSource::kImport);
}

TEST_P(LabelFilesTest, ImportingTwiceChangesNothing) {
  const char* csv = "path,label,time\nphoto 0.jpg,cat,5\nphoto 0.jpg,dog,3\nphoto 1.jpg,dog,5\n";
  EXPECT_EQ(import(csv).or_throw().added, 3);
  EXPECT_EQ(import(csv).or_throw().added, 0);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=cat", "photo 1.jpg=dog"));
}

TEST_P(LabelFilesTest, ARowWithoutATimeIsLaterThanWhatItsSourceSaidBefore) {
  EXPECT_EQ(
      import("path,label,time\nphoto 0.jpg,cat,5000\nphoto 1.jpg,cat,5000\n").or_throw().added, 2);
  const char* corrected = "path,label,time\nphoto 0.jpg,dog,\nphoto 1.jpg,dog,4000\n";
  EXPECT_EQ(import(corrected).or_throw().added, 2);
  EXPECT_EQ(import(corrected).or_throw().added, 0);
  EXPECT_THAT(labels(), ElementsAre("photo 0.jpg=dog", "photo 1.jpg=cat"));
}

TEST_P(LabelFilesTest, WhatIsExportedCanBeImportedButAModelsLabelsStayOut) {
  const PhotoPlace odd{"with \"quotes\", commas\r\nand lines.jpg", sha256("odd")};
  const int64_t photo = db->add_photos(collection, {&odd, 1}).or_throw()[0];
  put(LabelSource::kHuman, photo, dog, 7);
  put(LabelSource::kModel, photos[1], cat, 8, version("v", 1), 0.25);
  const int64_t numbered =
      db->version(task, {.number = 6, .content = sha256("w"), .created = 2}).or_throw();
  put(LabelSource::kModel, photos[2], cat, 9, numbered);
  const std::string v = to_hex(sha256("v")), w = to_hex(sha256("w"));
  const std::string csv = exported();
  EXPECT_EQ(csv,
            "path,label,score,source,version,content,time,store,at_random\n"
            "photo 1.jpg,cat,0.25,model," +
                v.substr(0, 12) + "," + v + ",8,,\nphoto 2.jpg,cat,,model,6," + w +
                ",9,,\n"
                "\"with \"\"quotes\"\", commas\r\nand lines.jpg\",dog,,human,,,7,,\n");
  const int64_t copy = db->task("copy").or_throw();
  const LabelImport report = import_labels(*db, collection, copy, csv, 1000).or_throw();
  EXPECT_EQ(report.model_rows, 2);
  EXPECT_EQ(report.added, 1);
  EXPECT_EQ(db->query({.collection = collection, .task = copy}).or_throw().rows[0].path, odd.path);
}

TEST_P(LabelFilesTest, LinesOfJsonSayTheSame) {
  put(LabelSource::kHuman, photos[0], dog, 7);
  LabelBatch batch{.task = task, .source = LabelSource::kHuman};
  batch.labels = {{.photo = photos[2], .class_id = cat, .time = 9, .at_random = true}};
  ASSERT_TRUE(db->put_labels(batch).ok());
  batch = {.task = task, .version = version("v", 1)};
  batch.labels = {{.photo = photos[1],
                   .class_id = cat,
                   .score = 0.25,
                   .time = 8,
                   .store = db->store("attic").or_throw()}};
  ASSERT_TRUE(db->put_labels(batch).ok());
  std::string text;
  export_labels(
      *db, {.collection = collection, .task = task},
      [&](std::string_view part) {
        text += part;
        return Status();
      },
      LabelFormat::kJsonLines)
      .or_throw();
  EXPECT_EQ(text,
            "{\"path\":\"photo 0.jpg\",\"label\":\"dog\",\"source\":\"human\",\"time\":7}\n"
            "{\"path\":\"photo 1.jpg\",\"label\":\"cat\",\"score\":0.25,\"source\":\"model\","
            "\"version\":\"" +
                to_hex(sha256("v")).substr(0, 12) + "\",\"content\":\"" + to_hex(sha256("v")) +
                "\",\"time\":8,\"store\":\"attic\"}\n"
                "{\"path\":\"photo 2.jpg\",\"label\":\"cat\",\"source\":\"human\",\"time\":9,"
                "\"at_random\":true}\n");
  const int64_t copy = db->task("copy").or_throw();
  const LabelImport report =
      import_labels(*db, collection, copy, text, 1000, LabelSource::kHuman, LabelFormat::kJsonLines)
          .or_throw();
  EXPECT_EQ(report.model_rows, 1);
  EXPECT_EQ(report.added, 2);
  const auto rows = db->query({.collection = collection, .task = copy}).or_throw().rows;
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].time, 7);
  EXPECT_TRUE(rows[1].at_random);
  for (const char* bad : {"[]", "{\"path\":\"photo 0.jpg\"}", "{", "{\"path\":1,\"label\":null}"}) {
    const Status s = import_labels(*db, collection, copy, "\n" + std::string(bad), 1000,
                                   LabelSource::kHuman, LabelFormat::kJsonLines)
                         .status();
    EXPECT_EQ(s.code(), Code::kCorrupt) << bad;
    EXPECT_THAT(s.message(), ::testing::HasSubstr("line 2")) << bad;
  }
}

TEST_P(LabelFilesTest, AnArrayOfJsonSaysTheSame) {
  const auto json = [&] {
    std::string text;
    export_labels(
        *db, {.collection = collection, .task = task},
        [&](std::string_view part) {
          text += part;
          return Status();
        },
        LabelFormat::kJson)
        .or_throw();
    return text;
  };
  EXPECT_EQ(json(), "[\n]\n");
  put(LabelSource::kHuman, photos[0], dog, 7);
  put(LabelSource::kHuman, photos[1], cat, 8);
  EXPECT_EQ(json(),
            "[\n{\"path\":\"photo 0.jpg\",\"label\":\"dog\",\"source\":\"human\",\"time\":7},\n"
            "{\"path\":\"photo 1.jpg\",\"label\":\"cat\",\"source\":\"human\",\"time\":8}\n]\n");
  const int64_t copy = db->task("copy").or_throw();
  const auto import_json = [&](const std::string& text) {
    return import_labels(*db, collection, copy, text, 1000, LabelSource::kHuman,
                         LabelFormat::kJson);
  };
  EXPECT_EQ(import_json(json()).or_throw().added, 2);
  for (const char* bad : {"{}", "", "[1]", "[{\"path\":\"photo 0.jpg\"}]"}) {
    EXPECT_EQ(import_json(bad).status().code(), Code::kCorrupt) << bad;
  }
}

TEST_P(LabelFilesTest, ExportsMoreThanOnePage) {
  const auto many = db->add_photos(collection, places(10, 2500)).or_throw();
  LabelBatch batch{.task = task, .source = LabelSource::kFolder};
  for (const int64_t photo : many) batch.labels.push_back({.photo = photo, .class_id = cat});
  ASSERT_TRUE(db->put_labels(batch).ok());
  const std::string csv = exported({.limit = 1});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2501);
}

TEST_P(LabelFilesTest, UnknownPhotosAreListedAndTheRestGetsIn) {
  const LabelImport report = import("photo 0.jpg,cat\nnowhere.jpg,cat\n").or_throw();
  EXPECT_EQ(report.added, 1);
  EXPECT_EQ(report.unknown_photos, 1);
  EXPECT_THAT(report.unknown, ElementsAre("nowhere.jpg"));
}

TEST_P(LabelFilesTest, ABadRowIsNamedAndNothingGetsIn) {
  const std::pair<const char*, const char*> bad[] = {
      {"path,label\nphoto 0.jpg,cat\nphoto 1.jpg\n", "line 3"},
      {"path,label,score\nphoto 0.jpg,cat,high\n", "'high'"},
      {"path,label,score\nphoto 0.jpg,cat,nan\n", "'nan'"},
      {"path,label,time\nphoto 0.jpg,cat,yesterday\n", "'yesterday'"},
      {"path,label,source\nphoto 0.jpg,cat,oracle\n", "'oracle'"},
      {"path,label,at_random\nphoto 0.jpg,cat,perhaps\n", "'perhaps'"},
      {"photo 0.jpg,cat\nphoto 1.jpg,\"cat\n", "line 2"},
  };
  for (const auto& [csv, what] : bad) {
    const Result<LabelImport> result = import(csv);
    ASSERT_FALSE(result.ok()) << csv;
    EXPECT_EQ(result.status().code(), Code::kCorrupt);
    EXPECT_THAT(result.status().message(), ::testing::HasSubstr(what));
  }
  EXPECT_TRUE(labels().empty());
}

TEST_P(LabelFilesTest, AFileThatCannotBeWrittenIsReported) {
  const auto full = [](std::string_view) { return Status(Code::kNoSpace, "full"); };
  const LabelQuery query{.collection = collection, .task = task};
  EXPECT_EQ(export_labels(*db, query, full).status().code(), Code::kNoSpace);
}

NDT_FOR_ALL_DATABASES(LabelFilesTest);

}  // namespace
}  // namespace ndtrain::ndp
