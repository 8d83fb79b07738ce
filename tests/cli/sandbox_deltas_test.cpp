// A store that a Tuner sends the second version of a model as a delta to the first.
#include <regex>

#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class SandboxOfDeltas : public testing_cli::SiteTest {
 protected:
  void SetUp() override {
    draw_photos(24);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }
  void TearDown() override {
    for (const pid_t process : {store_, tuner_}) {
      if (process == 0) continue;
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
    SiteTest::TearDown();
  }

  // Starts it; what the first group of `address` matches in what it says.
  std::smatch begin(const std::string& name, pid_t& process, const std::vector<std::string>& words,
                    const std::string& address) {
    process = start_as(name, words);
    std::smatch found;
    EXPECT_TRUE(comes([&] {
      said_ = said_by(name);
      return std::regex_search(said_, found, std::regex(address));
    })) << said_by(name);
    return found;
  }
  void begin_both(const std::string& sandbox) {
    const std::smatch tuner =
        begin("tuner", tuner_,
              {"tuner", "serve", "--state=tuner", "--listen=127.0.0.1:0", "--http=127.0.0.1:0"},
              "listens on ([0-9.:]+), HTTP on ([0-9.:]+)\n");
    ASSERT_EQ(tuner.size(), 3U);
    const std::string link = tuner[1].str();
    site_ = {{"http", tuner[2].str()}};
    const std::smatch store =
        begin("store", store_,
              {"pipestore", "serve", "--name=attic", "--state=state", "--photos=photos",
               "--labels=folder", "--tuner=" + link, "--http=127.0.0.1:0", "--sandbox=" + sandbox},
              "HTTP on ([0-9.:]+)\n");
    ASSERT_EQ(store.size(), 2U);
    store_http_ = store[1].str();
  }
  void publish_version(int version, const std::vector<std::string>& model) const {
    std::vector<std::string> words{"job", "submit", "finetune", "--stores",  "1",
                                   "-e",  "1",      "--follow", "--promote", "always"};
    words.insert(words.end(), model.begin(), model.end());
    ask(site_, words);
    EXPECT_TRUE(comes([&] {
      return ask(site_, {"store", "ls"}).at(0).at("version_in_force") == version;
    })) << said_by("store");
  }
  std::string metrics() const { return HttpClient(store_http_).get("/metrics").or_throw().body; }

  pid_t tuner_ = 0, store_ = 0;
  Json site_;
  std::string said_, store_http_;
};

TEST_F(SandboxOfDeltas, AreAppliedThereAndCounted) {
  begin_both("uploads");
  publish_version(1, {"-m", "m.onnx", "--head", "linear"});
  EXPECT_THAT(metrics(), HasSubstr("\nndtrain_sandbox_deltas_total 0\n"));
  publish_version(2, {"-m", "tuner/jobs/1/run"});
  EXPECT_THAT(said_by("store"), HasSubstr("and a delta"));
  EXPECT_THAT(metrics(), HasSubstr("\nndtrain_sandbox_deltas_total 1\n"));
  EXPECT_THAT(metrics(), HasSubstr("ndtrain_sandbox_models_stopped_total{why=\"crashed\"} 0\n"));
}

TEST_F(SandboxOfDeltas, AreAppliedByTheStoreItselfWhereThereIsNone) {
  begin_both("off");
  publish_version(1, {"-m", "m.onnx", "--head", "linear"});
  publish_version(2, {"-m", "tuner/jobs/1/run"});
  EXPECT_THAT(said_by("store"), HasSubstr("and a delta"));
  EXPECT_THAT(metrics(), Not(HasSubstr("ndtrain_sandbox")));
}

}  // namespace
}  // namespace ndtrain
