// A directory of a Tuner's state with something in every kind of file and label, and a database
// that it may move to.
#pragma once

#include <gmock/gmock.h>

#include <map>
#include <string>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "ndp/labels/label_db.h"
#include "ndp/postgres/postgres_fs.h"
#include "ndp/postgres/state_lease.h"
#include "ndp/wire/state_directory.h"
#include "tests/support/postgres_server.h"
#include "tests/support/temporary_directory.h"
#include "tuner/state_move.h"

namespace ndtrain::testing_cli {
using namespace ndp;

using FileTexts = std::map<std::string, std::string>;

inline FileTexts files_below(Fs& fs, const std::string& root, const std::string& below = "") {
  FileTexts all;
  for (const std::string& name : fs.list(below.empty() ? root : join(root, below)).or_throw()) {
    const std::string path = join(below, name);
    if (fs.info(join(root, path)).or_throw().is_directory) {
      all.merge(files_below(fs, root, path));
    } else {
      all[path] = fs.read(join(root, path)).or_throw();
    }
  }
  return all;
}

class StateMoveFixture : public ::testing::Test {
 protected:
  static constexpr int kPhotos = 20;

  void SetUp() override {
    if (!support::PostgresServer::lacking().empty()) {
      GTEST_SKIP() << support::PostgresServer::lacking();
    }
    make_state(dir_);
    said_ = said_in("sqlite:" + join(dir_, "labels.db"));
    before_ = files_below(real_fs(), dir_);
  }

  // Files of several chunks, an empty one, what stays behind, and labels.
  static void make_state(const std::string& dir) {
    Fs& fs = real_fs();
    {
      StateDirectory state = StateDirectory::open(fs, dir, "tuner").or_throw();
      for (uint64_t start = 1; start < 4; ++start) state.next_term(start).status().or_throw();
    }
    const auto put = [&](const std::string& name, const std::string& bytes) {
      fs.make_directories(parent_of(join(dir, name))).or_throw();
      publish(fs, join(dir, name), bytes).or_throw();
    };
    put("models/large", std::string((5 << 20) / 2, 'x') + "end");
    put("models/empty", "");
    put("jobs/1/run/log.txt", "a line\n");
    put("jobs/1/spool/rows", "which come again");
    put("features/x", "which come again");
    put("holders/x", "which come again");
    put("trash", std::string("\0\xff\n", 3));
    fs.make_directories(join(dir, "jobs/2")).or_throw();
    make_labels("sqlite:" + join(dir, "labels.db"));
  }

  static Digest photo(int i) { return sha256("photo " + std::to_string(i)); }
  static std::vector<Digest> photos() {
    std::vector<Digest> all;
    for (int i = 0; i < kPhotos; ++i) all.push_back(photo(i));
    return all;
  }

  // Of people, folders and two versions, with an issue, a photo in the trash and one that was
  // removed.
  static void make_labels(const std::string& url) {
    const auto db = open_label_db(url).or_throw();
    const int64_t collection = db->collection("default").or_throw();
    const int64_t task = db->task("default").or_throw();
    (void)db->task("mood").or_throw();
    std::vector<PhotoPlace> places;
    for (int i = 0; i < kPhotos; ++i) places.push_back({"p/" + std::to_string(i), photo(i)});
    const auto ids = db->add_photos(collection, places).or_throw();
    const std::vector<std::string> names = {"rose", "tulip"};
    const auto classes = db->class_ids(task, names).or_throw();
    const int64_t store = db->store("attic").or_throw();
    std::optional<Digest> parent;
    for (int64_t v = 1; v <= 2; ++v) {
      const NewVersion version{.number = v,
                               .content = sha256("version " + std::to_string(v)),
                               .parent = parent,
                               .created = 100 * v,
                               .metrics = "{}"};
      parent = version.content;
      const int64_t id = db->version(task, version).or_throw();
      LabelBatch batch{.task = task, .version = id, .labels = {}};
      for (size_t i = 0; i < ids.size(); ++i) {
        const int64_t first = classes[i % 2];
        batch.labels.push_back({.photo = ids[i],
                                .class_id = first,
                                .score = .5 + 1. / static_cast<double>(i + 3),
                                .top_k = {{first, .75}, {classes[(i + 1) % 2], .25}},
                                .time = 100 * v + 1,
                                .store = store});
      }
      db->put_labels(batch).status().or_throw();
      db->put_in_force(task, id).or_throw();
    }
    LabelBatch people{.task = task, .source = LabelSource::kHuman, .version = {}, .labels = {}};
    for (size_t i = 0; i < 5; ++i) {
      people.labels.push_back({.photo = ids[i], .class_id = classes[0], .score = {}, .time = 500});
    }
    db->put_labels(people).status().or_throw();
    const LabelIssue issue{ids[7], classes[1], .25, classes[0], .75};
    db->put_issues(task, {&ids[7], 1}, {&issue, 1}).or_throw();
    const Digest trashed = photo(8);
    db->put_in_trash({&trashed, 1}).or_throw();
    db->remove_photos({&ids.back(), 1}).status().or_throw();
  }

  // All that a label database says of them, ids included, and what it would call the next photo.
  static std::string said_in(const std::string& url) {
    const auto db = open_label_db(url, OpenLabelDb::kExisting).or_throw();
    const int64_t task = db->task("default").or_throw();
    const int64_t collection = db->collection("default").or_throw();
    std::string said;
    const auto add = [&](const auto&... parts) { ((said += parts, said += ' '), ...); };
    for (const std::string& name : db->tasks().or_throw()) add(name);
    for (const std::string& name : db->stores().or_throw()) add(name);
    for (const ClassInfo& c : db->classes(task).or_throw()) add(std::to_string(c.id), c.name);
    for (const VersionInfo& v : db->versions(task).or_throw()) {
      add(std::to_string(v.id), std::to_string(v.number.value_or(0)), to_hex(v.content),
          std::to_string(v.parent.value_or(0)), std::to_string(v.created), v.metrics);
    }
    add(std::to_string(db->in_force(task).or_throw().value_or(0)));
    const auto ids = db->photos_with(photos()).or_throw();
    const auto places = db->places_of(photos()).or_throw();
    for (size_t i = 0; i < ids.size(); ++i) {
      add("\n", std::to_string(ids[i]), places[i].empty() ? "nowhere" : places[i][0].path);
      if (ids[i] == 0) continue;
      for (const LabelRow& r : db->history(task, ids[i]).or_throw()) {
        add(r.class_name, std::to_string(r.score.value_or(-1)), std::to_string(r.top_k.size()),
            std::string(name_of(r.source)), std::to_string(r.version.value_or(0)),
            std::to_string(r.time), r.store);
      }
    }
    add("\n", std::to_string(db->stats(collection, task).or_throw().photos));
    for (const ReviewPhoto& r : db->review(collection, task, 50, 1).or_throw()) {
      add(std::to_string(r.photo), r.suggested);
    }
    return said;
  }

  std::string new_database() const { return support::PostgresServer::shared().new_database(); }

  // Whether a Tuner that starts in the directory serves.
  static bool directory_serves(const std::string& dir) {
    try {
      tuner::settle_move(real_fs(), dir);
    } catch (const Error&) {
      return false;
    }
    return StateDirectory::open(real_fs(), dir, "tuner").ok();
  }
  // Whether one that starts with the database has a state, and not an empty one.
  static bool database_serves(const std::string& url) {
    (void)postgres::StateLease::look(url).or_throw();
    return postgres::PostgresFs::open(url).or_throw()->exists("state.json");
  }

  void expect_all_in(const std::string& url, const std::string& dir) const {
    FileTexts there = files_below(*postgres::PostgresFs::open(url).or_throw(), "");
    const Json state = parse_state(there["state.json"]).or_throw();
    const Json old = parse_state(before_.at("state.json")).or_throw();
    EXPECT_EQ(state.at("tuner"), old.at("tuner"));
    EXPECT_GT(state.at("term").get<uint64_t>(), old.at("term").get<uint64_t>());
    EXPECT_LT(state.at("term").get<uint64_t>(), old.at("term").get<uint64_t>() + kTermsOfRestore);
    EXPECT_EQ(there.erase("state.json") + there.erase("moved.json"), 2U);
    const FileTexts expected = {{"models/large", before_.at("models/large")},
                                {"models/empty", ""},
                                {"jobs/1/run/log.txt", "a line\n"},
                                {"trash", before_.at("trash")}};
    EXPECT_TRUE(there == expected);
    EXPECT_TRUE(postgres::PostgresFs::open(url).or_throw()->exists("jobs/2"));
    EXPECT_EQ(said_in(url), said_);
    FileTexts now = files_below(real_fs(), dir);
    EXPECT_NE(now.at("state.json"), before_.at("state.json"));
    for (const auto& [path, text] : before_) {
      if (path == "state.json" || path.ends_with("lock") || path.starts_with("labels.db-"))
        continue;
      EXPECT_TRUE(now[path] == text) << path;
    }
  }

  support::TemporaryDirectory root_;
  const std::string dir_ = root_.at("tuner");
  FileTexts before_;
  std::string said_;
};

}  // namespace ndtrain::testing_cli
