// The Tuner's page: what it is served from, and the page itself in a browser, over a Tuner and a
// PipeStore that work.
#include <regex>

#include "tests/http/raw_http.h"
#include "tests/roles/dashboard_fixture.h"
#include "tests/support/paths.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::Browser;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using RoleDashboard = testing::DashboardTest;

TEST_F(RoleDashboard, IsAllServedByTheTunerAndMayLoadNothingElse) {
  const HttpResponse page = client_->get("/").or_throw();
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.type, HasSubstr("text/html"));
  EXPECT_THAT(page.headers.at("Content-Security-Policy"), HasSubstr("default-src 'none'"));
  std::set<std::string> files;
  const auto look = [&](const std::string& text, const std::string& pattern) {
    const std::regex mentions(pattern);
    for (std::sregex_iterator it(text.begin(), text.end(), mentions), end; it != end; ++it) {
      files.insert((*it)[1]);
    }
  };
  look(page.body, "/dashboard/([^\"]+)");
  EXPECT_TRUE(files.contains("main.js"));
  for (auto it = files.begin(); it != files.end(); it = files.upper_bound(*it)) {
    const HttpResponse file = client_->get("/dashboard/" + *it).or_throw();
    EXPECT_EQ(file.status, 200) << *it;
    EXPECT_EQ(file.body,
              real_fs().read(support::source_path("/tuner/http/dashboard/") + *it).or_throw());
    EXPECT_THAT(file.body,
                ::testing::Not(::testing::ContainsRegex("innerHTML|insertAdjacentHTML")));
    look(file.body, "from \"./([^\"]+)\"");
  }
  EXPECT_GT(files.size(), 8U);
  EXPECT_EQ(client_->get("/dashboard/nothing.js")->status, 404);
}

TEST_F(RoleDashboard, FollowsStoresAsTheyComeAndGo) {
  support::RawHttp raw(tuner_->http());
  raw.say("GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(raw.hear("event: stores\ndata: []\n\n"), HasSubstr("text/event-stream"));
  start_store();
  EXPECT_THAT(raw.hear("\"here\":true"), HasSubstr("\"store\":\"attic\""));
  store_.reset();
  EXPECT_THAT(raw.hear("\"here\":false"), HasSubstr("\"store\":\"attic\""));
  tuner_.reset();
  EXPECT_THAT(raw.hear_all(), ::testing::Not(HasSubstr("\"here\":true"))) << "ends with the Tuner";
}

TEST_F(RoleDashboard, ShowsPhotosOfStoresThatOnlyTheTunerCanReach) {
  const std::string photo = encode_jpeg(cli::draw_demo_photo(1, cli::Look::kDay, 1000));
  const std::string path = "photos/" + to_hex(sha256(photo)), attic = "/stores/attic/";
  EXPECT_EQ(refusal(attic + path).first, 404);
  start_store();
  const HttpClient store(store_->http());
  ASSERT_LT(store.post("/photos", photo, "image/jpeg")->status, 300);
  const HttpResponse r = client_->get(attic + path).or_throw();
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.type, "image/jpeg");
  EXPECT_TRUE(r.body == photo);
  EXPECT_EQ(r.headers.at("Content-Disposition"), "attachment");
  const HttpResponse small = client_->get(attic + path + "/thumbnail").or_throw();
  EXPECT_EQ(small.status, 200);
  EXPECT_EQ(small.headers.at("Content-Disposition"), "inline");
  EXPECT_TRUE(small.body == store.get("/" + path + "/thumbnail")->body && small.body != photo);
  EXPECT_EQ(refusal(attic + "photos/" + to_hex(sha256("none"))).first, 404);
  EXPECT_EQ(refusal(attic + "photos/../jobs").first, 404);
  EXPECT_EQ(refusal("/stores/cellar/" + path).first, 404);
  store_.reset();
  await([&] { return get("/stores")[0]["here"] == false; });
  EXPECT_THAT(refusal(attic + path), ::testing::Pair(503, HasSubstr("'attic' is away")));
}

TEST_F(RoleDashboard, SaysHowFarAJobIsAndAsksForATokenWhereOneIsNeeded) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  Browser b;
  b.open("http://" + tuner_->http() + "/");
  EXPECT_TRUE(b.await("document.querySelector('#stores')?.textContent.includes('No PipeStore')"));
  EXPECT_TRUE(b.await("document.querySelector('#live').textContent === 'live'"));
  const auto jobs = [&](const std::string& expression) {
    return b.value("import('/dashboard/progress.js').then(m => " + expression + ")");
  };
  const std::string rows = "{photos: 1000, rows: 250, row_bytes: 9}";
  EXPECT_EQ(jobs("m.progress_of(" + rows + ").done"), 250);
  const std::string epoch = "{photos: 9, rows: 9, doing: 'epoch 3/4: 50 of 100 photos'}";
  EXPECT_EQ(jobs("m.progress_of(" + epoch + ").done"), 2.5);
  EXPECT_EQ(jobs("m.progress_of(" + epoch + ").total"), 4);
  EXPECT_EQ(jobs("m.left('a', {done: 100, total: 1000}, 10)"), nlohmann::json());
  EXPECT_EQ(jobs("m.left('a', {done: 300, total: 1000}, 14)"), 14);
  EXPECT_EQ(jobs("m.left('b', {done: 300, total: 1000}, 15)"), nlohmann::json()) << "another stage";
  EXPECT_EQ(jobs("m.left('a', {done: 500, total: 1000}, 18)"), 10) << "beside the other's";
  EXPECT_EQ(jobs("m.wait_text({waits_for_job: {job: 3, why: 'both train'}})"),
            "waits for job 3: both train");
  EXPECT_EQ(jobs("m.wait_text({})"), "");
  const auto left_of = [&](const std::string& job, const std::string& stage) {
    return jobs("m.left_text(" + job + ", {stage: '" + stage + "'}, 14)");
  };
  const std::string once = "{kind: 'finetune', runs: 1}", thrice = "{kind: 'finetune', runs: 3}";
  EXPECT_EQ(left_of("{kind: 'relabel', runs: 1}", "rows"), "about 14 s left of the job");
  EXPECT_EQ(left_of(once, "rows"), "about 14 s left of this step") << "the training is to come";
  EXPECT_EQ(left_of(once, "training"), "about 14 s left of the job");
  EXPECT_EQ(left_of(thrice, "training"), "about 14 s left of this step") << "so are other runs";
  EXPECT_EQ(jobs("m.left_text(" + once + ", {stage: 'rows'}, undefined)"), "");

  const auto running = [](const std::string& doing) {
    return "m.progress_box({job: 7, kind: 'finetune', photos: 9, rows: 9, doing: '" + doing + "'})";
  };
  EXPECT_EQ(jobs("(" + running("epoch 3/4: 50 of 100 photos") + ", " + running("") +
                 ".querySelector('progress').value)"),
            0.625)
      << "nothing is said between two epochs";

  b.value(R"js({
    const asked = fetch;
    window.fetch = (path, o) => o?.headers?.Authorization === "Bearer secret"
      ? asked(path, o) : Promise.resolve(new Response("{}", {status: 401}));
    location.hash = "versions";
  })js");
  EXPECT_TRUE(b.await("document.querySelector('#token').open"));
  b.type("wrong");
  b.press("Enter");
  EXPECT_TRUE(b.await("document.querySelector('#token_why').textContent.includes('refused')"));
  EXPECT_TRUE(b.await("document.querySelector('#token').open"));
  b.type("secret");
  b.press("Enter");
  EXPECT_TRUE(
      b.await("document.querySelector('#versions').textContent.includes('No version yet')"));
  EXPECT_EQ(b.value("document.querySelector('#token').open"), false);
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(RoleDashboard, ShowsAPersonWhatThereIsAndTakesHerAnswersInABrowser) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(2);
  train_and_relabel(6);
  Browser b;
  b.dark(false);
  const std::string base = "http://" + tuner_->http();

  b.open(base + "/");
  EXPECT_TRUE(b.await("document.querySelector('#stores td')?.textContent.includes('attic here')"));
  EXPECT_TRUE(b.await("document.querySelectorAll('#jobs tbody tr').length === 4"));
  EXPECT_TRUE(b.await("document.querySelector('#figures').textContent.includes('0 stale')"));
  EXPECT_EQ(b.value("document.querySelector('#live').textContent"), "live");
  keep(b, "dashboard_overview.png");

  b.value("location.hash = 'labels'");
  EXPECT_TRUE(b.await("document.querySelectorAll('#results figure').length === 60"));
  EXPECT_TRUE(
      b.await("document.querySelector('#results').textContent.includes('<img src=x>.jpg')"));
  const std::string label = get("/labels/stats")["by_class"].begin().key();
  const size_t labelled = get("/labels?label=" + label)["rows"].size();
  b.value("{const f = document.forms.search; f.label.value = '" + label + "'; f.requestSubmit()}");
  EXPECT_TRUE(b.await("document.querySelectorAll('#results figure').length === " +
                      std::to_string(labelled)));
  EXPECT_TRUE(
      b.await("document.querySelectorAll('#results img').length === " + std::to_string(labelled)));
  EXPECT_EQ(b.value("document.querySelector('#results img').naturalWidth"), 128);
  EXPECT_TRUE(
      b.await("[...document.querySelectorAll('#results strong')].every(n => "
              "n.textContent === '" +
              label + "')"));
  keep(b, "dashboard_labels.png");

  b.dark(true);
  b.value("location.hash = 'review'");
  EXPECT_TRUE(b.await("document.querySelector('#review_photo img')"));
  const std::string guess = b.value("document.querySelector('#review_guess').textContent");
  b.press("Enter");
  EXPECT_TRUE(b.await("document.querySelector('#review_place').textContent.startsWith('Photo 2')"));
  const std::string other =
      b.value("document.querySelector('#review_choices button').textContent.slice(1)");
  EXPECT_NE(b.value("document.querySelector('#review_guess').textContent"), other);
  b.press("1");
  EXPECT_TRUE(b.await("document.querySelector('#review_place').textContent.startsWith('Photo 3')"));
  EXPECT_TRUE(b.await("document.querySelector('#review_photo img')"));
  EXPECT_TRUE(b.await("document.querySelector('#review_accuracy').textContent.includes('1 of 2')"));
  keep(b, "dashboard_review.png");
  b.press("s");
  EXPECT_TRUE(b.await("document.querySelector('#review_place').textContent.startsWith('Photo 4')"));
  b.press("/");
  b.type("<img src=y>");
  EXPECT_TRUE(
      b.await("document.querySelector('#review_choices').textContent.includes('new class')"));
  b.press("Enter");
  EXPECT_TRUE(b.await("document.querySelector('#review_place').textContent.startsWith('Photo 5')"));

  std::vector<std::string> said;
  const nlohmann::json human = get("/labels?source=human");
  for (const nlohmann::json& row : human["rows"]) said.push_back(row["label"]);
  EXPECT_THAT(said, ::testing::UnorderedElementsAre(guess, other, "<img src=y>"));
  EXPECT_EQ(get("/labels/accuracy")["at_random"]["photos"], 3) << "these are the first of a sample";
  EXPECT_EQ(get("/labels/accuracy")["at_random"]["agree"], 1);

  b.dark(false);
  b.value("location.hash = 'versions'");
  EXPECT_TRUE(b.await("document.querySelectorAll('#version_list article').length === 2"));
  const nlohmann::json diff = get("/labels/diff?from=1&to=2");
  EXPECT_TRUE(b.await("document.querySelector('#version_list').textContent.includes('" +
                      diff["changed"].dump() + " of 60 labels changed against version 1')"));
  EXPECT_TRUE(
      b.await("document.querySelector('#version_list article').textContent.includes("
              "'33.3 % (6.1 % to 79.2 %), 1 of 3 photos')"));
  keep(b, "dashboard_versions.png");

  b.value("location.hash = 'overview'");
  store_.reset();
  EXPECT_TRUE(b.await("document.querySelector('#stores td').textContent.includes('attic away')"))
      << "without asking again";
  EXPECT_EQ(b.value("document.querySelectorAll('img[src=\"x\"], img[src=\"y\"]').length"), 0);
  EXPECT_THAT(b.complaints(), IsEmpty());
}

}  // namespace
}  // namespace ndtrain::tuner
