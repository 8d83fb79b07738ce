// Two Tuners that share a state in a database, as real processes: one serves, the other waits and
// takes over when that one is killed or paused; and nothing that was answered is lost.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "framework/core/hash.h"
#include "ndp/labels/label_db.h"
#include "ndp/postgres/lease_lost.h"
#include "ndp/postgres/postgres_fs.h"
#include "ndp/wire/tuner_identity.h"
#include "tests/cli/standby_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;
using testing_cli::StandbyTest;

// 2, or as many as NDT_TAKEOVERS says.
int takeovers() {
  const char* n = std::getenv("NDT_TAKEOVERS");
  return n ? std::atoi(n) : 2;
}

// What was answered, by whoever was asked.
struct Acknowledged {
  std::set<Digest> uploads;
  std::map<int64_t, std::vector<std::string>> labels;  // by photo
  size_t said = 0;                                     // of these
  std::set<uint64_t> jobs;

  // A few of each have come.
  bool is_beyond(const Acknowledged& before) const {
    return uploads.size() > before.uploads.size() + 3 && said > before.said + 3 &&
           jobs.size() > before.jobs.size();
  }
};

class Clients {
 public:
  explicit Clients(std::string store) : store_(std::move(store)) {
    threads_.emplace_back([this](const std::stop_token& stop) { upload(stop); });
    threads_.emplace_back([this](const std::stop_token& stop) { ask_tuner(stop); });
  }

  void tuner_is(const std::string& http) {
    const std::lock_guard lock(mutex_);
    tuner_ = http;
  }
  Acknowledged so_far() {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  Acknowledged stop() {
    threads_.clear();
    return so_far();
  }

 private:
  static bool done(const Result<HttpResponse>& r) { return r.ok() && r->status < 300; }

  void upload(const std::stop_token& stop) {
    const HttpClient store(store_);
    for (uint64_t n = 0; !stop.stop_requested(); ++n, pause()) {
      const std::string file =
          encode_jpeg(cli::draw_demo_photo(static_cast<int>(n % 2), cli::Look::kDay, 100'000 + n));
      if (!done(store.post("/photos", file, "image/jpeg"))) continue;
      const std::lock_guard lock(mutex_);
      done_.uploads.insert(sha256(file));
    }
  }
  // A person says something of a photo, another submits a job.
  void ask_tuner(const std::stop_token& stop) {
    for (int n = 0; !stop.stop_requested(); ++n, pause()) {
      std::string http;
      {
        const std::lock_guard lock(mutex_);
        http = tuner_;
      }
      if (http.empty()) continue;
      const HttpClient tuner(http);
      const int64_t photo = 1 + n % 16;
      const std::string label = "said" + std::to_string(n);
      const auto put =
          tuner.put("/labels/" + std::to_string(photo), R"({"label":")" + label + "\"}");
      if (done(put)) {
        const std::lock_guard lock(mutex_);
        done_.labels[photo].push_back(label);
        ++done_.said;
      }
      if (n % 4 != 0) continue;
      const auto r = tuner.post("/jobs", R"({"kind":"relabel","stores":1})");
      if (!done(r)) continue;
      const std::lock_guard lock(mutex_);
      done_.jobs.insert(nlohmann::json::parse(r->body).at("job").get<uint64_t>());
    }
  }
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(100)); }

  const std::string store_;
  std::mutex mutex_;
  std::string tuner_;
  Acknowledged done_;
  std::vector<std::jthread> threads_;
};

TEST_F(StandbyTest, NothingThatWasAnsweredIsLostByTakeoversUnderLoad) {
  begin("a");
  ASSERT_TRUE(comes([&] { return !serving("a").empty(); })) << said_by("a");
  begin("b");
  begin_store();
  ASSERT_TRUE(comes([&] { return serves("a"); })) << said_by("store");
  const std::string waiting = "a standby: ";
  ASSERT_TRUE(comes([&] { return !address("b", waiting).empty(); })) << said_by("b");
  const auto health = HttpClient(address("b", waiting)).get("/healthz").or_throw();
  EXPECT_EQ(nlohmann::json::parse(health.body).at("status"), "standby");
  ASSERT_EQ(run({"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "--stores", "1",
                 "-e", "1", "--follow", "--http", serving("a")})
                .code,
            0);
  Clients clients(address("store", "PipeStore attic dials"));
  clients.tuner_is(serving("a"));
  std::vector<double> seconds;
  std::string now = "a", next = "b";
  for (int i = 0; i < takeovers(); ++i) {
    const Acknowledged before = clients.so_far();
    ASSERT_TRUE(comes([&] { return clients.so_far().is_beyond(before); }));
    const bool paused = i % 2 == 1;
    const auto began = std::chrono::steady_clock::now();
    kill(running_.at(now), paused ? SIGSTOP : SIGKILL);
    std::jthread late;  // asks who is paused, and is answered when that wakes
    Result<HttpResponse> answered = Status(Code::kIo, "not asked");
    if (paused) {
      late = std::jthread([&, http = serving(now)] {
        answered =
            HttpClient(http, std::chrono::minutes(2)).put("/labels/1", R"({"label":"late"})");
      });
    }
    ASSERT_TRUE(comes([&] { return serves(next); })) << said_by(next) << said_by("store");
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    clients.tuner_is(serving(next));
    if (paused) kill(running_.at(now), SIGCONT);
    const Outcome ended = end(now);
    if (paused) {
      late.join();
      EXPECT_THAT(ended.code, AnyOf(postgres::kLeaseLostStatus, 5)) << ended.err;
      EXPECT_FALSE(answered.ok() && answered->status < 300) << answered->body;
    }
    EXPECT_LE(seconds.back(), 30) << said_by(next) << said_by("store");
    std::printf("takeover %d (%s): %.1f s\n", i, paused ? "paused" : "killed", seconds.back());
    std::fflush(stdout);
    begin(now);
    std::swap(now, next);
    ASSERT_FALSE(HasFailure());
  }
  const Acknowledged all = clients.stop();
  std::ranges::sort(seconds);
  std::printf(
      "%zu takeovers: median %.1f s, at most %.1f s; acknowledged: %zu uploads, %zu jobs, "
      "%zu labels of %zu photos\n",
      seconds.size(), seconds[seconds.size() / 2], seconds.back(), all.uploads.size(),
      all.jobs.size(), all.said, all.labels.size());
  const auto db = open_label_db(url_, OpenLabelDb::kExisting).or_throw();
  const std::vector<Digest> uploads(all.uploads.begin(), all.uploads.end());
  EXPECT_TRUE(comes([&] { return !std::ranges::count(db->photos_with(uploads).or_throw(), 0); }))
      << std::ranges::count(db->photos_with(uploads).or_throw(), 0) << " uploads are lost";
  ASSERT_FALSE(all.labels.empty());
  for (const auto& [photo, labels] : all.labels) {
    const auto history = get(now, "/labels/" + std::to_string(photo)).dump();
    for (const std::string& label : labels) EXPECT_THAT(history, HasSubstr('"' + label + '"'));
    EXPECT_THAT(history, ::testing::Not(HasSubstr("\"late\"")));
  }
  ASSERT_FALSE(all.jobs.empty());
  for (const uint64_t job : all.jobs) {
    EXPECT_EQ(get(now, "/jobs/" + std::to_string(job)).value("job", uint64_t{0}), job);
  }
}

TEST_F(StandbyTest, AJobGoesOnAtTheNextTuner) {
  begin("a");
  ASSERT_TRUE(comes([&] { return !serving("a").empty(); })) << said_by("a");
  begin("b");
  begin_store();
  ASSERT_TRUE(comes([&] { return serves("a"); })) << said_by("store");
  ASSERT_EQ(run({"job", "submit", "finetune", "-m", "m.onnx", "--stores", "1", "-e", "400",
                 "--http", serving("a")})
                .code,
            0);
  ASSERT_TRUE(comes([&] {
    return get("a", "/jobs/1/log").dump().find("epoch") != std::string::npos ||
           get("a", "/jobs/1").value("state", "") == "done";
  })) << get("a", "/jobs/1").dump();
  ASSERT_EQ(get("a", "/jobs/1").value("state", ""), "running");
  kill(running_.at("a"), SIGKILL);
  (void)end("a");
  ASSERT_TRUE(comes([&] { return serves("b"); })) << said_by("b");
  EXPECT_TRUE(comes([&] { return get("b", "/jobs/1").value("state", "") == "done"; }))
      << get("b", "/jobs/1").dump() << said_by("b");
  EXPECT_EQ(get("b", "/versions").size(), 1u);
}

TEST_F(StandbyTest, ATunerThatIsStoppedGivesItsStateBackAtOnceAndTokensAreInIt) {
  begin("a");
  ASSERT_TRUE(comes([&] { return !serving("a").empty(); })) << said_by("a");
  const Outcome second = run({"tuner", "serve", "--state", url_, "--scratch", "scratch-c",
                              "--listen", link("c"), "--http", "none"});
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("is held by process"), HasSubstr("--standby")));
  const Outcome made = run({"token", "new", "ann", "--role", "admin", "--state", url_});
  EXPECT_EQ(made.code, 0) << made.err;
  const std::string secret = made.out.substr(0, made.out.find('\n'));
  EXPECT_EQ(HttpClient(serving("a")).get("/stores").or_throw().status, 401);
  EXPECT_EQ(HttpClient(serving("a"), std::chrono::seconds(10), {.token = secret})
                .get("/stores")
                .or_throw()
                .status,
            200);
  begin("b");
  ASSERT_TRUE(comes([&] { return !address("b", "a standby: ").empty(); })) << said_by("b");
  const auto began = std::chrono::steady_clock::now();
  kill(running_.at("a"), SIGTERM);
  EXPECT_EQ(end("a").code, 0);
  ASSERT_TRUE(comes([&] { return !serving("b").empty(); })) << said_by("b");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8));
  EXPECT_EQ(HttpClient(serving("b")).get("/stores").or_throw().status, 401);
  EXPECT_THAT(run({"token", "ls", "--state", url_}).out, HasSubstr("ann"));
  kill(running_.at("b"), SIGTERM);
  EXPECT_EQ(end("b").code, 0);
  const auto term = [&] {
    const auto files = postgres::PostgresFs::open(url_).or_throw();
    return nlohmann::json::parse(files->read("state.json").or_throw()).at("term").get<uint64_t>();
  };
  EXPECT_EQ(term(), 2u);
  running_["c"] = start_as("c", {"tuner", "serve", "--restored", "--state", url_, "--scratch",
                                 "scratch-c", "--listen", link("c"), "--http", "127.0.0.1:0"});
  ASSERT_TRUE(comes([&] { return !serving("c").empty(); })) << said_by("c");
  EXPECT_GT(term(), 2 + kTermsOfRestore);
}

TEST_F(StandbyTest, WhatWantsADirectoryIsRefusedWithTheRemedy) {
  const auto refused = [&](const std::vector<std::string>& words) {
    const Outcome o = run(words);
    EXPECT_NE(o.code, 0);
    return o.err;
  };
  EXPECT_THAT(refused({"backup", url_, "-o", "x.tar.zst"}), HasSubstr("pg_dump"));
  EXPECT_THAT(refused({"restore", "x.tar.zst", "-o", url_}), HasSubstr("pg_dump"));
  EXPECT_THAT(refused({"fsck", url_}), HasSubstr("pg_amcheck"));
  EXPECT_THAT(refused({"pipestore", "serve", "--photos", "photos", "--state", url_}),
              HasSubstr("only a Tuner"));
  EXPECT_THAT(refused({"tuner", "join", "--state", url_}), HasSubstr("only a Tuner"));
  EXPECT_THAT(refused({"finetune", "-m", "m.onnx", "-o", url_}), HasSubstr("only tuner serve"));
  EXPECT_THAT(refused({"token", "ls", "--state", url_}), HasSubstr("no Tuner has its state"));
  EXPECT_THAT(refused({"tuner", "serve", "--state", "dir", "--standby"}), HasSubstr("--standby"));
  EXPECT_THAT(refused({"tuner", "serve", "--state", "dir", "--scratch", "s"}),
              HasSubstr("--scratch"));
  EXPECT_THAT(refused({"tuner", "serve", "--state", url_, "--scratch", "s", "--db", "sqlite:l.db"}),
              HasSubstr("leave --db out"));
  EXPECT_THAT(refused({"tuner", "serve", "--state", url_}), HasSubstr("--scratch"));
}

}  // namespace
}  // namespace ndtrain
