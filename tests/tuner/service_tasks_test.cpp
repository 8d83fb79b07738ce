// Several tasks and collections at one Tuner: which stores run what, take part in what, and what
// they say in which.
#include <gmock/gmock.h>

#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "tests/deltas/some_model.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::drawn;
using ::testing::HasSubstr;
using testing::some_model;
using Told = std::map<std::string, uint64_t>;  // versions, by task

std::string refusal_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

class ServiceTasksTest : public testing::ServiceTest {
 protected:
  PublishedModel publish(const std::string& task, uint64_t seed) {
    Model m = some_model();
    m.initialisers["fc.w"] = drawn(DType::kF32, {10, 32}, Rng(seed, "fc"));
    const Digest head = models_.add(export_model(m)).or_throw();
    if (task == "birds" && !birds_head_) birds_head_ = head;
    const PublishedModel v = service_.publish_version(
        {.task = task, .extractor = model_, .head = head}, /*production=*/true);
    lanes_.run();
    return v;
  }
  wire::Hello hello(const std::string& store) const {
    wire::Hello h;
    h.add_protocols(kProtocols[0]);
    h.set_store(store);
    return h;
  }
  // What a store that comes is told to put in force, by task.
  Told told(LinkId link, const wire::Hello& hello) {
    const size_t before = links_.sent.size();
    service_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore m;
    *m.mutable_hello() = hello;
    service_.handle({link, m});
    return told_since(before);
  }
  Told told_since(size_t before) const {
    Told all;
    for (size_t i = before; i < links_.sent.size(); ++i) {
      const wire::ToStore& m = links_.sent[i].second;
      if (m.has_publish()) all[m.publish().task()] = m.publish().version();
    }
    return all;
  }
  JobSpec relabel(const std::string& task, const std::string& collection) const {
    return {.kind = JobKind::kRelabel, .task = task, .collection = collection};
  }

  std::optional<Digest> birds_head_;  // of the first version
};

TEST_F(ServiceTasksTest, AStoreHasAVersionOfEachTaskInForce) {
  publish("default", 1);
  publish("birds", 2);
  EXPECT_EQ(told(1, hello("a")), (Told{{"", 1}, {"birds", 2}}));
  wire::FromStore m;
  m.mutable_in_force()->set_version(2);
  m.mutable_in_force()->set_task("birds");
  say(1, m);
  EXPECT_EQ(service_.stores().at(0).version_in_force("birds"), 2U);
  EXPECT_EQ(service_.stores().at(0).version_in_force(), 0U);
  EXPECT_TRUE(service_.stores().at(0).runs(2));
  EXPECT_THAT(refusal_of([&] { service_.remove_version(2); }), HasSubstr("version 2"));
  // One that comes with what it should have is told nothing.
  wire::Hello h = hello("b");
  h.set_version_in_force(1);
  h.add_tasks()->set_task("birds");
  h.mutable_tasks(0)->set_version(2);
  EXPECT_EQ(told(2, h), Told());
}

TEST_F(ServiceTasksTest, AStoreOfAnOlderProgramRunsTheDefaultTaskAlone) {
  publish("default", 1);
  publish("birds", 2);
  wire::Hello old = hello("a");
  old.set_protocols(0, kSpeaksOfTasks - 1);
  EXPECT_EQ(told(1, old), (Told{{"", 1}}));
}

TEST_F(ServiceTasksTest, ATaskLabelsPhotosOfTheCollectionsThatItsJobsWereFor) {
  publish("default", 1);
  publish("birds", 2);
  wire::Hello garden = hello("a");
  garden.set_collection("garden");
  EXPECT_EQ(told(1, garden), Told()) << "both were made for the default collection";
  EXPECT_EQ(service_.stores().at(0).collection, "garden");
  const size_t before = links_.sent.size();
  JobSpec dry = relabel("birds", "garden");
  dry.dry_run = true;
  service_.submit(dry);
  EXPECT_EQ(told_since(before), Told());
  service_.submit(relabel("birds", "garden"));
  EXPECT_EQ(told_since(before), (Told{{"birds", 2}}));
  EXPECT_EQ(versions_.collections("birds"), (std::set<std::string>{"default", "garden"}));
  const Versions again(fs_, "state/versions.json");
  EXPECT_EQ(again.collections("birds"), versions_.collections("birds"));
}

TEST_F(ServiceTasksTest, AJobIsOfTheStoresOfItsCollection) {
  publish("default", 1);
  wire::Hello garden = hello("a");
  garden.set_collection("garden");
  told(1, garden);
  told(2, hello("b"));
  EXPECT_THAT(refusal_of([&] { service_.submit(relabel("default", "gardn")); }),
              ::testing::AllOf(HasSubstr("'gardn'"), HasSubstr("default, garden")));
  JobSpec named = relabel("default", "garden");
  named.stores.names = {"b"};
  EXPECT_THAT(
      refusal_of([&] { service_.submit(named); }),
      HasSubstr("store 'b' has photos of the collection default, and the job is of garden"));
  const size_t before = links_.sent.size();
  service_.submit(relabel("default", "garden"));
  service_.tick();
  lanes_.run();
  std::set<LinkId> asked;
  for (size_t i = before; i < links_.sent.size(); ++i) {
    if (links_.sent[i].second.has_job()) asked.insert(links_.sent[i].first);
  }
  EXPECT_EQ(asked, std::set<LinkId>{1});
}

TEST_F(ServiceTasksTest, AreTakenAwayFromStoresThatAreHereAndFromOthersWhenTheyComeBack) {
  publish("default", 1);
  publish("birds", 2);
  const auto with_birds = [this](const std::string& store) {
    wire::Hello h = hello(store);
    h.set_version_in_force(1);
    h.add_tasks()->set_task("birds");
    h.mutable_tasks(0)->set_version(2);
    return h;
  };
  EXPECT_EQ(told(1, with_birds("a")), Told());
  size_t before = links_.sent.size();
  service_.remove_task("birds");
  EXPECT_EQ(told_since(before), (Told{{"birds", 0}}));
  EXPECT_EQ(links_.sent.back().second.publish().extractor(), "");
  EXPECT_EQ(told(2, with_birds("was-away")), (Told{{"birds", 0}}));
  wire::FromStore let_go;
  let_go.mutable_in_force()->set_task("birds");
  before = links_.sent.size();
  say(1, let_go);
  EXPECT_EQ(told_since(before), Told());
  EXPECT_EQ(service_.stores().at(0).in_force, (std::map<std::string, uint64_t>{{"default", 1}}));
  lanes_.run();
  service_.tick();
  EXPECT_EQ(versions_.garbage().size(), 0U);
  EXPECT_FALSE(models_.has(*birds_head_)) << "nobody needs its file any more";

  // Begun anew, stores of its former life let go of that first.
  const uint64_t anew = publish("birds", 3).version;
  before = links_.sent.size();
  EXPECT_EQ(told(3, with_birds("away-for-long")), (Told{{"birds", 0}}));
  say(3, let_go);
  EXPECT_EQ(told_since(before), (Told{{"birds", anew}}));
}

TEST_F(ServiceTasksTest, TheDefaultOneStaysAndSoDoesOneOfWhichAJobIsOpen) {
  publish("default", 1);
  publish("birds", 2);
  told(1, hello("a"));
  EXPECT_THAT(refusal_of([&] { service_.remove_task("default"); }),
              HasSubstr("meant wherever none is named"));
  const uint64_t job = service_.submit(relabel("birds", "default"));
  EXPECT_THAT(refusal_of([&] { service_.remove_task("birds"); }),
              HasSubstr("job " + std::to_string(job) + " is of the task birds"));
  EXPECT_EQ(versions_.in_force("birds")->version, 2U);
  service_.cancel(job);
  lanes_.run();
  service_.tick();
  EXPECT_EQ(service_.objection_to_removing("birds"), "");
  service_.remove_task("birds");
  EXPECT_TRUE(versions_.is_gone("birds"));
}

TEST_F(ServiceTasksTest, OnAFullDiskATaskIsAsBefore) {
  publish("birds", 2);
  fs_.set_capacity(0);
  EXPECT_THAT(refusal_of([&] { service_.remove_task("birds"); }),
              HasSubstr("the task birds is as before"));
  EXPECT_FALSE(versions_.is_gone("birds"));
}

TEST_F(ServiceTasksTest, AreNoMoreThanAStoreCanBeToldOf) {
  for (int64_t i = 0; i < wire::kMostTasks; ++i) {
    versions_.add({.task = "task " + std::to_string(i), .extractor = model_, .head = model_}, false)
        .or_throw();
  }
  JobSpec spec{.model = to_hex(model_), .stores = 1};
  spec.task = "one more";
  EXPECT_THAT(refusal_of([&] { service_.submit(spec); }),
              ::testing::AllOf(HasSubstr("task 'one more'"), HasSubstr("64")));
  spec.task = "task 0";
  EXPECT_GT(service_.submit(spec), 0U);
}

}  // namespace
}  // namespace ndtrain::tuner
