// A store's collection, and rules that watch, on the command line.
#include <gmock/gmock.h>

#include <csignal>
#include <map>

#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing_cli::Outcome;
using testing_cli::SiteTest;

TEST_F(SiteTest, AStoreOfACollectionTakesPartInItsJobsAndEachRuleWatchesOne) {
  draw_photos(8);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  for (const char* task : {"default", "birds"}) {
    publish(real_fs(), at(std::string(task) + ".toml"),
            "labels = 5\n[job]\ntask = \"" + std::string(task) + "\"\ncollection = \"family\"\n")
        .or_throw();
  }
  const std::string link = "unix:" + at("link");
  const pid_t tuner =
      start_as("tuner", {"tuner", "serve", "--state", "tuner", "--listen", link, "--http",
                         "127.0.0.1:0", "--watch", "default.toml,birds.toml"});
  const std::string mark = "HTTP on ";
  const auto said = [&] { return said_by("tuner").find(mark); };
  ASSERT_TRUE(comes([&] { return said() != std::string::npos; })) << said_by("tuner");
  std::string http = said_by("tuner").substr(said() + mark.size());
  http = http.substr(0, http.find('\n'));
  const pid_t store =
      start_as("store", {"pipestore", "serve", "--state", "state", "--photos", "photos", "--name",
                         "attic", "--collection", "family", "--tuner", link});
  const auto ls = [&] { return run({"store", "ls", "--http", http}).out; };
  EXPECT_TRUE(comes([&] { return ls().find("attic") != std::string::npos; })) << ls();
  EXPECT_THAT(ls(), AllOf(HasSubstr("last seen       collection\n"), HasSubstr("  family\n")));

  const auto relabel = [&](const std::string& collection) {
    return run({"job", "submit", "relabel", "-m", "m.onnx", "--collection", collection, "--follow",
                "--json", "--http", http});
  };
  const Outcome done = relabel("family");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(nlohmann::json::parse(done.out).at("result").at("labelled"), 8);
  const std::string photo = "attic/c0/0.jpg";
  const auto photos = [&](std::vector<std::string> words, const std::string& collection) {
    words.insert(words.begin(), "photos");
    words.insert(words.end(), {"--collection", collection, "--http", http});
    return run(words);
  };
  const std::vector<std::vector<std::string>> all = {
      {"rm", photo}, {"rm", photo, "--now"}, {"restore", photo}};
  for (const std::vector<std::string>& words : all) {
    EXPECT_THAT(photos(words, "default").err, HasSubstr("is not known in the collection default"));
  }
  EXPECT_EQ(photos({"rm", photo, "--dry-run"}, "family").code, 0);
  EXPECT_EQ(photos({"rm", photo, "--keep", "12h"}, "family").code, 0);
  EXPECT_THAT(photos({"trash"}, "family").out, HasSubstr(photo));
  EXPECT_THAT(photos({"trash"}, "default").out, HasSubstr("the trash is empty"));
  EXPECT_EQ(photos({"restore", photo}, "family").code, 0);
  EXPECT_EQ(photos({"rm", photo, "--now"}, "family").code, 0);
  const Outcome none = relabel("famly");
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("no store with photos of the collection 'famly'; there are those "
                                  "of family"));
  for (const char* task : {"default", "birds"}) {
    const std::string watch =
        HttpClient(http).get("/watch?collection=family&task=" + std::string(task))->body;
    EXPECT_EQ(nlohmann::json::parse(watch).at("rule").at("job").value("task", "default"), task);
  }
  for (const auto& [name, pid] : {std::pair("store", store), std::pair("tuner", tuner)}) {
    kill(pid, SIGTERM);
    EXPECT_EQ(end_of(pid, name).code, 0) << said_by(name);
  }
  const Outcome moved = run({"pipestore", "serve", "--state", "state", "--photos", "photos",
                             "--collection", "garden", "--tuner", link});
  EXPECT_EQ(moved.code, 1);
  EXPECT_THAT(moved.err, HasSubstr("in the collection family"));
  const Outcome no_name = run({"pipestore", "serve", "--state", "new", "--photos", "photos",
                               "--collection", "a\nb", "--tuner", link});
  EXPECT_EQ(no_name.code, 2);
  EXPECT_THAT(no_name.err, HasSubstr("from 1 to 256 bytes of UTF-8"));
}

TEST_F(SiteTest, OneProcessServesSeveralCollections) {
  draw_photos(8);
  real_fs().make_directories(at("more")).or_throw();
  const std::string link = "unix:" + at("link");
  const auto serve = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"pipestore", "serve", "--state", "state", "--name", "attic", "--tuner", link});
    return words;
  };
  for (const auto& [words, why] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--photos", "family=photos", "--photos", "more"}, "each has a name"},
           {{"--photos", "a b=photos", "--photos", "c=more"}, "letters, digits"},
           {{"--photos", "a=photos", "--photos", "a=more"}, "each name once"},
           {{"--photos", "a=photos", "--photos", "b=photos"}, "and each directory"},
           {{"--photos", "a=photos", "--labels", "x.csv"}, "there are none and folder"},
           {{"--photos", std::string(59, 'a') + "=photos"}, "at most 64 bytes"}}) {
    const Outcome o = run(serve(words));
    EXPECT_EQ(o.code, 2) << words[1];
    EXPECT_THAT(o.err, HasSubstr(why)) << words[1];
  }
  const pid_t tuner = start_as(
      "tuner", {"tuner", "serve", "--state", "tuner", "--listen", link, "--http", "127.0.0.1:0"});
  const std::string mark = "HTTP on ";
  ASSERT_TRUE(comes([&] { return said_by("tuner").find(mark) != std::string::npos; }))
      << said_by("tuner");
  std::string http = said_by("tuner").substr(said_by("tuner").find(mark) + mark.size());
  http = http.substr(0, http.find('\n'));
  const pid_t store =
      start_as("store", serve({"--photos", "family=photos", "--photos", "garden=more"}));
  const auto ls = [&] { return run({"store", "ls", "--http", http}).out; };
  EXPECT_TRUE(comes([&] {
    const std::string now = ls();
    return now.find("family@attic") != now.npos && now.find("garden@attic") != now.npos;
  })) << ls();
  EXPECT_THAT(run({"backup", "state", "-o", "b.tar.zst"}).err,
              HasSubstr("back up each, as state/NAME"));
  EXPECT_EQ(run({"backup", "state/family", "-o", "b.tar.zst"}).code, 0);
  for (const auto& [name, pid] : {std::pair("store", store), std::pair("tuner", tuner)}) {
    kill(pid, SIGTERM);
    EXPECT_EQ(end_of(pid, name).code, 0) << said_by(name);
  }
}

TEST_F(SiteTest, IsUpWithSeveralCollections) {
  draw_photos(8);
  real_fs().make_directories(at("more")).or_throw();
  const std::vector<std::string> both = {"--photos", "family=photos", "--photos", "garden=more"};
  Outcome o = up(2, {"--photos", "photos", "--photos", "garden=more"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("each has a name"));
  o = up(2, {"--photos", "family=photos", "--labels", "x.csv"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("there are none and folder"));
  EXPECT_FALSE(real_fs().exists(at("site/site.json")));
  ASSERT_EQ((o = up(2, both)).code, 0) << o.err;
  const nlohmann::json site = nlohmann::json::parse(o.out);
  std::map<std::string, int64_t> photos;
  for (const nlohmann::json& s : ask(site, {"store", "ls"})) photos[s.at("store")] = s.at("photos");
  EXPECT_THAT(photos, ElementsAre(Pair("family@store1", ::testing::Gt(0)),
                                  Pair("family@store2", ::testing::Gt(0)), Pair("garden@store1", 0),
                                  Pair("garden@store2", 0)));
  EXPECT_EQ(photos["family@store1"] + photos["family@store2"], 8) << "each a part";
  EXPECT_THAT(run({"fsck", "site/tuner"}).err, HasSubstr("stop it first"));
  ASSERT_EQ(run({"down", "site"}).code, 0);
  EXPECT_THAT(run({"fsck", "site/tuner"}).out, HasSubstr("all are as they were written"));
  EXPECT_THAT(run({"fsck", "site/store1/state"}).err, HasSubstr("check each"));
  std::string in_force = "{\"versions\": 1, \"checksum\": \"none\"}";
  publish(real_fs(), at("site/store1/state/family/in_force.json"), in_force).or_throw();
  o = run({"fsck", "site/store1/state/family", "--json"});
  EXPECT_EQ(o.code, 1) << "what is damaged is there";
  EXPECT_EQ(nlohmann::json::parse(o.out).at("damaged").at(0).at("file"), "in_force.json");
  o = run({"fsck", "site/store1/state/family", "--repair"});
  EXPECT_EQ(o.code, 0) << o.out;
  EXPECT_THAT(o.out, HasSubstr("removed: it is made again when the store starts"));
  const std::string state = at("site/tuner/state.json");
  const std::string whole = real_fs().read(state).or_throw();
  publish(real_fs(), state, "{" + whole).or_throw();
  o = run({"fsck", "site/tuner"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.out, HasSubstr("state.json")) << "which says of what it is, and does not";
  publish(real_fs(), state, whole).or_throw();
  EXPECT_THAT(run({"fsck", "photos"}).err, HasSubstr("no state of a Tuner or PipeStore"));
  o = run({"up", "site"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("--photos family=" + at("photos")));
  EXPECT_THAT(o.out, HasSubstr("job submit relabel --follow --collection family"));
}

TEST_F(SiteTest, TasksAreListedAndTakenAway) {
  draw_photos(8);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const nlohmann::json site = up_json(1);
  ask(site, {"job", "submit", "relabel", "-m", "m.onnx", "--task", "a mood", "--follow"});
  const auto task = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "task");
    words.insert(words.end(), {"--http", site.at("http").get<std::string>()});
    return run(words);
  };
  EXPECT_THAT(task({"ls"}).out, AllOf(HasSubstr("in force"), HasSubstr("a mood")));
  EXPECT_EQ(ask(site, {"task", "ls"}).size(), 2U);

  const Outcome would = task({"rm", "a mood", "--dry-run"});
  EXPECT_EQ(would.code, 0) << would.err;
  EXPECT_THAT(would.out, AllOf(HasSubstr("with the task a mood would go"),
                               HasSubstr("labels    8, 0 of them by people, in 2 classes"),
                               HasSubstr("Photos, jobs with their runs, and features stay")));
  EXPECT_EQ(ask(site, {"task", "ls"}).size(), 2U);
  const Outcome gone = task({"rm", "a mood"});
  EXPECT_EQ(gone.code, 0) << gone.err;
  EXPECT_THAT(gone.out, HasSubstr("the task a mood is taken away"));
  EXPECT_EQ(ask(site, {"task", "ls"}).size(), 1U);

  const Outcome again = task({"rm", "a mood"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("there is no task 'a mood'; there are default"));
  const Outcome kept = task({"rm", "default"}), dry = task({"rm", "default", "--dry-run"});
  EXPECT_EQ(kept.code, 1);
  EXPECT_THAT(kept.err, HasSubstr("the task default cannot be taken away"));
  EXPECT_EQ(dry.code, 1);
  EXPECT_THAT(dry.out, HasSubstr("refused: the task default cannot be taken away"));
  EXPECT_EQ(task({"rm"}).code, 2);
}

}  // namespace
}  // namespace ndtrain
