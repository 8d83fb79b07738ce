// `ndtrain finetune` and `ndtrain pipestore PORT`: one job, without a Tuner that stays.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>
#include <utility>

#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

// As NDPipe's own programs are called: the Tuner for one job, the stores by its port.
class FinetuneVerb : public testing_cli::SiteTest {
 protected:
  void TearDown() override {
    for (const pid_t child : {store_, tuner_}) {
      if (child == 0) continue;
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    SiteTest::TearDown();
  }
  void start_both(const std::string& stores, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {
        "finetune",  "-m", "m.onnx", "-n", stores, "-r",     "2",      "-p",
        "0",         "-o", "tuned",  "-e", "1",    "--head", "linear", "--cache-bytes",
        cache_bytes_};
    words.insert(words.end(), more.begin(), more.end());
    tuner_ = start_as("tuner", words);
    const std::string mark = " on 127.0.0.1:";
    const auto port_at = [&] { return said_by("tuner").find(mark); };
    ASSERT_TRUE(comes([&] { return port_at() != std::string::npos; }));
    std::string port = said_by("tuner").substr(port_at() + mark.size());
    port = port.substr(0, port.find(';'));
    setenv("TUNER_IP", "127.0.0.1", 1);
    store_ = start_as("store", {"pipestore", port, "--photos", "photos", "--state", "state",
                                "--name", "attic", "--labels", "folder"});
    unsetenv("TUNER_IP");
  }

  std::string cache_bytes_ = "1G";
  pid_t tuner_ = 0, store_ = 0;
};

TEST_F(FinetuneVerb, KeepsFeaturesForTheNextJobOrNone) {
  draw_photos(12);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  for (const auto& [bytes, kept] : {std::pair("1G", true), {"0", false}}) {
    cache_bytes_ = bytes;
    ASSERT_NO_FATAL_FAILURE(start_both("1"));
    const Outcome o = end_of(std::exchange(tuner_, 0), "tuner");
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_EQ(real_fs().exists(at("tuned/features")), kept);
    kill(store_, SIGKILL);
    waitpid(std::exchange(store_, 0), nullptr, 0);
    std::filesystem::remove_all(at("tuned"));
    std::filesystem::remove_all(at("state"));
  }
}

TEST_F(FinetuneVerb, HasStoresMakeViews) {
  draw_photos(24);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  ASSERT_NO_FATAL_FAILURE(start_both("1", {"--augment", "crop,flip", "--views", "3", "--json"}));
  const Outcome o = end_of(std::exchange(tuner_, 0), "tuner");
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json result = nlohmann::json::parse(o.out);
  EXPECT_EQ(result.at("views"), 3);
  const auto made = result.at("report").at("made_from").at("photos").get<int>();
  EXPECT_EQ(made, 3 * result.at("train_photos").get<int>() + result.at("val_photos").get<int>());
}

TEST_F(FinetuneVerb, BeginsOnCtrlCWithTheStoresThatAreHere) {
  draw_photos(12);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  start_both("2");
  ASSERT_TRUE(comes([&] {
    return said_by("tuner").find("waits for 1 store that has not dialled yet") != std::string::npos;
  }));
  kill(tuner_, SIGINT);
  const Outcome o = end_of(std::exchange(tuner_, 0), "tuner");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("begins without waiting for stores that are not ready"),
                           HasSubstr("12 photos of 2 classes on 1 store"), HasSubstr("run 2/2: ")));
  EXPECT_THAT(o.out, ::testing::ContainsRegex("model +tuned/model.onnx\n"));
  EXPECT_EQ(run({"eval", "tuned/model.onnx", "--data", "photos"}).code, 0);
  EXPECT_THAT(said_by("store"), HasSubstr("PipeStore attic dials 127.0.0.1:"));
}

}  // namespace
}  // namespace ndtrain
