// Several tasks at one PipeStore: its log, its uploads, its versions in force.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "framework/core/publish.h"
#include "ndp/pipestore/shared_models.h"
#include "ndp/wire/digests.h"
#include "tests/pipestore/service_fixture.h"
#include "tests/pipestore/uploads_fixture.h"

namespace ndtrain::ndp {
namespace {

using ndtrain::testing::labels_of;
using ndtrain::testing::model_of;
using ndtrain::testing::photo_file;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kPersons = "persons";

wire::Upload line(int photo, const std::string& task) {
  wire::Upload line;
  line.set_digest(bytes_of(sha256(std::to_string(photo))));
  line.set_path(std::to_string(photo) + ".jpg");
  line.set_task(task);
  return line;
}
wire::Upload label(int photo, const std::string& task, uint64_t version, const std::string& name) {
  wire::Upload l = line(photo, task);
  l.set_version(version);
  l.add_top()->set_name(name);
  return l;
}
wire::Upload truth(int photo, const std::string& task, const std::string& name) {
  wire::Upload l = line(photo, task);
  l.set_truth(name);
  return l;
}

class LogOfTasks : public ::testing::Test {
 protected:
  void open() {
    log_.reset();
    log_ = UploadLog::open(fs_, "uploads").or_throw();
    log_->label_in({"default", kPersons});
  }
  std::string said(int photo, std::string_view task) const {
    const auto known = log_->find(sha256(std::to_string(photo)), task);
    if (!known) return "unknown";
    return std::to_string(known->version) + (known->top.empty() ? "" : known->top[0].name()) + "|" +
           known->truth;
  }

  MemoryFs fs_;
  std::unique_ptr<UploadLog> log_;
};

TEST_F(LogOfTasks, KeepsWhatIsSaidInEachApart) {
  open();
  log_->commit({line(1, ""), line(2, "")}).or_throw();
  log_->commit({label(1, "", 3, "rose"), label(1, kPersons, 4, "anna")}).or_throw();
  log_->commit({truth(1, kPersons, "berta"), label(2, kPersons, 4, "nobody")}).or_throw();
  log_->commit({label(1, kPersons, 5, "carla")}).or_throw();
  const Digest one = sha256("1"), two = sha256("2"), three = sha256("3");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(said(1, "default"), "3rose|");
    EXPECT_EQ(said(1, kPersons), "5carla|berta");
    EXPECT_EQ(said(2, "default"), "0|");
    EXPECT_EQ(said(2, kPersons), "4nobody|");
    EXPECT_EQ(said(3, kPersons), "unknown");
    EXPECT_EQ(log_->feedback(one).truth, "") << "of the default task";
    EXPECT_THAT(log_->tasks_of(one), UnorderedElementsAre("default", kPersons));
    EXPECT_THAT(log_->tasks_of(three), IsEmpty());
    EXPECT_THAT(log_->unlabelled({}, 9, "default"), ElementsAre(two));
    EXPECT_THAT(log_->unlabelled({}, 9, kPersons), IsEmpty());
    EXPECT_EQ(log_->counts().unlabelled, 1);
    EXPECT_EQ(log_->counts().photos, 2);
    if (i == 0) open();
    if (i == 1) log_->compact().or_throw();
  }
}

TEST_F(LogOfTasks, ANewTaskIsToLabelWhatOthersHaveLabelled) {
  open();
  log_->commit({label(1, "", 3, "rose"), label(2, "", 3, "rose")}).or_throw();
  log_->label_in({"default"});
  EXPECT_EQ(log_->counts().unlabelled, 0);
  EXPECT_THAT(log_->unlabelled({}, 9, kPersons), IsEmpty()) << "nothing is labelled in it";
  log_->label_in({"birds", "default", kPersons});
  EXPECT_EQ(log_->counts().unlabelled, 2) << "each photo once";
  log_->commit({label(1, "birds", 3, "finch")}).or_throw();
  EXPECT_EQ(log_->counts().unlabelled, 2);
  log_->commit({label(1, kPersons, 3, "anna")}).or_throw();
  EXPECT_EQ(log_->counts().unlabelled, 1);
  log_->label_in({"default", kPersons});
  EXPECT_EQ(log_->unlabelled({}, 9, kPersons).size(), 1U);
  EXPECT_EQ(log_->unlabelled({}, 1, kPersons).size(), 1U);
}

TEST_F(LogOfTasks, ADeletedPhotoHasNothingInAnyAndComesBackWithoutIt) {
  open();
  log_->commit({label(1, "", 3, "rose"), truth(1, kPersons, "berta")}).or_throw();
  wire::Upload removed = line(1, "");
  removed.set_removed(true);
  log_->commit({removed}).or_throw();
  for (int i = 0; i < 2; ++i, log_->compact().or_throw()) {
    EXPECT_EQ(said(1, "default"), "0|");
    EXPECT_EQ(said(1, kPersons), "0|");
    EXPECT_EQ(log_->counts().photos, 0);
    EXPECT_EQ(log_->counts().removed, 1);
    EXPECT_EQ(log_->counts().unlabelled, 0);
  }
}

TEST_F(LogOfTasks, OneThatIsForgottenLeavesThePhotosAndWhatOthersSay) {
  open();
  log_->commit({label(1, "", 3, "rose"), label(1, kPersons, 4, "anna")}).or_throw();
  log_->commit({label(2, kPersons, 4, "anna"), truth(2, kPersons, "berta")}).or_throw();
  log_->commit({truth(3, kPersons, "carla")}).or_throw();  // a photo that was never taken in
  log_->forget_task(kPersons, 4).or_throw();
  log_->commit({label(4, kPersons, 4, "anna"), label(4, "", 3, "rose")}).or_throw();  // late
  log_->label_in({"default"});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(said(1, "default"), "3rose|");
    EXPECT_EQ(said(1, kPersons), "0|");
    EXPECT_EQ(said(2, kPersons), "0|");
    EXPECT_EQ(said(3, kPersons), "unknown");
    EXPECT_EQ(said(4, kPersons), "0|");
    EXPECT_EQ(log_->counts().photos, 3);
    EXPECT_THAT(log_->unlabelled({}, 9, "default"), ElementsAre(sha256("2")));
    for (const UploadLog::Line& line : log_->after(0, 1 << 20)) {
      EXPECT_FALSE(line.other_task) << "nor does the Tuner hear of it";
    }
    if (i == 0) open();
    log_->label_in({"default"});
    if (i == 1) log_->compact().or_throw();
  }
  // Begun anew.
  log_->forget_task(kPersons, 4).or_throw();
  log_->commit({label(2, kPersons, 5, "dora")}).or_throw();
  EXPECT_EQ(said(2, kPersons), "5dora|");
}

class UploadsOfTasks : public ndtrain::testing::UploadsTest {
 protected:
  // Versions of one parity share an extractor.
  void version_of(const std::string& task, uint64_t number) {
    uploads_->put_in_force(task, [number] { return model_of(number); });
    await([&] { return uploads_->version(task) == number; });
  }
  void expect_labels(int photo, const std::string& task, uint64_t version) {
    const auto model = model_of(version);
    const auto known = uploads_->find(sha256(photo_file(photo)), task).or_throw().known;
    EXPECT_EQ(known.version, version) << task;
    ndtrain::testing::expect_label(known, labels_of(*model, {photo_file(photo)}).at(0));
  }
};

TEST_F(UploadsOfTasks, AreLabelledByEachAndAnExtractorThatTheyShareRunsOnce) {
  open();
  version_of("default", 1);
  version_of(kPersons, 3);
  EXPECT_THAT(uploads_->tasks(), ElementsAre("default", kPersons));
  uploads_->add(photo_file(1)).or_throw();
  expect_labels(1, "default", 1);
  expect_labels(1, kPersons, 3);
  EXPECT_EQ(uploads_->counts().online.batches, 1);
  version_of(kPersons, 2);  // by another extractor, and of other crops
  uploads_->add(photo_file(2)).or_throw();
  expect_labels(2, "default", 1);
  expect_labels(2, kPersons, 2);
  EXPECT_EQ(uploads_->counts().online.batches, 3);
  // Once more it is known, until one of them is another.
  uploads_->add(photo_file(2)).or_throw();
  EXPECT_EQ(uploads_->counts().online.batches, 3);
  version_of("default", 5);
  uploads_->add(photo_file(2)).or_throw();
  expect_labels(2, "default", 5);
}

TEST_F(UploadsOfTasks, AreLabelledByATaskThatComesLaterAlsoOverARestart) {
  open();
  version_of("default", 1);
  for (int i = 0; i < 5; ++i) uploads_->add(photo_file(i)).or_throw();
  version_of(kPersons, 3);
  const auto all_have = [&](const std::string& task) {
    for (int i = 0; i < 5; ++i) {
      const auto tasks = log_->tasks_of(sha256(photo_file(i)));
      if (std::ranges::find(tasks, task) == tasks.end()) return false;
    }
    return true;
  };
  await([&] { return all_have(kPersons); });
  for (int i = 0; i < 5; ++i) expect_labels(i, kPersons, 3);
  open();
  version_of("default", 1);
  version_of(kPersons, 3);
  version_of("birds", 5);
  await([&] { return all_have("birds"); });
  for (int i = 0; i < 5; ++i) expect_labels(i, "birds", 5);
}

TEST_F(UploadsOfTasks, WhatAPersonSaysIsOfOneTask) {
  open();
  version_of("default", 1);
  version_of(kPersons, 3);
  const Digest id = uploads_->add(photo_file(1)).or_throw().id;
  EXPECT_EQ(uploads_->say(id, "anna", kPersons).or_throw().known.truth, "anna");
  EXPECT_EQ(uploads_->find(id).or_throw().known.truth, "");
  EXPECT_EQ(uploads_->say(id, "rose").or_throw().known.truth, "rose");
  EXPECT_EQ(uploads_->find(id, kPersons).or_throw().known.truth, "anna");
}

TEST_F(UploadsOfTasks, WhereOneIsTakenAwayItsModelIsLetGoOfAndNothingIsLabelledInIt) {
  open();
  version_of("default", 1);
  std::weak_ptr<OnlineModel> model;
  uploads_->put_in_force(kPersons, [&model] {
    const auto made = model_of(3);
    model = made;
    return made;
  });
  await([&] { return uploads_->version(kPersons) == 3; });
  uploads_->add(photo_file(1)).or_throw();
  EXPECT_FALSE(model.expired());
  uploads_->put_in_force(kPersons, [] { return nullptr; });
  await([&] { return model.expired(); });
  EXPECT_THAT(uploads_->tasks(), ElementsAre("default"));
  log_->forget_task(kPersons, 3).or_throw();
  const Digest id = uploads_->add(photo_file(2)).or_throw().id;
  EXPECT_THAT(log_->tasks_of(id), ElementsAre("default"));
  EXPECT_EQ(uploads_->find(sha256(photo_file(1)), kPersons).or_throw().known.version, 0U);
  EXPECT_EQ(uploads_->find(sha256(photo_file(1))).or_throw().known.version, 1U);
}

TEST_F(UploadsOfTasks, OneThatIsTakenAwayWhileItsVersionIsLoadedLabelsNothing) {
  open();
  std::promise<void> loading, taken_away;
  uploads_->put_in_force(kPersons, [&] {
    loading.set_value();
    taken_away.get_future().wait();
    return model_of(3);
  });
  loading.get_future().wait();
  uploads_->put_in_force(kPersons, [] { return nullptr; });
  std::vector<std::string> meanwhile = {"not asked"};
  uploads_->put_in_force("default", [&] {  // before the other is
    meanwhile = uploads_->tasks();
    return model_of(1);
  });
  taken_away.set_value();
  await([&] { return uploads_->version() == 1; });
  EXPECT_THAT(meanwhile, IsEmpty());
  EXPECT_THAT(uploads_->tasks(), ElementsAre("default"));
}

TEST_F(UploadsOfTasks, APhotoThatIsMovedKeepsItsLabelsInAll) {
  photos_ = directory_.at("photos");
  open();
  version_of("default", 1);
  version_of(kPersons, 3);
  publish(fs_, join(photos_, "a.jpg"), photo_file(1)).or_throw();
  const Digest id = sha256(photo_file(1));
  const FoundPhoto found{id, "a.jpg", true}, moved{id, "b.jpg", false};
  uploads_->take_in({&found, 1}).or_throw();
  await([&] { return log_->counts().photos == 1 && log_->counts().unlabelled == 0; });
  fs_.remove(join(photos_, "a.jpg")).or_throw();
  publish(fs_, join(photos_, "b.jpg"), photo_file(1)).or_throw();
  uploads_->take_in({&moved, 1}).or_throw();
  for (const auto& [task, version] : {std::pair("default", 1U), std::pair(kPersons, 3U)}) {
    EXPECT_EQ(log_->find(id, task)->path, "b.jpg");
    EXPECT_EQ(log_->find(id, task)->version, version);
  }
}

class ExtractorsOfTasks : public UploadsOfTasks {
 protected:
  void sharing(const std::string& task, uint64_t number) {
    uploads_->put_in_force(task, [this, number] { return model_of(number, {}, &extractors_); });
    await([&] { return uploads_->version(task) == number; });
  }

  SharedExtractors extractors_;
};

TEST_F(ExtractorsOfTasks, AreHeldOnceForAllThatShareThemAndGoWithTheLast) {
  open();
  sharing("default", 1);
  sharing(kPersons, 3);
  sharing("birds", 5);
  EXPECT_EQ(extractors_.held(), 1U);
  const Engine* const engine = &model_of(9, {}, &extractors_)->network->engine();
  uploads_->add(photo_file(1)).or_throw();
  for (const auto& [task, version] :
       {std::pair("default", 1U), std::pair(kPersons, 3U), std::pair("birds", 5U)}) {
    expect_labels(1, task, version);
  }
  sharing(kPersons, 2);  // with another
  EXPECT_EQ(extractors_.held(), 2U);
  uploads_->put_in_force(kPersons, [] { return nullptr; });
  await([&] { return extractors_.held() == 1; });
  sharing("default", 7);
  EXPECT_EQ(&model_of(9, {}, &extractors_)->network->engine(), engine) << "nor is it made again";
  close();
  EXPECT_EQ(extractors_.held(), 0U);
}

// A store to which versions of one file are published.
class VersionsOfTasks : public ndtrain::testing::StoreServiceTest {
 protected:
  void publish(uint64_t version, const std::string& task) {
    wire::ToStore m;
    m.set_term(1);
    m.mutable_publish()->set_version(version);
    m.mutable_publish()->set_task(task);
    if (version == 0) return service_.handle({link_, m});
    const Digest extractor = sha256("an extractor");
    ndtrain::publish(fs_, service_.model_path(extractor), "an extractor").or_throw();
    m.mutable_publish()->set_extractor(bytes_of(extractor));
    service_.handle({link_, m});
    lanes_.run();
  }
  // What it says when it comes again.
  wire::Hello hello() {
    service_.handle({link_, LinkClosed{"gone"}});
    sent_.clear();
    while (link_ == connected_) {
      clock_.advance(std::chrono::seconds(1));
      service_.tick();
    }
    service_.handle({link_, LinkOpened{"the Tuner", ""}});
    return sent_.at(0).hello();
  }
};

TEST_F(VersionsOfTasks, AreInForceBesideEachOtherAndSoAfterARestart) {
  connect();
  publish(1, "");
  publish(2, kPersons);
  publish(3, kPersons);
  ASSERT_TRUE(sent_.back().has_in_force());
  EXPECT_EQ(sent_.back().in_force().task(), kPersons);
  EXPECT_EQ(sent_.back().in_force().version(), 3U);
  const auto in_force = [](const PipeStoreService& s) {
    std::map<std::string, uint64_t> all;
    for (const auto& [task, v] : s.in_force()) all[task] = v.version;
    return all;
  };
  const std::map<std::string, uint64_t> expected = {{"default", 1}, {kPersons, 3}};
  EXPECT_EQ(in_force(service_), expected);
  const wire::Hello h = hello();
  EXPECT_EQ(h.version_in_force(), 1U);
  ASSERT_EQ(h.tasks_size(), 1);
  EXPECT_EQ(h.tasks(0).task(), kPersons);
  EXPECT_EQ(h.tasks(0).version(), 3U);
  const PipeStoreService again({fs_, clock_, state_, lanes_, producer_, {}}, {}, 1);
  EXPECT_EQ(in_force(again), expected);
}

TEST_F(VersionsOfTasks, OfOneThatIsTakenAwayNoneIsInForceAndNothingIsKnown) {
  connect();
  publish(1, "");
  publish(2, kPersons);
  log_->commit({label(1, kPersons, 2, "anna"), label(1, "", 1, "rose")}).or_throw();
  publish(0, kPersons);
  EXPECT_EQ(service_.in_force().count(kPersons), 1U) << "first what is known in it goes";
  lanes_.run();
  EXPECT_EQ(service_.in_force().count(kPersons), 0U);
  ASSERT_TRUE(sent_.back().has_in_force());
  EXPECT_EQ(sent_.back().in_force().task(), kPersons);
  EXPECT_EQ(sent_.back().in_force().version(), 0U);
  EXPECT_THAT(log_->tasks_of(sha256("1")), ElementsAre("default"));
  const wire::Hello h = hello();
  EXPECT_EQ(h.version_in_force(), 1U);
  EXPECT_EQ(h.tasks_size(), 0);
  const PipeStoreService again({fs_, clock_, state_, lanes_, producer_, {}}, {}, 1);
  EXPECT_EQ(again.in_force().count(kPersons), 0U);
}

TEST_F(VersionsOfTasks, OneIsTakenAwayAgainWhereTheDiskWasFull) {
  connect();
  publish(2, kPersons);
  log_->commit({label(1, kPersons, 2, "anna")}).or_throw();
  fs_.set_capacity(0);
  publish(0, kPersons);
  lanes_.run();
  EXPECT_EQ(service_.in_force().at(kPersons).version, 2U);
  fs_.set_capacity(1 << 20);
  clock_.advance(service_.next() - clock_.monotonic());
  service_.tick();
  lanes_.run();
  EXPECT_EQ(service_.in_force().count(kPersons), 0U);
}

TEST_F(VersionsOfTasks, OneThatIsBegunAnewMeanwhileGetsItsVersion) {
  connect();
  publish(2, kPersons);
  publish(0, kPersons);
  publish(5, kPersons);
  lanes_.run();
  EXPECT_EQ(service_.in_force().at(kPersons).version, 5U);
}

TEST_F(VersionsOfTasks, WhatIsSaidInOneIsNotToldToATunerThatKnowsNone) {
  connect(ndtrain::testing::WelcomedStore::welcome(kSpeaksOfTasks - 1));
  log_->commit({label(1, "", 3, "rose")}).or_throw();
  log_->commit({truth(1, kPersons, "anna")}).or_throw();
  log_->commit({label(2, "", 3, "rose")}).or_throw();
  service_.tick();
  EXPECT_THAT(sent(), ElementsAre(1U)) << "the others wait, in their order";
  service_.handle({link_, LinkClosed{"gone"}});
  connect();
  EXPECT_THAT(sent(), ElementsAre(1U, 2U, 3U));
}

}  // namespace
}  // namespace ndtrain::ndp
