// What is recorded of changes.
#include "ndp/http/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "framework/core/publish.h"
#include "framework/testing/fsync_throws.h"
#include "framework/testing/memory_fs.h"
#include "ndp/http/http_client.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

class Audit : public ::testing::Test {
 protected:
  void SetUp() override { fs_.make_directories("state").or_throw(); }
  AuditLog log() { return AuditLog(fs_, clock_, "state"); }
  std::vector<nlohmann::json> lines() {
    std::vector<nlohmann::json> all;
    for (const std::string& line : log().last(1000).or_throw())
      all.push_back(nlohmann::json::parse(line));
    return all;
  }
  std::vector<std::string> requests() {
    std::vector<std::string> all;
    for (const nlohmann::json& line : lines()) all.push_back(line.at("request"));
    return all;
  }

  MemoryFs fs_;
  ManualClock clock_;
};

TEST_F(Audit, SaysWhoChangedWhatFromWhatToWhat) {
  log()
      .add({.who = "ann",
            .address = "10.0.0.7",
            .what = "label",
            .request = "PUT /photos/5f/label",
            .asked = R"({"label": "rose"})",
            .before = "tulip"})
      .or_throw();
  EXPECT_EQ(lines().at(0), nlohmann::json({{"time", clock_.unix_seconds()},
                                           {"who", "ann"},
                                           {"address", "10.0.0.7"},
                                           {"what", "label"},
                                           {"request", "PUT /photos/5f/label"},
                                           {"asked", {{"label", "rose"}}},
                                           {"before", "tulip"}}));
}

TEST_F(Audit, ALineThatTheDiskHasChangedIsShownAsSuch) {
  log().add({.who = "ann", .what = "label", .request = "PUT /labels/1"}).or_throw();
  log().add({.who = "bob", .what = "label", .request = "PUT /labels/2"}).or_throw();
  std::string text = fs_.read("state/audit.jsonl").or_throw();
  text[text.find("ann")] = 'e';
  publish(fs_, "state/audit.jsonl", text).or_throw();
  const std::vector<nlohmann::json> all = lines();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all[0].contains("damaged"));
  EXPECT_FALSE(all[0].contains("who"));
  EXPECT_THAT(all[0].at("text").get<std::string>(), HasSubstr("enn"));
  EXPECT_EQ(all[1].at("who"), "bob");
  log().forget({{"/labels/1", sha256("gone")}}).or_throw();
  EXPECT_TRUE(lines().at(0).contains("damaged")) << "it stays so where something of it goes";
}

TEST_F(Audit, ALastLineWhoseEndTheDiskHasChangedIsKept) {
  log().add({.who = "ann", .what = "label", .request = "PUT /labels/1"}).or_throw();
  log().add({.who = "bob", .what = "label", .request = "PUT /labels/2"}).or_throw();
  std::string text = fs_.read("state/audit.jsonl").or_throw();
  text.back() ^= 1;
  publish(fs_, "state/audit.jsonl", text).or_throw();
  EXPECT_EQ(requests().size(), 2U);
  log().add({.who = "eve", .what = "label", .request = "PUT /labels/3"}).or_throw();
  EXPECT_THAT(requests(),
              ::testing::ElementsAre("PUT /labels/1", "PUT /labels/2", "PUT /labels/3"));
}

TEST_F(Audit, ALineOfAnEarlierProgramIsShown) {
  publish(fs_, "state/audit.jsonl", "{\"who\":\"ann\"}\n").or_throw();
  EXPECT_EQ(lines().at(0), nlohmann::json({{"who", "ann"}}));
}

TEST_F(Audit, OfADeletedPhotoItKeepsWhoDidWhatWhenAndTheDigestInAllFiles) {
  const Digest gone = sha256("gone"), other = sha256("other");
  const std::string hex = to_hex(gone), label = R"({"label": "rose"})";
  const auto add = [&](const std::string& what, const std::string& request,
                       const std::string& before) {
    log()
        .add({.who = "ann", .what = what, .request = request, .asked = label, .before = before})
        .or_throw();
  };
  add("label", "PUT /photos/" + hex + "/label", "tulip");
  add("label", "PUT /labels/17", "tulip");
  fs_.rename("state/audit.jsonl", "state/audit.2.jsonl").or_throw();
  add("label", "PUT /labels/171", "tulip");
  add("label", "PUT /photos/" + to_hex(other) + "/label", "tulip");
  add("deletion", "DELETE /photos/attic/july/1.jpg", hex);
  add("deletion", "DELETE /photos/" + hex, hex);
  add("job", "POST /photos/" + hex, "");
  const std::vector<nlohmann::json> before = lines();
  const std::map<std::string, Digest> paths = {{"/photos/" + hex, gone}, {"/labels/17", gone}};
  log().forget(paths).or_throw();
  const std::vector<nlohmann::json> after = lines();
  ASSERT_EQ(after.size(), before.size());
  for (const size_t i : {0, 1, 4, 5}) {
    EXPECT_FALSE(after[i].contains("asked") || after[i].contains("before")) << after[i];
    EXPECT_EQ(after[i].at("request"), (i < 2 ? "PUT /photos/" : "DELETE /photos/") + hex);
    for (const char* kept : {"time", "who", "address", "what"}) {
      EXPECT_EQ(after[i].at(kept), before[i].at(kept));
    }
  }
  for (const size_t i : {2, 3, 6}) EXPECT_EQ(after[i], before[i]);
  log().forget(paths).or_throw();
  EXPECT_EQ(lines(), after);
}

TEST_F(Audit, ALineIsOneLineWhateverIsInIt) {
  log().add({.who = "a\nb\xff", .request = "\"\n", .asked = "no JSON\n"}).or_throw();
  log().add({.request = "r", .asked = "\"" + std::string(5000, 'x') + "\""}).or_throw();
  ASSERT_EQ(lines().size(), 2U);
  EXPECT_FALSE(lines()[0].contains("asked"));
  EXPECT_FALSE(lines()[1].contains("asked"));
}

// Power fails in every call that a line takes, before which another was made; what is acknowledged
// is there afterwards, and what comes next too.
TEST_F(Audit, ALineThatWasAcknowledgedSurvivesACrashAnywhere) {
  const FsyncThrows throws;
  bool died = true;
  for (int64_t call = 1; died; ++call) {
    died = false;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      MemoryFs fs;
      fs.make_directories("state").or_throw();
      AuditLog(fs, clock_, "state").add({.request = "first"}).or_throw();
      fs.die_in_call(call);
      bool acknowledged = false;
      try {
        acknowledged = AuditLog(fs, clock_, "state").add({.request = "second"}).ok();
      } catch (const FsyncFailed&) {
      }
      died = died || !acknowledged;
      Rng rng(seed, "crash");
      fs.crash(rng);
      AuditLog log(fs, clock_, "state");
      log.add({.request = "third"}).or_throw();
      std::vector<std::string> found;
      for (const std::string& line : log.last(10).or_throw()) {
        found.push_back(nlohmann::json::parse(line).at("request"));
      }
      ASSERT_GE(found.size(), acknowledged ? 3U : 2U) << call << " " << seed;
      ASSERT_LE(call, 20);
      EXPECT_EQ(found.front(), "first") << call << " " << seed;
      EXPECT_EQ(found.back(), "third") << call << " " << seed;
    }
  }
}

TEST_F(Audit, TheFirstLineSurvivesACrashThatLosesWhatWasNotSynced) {
  log().add({.request = "first"}).or_throw();
  fs_.crash(MemoryFs::Survives::kNothing);
  EXPECT_THAT(requests(), ::testing::ElementsAre("first"));
}

TEST_F(Audit, OldFilesMakeWayAndTheNewestLinesStay) {
  const std::string filler(static_cast<size_t>(kAuditBytes) - 10, 'x');
  for (int i = 0; i < AuditLog::kAuditFiles + 2; ++i) {
    log().add({.request = "line " + std::to_string(i)}).or_throw();
    const std::string text = fs_.read("state/audit.jsonl").or_throw();
    publish(fs_, "state/audit.jsonl",
            text + "\"" + filler.substr(0, filler.size() - text.size()) + "\"\n")
        .or_throw();
  }
  std::vector<std::string> found;
  for (const std::string& line : log().last(100).or_throw()) {
    const nlohmann::json json = nlohmann::json::parse(line);
    if (!json.contains("damaged")) found.push_back(json.at("request"));
  }
  EXPECT_THAT(found, ::testing::ElementsAre("line 2", "line 3", "line 4", "line 5"));
  EXPECT_FALSE(fs_.exists("state/audit.4.jsonl"));
  EXPECT_EQ(log().last(2).or_throw().size(), 2U);
}

class AuditedServer : public Audit {
 protected:
  void SetUp() override {
    Audit::SetUp();
    const auto change = [this](const HttpRequest& q) {
      ++changes_;
      EXPECT_EQ(lines().back().at("request"), "PUT " + q.path);  // before it is done
      return q.captures[0] == "gone" ? http_error(404, "no") : HttpResponse{};
    };
    const auto before = [](const HttpRequest& q) { return "was " + q.captures[0]; };
    server_ = HttpServer::listen("127.0.0.1:0",
                                 {{"PUT", "/x/(.*)", Role::kAnyone, change, {}, {"x", before}},
                                  {"PUT",
                                   "/bug",
                                   Role::kAnyone,
                                   [](const HttpRequest&) -> HttpResponse { throw Error("bug"); },
                                   {},
                                   {"bug"}}},
                                 1000, {.audit = &audit_})
                  .or_throw();
  }
  int put(const std::string& path, const std::string& body = "{}") const {
    return HttpClient(server_->address()).put(path, body).or_throw().status;
  }

  std::atomic<int> changes_ = 0;
  AuditLog audit_{fs_, clock_, "state"};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(AuditedServer, RecordsAChangeBeforeItIsDoneAndThatItFailed) {
  EXPECT_EQ(put("/x/a", R"({"to": 1})"), 200);
  EXPECT_EQ(put("/x/gone"), 404);
  EXPECT_EQ(put("/bug"), 500);
  const std::vector<nlohmann::json> all = lines();
  ASSERT_EQ(all.size(), 5U);
  EXPECT_EQ(all[0].at("before"), "was a");
  EXPECT_EQ(all[0].at("asked"), nlohmann::json({{"to", 1}}));
  EXPECT_EQ(all[0].at("address"), "127.0.0.1");
  EXPECT_FALSE(all[1].contains("failed"));
  EXPECT_EQ(all[2].at("failed"), 404);
  EXPECT_EQ(all[4].at("failed"), 500);
}

TEST_F(AuditedServer, ChangesNothingThatItCannotRecord) {
  EXPECT_EQ(put("/x/a"), 200);
  fs_.set_capacity(0);
  EXPECT_EQ(put("/x/a"), 507);
  EXPECT_EQ(changes_, 1);
  fs_.set_capacity(1 << 20);
  EXPECT_EQ(put("/x/a"), 200);
  EXPECT_EQ(changes_, 2);
  EXPECT_EQ(lines().size(), 2U);
}

}  // namespace
}  // namespace ndtrain::ndp
