#include "tuner/watch/watcher.h"

#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.h"
#include "tests/tuner/given_work.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain {
namespace {

using Json = nlohmann::json;
using testing::GivenWorks;
using testing::Links;
using testing::WaitingLanes;

class WatcherTest : public ::testing::Test {
 protected:
  // A person says so at this time.
  void truth(int i, int64_t time) {
    const int64_t collection = db_->collection(kDefaultCollection).or_throw();
    const std::string path = std::to_string(i);
    const std::vector<PhotoPlace> place = {{path, sha256(path)}};
    (void)db_->add_photos(collection, place).or_throw();
    const int64_t task = db_->task(kDefaultTask).or_throw();
    const Status s = set_label(*db_, collection, task, path, "rose", time);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  Json said() const { return Json::parse(watcher_.json()); }

  support::TemporaryDirectory directory_;
  std::string url_ = "sqlite:" + directory_.at("l.db");
  std::unique_ptr<LabelDb> db_ = open_label_db(url_).or_throw();
  MemoryFs fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "tuner").or_throw();
  Links links_;
  WaitingLanes lanes_, watching_;
  GivenWorks works_;
  ModelStore models_{fs_, "state/models"};
  Versions versions_{fs_, "state/versions.json"};
  Digest model_ = models_.add("a model").or_throw();
  TunerService service_{{fs_, clock_, state_, links_, lanes_, works_, models_, versions_},
                        state_.next_term(1).or_throw()};
  Watcher watcher_{{fs_, clock_, watching_, 0, service_, versions_, models_, "state/jobs", url_},
                   parse_watch_rule(R"({"labels": 2, "every_s": 1, "model": "base.onnx"})")};
};

TEST_F(WatcherTest, TruthsCountedBeforeATrainingEndedAreNotTrainedOnTwice) {
  truth(1, clock_.unix_seconds() - 1);
  truth(2, clock_.unix_seconds() - 1);
  works_.finish = [] { return JobOutcome(); };
  (void)service_.submit({.model = to_hex(model_)});

  watcher_.tick();
  ASSERT_EQ(watching_.tasks.size(), 1U);
  const Continuation looked = watching_.tasks.front()();  // the job has not ended yet
  watching_.tasks.clear();
  lanes_.run();
  ASSERT_EQ(service_.jobs().begin()->second.state, JobState::kDone);
  looked();
  EXPECT_EQ(watching_.tasks.size(), 0U) << "a training is to be submitted";

  watcher_.tick();
  watching_.run();
  EXPECT_EQ(said().at("due"), "nothing") << said();
  EXPECT_EQ(said().at("truths"), 0);
}

}  // namespace
}  // namespace ndtrain
