// The processes in which a store decodes what people upload.
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "ndp/http/http_client.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;

class SandboxFlag : public testing_cli::ProgramTest {
 protected:
  void TearDown() override {
    if (store_ == 0) return;
    kill(store_, SIGKILL);
    waitpid(store_, nullptr, 0);
  }
  // Without a Tuner: uploads are taken, and wait for a label.
  void serve(const std::vector<std::string>& more) {
    real_fs().make_directories(at("photos")).or_throw();
    std::vector<std::string> words = {"pipestore",         "serve",         "--name=attic",
                                      "--photos=photos",   "--state=state", "--tuner=127.0.0.1:9",
                                      "--http=127.0.0.1:0"};
    words.insert(words.end(), more.begin(), more.end());
    store_ = start_as("store", words);
    std::smatch address;
    await([&] {
      log_ = said_by("store");
      return std::regex_search(log_, address, std::regex("HTTP on ([0-9.:]+)\n"));
    });
    address_ = address[1].str();
  }
  static void await(const std::function<bool()>& comes) {
    for (int i = 0; i < 600 && !comes(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ASSERT_TRUE(comes());
  }
  HttpResponse post(int i) const {
    const Image photo = cli::draw_demo_photo(i % 2, cli::Look::kDay, static_cast<uint64_t>(i));
    return HttpClient(address_).post("/photos", encode_jpeg(photo), "image/jpeg").or_throw();
  }
  std::string metrics() const { return HttpClient(address_).get("/metrics").or_throw().body; }
  // Of its command line; "" where it has ended. Files of /proc have no size that Fs could go by.
  static std::string words_of(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/cmdline");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<pid_t> workers() const {
    std::vector<pid_t> all;
    const std::string task = "/proc/" + std::to_string(store_) + "/task";
    for (const auto& thread : std::filesystem::directory_iterator(task)) {
      std::ifstream children(thread.path() / "children");
      for (pid_t child = 0; children >> child;) {
        if (words_of(child).find("decode-worker") != std::string::npos) all.push_back(child);
      }
    }
    return all;
  }

  // How readily the kernel ends it where memory runs out: at most 1000.
  static int first_to_die(pid_t process) {
    int score = -1;
    std::ifstream("/proc/" + std::to_string(process) + "/oom_score_adj") >> score;
    return score;
  }

  pid_t store_ = 0;
  std::string log_, address_;
};

TEST_F(SandboxFlag, IsOnForUploadsAndAWorkerThatDiesIsReplaced) {
  serve({});
  EXPECT_THAT(log_, HasSubstr("uploaded photos are decoded in a sandbox: processes of their own"));
  EXPECT_THAT(log_, HasSubstr("models from elsewhere are imported in a sandbox first: processes"));
  ASSERT_EQ(post(1).status, 202);
  const std::vector<pid_t> before = workers();
  ASSERT_FALSE(before.empty());
  for (const pid_t worker : before) EXPECT_EQ(first_to_die(worker), 1000) << "not the store";
  for (const pid_t worker : before) kill(worker, SIGABRT);
  ASSERT_EQ(post(2).status, 202);
  const std::string m = metrics();
  EXPECT_THAT(m, HasSubstr("\nndtrain_sandbox_photos_total 2\n"));
  EXPECT_THAT(m, HasSubstr("ndtrain_sandbox_stopped_total{why=\"crashed\"} 1\n"));
  EXPECT_THAT(m, HasSubstr("ndtrain_sandbox_stopped_total{why=\"hung\"} 0\n"));
  const std::vector<pid_t> after = workers();
  ASSERT_FALSE(after.empty());
  EXPECT_NE(before, after);
  EXPECT_THAT(said_by("store"), HasSubstr("its decoder was stopped: it crashed (SIGABRT)"));
  // They end with their owner, however that ends.
  kill(store_, SIGKILL);
  waitpid(std::exchange(store_, 0), nullptr, 0);
  await(
      [&] { return std::ranges::all_of(after, [](pid_t pid) { return words_of(pid).empty(); }); });
}

TEST_F(SandboxFlag, HasAllAndOff) {
  serve({"--sandbox=off"});
  ASSERT_EQ(post(1).status, 202);
  EXPECT_THAT(log_, Not(HasSubstr("sandbox")));
  EXPECT_THAT(metrics(), Not(HasSubstr("sandbox")));
  EXPECT_TRUE(workers().empty());
  TearDown();
  serve({"--sandbox=all"});
  EXPECT_THAT(log_, HasSubstr(" photos are decoded in a sandbox: processes of their own"));
  EXPECT_THAT(log_, Not(HasSubstr("uploaded photos")));
  ASSERT_EQ(post(2).status, 202);
  EXPECT_THAT(metrics(), HasSubstr("\nndtrain_sandbox_photos_total 1\n"));
}

TEST_F(SandboxFlag, RefusesAnotherWord) {
  real_fs().make_directories(at("photos")).or_throw();
  const Outcome o =
      run({"pipestore", "serve", "--photos=photos", "--state=state", "--sandbox=some"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--sandbox 'some': one of off, uploads, all"));
}

TEST_F(SandboxFlag, ATunerHasItForWhatStoresSend) {
  const std::vector<std::string> words = {"tuner",       "serve",         "--listen=127.0.0.1:0",
                                          "--http=none", "--state=tuner", "--sandbox"};
  for (const auto& [mode, said] : {std::pair{"uploads",
                                             "photos that stores send are decoded in a "
                                             "sandbox: processes of their own"},
                                   {"all", "all photos are decoded in a sandbox: processes"},
                                   {"off", "the Tuner listens on"}}) {
    std::vector<std::string> with = words;
    with.push_back(mode);
    store_ = start_as(mode, with);
    await([&] { return said_by(mode).find("the Tuner listens on") != std::string::npos; });
    EXPECT_THAT(said_by(mode), HasSubstr(said));
    const bool tried =
        said_by(mode).find("models from elsewhere are imported in a sandbox first") !=
        std::string::npos;
    EXPECT_EQ(tried, mode != std::string("off"));
    TearDown();
    store_ = 0;
  }
  EXPECT_THAT(said_by("off"), Not(HasSubstr("sandbox")));
  std::vector<std::string> wrong = words;
  wrong.push_back("some");
  EXPECT_THAT(run(wrong).err, HasSubstr("--sandbox 'some': one of off, uploads, all"));
}

TEST_F(SandboxFlag, AWorkerIsNothingForPeople) {
  for (const char* word : {"decode-worker", "model-worker"}) {
    const Outcome o = run({word});
    EXPECT_EQ(o.code, 1);
    EXPECT_THAT(o.err, HasSubstr(std::string(word) + " is a part of other verbs, which start it"));
    EXPECT_THAT(run({"--help"}).out, Not(HasSubstr(word)));
  }
}

TEST_F(SandboxFlag, WhatItCostsIsMeasuredByTurns) {
  draw_photos(8);
  const Outcome o = run({"bench", "decode", "photos", "--sandbox", "--seconds", "0.1", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json sandbox = nlohmann::json::parse(o.out).at("sandbox");
  EXPECT_GE(sandbox.at("rounds"), 3);
  EXPECT_GT(sandbox.at("images_per_s"), 0);
  EXPECT_GT(sandbox.at("images_per_s_without"), 0);
  EXPECT_GT(sandbox.at("ratio"), 0.01);
}

TEST_F(SandboxFlag, WhatAModelCostsIsMeasuredByTurns) {
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx"}).code, 0);
  const std::vector<std::string> words = {"bench",     "import", "-m",    "m.onnx",
                                          "--seconds", "0.1",    "--json"};
  const Outcome alone = run(words);
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_FALSE(nlohmann::json::parse(alone.out).contains("sandbox"));
  std::vector<std::string> by_turns = words;
  by_turns.emplace_back("--sandbox");
  const Outcome o = run(by_turns);
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json json = nlohmann::json::parse(o.out);
  EXPECT_GE(json.at("rounds"), 3);
  EXPECT_GT(json.at("sandbox").at("ratio"), 1) << "it is imported twice";
}

TEST_F(SandboxFlag, AMemberHasItForHeads) {
  for (const char* mode : {"uploads", "off"}) {
    store_ = start_as(mode, {"tuner", "join", "--tuner=127.0.0.1:9", "--state=member",
                             std::string("--sandbox=") + mode});
    await([&] { return said_by(mode).find(" dials ") != std::string::npos; });
    const bool tried =
        said_by(mode).find("models from elsewhere are imported in a sandbox first") !=
        std::string::npos;
    EXPECT_EQ(tried, mode != std::string("off"));
    TearDown();
    store_ = 0;
  }
}

}  // namespace
}  // namespace ndtrain
