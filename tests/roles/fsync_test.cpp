// An fsync that fails under a request over HTTP, whatever the route: the process ends and nothing
// is answered.
#include "framework/core/fsync.h"

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <thread>

#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/roles_fixture.h"
#include "tests/support/failing_fsync.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"
#include "tuner/service/known_stores.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::RunningStore;
using testing::RunningTuner;

constexpr int kAnswered = 0, kRefused = 1, kAnsweredAfterAll = 2;  // exit statuses

struct Request {
  std::string method, path, body = {};
};

struct Case {
  std::string pattern;  // of the route, as HttpServer::needs() says it
  Request request;
  std::vector<Request> before = {};  // while the disk is well
  bool reads = false;                // it syncs nothing, and is answered
};

class FsyncDeathTest : public testing::RolesTest {
 protected:
  static Result<HttpResponse> ask(const HttpClient& client, const Request& r) {
    if (r.method == "GET") return client.get(r.path);
    if (r.method == "PUT") return client.put(r.path, r.body);
    if (r.method == "DELETE") return client.remove(r.path);
    return client.post(r.path, r.body);
  }

  // Ends this process, in which a role serves at `http`.
  [[noreturn]] static void ask_and_end(const std::string& http, const Case& c, int64_t spared) {
    // An answer in pieces has no end.
    const HttpClient client(http, std::chrono::seconds(c.reads ? 2 : 60));
    for (const Request& r : c.before) ask(client, r).status().or_throw();
    const support::FailingFsync failing(spared);
    const Result<HttpResponse> r = ask(client, c.request);
    if (support::FailingFsync::failed() > 0) {
      // One of a job's own thread ends the process too, where it comes just after the answer.
      std::this_thread::sleep_for(std::chrono::seconds(30));
      std::_Exit(kAnsweredAfterAll);
    }
    const bool answered =
        c.reads ? r.ok() || r.status().code() == Code::kCancelled : r.ok() && r->status < 400;
    if (!answered) {
      std::fprintf(stderr, "%s\n", r.ok() ? r->body.c_str() : r.status().message().c_str());
    }
    std::_Exit(answered ? kAnswered : kRefused);
  }

  // Each fsync that the request leads to fails in turn, until it leads to no more.
  template <typename Serve>
  void fail_each(const Case& c, const Serve& serve) {
    int status = -1;
    for (int64_t spared = 0; status != kAnswered; ++spared) {
      SCOPED_TRACE(c.request.method + " " + c.request.path + ", fsync " +
                   std::to_string(spared + 1));
      const auto ended = [&](int how) {
        status = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
        return status ==
               ((spared > 0 && status == kAnswered) || c.reads ? kAnswered : kFsyncFailedStatus);
      };
      EXPECT_EXIT(serve([&](const std::string& http) { ask_and_end(http, c, spared); }), ended, "");
      ASSERT_TRUE(status == kAnswered || status == kFsyncFailedStatus);
      ASSERT_LT(spared, 30);
    }
  }

  // Of the cases, and of the routes that are served: "PUT /jobs: operator, recorded as job".
  static void expect_all(const std::vector<Case>& cases, const std::vector<std::string>& needs) {
    std::set<std::string> tried, served;
    for (const Case& c : cases) tried.insert(c.request.method + " " + c.pattern);
    for (const std::string& line : needs) served.insert(line.substr(0, line.rfind(": ")));
    EXPECT_EQ(tried, served) << "whoever adds a route adds a case";
  }

  PipeStoreConfig store_config() const {
    PipeStoreConfig config = store("a", 0, 1);
    config.http = "127.0.0.1:0";
    return config;
  }
  TunerConfig tuner_config() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }

  // A Tuner's state with four versions, the second in force, one of another task, two stores that
  // are away, a photo that has a label, and a model to train.
  void make_tuner_state() {
    real_fs().make_directories(at("tuner")).or_throw();
    base_ = ModelStore(real_fs(), at("tuner/models")).add_file(at("base.onnx")).or_throw();
    Versions versions(real_fs(), at("tuner/versions.json"));
    for (int i = 1; i <= 4; ++i) {
      (void)versions
          .add({.content = sha256(std::to_string(i)), .extractor = base_, .head = base_}, i <= 2)
          .or_throw();
    }
    (void)versions
        .add({.task = "mood", .content = sha256("5"), .extractor = base_, .head = base_}, true)
        .or_throw();
    KnownStores stores(real_fs(), at("tuner"));
    stores.put("attic", {.photos = 3}).or_throw();
    stores.put("cellar", {.photos = 3, .drained = true}).or_throw();
    const auto db = open_label_db("sqlite:" + at("tuner/labels.db")).or_throw();
    const int64_t task = db->task(kDefaultTask).or_throw();
    const PhotoPlace place{"attic/1.jpg", sha256("photo 1")};
    photo_ = db->add_photos(db->collection(kDefaultCollection).or_throw(), std::vector{place})
                 .or_throw()
                 .at(0);
    const auto ids = db->class_ids(task, std::vector<std::string>{"rose"}).or_throw();
    (void)db
        ->put_labels({.task = task,
                      .source = LabelSource::kFolder,
                      .labels = {NewLabel{.photo = photo_, .class_id = ids.at(0)}}})
        .or_throw();
  }

  std::vector<Case> tuner_cases() const {
    const std::string job = "/jobs/([0-9]{1,18})", version = "/versions/([0-9]{1,18})",
                      digest = "([0-9a-f]{64})", label = "/labels/([0-9]{1,18})",
                      here = "/labels/" + std::to_string(photo_);
    const Request submit{"POST", "/jobs", R"({"model": ")" + to_hex(base_) + R"("})"};
    const std::string steer = job + "/(cancel|pause|resume|start-now)";
    const Request pause{"POST", "/jobs/1/pause"};
    const Request trash{"POST", "/trash/" + to_hex(sha256("photo 2"))};
    const Request restore{"POST", "/restore/" + to_hex(sha256("photo 2"))};
    const std::string drain = "/stores/([^/]+)/(drain|undrain)";
    const std::string point = version + "/(production|candidate)";
    std::vector<Case> cases = {
        {"/jobs", submit},
        {steer, {"POST", "/jobs/1/cancel"}, {submit}},
        {steer, pause, {submit}},
        {steer, {"POST", "/jobs/1/resume"}, {submit, pause}},
        {job + "/notes", {"POST", "/jobs/1/notes", R"({"note": "a look"})"}, {submit}},
        {drain, {"POST", "/stores/attic/drain"}},
        {drain, {"POST", "/stores/cellar/undrain"}},
        {"/stores/([^/]+)", {"DELETE", "/stores/attic"}},
        {"/photos/(.+)", {"DELETE", "/photos/" + to_hex(sha256("photo 1"))}},
        {"/trash/(.+)", {"POST", "/trash/" + to_hex(sha256("photo 1"))}},
        {"/restore/(.+)", restore, {trash}},
        {"/models/" + digest, {"PUT", "/models/" + to_hex(sha256("model")), "model"}},
        {point, {"POST", "/versions/3/production"}},
        {point, {"POST", "/versions/1/candidate"}},
        {"/versions/rollback", {"POST", "/versions/rollback"}},
        {version, {"DELETE", "/versions/3"}},
        {"/tasks/(.+)", {"DELETE", "/tasks/mood"}},
        {version + "/notes", {"POST", "/versions/3/notes", R"({"note": "a look"})"}},
        {label, {"PUT", here, R"({"label": "tulip"})"}},
        {"/login", {"POST", "/login"}},
    };
    const std::vector<std::pair<std::string, std::string>> read = {
        {"/healthz", "/healthz"},
        {"/readyz", "/readyz"},
        {"/metrics", "/metrics"},
        {"/jobs", "/jobs"},
        {job, "/jobs/1"},
        {job + "/log", "/jobs/1/log"},
        {job + "/trace", "/jobs/1/trace"},
        {job + "/run", "/jobs/1/run"},
        {job + "/report", "/jobs/1/report"},
        {job + "/quarantine", "/jobs/1/quarantine"},
        {"/members", "/members"},
        {"/stores", "/stores"},
        {"/photos/(.+)/like", "/photos/" + to_hex(sha256("photo 1")) + "/like"},
        {"/trash", "/trash"},
        {"/trash/(.+)", "/trash/" + to_hex(sha256("photo 1"))},
        {"/stores/([^/]+)/photos/([0-9a-f]{64}(?:/thumbnail)?)",
         "/stores/attic/photos/" + to_hex(sha256("photo 1"))},
        {"/models/" + digest, "/models/" + to_hex(base_)},
        {"/versions", "/versions"},
        {version, "/versions/1"},
        {"/versions/rollback", "/versions/rollback"},
        {"/tasks", "/tasks"},
        {"/tasks/(.+)", "/tasks/mood"},
        {version + "/diff/([0-9]{1,18})", "/versions/1/diff/2"},
        {"/watch", "/watch"},
        {"/", "/"},
        {"/dashboard/([a-z_.]+)", "/dashboard/dashboard.css"},
        {"/events", "/events"},
        {"/labels", "/labels"},
        {"/labels/stats", "/labels/stats"},
        {"/labels/review", "/labels/review"},
        {"/labels/accuracy", "/labels/accuracy"},
        {"/labels/diff", "/labels/diff?from=1"},
        {"/labels/confusion", "/labels/confusion"},
        {"/labels/new-photos", "/labels/new-photos"},
        {label, here},
        {"/login", "/login?code=1"},
        {"/session", "/session"},
        {"/audit", "/audit"}};
    for (const auto& [pattern, path] : read) {
      cases.push_back({.pattern = pattern, .request = {"GET", path}, .reads = true});
    }
    cases.push_back(
        {.pattern = "/jobs/plan", .request = {"POST", "/jobs/plan", submit.body}, .reads = true});
    cases.push_back({.pattern = "/logout", .request = {"POST", "/logout"}, .reads = true});
    // The store takes it, where there is one.
    cases.push_back(
        {.pattern = "/photos/like", .request = {"POST", "/photos/like", "a photo"}, .reads = true});
    cases.push_back(
        {.pattern = "/photos", .request = {"POST", "/photos", "a photo"}, .reads = true});
    cases.push_back(
        {.pattern = "/uploads", .request = {"POST", "/uploads", "a photo"}, .reads = true});
    return cases;
  }

  static std::vector<Case> store_cases() {
    const std::string file = encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, 1000)),
                      photo = "/photos/([0-9a-f]{64})", path = "/photos/" + to_hex(sha256(file));
    const Request upload{"POST", "/photos", file};
    std::vector<Case> cases = {
        {"/photos", upload},
        {photo + "/label", {"PUT", path + "/label", R"({"label": "rose"})"}, {upload}},
        {photo, {"DELETE", path}, {upload}},
    };
    const std::vector<std::pair<std::string, std::string>> read = {
        {"/healthz", "/healthz"},
        {"/readyz", "/readyz"},
        {"/metrics", "/metrics"},
        {photo, path},
        {photo + "/thumbnail", path + "/thumbnail"},
        {photo + "/label", path + "/label"},
        {photo + "/embedding", path + "/embedding"},
        {"/audit", "/audit"}};
    for (const auto& [pattern, at] : read) {
      cases.push_back({.pattern = pattern, .request = {"GET", at}, .reads = true});
    }
    const std::string query = R"({"extractor": ")" + to_hex(Digest{}) + R"(", "values": [1]})";
    for (const auto& [at, body] : {std::pair("/embedding", file), {"/neighbours", query}}) {
      cases.push_back({.pattern = at, .request = {"POST", at, body}, .reads = true});
    }
    return cases;
  }

  Digest base_{};
  int64_t photo_ = 0;  // at the Tuner
};

TEST_F(FsyncDeathTest, EveryRouteOfTheTunerHasACase) {
  make_tuner_state();
  const TunerDaemon daemon(tuner_config(), devices_, real_fs(), system_clock());
  expect_all(tuner_cases(), daemon.http_needs());
}

TEST_F(FsyncDeathTest, EveryRouteOfAPipeStoreHasACase) {
  const PipeStoreDaemon daemon(store_config(), devices_, real_fs(), system_clock());
  expect_all(store_cases(), daemon.http_needs());
}

// Each in a directory of its own, and this process stays without threads.
TEST_F(FsyncDeathTest, UnderARequestEndsTheTunerUnanswered) {
  make_tuner_state();
  const std::string before = at("tuner");
  for (const Case& c : tuner_cases()) {
    fail_each(c, [&](const auto& then) {
      TunerConfig config = tuner_config();
      config.state = at("tuner-" + std::to_string(::getpid()));
      std::filesystem::copy(before, config.state, std::filesystem::copy_options::recursive);
      const RunningTuner t(config, devices_);
      then(t.http());
    });
  }
}

TEST_F(FsyncDeathTest, UnderARequestEndsAPipeStoreUnanswered) {
  for (const Case& c : store_cases()) {
    fail_each(c, [&](const auto& then) {
      PipeStoreConfig config = store_config();
      config.state = at("state-" + std::to_string(::getpid()));
      config.photos = at("photos-" + std::to_string(::getpid()));
      std::filesystem::copy(at("photos"), config.photos, std::filesystem::copy_options::recursive);
      const RunningStore s(config, devices_);
      then(s.http());
    });
  }
}

}  // namespace
}  // namespace ndtrain::tuner
