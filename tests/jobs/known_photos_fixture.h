// Photos of three groups, whose embeddings lie near three directions, and a label database.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "framework/core/rng.h"
#include "ndp/jobs/truth_rows.h"
#include "ndp/similarity/embedding.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::testing_jobs {
using namespace ndp;

inline constexpr size_t kGroups = 3, kKnownPhotos = 90, kNumbers = 24;

class KnownPhotosTest : public ::testing::Test {
 protected:
  // Photo i is of group i % kGroups.
  void SetUp() override {
    db_ = open_label_db("sqlite:" + root_.at("labels.db")).or_throw();
    collection_ = db_->collection(kDefaultCollection).or_throw();
    task_ = db_->task(kDefaultTask).or_throw();
    Rng rng(11, "known photos");
    known_.rows.dimensions = kNumbers;
    std::vector<PhotoPlace> places;
    for (size_t i = 0; i < kKnownPhotos; ++i) {
      Embedding row(kNumbers);
      for (float& x : row) x = static_cast<float>(0.12 * rng.next_normal());
      row[i % kGroups] += 1;
      ASSERT_TRUE(normalise(row));
      known_.rows.add(row);
      known_.photos.push_back(sha256(path_of(i)));
      places.push_back({path_of(i), known_.photos.back()});
    }
    ids_ = db_->add_photos(collection_, places).or_throw();
  }

  static std::string path_of(size_t photo) { return std::to_string(photo) + ".jpg"; }
  static size_t index_of(const std::string& path) { return std::stoul(path); }
  static size_t group_of(const std::string& path) { return index_of(path) % kGroups; }
  static std::string name_of_group(size_t group) { return "g" + std::to_string(group); }

  void say_name(LabelSource source, size_t photo, const std::string& name) {
    const std::vector<std::string> names{name};
    db_->put_labels({.task = task_,
                     .source = source,
                     .labels = {{.photo = ids_[photo],
                                 .class_id = db_->class_ids(task_, names).or_throw()[0],
                                 .time = ++time_}}})
        .or_throw();
  }
  void say(LabelSource source, size_t photo, size_t group) {
    say_name(source, photo, name_of_group(group));
  }
  TruthRows truth() { return truth_rows(*db_, collection_, task_, known_); }
  void reverse_rows() {
    EmbeddingRows rows{.dimensions = kNumbers};
    for (size_t i = kKnownPhotos; i-- > 0;) rows.add(known_.rows.row(i));
    known_.rows = std::move(rows);
    std::ranges::reverse(known_.photos);
  }
  // What each photo is called now.
  std::map<std::string, std::string> current() {
    std::map<std::string, std::string> names;
    for (const LabelRow& row :
         db_->query({.collection = collection_, .task = task_}).or_throw().rows) {
      names[row.path] = row.class_name;
    }
    return names;
  }

  support::TemporaryDirectory root_;
  std::unique_ptr<LabelDb> db_;
  int64_t collection_ = 0, task_ = 0, time_ = 0;
  KnownPhotos known_;
  std::vector<int64_t> ids_;
  ThreadPool threads_{2};
};

}  // namespace ndtrain::testing_jobs
