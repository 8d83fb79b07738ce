// A Tuner and PipeStores as real processes: up, jobs, down.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>

#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;
using testing_cli::SiteTest;

TEST_F(SiteTest, APhotoCollectionIsFineTunedAndRelabelledBetweenUpAndDown) {
  constexpr int kPhotos = 48;
  draw_photos(kPhotos);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const nlohmann::json site = up_json(2);
  EXPECT_EQ(site.at("started"), 3);

  const nlohmann::json again = up_json(2);
  EXPECT_EQ(again.at("started"), 0);
  EXPECT_EQ(again.at("members"), site.at("members"));

  const nlohmann::json job = ask(site, {"job", "submit", "finetune", "-m", "m.onnx", "--head",
                                        "linear", "--stores", "2", "-e", "2", "--follow"});
  EXPECT_EQ(job.at("state"), "done");
  const Outcome shown = run({"job", "show", "1", "--http", site.at("http")});
  EXPECT_THAT(shown.out, HasSubstr("top1 "));
  EXPECT_THAT(shown.out, ::testing::Not(::testing::ContainsRegex("\\.[0-9]{10}"))) << "digits";
  ASSERT_EQ(run({"plan", "-m", "m.onnx", "--head", "linear", "--photos", "photos", "--stores", "2",
                 "--bandwidth", "1Gbit", "--save-profile", "profile.json"})
                .code,
            0);
  const nlohmann::json chosen =
      ask(site, {"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "--stores", "2",
                 "-e", "1", "--auto", "profile.json", "--follow"});
  EXPECT_THAT(chosen.at("result").at("why").get<std::string>(), HasSubstr("the profile predicts"));
  const nlohmann::json& predicted = chosen.at("result").at("report").at("predicted");
  EXPECT_EQ(predicted.at("by"), "its profile");
  EXPECT_GT(predicted.at("overall_s"), 0);
  EXPECT_THAT(run({"job", "show", "2", "--http", site.at("http")}).out,
              HasSubstr(", predicted by its profile: "));
  const nlohmann::json labelling =
      ask(site, {"job", "submit", "relabel", "--stores", "2", "--follow"});
  EXPECT_EQ(labelling.at("result").at("labelled"), kPhotos);

  std::vector<cli::ProcessId> processes;
  for (const char* name : {"tuner", "store1", "store2"}) processes.push_back(process(name));
  const nlohmann::json down = nlohmann::json::parse(run({"down", "site", "--json"}).out);
  EXPECT_THAT(down.at("stopped"), ::testing::UnorderedElementsAre("tuner", "store1", "store2"));
  for (const cli::ProcessId& p : processes) EXPECT_FALSE(cli::is_running(p)) << p.pid;
  EXPECT_THAT(run({"down", "site"}).out, HasSubstr("nothing is up in "));

  const Outcome labels = run({"labels", "export", "--db", "sqlite:site/tuner/labels.db"});
  EXPECT_EQ(std::ranges::count(labels.out, '\n'), kPhotos + 1) << labels.out;
}

TEST_F(SiteTest, WithoutLabelsFolderItIsSaidHowFoldersBecomeTruth) {
  draw_photos(4);
  const auto said = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"--photos", "photos"});
    const Outcome o = up(1, more);
    EXPECT_EQ(o.code, 0) << o.err;
    const std::string log = real_fs().read(at("site/store1.log")).or_throw();
    run({"down", "site"});
    std::filesystem::remove(at("site/store1.log"));
    return std::pair(o.err, log);
  };
  const auto plain = said({});
  for (const std::string& text : {plain.first, plain.second}) {
    EXPECT_THAT(text, ::testing::AllOf(HasSubstr("(c0, c1)"), HasSubstr("--labels folder")));
  }
  const auto folder = said({"--labels", "folder"});
  EXPECT_THAT(folder.first + folder.second, ::testing::Not(HasSubstr("(c0, c1)")));
}

TEST_F(SiteTest, WhatHasDiedIsStartedAgainByUpAndNamedByDown) {
  draw_photos(8);
  const nlohmann::json site = up_json(2);
  const auto kill_store1 = [&] {
    const cli::ProcessId store = process("store1");
    kill(store.pid, SIGKILL);
    while (cli::is_running(store)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return store.pid;
  };
  const pid_t killed = kill_store1();
  const pid_t other = process("store2").pid;
  EXPECT_EQ(up_json(2).at("started"), 1);
  EXPECT_NE(process("store1").pid, killed);
  EXPECT_EQ(process("store2").pid, other);

  kill_store1();
  const Outcome down = run({"down", "site"});
  EXPECT_EQ(down.code, 0) << down.err;
  EXPECT_THAT(down.out,
              ::testing::AllOf(HasSubstr("store1 had ended before"),
                               HasSubstr("store2 has stopped"), HasSubstr("tuner has stopped")));
  EXPECT_FALSE(real_fs().exists(at("site/up.json")));
}

TEST_F(SiteTest, StoresFollowATunerThatWasRestoredFromBeforeTheyLastMetIt) {
  draw_photos(4);
  (void)up_json(1);
  ASSERT_EQ(run({"down", "site"}).code, 0);
  ASSERT_EQ(run({"backup", "site/tuner", "-o", "b.tar.zst"}).code, 0);
  for (int i = 0; i < 2; ++i) {
    (void)up_json(1);
    ASSERT_EQ(run({"down", "site"}).code, 0);
  }
  std::filesystem::remove_all(at("site/tuner"));
  ASSERT_EQ(run({"restore", "b.tar.zst", "-o", "site/tuner"}).code, 0);
  EXPECT_EQ(up_json(1).at("started"), 2);
}

TEST_F(SiteTest, VersionsArePutInForceTakenBackAndRemoved) {
  draw_photos(24);
  // As people would, of the photos in c0, c1 and so on.
  const auto say = [&](const std::string& task, const std::vector<std::string>& names) {
    const auto db = open_label_db("sqlite:" + at("site/tuner/labels.db")).or_throw();
    LabelBatch said{.task = db->task(task).or_throw(), .source = LabelSource::kHuman};
    const std::vector<int64_t> ids = db->class_ids(said.task, names).or_throw();
    for (size_t i = 0; i < ids.size(); ++i) {
      for (const auto& file :
           std::filesystem::directory_iterator(at("photos/c" + std::to_string(i)))) {
        const std::vector<PhotoPlace> place = {{"store1/" + file.path().filename().string(),
                                                sha256(real_fs().read(file.path()).or_throw())}};
        const int64_t collection = db->collection(kDefaultCollection).or_throw();
        said.labels.push_back({.photo = db->add_photos(collection, place).or_throw()[0],
                               .class_id = ids[i],
                               .time = 100});
      }
    }
    db->put_labels(said).or_throw();
  };
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const nlohmann::json site = up_json(1);
  const auto in_force = [&](int version) {
    for (int i = 0; i < 600; ++i) {
      if (ask(site, {"store", "ls"}).at(0).at("version_in_force") == version) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  };
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--http", site.at("http").get<std::string>()});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 1);
    return o.err;
  };
  EXPECT_THAT(refusal({"model", "rollback"}), HasSubstr("no version is in force"));
  ask(site, {"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "--follow"});
  EXPECT_TRUE(in_force(1));
  ask(site,
      {"job", "submit", "finetune", "-m", "site/tuner/jobs/1/run", "--follow", "--candidate"});
  nlohmann::json all = ask(site, {"model", "ls"});
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].at("aliases"), nlohmann::json({"production"}));
  EXPECT_EQ(all[0].at("stores"), nlohmann::json({"store1"}));
  EXPECT_EQ(all[1].at("aliases"), nlohmann::json({"candidate"}));
  EXPECT_EQ(all[1].at("parent"), 1);

  // A classifier of its own, with the same photos: the other's version stays in force.
  EXPECT_THAT(refusal({"job", "submit", "relabel", "--task", "birds & bees"}),
              HasSubstr("no version of the task birds & bees is in force yet"));
  const Outcome unsaid = run({"job", "submit", "finetune", "-m", "m.onnx", "--follow", "--task",
                              "birds & bees", "--http", site.at("http").get<std::string>()});
  EXPECT_EQ(unsaid.code, 1) << "what folders show is of the default task";
  say("birds & bees", {"bee", "bird"});
  ask(site, {"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "--follow", "--task",
             "birds & bees"});
  const nlohmann::json birds = ask(site, {"model", "ls", "--task", "birds & bees"});
  ASSERT_EQ(birds.size(), 1U);
  EXPECT_EQ(birds[0].at("version"), 3);
  EXPECT_EQ(birds[0].at("parent"), 0);
  EXPECT_EQ(birds[0].at("classes"), 2);
  EXPECT_EQ(birds[0].at("aliases"), nlohmann::json({"candidate", "production"}));
  EXPECT_EQ(ask(site, {"model", "ls", "--task", "default"}).size(), 2U);
  EXPECT_THAT(run({"model", "ls", "--http", site.at("http").get<std::string>()}).out,
              HasSubstr("birds & bees"));
  EXPECT_THAT(refusal({"model", "rollback", "--task", "birds & bees"}),
              HasSubstr("nothing was in force before version 3"));
  const nlohmann::json relabelled =
      ask(site, {"job", "submit", "relabel", "--task", "birds & bees", "--follow"});
  EXPECT_EQ(relabelled.at("result").at("version"), 3);
  const nlohmann::json judged =
      ask(site, {"job", "submit", "eval", "--task", "birds & bees", "--follow"});
  EXPECT_GT(judged.at("result").at("photos").get<int>(), 0) << "by what people said";
  EXPECT_EQ(judged.at("result").at("of_unknown_classes"), 0);
  EXPECT_TRUE(in_force(1));

  const nlohmann::json diff = ask(site, {"model", "diff", "1", "2"});
  EXPECT_EQ(diff.at("same_photos"), true);
  ASSERT_EQ(diff.at("files").size(), 2U);
  EXPECT_GT(diff.at("files")[1].at("delta_bytes"), 0);
  EXPECT_LT(diff.at("files")[1].at("delta_bytes"), diff.at("files")[1].at("to_bytes"));

  EXPECT_EQ(ask(site, {"model", "promote", "2", "--dry-run"}), diff);
  EXPECT_EQ(ask(site, {"model", "ls"})[0].at("aliases"), nlohmann::json({"production"}))
      << "nothing changed";
  const Outcome both = run({"model", "promote", "2", "--dry-run", "--candidate"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("--dry-run and --candidate"));

  ask(site, {"model", "promote", "2"});
  EXPECT_TRUE(in_force(2));
  EXPECT_THAT(refusal({"model", "rm", "2"}), HasSubstr("store1 has version 2 in force"));
  EXPECT_EQ(ask(site, {"model", "rollback"}).at("version"), 1);
  EXPECT_TRUE(in_force(1));
  EXPECT_THAT(refusal({"model", "rm", "2"}), HasSubstr("version 2 is candidate"));
  EXPECT_THAT(refusal({"model", "promote", "7"}), HasSubstr("there is no version 7"));
  ask(site, {"model", "promote", "1", "--candidate"});
  EXPECT_EQ(ask(site, {"model", "rm", "2"}).at("removed"), true);
  EXPECT_EQ(ask(site, {"model", "ls", "--task", "default"}).size(), 1U);
}

TEST_F(SiteTest, FlagsGoOverARecipeAndTheRuleIsTheDefault) {
  draw_photos(4);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const nlohmann::json site = up_json(1);
  const auto spec = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"job", "submit", "finetune", "-m", "m.onnx", "--stores", "2"};
    words.insert(words.end(), more.begin(), more.end());
    const nlohmann::json job = ask(site, words).at("job");
    return ask(site, {"job", "show", job.dump()}).at("spec");
  };
  const nlohmann::json recipe = spec({"--recipe", "ndpipe"});
  EXPECT_EQ(recipe.at("epochs"), 30);
  EXPECT_EQ(recipe.at("batch"), 1024);
  EXPECT_EQ(recipe.at("promote"), "rule");
  EXPECT_FALSE(recipe.contains("lost_after")) << "the Tuner's own";
  const nlohmann::json mine = spec({"-e", "2", "--recipe", "ndpipe", "--weight-decay", "0"});
  EXPECT_EQ(mine.at("epochs"), 2);
  EXPECT_EQ(mine.at("weight_decay"), 0);
  EXPECT_EQ(mine.at("batch"), 1024);
  EXPECT_EQ(mine.at("sched"), "ndpipe");
  const nlohmann::json steps = spec({"--clip-norm", "2.5", "--accumulate", "4", "--ema", "0.75"});
  EXPECT_EQ(steps.at("ema"), 0.75);
  EXPECT_EQ(steps.at("clip_norm"), 2.5);
  EXPECT_EQ(steps.at("accumulate"), 4);
  const nlohmann::json rates = spec({"--sched", "exponential", "--warmup", "0.5"});
  EXPECT_EQ(rates.at("sched"), "exponential");
  EXPECT_EQ(rates.at("warmup"), 0.5);
  EXPECT_EQ(spec({"--best", "loss"}).at("best"), "loss");
  EXPECT_EQ(spec({"--lost-after", "7"}).at("lost_after"), 7);
  EXPECT_EQ(spec({"--candidate"}).at("promote"), false);
  EXPECT_EQ(spec({"--promote", "always"}).at("promote"), true);
  for (const char* other : {"--candidate", "--no-publish", "--val-split=0"}) {
    EXPECT_EQ(run({"job", "submit", "finetune", "-m", "m.onnx", "--promote", "rule", other,
                   "--http", site.at("http")})
                  .code,
              2);
  }
}

TEST_F(SiteTest, AJobThatWaitsForStoresCanBeCancelled) {
  draw_photos(4);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const nlohmann::json site = up_json(1);
  ask(site, {"job", "submit", "finetune", "-m", "m.onnx", "--stores", "2"});
  EXPECT_EQ(ask(site, {"job", "cancel", "1"}).at("state"), "cancelled");
  EXPECT_EQ(ask(site, {"job", "ls"}).at(0).at("message"), "on request");
  EXPECT_TRUE(cli::is_running(process("tuner")));
  const Outcome none = run({"job", "resume", "1", "--stores", "0", "--http", site.at("http")});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("stores 0: from 1 to 10000"));
  const nlohmann::json resumed =
      ask(site, {"job", "resume", "1", "--stores", "3", "--store-timeout", "30", "--lost-after",
                 "9", "--disk", "2G", "--memory", "1G", "--allow-missing"});
  EXPECT_EQ(resumed.at("spec").at("stores"), 3);
  EXPECT_EQ(resumed.at("spec").at("store_timeout"), 30);
  EXPECT_EQ(resumed.at("spec").at("lost_after"), 9);
  EXPECT_EQ(resumed.at("spec").at("disk"), int64_t{2} << 30);
  EXPECT_EQ(resumed.at("spec").at("memory"), int64_t{1} << 30);
  EXPECT_EQ(resumed.at("spec").at("allow_missing"), true);
  EXPECT_EQ(resumed.at("spec").at("epochs"), 15);
}

TEST_F(SiteTest, UpASecondTimeRepeatsWhatItWasStartedWithAndPhotoCountsAreRightAtOnce) {
  constexpr int kPhotos = 30;
  draw_photos(kPhotos);
  const auto expect_photos = [&](const nlohmann::json& site) {
    const nlohmann::json stores = ask(site, {"store", "ls"});
    ASSERT_EQ(stores.size(), 3U);
    int photos = 0;
    for (const nlohmann::json& s : stores) photos += s.at("photos").get<int>();
    EXPECT_EQ(photos, kPhotos) << stores;
  };
  expect_photos(up_json(3));
  Outcome again = run({"up", "site", "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out).at("started"), 0);
  ASSERT_EQ(run({"down", "site"}).code, 0);

  again = run({"up", "site", "--json"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out).at("started"), 4);
  EXPECT_THAT(again.err, ::testing::AllOf(HasSubstr("as before: --stores 3"), HasSubstr("photos")));
  expect_photos(nlohmann::json::parse(again.out));
  ASSERT_EQ(run({"down", "site"}).code, 0);

  again = run({"up", "site", "--json", "--stores", "2"});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(nlohmann::json::parse(again.out).at("started"), 3);
  EXPECT_THAT(again.err,
              ::testing::AllOf(HasSubstr("from now on --stores 2"), HasSubstr("before --stores 3"),
                               HasSubstr("jobs do without store3")));
}

TEST_F(SiteTest, AFailedUpIsNotRepeated) {
  draw_photos(4);
  EXPECT_EQ(up(1, {"--photos", "nowhere"}).code, 1);
  EXPECT_FALSE(real_fs().exists(at("site/site.json")));
  EXPECT_EQ(run({"up", "other", "--stores", "0"}).code, 2);
  EXPECT_FALSE(real_fs().exists(at("other")));
}

TEST_F(SiteTest, AJobThatLeftAStoreOutNamesItAndExitsWith3) {
  draw_photos(24);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const std::string http = up_json(2).at("http");
  const std::vector<std::string> train = {"job", "submit",   "finetune", "-m", "m.onnx", "-e",
                                          "1",   "--follow", "--http",   http, "--head", "linear"};
  ASSERT_EQ(run({"store", "drain", "store2", "--http", http}).code, 0);
  Outcome o = run(train);
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_THAT(o.err, ::testing::AllOf(HasSubstr("begins without store2 ("), HasSubstr("drained)")));
  EXPECT_THAT(o.out, ::testing::ContainsRegex("left out +store2: [1-9][0-9]* photos, drained"));
  ASSERT_EQ(run({"store", "drain", "store2", "--undo", "--http", http}).code, 0);
  o = run(train);
  EXPECT_EQ(o.code, 0) << o.err;

  // Ctrl-C does not wait for the one that has died.
  const cli::ProcessId store = process("store2");
  kill(store.pid, SIGKILL);
  std::vector<std::string> waits = train;
  waits.insert(waits.end(), {"--store-timeout", "600"});
  std::filesystem::remove(at("err"));  // what the one before said
  const pid_t child = start(waits);
  const auto waits_for_it = [&] {
    const Result<std::string> err = real_fs().read(at("err"));
    return err.ok() && err->find("waits for store2 (") != std::string::npos;
  };
  while (!waits_for_it()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(child, SIGINT);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 3)
      << real_fs().read(at("err")).or_throw();
  const Outcome typo = run(
      {"job", "submit", "finetune", "-m", "m.onnx", "--stores", "store1,stroe2", "--http", http});
  EXPECT_EQ(typo.code, 1);
  EXPECT_THAT(typo.err, HasSubstr("has met no store 'stroe2'; it knows store1, store2"));
}

TEST_F(SiteTest, AnotherNumberOfStoresIsRefusedWhileItIsUp) {
  draw_photos(4);
  (void)up_json(1);
  const Outcome o = up(2);
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err,
              ::testing::AllOf(HasSubstr("up with other settings"), HasSubstr("ndtrain down")));
  EXPECT_TRUE(cli::is_running(process("store1")));
}

TEST_F(SiteTest, WhenOneCannotStartItSaysWhyAndNothingStaysBehind) {
  const Outcome o = up(2, {"--photos", "nowhere"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err,
              ::testing::AllOf(HasSubstr("store"), HasSubstr("has ended"),
                               HasSubstr("no directory of photos at"), HasSubstr("nowhere")));
  EXPECT_FALSE(real_fs().exists(at("site/up.json")));
  EXPECT_THAT(real_fs().read(at("site/tuner.log")).or_throw(), HasSubstr("stopped"));
}

TEST_F(SiteTest, StoresWithoutASharedDirectoryGetOneEach) {
  const Outcome o = run({"up", "site", "--stores", "1", "--port", "0", "--http", "127.0.0.1:0",
                         "--labels", "folder"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_TRUE(real_fs().exists(at("site/store1/photos")));
  EXPECT_THAT(o.out,
              ::testing::AllOf(HasSubstr("site/store1/photos and so on, a directory per class"),
                               HasSubstr("--http 127.0.0.1:")));
}

// SIGKILL of the Tuner and of a store again and again, while people upload.
TEST_F(SiteTest, NoUploadThatWasAnsweredIsLostOrHeardOfTwiceWhoeverIsKilled) {
  constexpr int kTrained = 24;
  draw_photos(kTrained);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  nlohmann::json site = up_json(1);
  EXPECT_EQ(ask(site, {"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "--stores",
                       "1", "-e", "1", "--follow"})
                .at("state"),
            "done");
  std::mutex mutex;
  std::map<std::string, nlohmann::json> answers;  // by id
  std::string address = site.at("http");
  std::atomic<int> next = 100;
  const auto client = [&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::string to;
      {
        const std::lock_guard lock(mutex);
        to = address;
      }
      const std::string file =
          encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, static_cast<uint64_t>(next++)));
      Result<HttpResponse> r = HttpClient(to).post("/photos", file, "image/jpeg");
      if (r.ok() && r->status == 307) {
        const std::string url = r->headers.at("Location");
        r = HttpClient(url.substr(7, url.rfind('/') - 7)).post("/photos", file, "image/jpeg");
      }
      if (!r.ok() || r->status >= 300) continue;  // killed, or nobody here yet
      const nlohmann::json json = nlohmann::json::parse(r->body);
      const std::lock_guard lock(mutex);
      answers[json.at("id")] = json;
    }
  };
  std::vector<std::jthread> clients;
  for (int i = 0; i < 3; ++i) clients.emplace_back(client);
  for (int i = 0; i < 6; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    const cli::ProcessId victim = process(i % 2 == 0 ? "store1" : "tuner");
    kill(victim.pid, SIGKILL);
    while (cli::is_running(victim)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    site = up_json(1);
    const std::lock_guard lock(mutex);
    address = site.at("http");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  clients.clear();
  EXPECT_GT(answers.size(), 30U);
  // The Tuner hears the rest; then all of it is there, each once.
  const auto db =
      open_label_db("sqlite:" + at("site/tuner/labels.db"), OpenLabelDb::kExisting).or_throw();
  const int64_t task = existing_task(*db, "default").or_throw();
  const auto labelled = [&] {  // how many labels each photo ever had, by path
    std::map<std::string, size_t> all;
    const LabelQuery query{.collection = existing_collection(*db, "default").or_throw(),
                           .task = task,
                           .limit = 1'000'000};
    for (const LabelRow& row : db->query(query).or_throw().rows) {
      all[row.path] = db->history(task, row.photo).or_throw().size();
    }
    return all;
  };
  std::map<std::string, size_t> heard;
  for (int i = 0; i < 100; ++i) {
    heard = labelled();
    if (std::ranges::all_of(answers, [&](const auto& a) {
          return heard.contains("store1/" + a.second.at("path").template get<std::string>());
        }))
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  for (const auto& [id, json] : answers) {
    const std::string path = json.at("path");
    EXPECT_EQ(heard["store1/" + path], 1U) << path;
    EXPECT_TRUE(real_fs().exists(at("site/store1/state/" + path))) << path;
  }
}

}  // namespace
}  // namespace ndtrain
