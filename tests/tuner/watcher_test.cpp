#include "tuner/watch/watcher.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.h"
#include "tests/tuner/given_work.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::GivenWorks;
using testing::Links;
using testing::WaitingLanes;

class WatcherTest : public ::testing::Test {
 protected:
  // A person says so at this time.
  void human_label(int i, int64_t time) {
    const int64_t collection = db_->collection(kDefaultCollection).or_throw();
    const std::string path = std::to_string(i);
    const std::vector<PhotoPlace> place = {{path, sha256(path)}};
    (void)db_->add_photos(collection, place).or_throw();
    const int64_t task = db_->task(kDefaultTask).or_throw();
    const Status s = set_label(*db_, collection, task, path, "rose", time);
    ASSERT_TRUE(s.ok()) << s.message();
  }
  // A label of the version in the database that is called `content`.
  void stale_label(int i, const std::string& content) {
    const int64_t collection = db_->collection(kDefaultCollection).or_throw();
    const int64_t task = db_->task(kDefaultTask).or_throw();
    const std::string path = std::to_string(i);
    const std::vector<PhotoPlace> place = {{path, sha256(path)}};
    LabelBatch batch{.task = task,
                     .source = LabelSource::kModel,
                     .version = db_->version(task, {.content = sha256(content)}).or_throw()};
    batch.labels.push_back(
        {.photo = db_->add_photos(collection, place).or_throw()[0],
         .class_id = db_->class_ids(task, std::vector<std::string>{"rose"}).or_throw()[0],
         .score = .5,
         .time = clock_.unix_seconds()});
    (void)db_->put_labels(batch).or_throw();
  }
  // A store comes, with a photo.
  void greet(LinkId link, const std::string& store) {
    service_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store(store);
    hello.mutable_hello()->set_photos(1);
    service_.handle({link, hello});
  }
  // When the rule says; the kinds of the jobs that there are then.
  std::string look() { return look(watcher_); }
  std::string look(Watcher& watcher) {
    clock_.advance(std::chrono::seconds(2));
    watcher.tick();
    watching_.run();
    lanes_.run();
    std::string jobs;
    for (const auto& [id, job] : service_.jobs()) jobs += std::string(name_of(job.spec.kind)) + " ";
    return jobs;
  }
  nlohmann::json said() const { return nlohmann::json::parse(watcher_.json()); }

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

TEST_F(WatcherTest, HumanLabelsCountedBeforeATrainingEndedAreNotTrainedOnTwice) {
  human_label(1, clock_.unix_seconds() - 1);
  human_label(2, clock_.unix_seconds() - 1);
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

TEST_F(WatcherTest, ARuleWhoseTaskWasTakenAwayRestsUntilItIsBegunAnew) {
  Watcher rule({fs_, clock_, watching_, 0, service_, versions_, models_, "state/jobs", url_},
               parse_watch_rule(R"({"labels": 1, "every_s": 1, "job": {"task": "mood"}})"));
  const auto look_again = [&] {
    clock_.advance(std::chrono::seconds(2));
    rule.tick();
    const size_t looks = watching_.tasks.size();
    watching_.run();
    return looks;
  };
  PublishedModel m{.task = "mood", .content = sha256("v1"), .extractor = model_, .head = model_};
  (void)versions_.add(m, true).or_throw();
  (void)db_->task("mood").or_throw();
  EXPECT_EQ(look_again(), 1U);
  service_.remove_task("mood");
  EXPECT_EQ(look_again(), 0U);
  EXPECT_THAT(nlohmann::json::parse(rule.json()).at("failure").get<std::string>(),
              ::testing::HasSubstr("the task mood was taken away"));
  (void)versions_.add(m, true).or_throw();
  EXPECT_EQ(look_again(), 1U);
}

TEST_F(WatcherTest, AStoreThatARelabellingDidWithoutGetsAnotherOnceItIsBack) {
  (void)versions_.add({.content = sha256("v1"), .extractor = model_, .head = model_}, true)
      .or_throw();
  stale_label(1, "v0");
  greet(1, "cellar");
  works_.finish = [] {
    return JobOutcome{
        .result = R"({"left_out_stores":[{"store":"attic","photos":1,"why":"away for 30 s"}]})"};
  };
  EXPECT_EQ(look(), "relabel ");
  EXPECT_EQ(look(), "relabel ") << "the store is away";
  greet(2, "attic");
  service_.drain("attic", true);
  EXPECT_EQ(look(), "relabel ") << "it would be left out again";
  service_.drain("attic", false);
  works_.finish = [] { return JobOutcome(); };
  EXPECT_EQ(look(), "relabel relabel ");
  EXPECT_EQ(said().at("submitted").at("why"),
            "store attic is here, which the last relabelling did without");
  EXPECT_EQ(look(), "relabel relabel ") << "it took part";
}

// Three stores have a photo each, of which the database has one, with a label.
TEST_F(WatcherTest, PhotosThatStoresHaveAndThatHaveNoLabelGetOne) {
  Watcher rule({fs_, clock_, watching_, 0, service_, versions_, models_, "state/jobs", url_},
               parse_watch_rule(R"({"missing": 2, "every_s": 1})"));
  human_label(1, clock_.unix_seconds());
  works_.finish = [] { return JobOutcome(); };
  greet(1, "attic");
  greet(2, "barn");
  EXPECT_EQ(look(rule), "") << "there is no version to label by";
  (void)versions_.add({.content = sha256("v1"), .extractor = model_, .head = model_}, true)
      .or_throw();
  EXPECT_EQ(look(rule), "") << "one of two has a label";
  greet(3, "cellar");
  service_.drain("cellar", true);
  EXPECT_EQ(look(rule), "") << "it is given no work";
  service_.drain("cellar", false);
  EXPECT_EQ(look(rule), "relabel ");
  const JobSpec& spec = service_.jobs().begin()->second.spec;
  EXPECT_EQ(spec.only, RelabelOnly::kMissing);
  const nlohmann::json seen = nlohmann::json::parse(rule.json());
  EXPECT_EQ(seen.at("submitted").at("kind"), "label");
  EXPECT_EQ(seen.at("submitted").at("why"), "2 of 3 photos have no label");
  clock_.advance(std::chrono::hours(2));
  EXPECT_EQ(look(rule), "relabel ") << "that one could not label them";
  EXPECT_EQ(nlohmann::json::parse(rule.json()).at("photos"), 3) << "as before";
}

}  // namespace
}  // namespace ndtrain::tuner
