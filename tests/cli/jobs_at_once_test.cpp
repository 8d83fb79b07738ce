// Jobs that wait for each other, on the command line.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <csignal>

#include "tests/cli/site_fixture.h"
#include "tuner/jobs/job_conflict.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;

class JobsAtOnceVerbs : public testing_cli::SiteTest {
 protected:
  // A Tuner with these flags, where no store ever comes: jobs that begin wait for one.
  void serve(const std::vector<std::string>& flags) {
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    std::vector<std::string> words = {"tuner",  "serve",      "--state",
                                      "tuner",  "--listen",   "unix:" + at("link"),
                                      "--http", "127.0.0.1:0"};
    words.insert(words.end(), flags.begin(), flags.end());
    tuner_ = start_as("tuner", words);
    const std::string mark = "HTTP on ";
    const auto said = [&] { return said_by("tuner").find(mark); };
    ASSERT_TRUE(comes([&] { return said() != std::string::npos; })) << said_by("tuner");
    http_ = said_by("tuner").substr(said() + mark.size());
    http_ = http_.substr(0, http_.find('\n'));
  }
  Outcome run_at(std::vector<std::string> words) const {
    words.insert(words.end(), {"--http", http_});
    return run(words);
  }
  void submit(const std::string& kind) const {
    const Outcome o = run_at({"job", "submit", kind, "-m", "m.onnx", "--stores", "1"});
    ASSERT_EQ(o.code, 0) << o.err;
  }
  void end() const {
    kill(tuner_, SIGTERM);
    EXPECT_EQ(end_of(tuner_, "tuner").code, 0) << said_by("tuner");
  }

  pid_t tuner_ = 0;
  std::string http_;
};

TEST_F(JobsAtOnceVerbs, SayForWhomAJobWaitsAndWhy) {
  ASSERT_NO_FATAL_FAILURE(serve({}));
  for (const char* kind : {"finetune", "relabel", "finetune"}) submit(kind);
  const std::string list = run_at({"job", "ls"}).out;
  EXPECT_THAT(list, ContainsRegex("   1  finetune  running "));
  EXPECT_THAT(list, ContainsRegex("   2  relabel   running "));
  EXPECT_THAT(list, ContainsRegex("   3  finetune  queued .*waits for job 1: both train"));
  EXPECT_THAT(
      run_at({"job", "show", "3"}).out,
      HasSubstr("now        waits for job 1: both train, and a Tuner trains one at a time"));
  EXPECT_THAT(run_at({"job", "show", "2"}).out, Not(HasSubstr("waits for job")));
  end();
}

TEST_F(JobsAtOnceVerbs, OneAfterTheOtherWhereThatIsAskedFor) {
  ASSERT_NO_FATAL_FAILURE(serve({"--jobs-at-once", "1"}));
  for (const char* kind : {"finetune", "relabel"}) submit(kind);
  EXPECT_THAT(
      run_at({"job", "ls"}).out,
      ContainsRegex("   2  relabel   queued .*waits for job 1: as many jobs run as may, 1"));
  end();
}

TEST_F(JobsAtOnceVerbs, AsManyThatAreOverAreKeptAsAreAskedFor) {
  ASSERT_NO_FATAL_FAILURE(serve({"--keep-jobs", "2"}));
  for (const char* id : {"1", "2", "3", "4"}) {
    submit("finetune");
    if (*id == '1') run_at({"job", "note", id, "--name", "before the move"});
    EXPECT_EQ(run_at({"job", "cancel", id}).code, 0);
  }
  const std::string listed = run_at({"job", "ls"}).out;
  EXPECT_THAT(listed, Not(ContainsRegex("\n +2  finetune")));
  for (const char* id : {"1", "3", "4"}) {
    EXPECT_THAT(listed, ContainsRegex(std::string("\n +") + id + "  finetune"));
  }
  end();
  const Outcome o = run({"tuner", "serve", "--state", "x", "--keep-jobs", "0"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--keep-jobs 0: 1 or more"));
}

TEST_F(JobsAtOnceVerbs, ANumberThatIsNoneIsRefused) {
  for (const size_t n : {size_t{0}, tuner::kMostJobsAtOnce + 1}) {
    const Outcome o = run({"tuner", "serve", "--state", "x", "--jobs-at-once", std::to_string(n)});
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err,
                HasSubstr(fmt::format("--jobs-at-once {}: 1 to {}", n, tuner::kMostJobsAtOnce)));
  }
  ASSERT_NO_FATAL_FAILURE(serve({"--jobs-at-once", std::to_string(tuner::kMostJobsAtOnce)}));
  end();
}

}  // namespace
}  // namespace ndtrain
