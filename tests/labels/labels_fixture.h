// What the tests of the label database share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ndp/labels/label_db.h"
#include "tests/support/postgres_server.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::testing_labels {
using namespace ndp;

// An empty database of this kind: "sqlite" or "postgresql".
class TemporaryDb {
 public:
  explicit TemporaryDb(const std::string& kind = "sqlite") {
    url_ = kind == "sqlite" ? "sqlite:" + path() : support::PostgresServer::shared().new_database();
  }
  std::string path() const { return directory_.at("labels.sqlite"); }
  const std::string& url() const { return url_; }
  std::unique_ptr<LabelDb> open() const { return open_label_db(url_).or_throw(); }

 private:
  const support::TemporaryDirectory directory_;
  std::string url_;
};

inline std::vector<PhotoPlace> places(int first, int count) {
  std::vector<PhotoPlace> result;
  for (int i = first; i < first + count; ++i) {
    const std::string name = "photo " + std::to_string(i) + ".jpg";
    result.push_back({name, sha256(name)});
  }
  return result;
}

// The first of `photos` that are not among the `labelled`, which are in the same order.
inline std::vector<int64_t> some_without(const std::vector<int64_t>& labelled,
                                         const std::vector<int64_t>& photos, size_t most) {
  std::vector<int64_t> some;
  for (size_t i = 0, at = 0; i < photos.size() && some.size() < most; ++i) {
    if (at < labelled.size() && labelled[at] == photos[i]) {
      ++at;
    } else {
      some.push_back(photos[i]);
    }
  }
  return some;
}

// A database with ten photos in the default collection, classes cat and dog in the default task.
class LabelsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "postgresql" && !support::PostgresServer::lacking().empty()) {
      GTEST_SKIP() << support::PostgresServer::lacking();
    }
    file.emplace(GetParam());
    db = file->open();
    collection = db->collection(kDefaultCollection).or_throw();
    task = db->task(kDefaultTask).or_throw();
    const std::vector<std::string> names{"cat", "dog"};
    const auto ids = db->class_ids(task, names).or_throw();
    cat = ids[0], dog = ids[1];
    photos = db->add_photos(collection, places(0, 10)).or_throw();
  }

  int64_t version(const std::string& content, int64_t created) {
    return db->version(task, {.content = sha256(content), .created = created}).or_throw();
  }
  PutReport put(LabelSource source, int64_t photo, int64_t label, int64_t time,
                std::optional<int64_t> version = {}, std::optional<double> score = {}) {
    return db
        ->put_labels(
            {.task = task,
             .source = source,
             .version = version,
             .labels = {{.photo = photo, .class_id = label, .score = score, .time = time}}})
        .or_throw();
  }
  // The names of the current labels, by path.
  std::vector<std::string> labels(LabelQuery query = {}) {
    query.collection = collection;
    query.task = task;
    std::vector<std::string> found;
    for (const LabelRow& row : db->query(query).or_throw().rows) {
      found.push_back(row.path + "=" + row.class_name);
    }
    return found;
  }

  std::optional<TemporaryDb> file;
  std::unique_ptr<LabelDb> db;
  int64_t collection = 0, task = 0, cat = 0, dog = 0;
  std::vector<int64_t> photos;
};

inline std::string name_of_kind(const ::testing::TestParamInfo<std::string>& kind) {
  return kind.param;
}

#define NDT_FOR_ALL_DATABASES(Test)                                                             \
  INSTANTIATE_TEST_SUITE_P(Kinds, Test, ::testing::Values(std::string("sqlite"), "postgresql"), \
                           name_of_kind)

}  // namespace ndtrain::testing_labels
