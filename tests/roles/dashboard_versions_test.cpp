// Versions on the dashboard: which is in force, what another would change, what each is worth.
#include "tests/http/raw_http.h"
#include "tests/roles/dashboard_fixture.h"
#include "tuner/models/model_store.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::Browser;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DashboardVersions : public testing::DashboardTest {
 protected:
  Json aliases(int version) const { return get("/versions/" + std::to_string(version))["aliases"]; }
  // Two of the default task, both once in force, and two of birds, the first in force.
  void publish_by_hand() {
    tuner_.reset();
    const Digest base =
        ModelStore(real_fs(), at("tuner/models")).add_file(at("base.onnx")).or_throw();
    Versions versions(real_fs(), at("tuner/versions.json"));
    for (int i = 1; i <= 4; ++i) {
      (void)versions
          .add({.task = i <= 2 ? std::string(kDefaultTask) : "birds",
                .content = sha256(std::to_string(i)),
                .extractor = base,
                .head = base,
                .classes = {"a", i % 2 == 0 ? "<b>" : "c"}},
               i != 4)
          .or_throw();
    }
    start_tuner();
  }
};

TEST_F(DashboardVersions, ArePutInForceAndRolledBackOnceItIsSaidWhatChanges) {
  EXPECT_THAT(refusal("/versions/rollback"), ::testing::Pair(400, HasSubstr("no version")));
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(2);
  train_and_relabel(6);
  EXPECT_EQ(get("/versions/rollback"), (Json{{"task", "default"}, {"from", 2}, {"to", 1}}));
  Browser b;
  b.open("http://" + tuner_->http() + "/#versions");
  ASSERT_TRUE(says(b, "#classes_title", "Version 2, in force"));
  enter(b, "#version_list article:nth-child(2) button");
  ASSERT_TRUE(says(b, "#confirm_about", "Instead of version 2"));
  const Json diff = get("/labels/diff?from=2&to=1");
  EXPECT_THAT(
      text(b, "#confirm_about"),
      AllOf(HasSubstr("Top-1 when trained"), HasSubstr("on the same photos"),
            HasSubstr("What stores fetch"), HasSubstr(diff["changed"].dump() + " of 60 differ")));
  keep(b, "dashboard_promotion.png");
  enter(b, "#confirm_leave");
  EXPECT_TRUE(b.await("!document.querySelector('#confirm').open"));
  EXPECT_THAT(aliases(2), ::testing::Contains("production")) << "nothing has changed yet";

  enter(b, "#version_list article:nth-child(2) button");
  enter(b, "#confirm_do");
  await([&] { return get("/stores")[0]["version_in_force"] == 1; });
  EXPECT_TRUE(says(b, "#versions_said", "Version 1 is in force"));
  EXPECT_TRUE(says(b, "#classes_title", "Version 1, in force"));
  enter(b, "#roll_back");
  ASSERT_TRUE(says(b, "#confirm_title", "Go back to version 2?"));
  enter(b, "#confirm_do");
  await([&] { return get("/stores")[0]["version_in_force"] == 2; });
  EXPECT_TRUE(says(b, "#classes_title", "Version 2, in force"));
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(DashboardVersions, OfSeveralTasksAreShownAndChangedOneTaskAtATime) {
  publish_by_hand();
  EXPECT_EQ(get("/versions/rollback"), (Json{{"task", "default"}, {"from", 2}, {"to", 1}}));
  EXPECT_EQ(refusal("/versions/rollback?task=birds").first, 400) << "nothing was before";
  support::RawHttp raw(tuner_->http());
  raw.say("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(raw.hear("event: versions\ndata: {\"birds\":{\"candidate\":4,\"production\":3},"
                       "\"default\":{\"candidate\":2,\"production\":2}}\n\n"),
              HasSubstr("text/event-stream"));
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  Browser b;
  b.open("http://" + tuner_->http() + "/#versions");
  EXPECT_TRUE(b.await("document.querySelectorAll('#version_list article').length === 2"));
  ASSERT_TRUE(b.await("!document.querySelector('#task_choice').hidden"));
  EXPECT_THAT(text(b, "#version_list"), HasSubstr("Version 2"));
  b.value(
      "{const n = document.querySelector('#task'); n.value = 'birds';"
      " n.dispatchEvent(new Event('change'))}");
  EXPECT_TRUE(says(b, "#version_list", "Version 4"));
  EXPECT_THAT(text(b, "#version_list"), ::testing::Not(HasSubstr("Version 2")));
  enter(b, "#version_list article:nth-child(1) button");
  ASSERT_TRUE(says(b, "#confirm_about", "Instead of version 3"));
  EXPECT_THAT(text(b, "#confirm_about"), HasSubstr("Classes that it adds<b>"));
  enter(b, "#confirm_do");
  await([&] { return aliases(4).size() == 2; });
  EXPECT_THAT(aliases(2), ::testing::Contains("production")) << "of the other task";
  EXPECT_TRUE(says(b, "#versions_said", "Version 4 is in force"));
  enter(b, "#roll_back");
  ASSERT_TRUE(says(b, "#confirm_title", "Go back to version 3?"));
  enter(b, "#confirm_do");
  await([&] { return aliases(3).size() == 1; });
  EXPECT_THAT(aliases(2), ::testing::Contains("production"));
  b.open("http://" + tuner_->http() + "/?again#versions");
  EXPECT_TRUE(says(b, "#version_list", "Version 3"));
  EXPECT_TRUE(b.await("document.querySelector('#task').value === 'birds'"))
      << "also after a reload";
}

TEST_F(DashboardVersions, AreSaidToKnowEachClassAsWellAsTheirConfusionHasIt) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(3);
  const Json row = get("/labels?limit=1")["rows"][0];
  const std::string said = row["label"];
  ASSERT_EQ(client_->put("/labels/" + row["photo"].dump(), R"({"label": "<i>fern</i>"})")->status,
            200);
  Browser b;
  b.open("http://" + tuner_->http() + "/#versions");
  const auto of = [&](const std::string& expression) {
    return b.value("import('/dashboard/classes.js').then(m => " + expression + ")");
  };
  // Three of four a found, one of them called b; both b found.
  EXPECT_EQ(of("m.classes_of(m.pairs_of(['a', 'b'], [3, 1, 0, 2]))"),
            Json::parse(R"([{"name": "a", "photos": 4, "recall": 0.75, "precision": 1},
                            {"name": "b", "photos": 2, "recall": 1, "precision": 0.6666666666666666}])"));
  EXPECT_TRUE(
      b.await("document.querySelectorAll('#classes_of_version table.matrix').length === 2"));
  const Json run = get("/jobs/1/run");
  EXPECT_EQ(
      b.value(
          "[...document.querySelectorAll('#classes_of_version > :first-child .matrix td.number')]"
          ".map(n => Number(n.textContent))"),
      run["confusion"]);
  EXPECT_THAT(text(b, "#classes_of_version > :last-child .matrix"),
              AllOf(HasSubstr("<i>fern</i>"), HasSubstr(said)));
  EXPECT_EQ(text(b, "#classes_of_version > :last-child td.wrong"), "1");
  expect_fits(b, 400);
  EXPECT_THAT(b.complaints(), IsEmpty());
}

}  // namespace
}  // namespace ndtrain::tuner
