#include "tuner/http/http_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ndp/http/http_client.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ten photos at the store attic, labelled by versions 1 and 2 of the Tuner: a cat's likeness grows
// with its number. Version 2, in force, has seen the first eight only.
class HttpLabelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = HttpServer::listen("127.0.0.1:0", labels_.routes(), 1 << 20).or_throw();
    client_.emplace(server_->address());
  }
  void label_all() {
    db_ = open_label_db(url_).or_throw();
    const int64_t collection = db_->collection(kDefaultCollection).or_throw();
    task_ = db_->task(kDefaultTask).or_throw();
    std::vector<PhotoPlace> places;
    for (int i = 0; i < 10; ++i) {
      const std::string name = "attic/" + std::to_string(i) + ".jpg";
      places.push_back({name, sha256(name)});
    }
    photos_ = db_->add_photos(collection, places).or_throw();
    ids_ = db_->class_ids(task_, std::vector<std::string>{"cat", "dog"}).or_throw();
    label("v1", 10, [](int i) { return i < 5; });
    label("v2", 8, [](int i) { return i < 3; });
  }
  void label(const std::string& content, int n, const std::function<bool(int)>& cat) {
    (void)versions_.add({.content = sha256(content)}, true).or_throw();
    const int64_t version = db_->version(task_, {.content = sha256(content)}).or_throw();
    db_->put_in_force(task_, version).or_throw();
    LabelBatch batch{.task = task_, .version = version};
    for (int i = 0; i < n; ++i) {
      batch.labels.push_back({.photo = photos_[static_cast<size_t>(i)],
                              .class_id = ids_[cat(i) ? 0 : 1],
                              .score = 0.5 + 0.01 * i,
                              .time = 1000 + i,
                              .store = db_->store("attic").or_throw()});
    }
    (void)db_->put_labels(batch).or_throw();
  }
  nlohmann::json get(const std::string& path, int status = 200) {
    const HttpResponse r = client_->get(path).or_throw();
    EXPECT_EQ(r.status, status) << path << ": " << r.body;
    return nlohmann::json::parse(r.body);
  }
  std::string refusal(const std::string& path, int status) { return get(path, status)["error"]; }
  HttpResponse say(int64_t photo, const std::string& body) {
    return client_->put("/labels/" + std::to_string(photo), body).or_throw();
  }
  std::vector<std::string> paths(const nlohmann::json& page) {
    std::vector<std::string> all;
    for (const nlohmann::json& row : page.at("rows")) all.push_back(row.at("path"));
    return all;
  }

  support::TemporaryDirectory directory_;
  const std::string url_ = "sqlite:" + directory_.at("labels.db");
  Versions versions_{real_fs(), directory_.at("versions.json")};
  ManualClock clock_;
  HttpLabels labels_{url_, versions_, clock_};
  std::unique_ptr<HttpServer> server_;
  std::optional<HttpClient> client_;
  std::unique_ptr<LabelDb> db_;
  int64_t task_ = 0;
  std::vector<int64_t> photos_, ids_;
};

TEST_F(HttpLabelsTest, SayThatThereIsNothingBeforeTheFirstLabelAndMakeNothing) {
  EXPECT_THAT(refusal("/labels", 404), HasSubstr("there is no label database"));
  EXPECT_FALSE(real_fs().exists(directory_.at("labels.db")));
  label_all();
  EXPECT_EQ(get("/labels")["rows"].size(), 10) << "as soon as there is something";
}

TEST_F(HttpLabelsTest, AreFoundByWhatTheyAre) {
  label_all();
  const nlohmann::json row = get("/labels?limit=1")["rows"][0];
  EXPECT_EQ(row["path"], "attic/0.jpg");
  EXPECT_EQ(row["id"], to_hex(sha256("attic/0.jpg")));
  EXPECT_EQ(row["held_by"], "attic");
  EXPECT_EQ(row["label"], "cat");
  EXPECT_EQ(row["source"], "model");
  EXPECT_EQ(row["version"], 2);
  EXPECT_EQ(row["content"], to_hex(sha256("v2")));
  EXPECT_THAT(paths(get("/labels?label=cat")),
              ElementsAre("attic/0.jpg", "attic/1.jpg", "attic/2.jpg"));
  EXPECT_THAT(paths(get("/labels?stale=1")), ElementsAre("attic/8.jpg", "attic/9.jpg"));
  EXPECT_THAT(paths(get("/labels?version=1")), ElementsAre("attic/8.jpg", "attic/9.jpg"));
  EXPECT_THAT(paths(get("/labels?label=dog&max_score=0.545")),
              ElementsAre("attic/3.jpg", "attic/4.jpg"));
  EXPECT_THAT(paths(get("/labels?min_score=0.585&store=attic")), ElementsAre("attic/9.jpg"));
  EXPECT_THAT(paths(get("/labels?source=human")), ElementsAre());
  EXPECT_THAT(paths(get("/labels?path=c/3.")), ElementsAre("attic/3.jpg"));
  EXPECT_THAT(paths(get("/labels?photo=" + std::to_string(photos_[4]))),
              ElementsAre("attic/4.jpg"));
  EXPECT_THAT(paths(get("/labels?since=1004&until=1005")),
              ElementsAre("attic/4.jpg", "attic/5.jpg"));
}

TEST_F(HttpLabelsTest, CallAVersionByTheTunersNumberOrElseByItsContent) {
  label_all();
  const Digest file = sha256("a model file");
  const int64_t version = db_->version(task_, {.content = file, .created = 9}).or_throw();
  const NewLabel label{.photo = photos_[0], .class_id = ids_[0], .time = 2000};
  (void)db_->put_labels({.task = task_, .version = version, .labels = {label}}).or_throw();
  db_->put_in_force(task_, version).or_throw();
  const nlohmann::json rows = get("/labels?version=in-force")["rows"];
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0]["version"], to_hex(file).substr(0, 12));
  EXPECT_EQ(rows[0]["content"], to_hex(file));
  EXPECT_EQ(get("/labels?version=" + to_hex(file).substr(0, 12))["rows"], rows);
  // One that the Tuner has removed since.
  (void)db_->version(task_, {.number = 9, .content = file}).or_throw();
  EXPECT_EQ(get("/labels?version=9")["rows"][0]["version"], 9);
  EXPECT_EQ(get("/labels/stats")["versions"][0]["version"], 9);
}

TEST_F(HttpLabelsTest, ComeInPages) {
  label_all();
  const nlohmann::json first = get("/labels?limit=6");
  ASSERT_EQ(first["rows"].size(), 6);
  const nlohmann::json rest = get("/labels?limit=6&after=" + first["next"].get<std::string>());
  EXPECT_THAT(paths(rest), ElementsAre("attic/6.jpg", "attic/7.jpg", "attic/8.jpg", "attic/9.jpg"));
  EXPECT_TRUE(rest["next"].is_null());
}

TEST_F(HttpLabelsTest, NameWhatIsWrongWithAQuestion) {
  label_all();
  EXPECT_THAT(refusal("/labels?limit=x", 400), HasSubstr("limit=x: a number"));
  EXPECT_THAT(refusal("/labels?limit=1001", 400), HasSubstr("limit=1001: 1 to 1000"));
  EXPECT_THAT(refusal("/labels?max_score=nan", 400), HasSubstr("max_score=nan"));
  EXPECT_THAT(refusal("/labels?source=me", 400), HasSubstr("source=me"));
  EXPECT_THAT(refusal("/labels?after=6", 400), HasSubstr("after=6"));
  EXPECT_THAT(refusal("/labels?label=cow", 404), HasSubstr("cow"));
  EXPECT_THAT(refusal("/labels?version=7", 404), HasSubstr("no version of this task is '7'"));
  EXPECT_THAT(refusal("/labels?task=faces", 404), HasSubstr("no task 'faces'"));
  EXPECT_THAT(refusal("/labels/diff", 400), HasSubstr("from"));
}

TEST_F(HttpLabelsTest, AreCounted) {
  label_all();
  const nlohmann::json stats = get("/labels/stats");
  EXPECT_EQ(stats["photos"], 10);
  EXPECT_EQ(stats["labelled"], 10);
  EXPECT_EQ(stats["stale"], 2);
  EXPECT_EQ(stats["by_class"], (nlohmann::json{{"cat", 3}, {"dog", 7}}));
  EXPECT_EQ(stats["by_source"], (nlohmann::json{{"model", 10}}));
  EXPECT_EQ(stats["classes"], (nlohmann::json{"cat", "dog"}));
  ASSERT_EQ(stats["versions"].size(), 2);
  for (const nlohmann::json& v : stats["versions"]) EXPECT_EQ(v["in_force"], v["version"] == 2);
}

TEST_F(HttpLabelsTest, AreCountedByTheDayOfTheirFirstAndByWhatWasConfused) {
  label_all();
  EXPECT_EQ(get("/labels/new-photos"),
            nlohmann::json::parse(R"([{"day": 0, "label": "cat", "photos": 3},
                            {"day": 0, "label": "dog", "photos": 7}])"));
  EXPECT_EQ(get("/labels/confusion")["photos"], nlohmann::json::array())
      << "nobody has said anything";
  ASSERT_EQ(say(photos_[0], R"({"label": "dog"})").status, 200);
  ASSERT_EQ(say(photos_[1], R"({"label": "cat"})").status, 200);
  const nlohmann::json in_force = get("/labels/confusion");
  EXPECT_EQ(in_force["version"], "in-force");
  EXPECT_EQ(in_force["photos"],
            nlohmann::json::parse(R"([{"truth": "cat", "said": "cat", "photos": 1},
                            {"truth": "dog", "said": "cat", "photos": 1}])"));
  EXPECT_EQ(get("/labels/confusion?version=1")["photos"].size(), 2);
  EXPECT_THAT(refusal("/labels/confusion?version=7", 404), HasSubstr("7"));
}

TEST_F(HttpLabelsTest, AreComparedBetweenVersions) {
  label_all();
  const nlohmann::json diff = get("/labels/diff?from=1&to=2");
  EXPECT_EQ(diff["same"], 6);
  EXPECT_EQ(diff["changed"], 2);
  EXPECT_EQ(diff["only_from"], 2);
  EXPECT_EQ(diff["changes"],
            nlohmann::json::parse(R"([{"from": "cat", "to": "dog", "photos": 2}])"));
  const std::string content = to_hex(sha256("v1")).substr(0, 12);
  EXPECT_EQ(get("/labels/diff?from=" + content)["changed"], 2) << "with what is in force";
}

TEST_F(HttpLabelsTest, ThatPeopleSayAreTruthAndTellHowGoodAVersionIs) {
  label_all();
  const nlohmann::json sample = get("/labels/review?n=10&seed=4");
  ASSERT_EQ(sample.size(), 10);
  int random = 0, agree = 0;
  for (const nlohmann::json& photo : sample) {
    const bool drawn = photo["at_random"];
    const std::string said = random < 2 && drawn ? "fox" : photo["label"].get<std::string>();
    random += drawn;
    agree += said != "fox" && photo["path"].get<std::string>() < "attic/8";
    const HttpResponse r =
        say(photo["photo"], nlohmann::json{{"label", said}, {"at_random", drawn}}.dump());
    EXPECT_EQ(r.status, 200) << r.body;
    EXPECT_EQ(nlohmann::json::parse(r.body)["added"], 1);
  }
  EXPECT_EQ(random, 5) << "half of them";
  EXPECT_EQ(get("/labels/review").size(), 0) << "all are answered";
  EXPECT_EQ(get("/labels?source=human")["rows"].size(), 10);
  EXPECT_EQ(get("/labels?label=fox")["rows"].size(), 2);
  const nlohmann::json accuracy = get("/labels/accuracy");
  EXPECT_EQ(accuracy["truths"], 10);
  EXPECT_EQ(accuracy["all"]["photos"], 8) << "what version 2 has labelled";
  EXPECT_EQ(accuracy["all"]["agree"], agree);
  EXPECT_LT(accuracy["all"]["low"], accuracy["all"]["accuracy"]);
  EXPECT_GT(accuracy["all"]["high"], accuracy["all"]["accuracy"]);
  EXPECT_EQ(get("/labels/accuracy?version=1")["at_random"]["photos"], 5);
}

TEST_F(HttpLabelsTest, ThatAPersonGivesLastCountThoughTheClockWasSetBack) {
  label_all();
  EXPECT_EQ(say(photos_[0], R"({"label":"fox"})").status, 200);
  clock_.advance(-std::chrono::hours(1));
  EXPECT_EQ(nlohmann::json::parse(say(photos_[0], R"({"label":"owl"})").body)["added"], 1);
  const nlohmann::json rows = get("/labels?source=human")["rows"];
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0]["label"], "owl");
}

TEST_F(HttpLabelsTest, StayInTheHistoryOfAPhoto) {
  label_all();
  ASSERT_EQ(say(photos_[0], R"({"label": "dog"})").status, 200);
  const nlohmann::json history = get("/labels/" + std::to_string(photos_[0]));
  ASSERT_EQ(history.size(), 3);
  EXPECT_EQ(history[0]["source"], "human");
  EXPECT_EQ(history[1]["version"], 2);
  EXPECT_EQ(history[2]["version"], 1);
}

TEST_F(HttpLabelsTest, ThatCannotBeAreRefused) {
  label_all();
  EXPECT_EQ(say(99, R"({"label": "dog"})").status, 404);
  EXPECT_THAT(say(99, R"({"label": "dog"})").body, HasSubstr("photo 99"));
  for (const char* body : {"", "dog", "[]", R"({"label": 1})", R"({"label": ""})",
                           R"({"label": "a\nb"})", R"({"label": "dog", "at_random": 1})"}) {
    EXPECT_EQ(say(photos_[0], body).status, 400) << body;
  }
  EXPECT_EQ(say(photos_[0], nlohmann::json{{"label", std::string(257, 'a')}}.dump()).status, 400);
  EXPECT_EQ(say(photos_[0], std::string(5000, ' ')).status, 413);
  EXPECT_EQ(get("/labels?source=human")["rows"].size(), 0);
  EXPECT_EQ(get("/labels/stats")["classes"], (nlohmann::json{"cat", "dog"}));
}

TEST_F(HttpLabelsTest, OfAPhotoBelongToTheCollectionsThatHaveIt) {
  label_all();
  const std::string path = "/labels/" + std::to_string(photos_[0]);
  (void)db_->collection("holidays").or_throw();
  EXPECT_EQ(get(path + "?collection=default").size(), 2);
  EXPECT_THAT(refusal(path + "?collection=holidays", 404), HasSubstr("no photo"));
  EXPECT_EQ(client_->put(path + "?collection=holidays", R"({"label": "dog"})")->status, 404);
  EXPECT_EQ(get("/labels?source=human")["rows"].size(), 0);
}

TEST_F(HttpLabelsTest, OfAPathThatIsNoTextAreAnsweredAllTheSame) {
  label_all();
  const int64_t collection = db_->collection(kDefaultCollection).or_throw();
  const std::vector<PhotoPlace> place = {{"attic/\xff.jpg", sha256("attic/0.jpg")}};
  (void)db_->add_photos(collection, place).or_throw();
  EXPECT_EQ(get("/labels?label=cat")["rows"].size(), 4);
}

}  // namespace
}  // namespace ndtrain::tuner
