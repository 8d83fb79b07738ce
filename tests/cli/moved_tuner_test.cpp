// A Tuner that began with a directory, with a store, labels, a job and tokens, gets a standby.
#include <gmock/gmock.h>

#include "tests/cli/standby_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

class MovedTuner : public testing_cli::StandbyTest {
 protected:
  // The same address each time, so that the store finds it.
  void begin_directory() {
    running_["a"] = start_as("a", {"tuner", "serve", "--state", "tuner", "--listen", link("a"),
                                   "--http", "127.0.0.1:0"});
    ASSERT_TRUE(comes([&] { return !serving("a").empty(); })) << said_by("a");
  }
  Outcome stop(const std::string& name) {
    kill(running_.at(name), SIGTERM);
    return end(name);
  }
  Outcome move(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"tuner", "move", "tuner", "--to", url_};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  std::string asked(const std::string& tuner, const std::string& path) const {
    return HttpClient(serving(tuner), std::chrono::seconds(10), {.token = token_})
        .get(path)
        .or_throw()
        .body;
  }
  bool has_store(const std::string& tuner) const {
    if (serving(tuner).empty()) return false;
    const auto stores = nlohmann::json::parse(asked(tuner, "/stores"), nullptr, false);
    return stores.is_array() && stores.size() == 1 && stores[0].at("here");
  }
  // What people asked for, and are answered for.
  std::string all_of(const std::string& tuner) const {
    std::string all = asked(tuner, "/versions") + asked(tuner, "/labels/1");
    const auto job = nlohmann::json::parse(asked(tuner, "/jobs/1"));
    return all + job.at("state").dump() + job.at("result").dump();
  }

  std::string token_;
};

TEST_F(MovedTuner, GoesOnInADatabaseWithAStandbyAndNothingIsLost) {
  begin_directory();
  begin_store();
  ASSERT_TRUE(comes([&] { return serves("a"); })) << said_by("store");
  ASSERT_EQ(run({"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "--stores", "1",
                 "-e", "1", "--follow", "--http", serving("a")})
                .code,
            0);
  ASSERT_EQ(
      run({"job", "submit", "relabel", "--stores", "1", "--follow", "--http", serving("a")}).code,
      0);
  ASSERT_EQ(HttpClient(serving("a")).put("/labels/1", R"({"label":"said"})").or_throw().status,
            200);
  const Outcome made = run({"token", "new", "ann", "--role", "admin", "--state", "tuner"});
  token_ = made.out.substr(0, made.out.find('\n'));
  ASSERT_TRUE(comes([&] { return has_store("a"); }));
  const std::string before = all_of("a");
  EXPECT_THAT(before, HasSubstr("\"said\""));
  for (const bool dry : {true, false}) {
    const Outcome at_work =
        move(dry ? std::vector<std::string>{"--dry-run"} : std::vector<std::string>());
    EXPECT_EQ(at_work.code, 1);
    EXPECT_THAT(at_work.err, HasSubstr("belongs to another running tuner"));
  }
  EXPECT_EQ(stop("a").code, 0);
  const Outcome dry = move({"--dry-run"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_THAT(dry.out, AllOf(HasSubstr("would be moved"), HasSubstr("nothing was changed")));
  const Outcome moved = move();
  ASSERT_EQ(moved.code, 0) << moved.err;
  EXPECT_THAT(moved.out, HasSubstr("serves no more; from now on: ndtrain tuner serve --standby"));
  const Outcome again = move({"--json"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(nlohmann::json::parse(again.out).at("was_done"));
  const std::vector<std::vector<std::string>> of_the_directory = {
      {"tuner", "serve", "--state", "tuner", "--listen", link("c")},
      {"token", "new", "eve", "--role", "admin", "--state", "tuner"},
      {"backup", "tuner", "-o", "x.tar.zst"}};
  for (const std::vector<std::string>& words : of_the_directory) {
    const Outcome refused = run(words);
    EXPECT_EQ(refused.code, 1);
    EXPECT_THAT(refused.err, HasSubstr("was moved: the state of this Tuner is in")) << words[0];
  }
  EXPECT_EQ(run({"fsck", "tuner"}).code, 0);
  begin("a");
  ASSERT_TRUE(comes([&] { return !serving("a").empty(); })) << said_by("a");
  begin("b");
  ASSERT_TRUE(comes([&] { return has_store("a"); })) << said_by("a") << said_by("store");
  EXPECT_EQ(all_of("a"), before);
  kill(running_.at("a"), SIGKILL);
  (void)end("a");
  ASSERT_TRUE(comes([&] { return has_store("b"); })) << said_by("b") << said_by("store");
  EXPECT_EQ(all_of("b"), before);
}

TEST_F(MovedTuner, WhatIsNoTunersOrIsDamagedIsNotMoved) {
  EXPECT_THAT(move().err, HasSubstr("is no state of a Tuner"));
  begin_directory();
  EXPECT_EQ(stop("a").code, 0);
  const std::string versions = at("tuner/versions.json");
  publish(real_fs(), versions, R"({"checksum":"0","versions":[]})").or_throw();
  EXPECT_THAT(move().err, HasSubstr("versions.json"));
  EXPECT_THAT(run({"tuner", "move", "tuner", "--to", "sqlite:x"}).err, HasSubstr("--to"));
  EXPECT_THAT(run({"tuner", "move", url_, "--to", url_}).err, HasSubstr("is a directory"));
}

// A password in the URL is shown to nobody.
TEST_F(MovedTuner, TheFirstTokenIsToBeMadeWhereTheStateIs) {
  ASSERT_EQ(run({"cert", "init", "certs", "--web", "localhost"}).code, 0);
  running_["a"] =
      start_as("a", {"tuner", "serve", "--state", url_ + "&password=secret", "--scratch",
                     "scratch-a", "--listen", link("a"), "--http", "0.0.0.0:0", "--http-cert",
                     "certs/web-localhost.crt", "--http-key", "certs/web-localhost.key"});
  ASSERT_TRUE(comes([&] { return said_by("a").find("listens on") != std::string::npos; }))
      << said_by("a");
  EXPECT_THAT(said_by("a"), HasSubstr("--role admin --state " + url_ + "` makes one"));
  EXPECT_THAT(said_by("a"), ::testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace ndtrain
