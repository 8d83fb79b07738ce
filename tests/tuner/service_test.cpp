#include "tuner/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/memory_fs.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

struct Links final : LinkServer {
  std::string address() const override { return "here"; }
  void send(LinkId link, wire::ToStore m) override { sent.emplace_back(link, std::move(m)); }
  void close(LinkId) override {}

  std::vector<std::pair<LinkId, wire::ToStore>> sent;
};

// Tasks wait until run().
struct WaitingLanes final : Lanes {
  void start(size_t, Task task) override { tasks.push_back(std::move(task)); }
  void run() {
    while (!tasks.empty()) {
      const Task task = std::move(tasks.front());
      tasks.pop_front();
      if (const Continuation after = task()) after();
    }
  }
  std::deque<Task> tasks;
};

// Asks for rows that nobody sends here.
struct NoWork final : JobWork, RowSink {
  explicit NoWork(int& alive) : alive_(alive) { ++alive_; }
  ~NoWork() override { --alive_; }
  JobQuestion prepare() override { return {.row_bytes = 4}; }
  RowSink& sink() override { return *this; }
  void manifest(const Manifest&, const std::vector<std::string>&) override {}
  bool run(uint32_t) override { return true; }
  JobOutcome finish() override { return {}; }
  Result<std::vector<uint64_t>> open(const Manifest&) override { return std::vector<uint64_t>(); }
  Result<std::vector<Intake::BadRow>> keep(std::span<const Intake::Rows>) override {
    return std::vector<Intake::BadRow>();
  }
  int& alive_;
};
struct NoWorks final : JobWorks {
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string&, Progress&) override {
    EXPECT_EQ(alive, 0);
    return std::make_unique<NoWork>(alive);
  }
  int alive = 0;
};

class ServiceTest : public ::testing::Test {
 protected:
  void greet(LinkId link, const std::string& store) {
    service_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store(store);
    service_.handle({link, hello});
  }
  void say(LinkId link, wire::FromStore m) {
    m.set_term(me_.term);
    service_.handle({link, std::move(m)});
  }
  uint64_t submit() { return service_.submit({.model = to_hex(model_), .stores = 1}); }

  MemoryFs fs_;
  ManualClock clock_;
  StateDirectory state_ = StateDirectory::open(fs_, "state", "tuner").or_throw();
  Links links_;
  WaitingLanes lanes_;
  NoWorks works_;
  ModelStore models_{fs_, "state/models"};
  Versions versions_{fs_, "state/versions.json"};
  Digest model_ = models_.add("a model").or_throw();
  TunerIdentity me_ = state_.next_term(1).or_throw();
  TunerService service_{{fs_, clock_, state_, links_, lanes_, works_, models_, versions_}, me_};
};

TEST_F(ServiceTest, AJobInProgressCanBeCancelled) {
  const uint64_t job = submit();
  lanes_.run();
  service_.cancel(job);
  EXPECT_EQ(service_.job(job).state, JobState::kCancelled);
  service_.resume(job);
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
}

TEST_F(ServiceTest, AJobFailsBecauseOfWhatAStoreSaysAndTheNextOneBegins) {
  const uint64_t job = submit(), next = submit();
  lanes_.run();
  greet(1, "a");
  wire::FromStore m;
  m.mutable_refused()->set_job(job);
  m.mutable_refused()->set_reason("no space");
  say(1, m);
  service_.tick();
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message, HasSubstr("no space"));
  EXPECT_EQ(service_.job(next).state, JobState::kRunning);
}

// Both would have the same files open.
TEST_F(ServiceTest, AResumedJobBeginsWhenTheTasksOfItsFormerLifeAreOver) {
  const uint64_t job = submit();
  Continuation after = lanes_.tasks.front()();
  lanes_.tasks.clear();
  service_.cancel(job);
  service_.resume(job);
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kQueued);
  after();
  after = nullptr;
  service_.tick();
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
  EXPECT_EQ(works_.alive, 1);
}

TEST_F(ServiceTest, AFullDiskFailsTheJobAndTheTunerLivesOn) {
  const uint64_t job = submit();
  lanes_.run();
  greet(1, "a");
  fs_.set_capacity(0);
  wire::FromStore m;
  m.mutable_inventory()->set_job(job);
  m.mutable_inventory()->set_last(true);
  say(1, m);  // a manifest, which does not fit
  lanes_.run();
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  EXPECT_THAT(service_.job(job).message, HasSubstr("full"));
  EXPECT_THROW(service_.resume(job), Error);
  EXPECT_EQ(service_.job(job).state, JobState::kFailed);
  fs_.set_capacity(1 << 20);
  service_.resume(job);
  EXPECT_EQ(service_.job(job).state, JobState::kRunning);
}

// It died between the last part and giving the model its name.
TEST_F(ServiceTest, AStoreThatHasEveryByteOfAModelIsToldThatThisIsAll) {
  greet(1, "a");
  wire::FromStore m;
  m.mutable_model_wanted()->set_sha256(std::string(model_.begin(), model_.end()));
  m.mutable_model_wanted()->set_offset(7);
  say(1, m);
  ASSERT_TRUE(links_.sent.back().second.has_model_part());
  EXPECT_EQ(links_.sent.back().second.model_part().total(), 7U);
  EXPECT_EQ(links_.sent.back().second.model_part().bytes(), "");
  m.mutable_model_wanted()->set_offset(8);
  say(1, m);
  EXPECT_TRUE(links_.sent.back().second.has_refusal());
}

}  // namespace
}  // namespace ndtrain
