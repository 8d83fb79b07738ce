// What the tests of the label database share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "ndp/labels/label_db.h"

namespace ndtrain::testing_labels {

// A path in the test's temporary directory, without what an earlier run left there.
inline std::string fresh_file(const std::string& name) {
  const std::string path =
      testing::TempDir() + "ndt_labels_" + std::to_string(::getpid()) + "_" + name;
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
  return path;
}

class TemporaryDb {
 public:
  explicit TemporaryDb(const std::string& name) : path_(fresh_file(name)) {}
  ~TemporaryDb() {
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path_ + suffix);
  }
  const std::string& path() const { return path_; }
  std::unique_ptr<LabelDb> open() const { return open_label_db("sqlite:" + path_).or_throw(); }

 private:
  const std::string path_;
};

inline std::vector<PhotoPlace> places(int first, int count) {
  std::vector<PhotoPlace> result;
  for (int i = first; i < first + count; ++i) {
    const std::string name = "photo " + std::to_string(i) + ".jpg";
    result.push_back({name, sha256(name)});
  }
  return result;
}

// A database with ten photos in the default collection, classes cat and dog in the default task.
class LabelsTest : public testing::Test {
 protected:
  LabelsTest()
      : file(testing::UnitTest::GetInstance()->current_test_info()->name()), db(file.open()) {
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

  TemporaryDb file;
  std::unique_ptr<LabelDb> db;
  int64_t collection = 0, task = 0, cat = 0, dog = 0;
  std::vector<int64_t> photos;
};

}  // namespace ndtrain::testing_labels
