// A job's page, and what it is made of.
#include "tests/roles/dashboard_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using support::Browser;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DashboardJobs : public testing::DashboardTest {
 protected:
  void submit(const std::string& spec) const {
    const std::string model = real_fs().read(at("base.onnx")).or_throw();
    ASSERT_LT(client_->put("/models/" + to_hex(sha256(model)), model)->status, 300);
    Json json = Json::parse(spec);
    json["model"] = to_hex(sha256(model));
    const HttpResponse r = client_->post("/jobs", json.dump()).or_throw();
    ASSERT_EQ(r.status, 201) << r.body;
  }
  std::string state(int job) const { return get("/jobs/" + std::to_string(job))["state"]; }
};

TEST_F(DashboardJobs, HasTheTraceOfAJobThatIsDone) {
  start_store();
  EXPECT_THAT(refusal("/jobs/1/trace"), ::testing::Pair(404, HasSubstr("no trace")));
  train_and_relabel(1);
  std::set<std::string> who;
  const Json trace = get("/jobs/1/trace");
  for (const Json& e : trace.at("traceEvents")) {
    if (e["name"] == "thread_name") who.insert(e["args"]["name"]);
  }
  EXPECT_EQ(who, (std::set<std::string>{"attic", "tuner"}));
}

// What stores sent and were compared by is not needed any more, and the Tuner's models have the
// extractor.
TEST_F(DashboardJobs, KeepOfATrainingThatIsDoneWhatPeopleLookAt) {
  start_store();
  train_and_relabel(1);
  const auto has = [&](const std::string& name) {
    return real_fs().info(at("tuner/jobs/1/" + name)).ok();
  };
  await([&] { return !has("numerics.cbor") && real_fs().list(at("tuner/jobs/1/spool"))->empty(); });
  EXPECT_FALSE(has("extractor.onnx"));
  for (const char* name : {"job.json", "manifest.cbor", "trace.json", "run/extractor.onnx"}) {
    EXPECT_TRUE(has(name)) << name;
  }
}

TEST_F(DashboardJobs, HaveTheCurvesAndTheReportOfATraining) {
  EXPECT_THAT(refusal("/jobs/1/run"), ::testing::Pair(404, HasSubstr("no curves")));
  EXPECT_THAT(refusal("/jobs/1/report"), ::testing::Pair(404, HasSubstr("no report")));
  start_store();
  train_and_relabel(4);
  const Json run = get("/jobs/1/run"), result = get("/jobs/1")["result"];
  ASSERT_EQ(run["epochs"].size(), 4);
  EXPECT_EQ(run["epochs"][3]["epoch"], 4);
  EXPECT_EQ(run["epochs"][result["best_epoch"].get<size_t>() - 1]["val_top1"], result["top1"]);
  const auto n = run["classes"].size();
  ASSERT_EQ(n, 3);
  ASSERT_EQ(run["confusion"].size(), n * n);
  int64_t photos = 0, right = 0;
  for (size_t i = 0; i < n * n; ++i) {
    photos += run["confusion"][i].get<int64_t>();
    if (i % (n + 1) == 0) right += run["confusion"][i].get<int64_t>();
  }
  EXPECT_EQ(photos, result["val_photos"]);
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / static_cast<double>(photos), result["top1"]);
  const HttpResponse report = client_->get("/jobs/1/report").or_throw();
  EXPECT_EQ(report.status, 200);
  EXPECT_EQ(report.body, real_fs().read(at("tuner/jobs/1/run/report.html")).or_throw());
  EXPECT_THAT(report.headers.at("Content-Security-Policy"),
              AllOf(HasSubstr("sandbox"), HasSubstr("default-src 'none'")));
  EXPECT_FALSE(run.contains("damaged_rows"));
  const std::string metrics = at("tuner/jobs/1/run/metrics.jsonl");
  std::string rows = real_fs().read(metrics).or_throw();
  rows[rows.find("train_loss")] ^= 1;
  publish(real_fs(), metrics, rows).or_throw();
  EXPECT_EQ(get("/jobs/1/run")["damaged_rows"], 1);
  EXPECT_EQ(get("/jobs/1/run")["epochs"].size(), 3);
  publish(real_fs(), at("tuner/jobs/1/run/confusion.csv"), "truth,a\nb,1\n").or_throw();
  EXPECT_THAT(refusal("/jobs/1/run"), ::testing::Pair(500, HasSubstr("line 2")));
}

TEST_F(DashboardJobs, ShowHowTheyLearnWhoSentWhatAndWhatTheySaid) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(4);
  EXPECT_EQ(client_->post("/jobs/1/notes", R"({"name": "<b>first</b>"})").or_throw().status, 200);
  Browser b;
  b.open("http://" + tuner_->http() + "/");
  ASSERT_TRUE(b.await("document.querySelectorAll('#jobs tbody a').length === 2"));
  enter(b, "#jobs tbody tr:last-child a");
  EXPECT_TRUE(b.await(
      "document.querySelector('#job_title').textContent === 'Job 1: finetune, <b>first</b>'"));
  EXPECT_TRUE(b.await("document.querySelectorAll('#job_curves path.curve').length === 4"));
  // Four epochs are three pieces of a line.
  EXPECT_EQ(b.value("document.querySelector('#job_curves path.train').getAttribute('d')"
                    ".replace(/[^ML]/g, '')"),
            "MLLL");
  EXPECT_THAT(b.value("document.querySelector('#job_stores .share').textContent"),
              AllOf(HasSubstr("attic"), HasSubstr("60 photos")));
  EXPECT_THAT(b.value("document.querySelector('#job_log').textContent"),
              HasSubstr("published as version 1"));
  EXPECT_TRUE(b.await("document.querySelectorAll('#trace .tuner').length > 0"));
  EXPECT_THAT(b.value("document.querySelector('#job_facts').textContent"),
              AllOf(HasSubstr("Top-1"), HasSubstr("Version1")));
  EXPECT_EQ(b.value("document.querySelector('#job_report a').download"), "job-1-report.html");
  EXPECT_THAT(b.value("document.querySelector('#job_details').textContent"),
              HasSubstr("feature_extraction_s"));
  EXPECT_EQ(b.value("[...document.querySelectorAll('#job .controls button')].every(n => n.hidden)"),
            true)
      << "nothing can be done about a job that is done";
  keep(b, "dashboard_job.png");
  expect_fits(b, 400);
  b.value("location.hash = 'job/2'");
  EXPECT_TRUE(b.await("document.querySelector('#job_title').textContent === 'Job 2: relabel'"));
  EXPECT_TRUE(b.await("document.querySelector('#job_learning').hidden"));
  b.value("location.hash = 'job/7'");
  EXPECT_TRUE(b.await("document.querySelector('#live').textContent.includes('no job 7')"));
  EXPECT_THAT(b.complaints(), ::testing::Each(HasSubstr("400")));
}

TEST_F(DashboardJobs, OfTrainingAreComparedInWhatTheyWereAskedAndWhatCameOfIt) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(2);
  train_and_relabel(6);
  ASSERT_EQ(
      client_->post("/jobs/3/notes", R"({"name": "long", "note": "<i>six</i>", "add": ["may"]})")
          .or_throw()
          .status,
      200);
  const Json run = get("/jobs/3/run");
  EXPECT_EQ(run["name"], "long");
  EXPECT_EQ(run["note"], "<i>six</i>");
  EXPECT_EQ(run["tags"], Json({"may"}));
  EXPECT_EQ(get("/jobs/1/run")["tags"], Json::array());
  Browser b;
  b.open("http://" + tuner_->http() + "/");
  enter(b, "a[href='#compare']");
  ASSERT_TRUE(says(b, "#compare_table", "Job 3")) << "the last two";
  const std::string click_all =
      "[...document.querySelectorAll('#compare_choice input')].forEach(n => n.click())";
  b.value(click_all);
  ASSERT_TRUE(says(b, "#compare_table", "Tick two"));
  b.value(click_all);
  EXPECT_TRUE(b.await("document.querySelectorAll('#compare_curves path.curve').length === 4"));
  EXPECT_EQ(b.value("location.hash"), "#compare/1,3");
  EXPECT_EQ(
      b.value("[...document.querySelectorAll('#compare_table code')].map(n => n.textContent)"),
      Json({"epochs", "seed"}))
      << "in nothing else were they asked differently";
  EXPECT_EQ(b.value("[...document.querySelectorAll('#compare_table tr')].find(n =>"
                    " n.textContent.startsWith('epochs')).textContent"),
            "epochs26");
  EXPECT_EQ(b.value("[...document.querySelectorAll('#compare_table tr')].map(n => n.textContent)"
                    ".filter(t => t.startsWith('Tags') || t.startsWith('Note'))"),
            Json({"Tags\u2013may", "Note\u2013<i>six</i>"}));
  expect_fits(b, 400);
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(DashboardJobs, AreCalledAndTaggedOnTheirPage) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(1);
  Browser b;
  b.open("http://" + tuner_->http() + "/#job/1");
  ASSERT_TRUE(b.await("document.querySelector('#job_notes details')"));
  b.value("document.querySelector('#job_notes details').open = true");
  fill(b, "#job_notes [name=name]", "<b>first</b>");
  fill(b, "#job_notes [name=tags]", "slow, birds  slow");
  fill(b, "#job_notes [name=note]", "as <i>before</i>");
  enter(b, "#job_notes button");
  EXPECT_TRUE(says(b, "#job_title", "<b>first</b>"));
  EXPECT_TRUE(says(b, "#job_facts", "birds, slow"));
  EXPECT_THAT(text(b, "#job_facts"), HasSubstr("as <i>before</i>"));
  EXPECT_EQ(b.value("(n => [n.firstChild.textContent, n.offsetWidth === n.parentNode.offsetWidth])"
                    "(document.querySelector('#job_facts .line'))"),
            Json({"Note", true}))
      << "what is long has all of the page";
  b.value("document.querySelector('#job_notes details').open = true");
  fill(b, "#job_notes [name=tags]", "birds");
  enter(b, "#job_notes button");
  EXPECT_TRUE(b.await("!document.querySelector('#job_facts').textContent.includes('slow')"));
  EXPECT_EQ(get("/jobs/1")["tags"], Json({"birds"}));
  EXPECT_EQ(get("/jobs/1")["note"], "as <i>before</i>") << "what was not changed stays";
  b.value("document.querySelector('#job_notes details').open = true");
  fill(b, "#job_notes [name=tags]", std::string(51, 'x'));
  enter(b, "#job_notes button");
  EXPECT_TRUE(says(b, "#job_notes", "It is as before: "));
  expect_fits(b, 400);

  b.value("location.hash = 'versions'");
  ASSERT_TRUE(b.await("document.querySelector('#version_list .notes')"));
  b.value("document.querySelector('#version_list .notes').open = true");
  fill(b, "#version_list [name=name]", "spring");
  fill(b, "#version_list [name=tags]", "kept");
  enter(b, "#version_list .notes button");
  EXPECT_TRUE(says(b, "#version_list h2", "spring"));
  EXPECT_TRUE(says(b, "#version_list .facts", "kept"));
  EXPECT_EQ(get("/versions/1")["tags"], Json({"kept"}));
  EXPECT_THAT(b.complaints(), ::testing::Each(HasSubstr("400")));
}

TEST_F(DashboardJobs, ArePausedResumedAndCancelledByKeyboard) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  store_.reset();
  await([&] { return get("/stores")[0]["here"] == false; });
  submit(R"({"store_timeout": 600})");
  Browser b;
  b.open("http://" + tuner_->http() + "/#job/1");
  EXPECT_TRUE(says(b, "#job_stores", "attic waits: away"));
  enter(b, "#job_start_now");
  EXPECT_TRUE(says(b, "#job_log", "on request"));
  enter(b, "#job_pause");
  await([&] { return state(1) == "paused"; });
  enter(b, "#job_resume");
  await([&] { return state(1) == "running"; });
  enter(b, "#job_cancel");
  await([&] { return state(1) == "cancelled"; });
  EXPECT_TRUE(b.await("document.querySelector('#job_cancel').hidden"));
  EXPECT_EQ(b.value("document.querySelector('#job_resume').hidden"), false);
  ASSERT_EQ(client_->post("/jobs/1/resume", "")->status, 200);
  EXPECT_TRUE(b.await("!document.querySelector('#job_cancel').hidden")) << "somebody else did it";
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(DashboardJobs, SayWhyTheyFailedAlsoOfAnEarlierProcess) {
  start_store();
  submit(R"({"freeze": "nowhere"})");
  await([&] { return state(1) == "failed"; });
  const std::string why = get("/jobs/1")["message"];
  const Json lines = get("/jobs/1/log")["lines"];
  ASSERT_FALSE(lines.empty());
  store_.reset();
  client_.reset();
  tuner_.reset();
  start_tuner();
  EXPECT_EQ(get("/jobs/1/log")["lines"], lines);
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  Browser b;
  b.open("http://" + tuner_->http() + "/#job/1");
  EXPECT_TRUE(
      b.await("document.querySelector('#job_why.failed')?.textContent === " + Json(why).dump()));
  EXPECT_TRUE(says(b, "#job_log", "failed: "));
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(DashboardJobs, PlansSayWhatAJobWouldBeginWithAndChangeNothing) {
  const std::string model = to_hex(sha256(real_fs().read(at("base.onnx")).or_throw()));
  const auto plan = [&](const Json& spec) {
    return client_->post("/jobs/plan", spec.dump()).or_throw();
  };
  EXPECT_EQ(plan({{"model", model}}).status, 400);
  EXPECT_THAT(plan({{"model", model}}).body, HasSubstr("is not on the Tuner"));
  const HttpResponse unchecked =
      client_->post("/jobs/plan?unchecked=1", Json({{"model", model}}).dump()).or_throw();
  EXPECT_EQ(unchecked.status, 200) << unchecked.body;
  EXPECT_EQ(Json::parse(unchecked.body)["stores"], Json::array());
  EXPECT_THAT(plan({{"kind", "relabel"}}).body, HasSubstr("no version is in force"));
  ASSERT_LT(client_->put("/models/" + model, real_fs().read(at("base.onnx")).or_throw())->status,
            300);
  EXPECT_EQ(Json::parse(plan({{"model", model}}).body)["stores"], Json::array());
  start_store();
  train_and_relabel(1);
  Json p = Json::parse(plan({{"model", model}, {"epochs", 7}}).body);
  EXPECT_EQ(p["stores"], Json({"attic"}));
  EXPECT_EQ(p["photos"], kPhotos);
  EXPECT_EQ(p["jobs_before"], 0);
  EXPECT_EQ(p["spec"]["epochs"], 7);
  EXPECT_EQ(p["spec"]["head"], "keep") << "what was not said is there, too";
  EXPECT_TRUE(p["forecast"].is_null()) << "whose photos cost the same, none is done";
  const Json like = {
      {"model", model}, {"head", "linear"}, {"freeze", "layer1"}, {"batch", 8}, {"epochs", 3}};
  await([&] { return Json::parse(plan(like).body)["kept"] == Json({{"", kPhotos}}); });
  p = Json::parse(plan(like).body);
  EXPECT_EQ(p["forecast"]["by"], "job 1") << "whose epochs were another number";
  EXPECT_EQ(p["forecast"]["stores"], Json({"attic"}));
  EXPECT_GT(p["forecast"]["overall_s"], 0);
  EXPECT_EQ(p["forecast"]["row_bytes"], 0) << "all of it is here already";
  EXPECT_EQ(p["by_need"], Json({"attic"}));
  EXPECT_EQ(p["photos_by_need"], Json({kPhotos}));
  ASSERT_EQ(p["speeds_by_need"].size(), 1U);
  EXPECT_NEAR(p["speeds_by_need"][0].get<double>(), 1, 1e-9) << "it was alone in job 1";
  EXPECT_EQ(p["distinct_photos"], kPhotos);
  EXPECT_EQ(p["enough"], 1);
  {
    const testing::RunningStore same(store("cellar", 0, 1), devices_);
    await([&] { return Json::parse(plan(like).body)["stores"].size() == 2; });
    p = Json::parse(plan(like).body);
    EXPECT_EQ(p["by_need"], Json({"cellar", "attic"})) << "who knows what that one has";
    EXPECT_EQ(p["enough"], 2);
    work(parse_job_spec(like.dump()));
    p = Json::parse(plan(like).body);
    EXPECT_EQ(p["by_need"], Json({"attic", "cellar"})) << "they have the same photos";
    EXPECT_EQ(p["enough"], 1);
  }
  await([&] { return Json::parse(plan(like).body)["waits_for"].size() == 1; });
  store_.reset();
  await([&] { return get("/stores")[0]["here"] == false; });
  p = Json::parse(plan({{"model", model}, {"store_timeout", 600}}).body);
  EXPECT_EQ(p["stores"], Json::array());
  EXPECT_EQ(p["waits_for"][0]["store"], "attic");
  submit(R"({"store_timeout": 600})");
  EXPECT_EQ(Json::parse(plan({{"model", model}}).body)["jobs_before"], 1);
  EXPECT_EQ(Json::parse(plan({{"model", model}}).body)["waits_for_job"]["job"], 4);
  EXPECT_FALSE(p.contains("waits_for_job"));
  EXPECT_EQ(plan({{"model", model}, {"stores", {"loft"}}}).status, 400);
  EXPECT_EQ(plan({{"model", model}, {"epochs", 0}}).status, 400);
  EXPECT_EQ(get("/jobs").size(), 4) << "nothing but what was submitted";
}

TEST_F(DashboardJobs, FineTuneTheVersionInForceWhereNoModelIsGiven) {
  const auto finetune = [&](const Json& more) {
    Json spec = {{"kind", "finetune"}, {"epochs", 2}, {"promote", true}};
    for (const auto& [key, value] : more.items()) spec[key] = value;
    return client_->post("/jobs", spec.dump()).or_throw();
  };
  const HttpResponse none = finetune({});
  EXPECT_EQ(none.status, 400);
  EXPECT_THAT(none.body, HasSubstr("no version is in force yet: a finetune needs a model"));
  start_store();
  train_and_relabel(1);
  const std::string whole = real_fs().read(at("tuner/jobs/1/run/model.onnx")).or_throw();
  ASSERT_EQ(finetune({{"notes", {{"name", "again"}}}}).status, 201);
  EXPECT_EQ(get("/jobs/3")["spec"]["model"], to_hex(sha256(whole)));
  await([&] { return state(3) == "done"; });
  EXPECT_EQ(get("/versions").size(), 2);
  EXPECT_EQ(finetune({{"task", "blur"}}).status, 400) << "it has no version";
  real_fs().remove(at("tuner/jobs/3/run/head.onnx")).or_throw();
  EXPECT_THAT(finetune({}).body, HasSubstr("version 2 as a whole is no longer in"));
}

TEST_F(DashboardJobs, ShowLabelsThatPhotosContradict) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(1);
  Browser b;
  b.open("http://" + tuner_->http() + "/#submit");
  ASSERT_TRUE(says(b, "#submit_plan", "attic"));
  fill(b, "#submit_form [name=kind]", "refine");
  EXPECT_TRUE(b.await("document.querySelector('fieldset[data-kinds~=eval]').hidden"));
  EXPECT_TRUE(b.await("document.querySelector('#submit_send').disabled === false"));
  enter(b, "#submit_send");
  EXPECT_TRUE(says(b, "#job_why", "of none of the stores' photos anybody has said"));
  EXPECT_EQ(b.value("document.querySelector('#job_issues').hidden"), true);

  import_what_folders_show(*open_label_db("sqlite:" + at("tuner/labels.db")).or_throw());
  b.value("location.hash = 'submit'");
  EXPECT_TRUE(b.await("document.querySelector('#submit_send').disabled === false"));
  enter(b, "#submit_send");
  EXPECT_TRUE(b.await("location.hash === '#job/4'"));
  await([&] { return state(4) == "done"; });
  EXPECT_TRUE(b.await("!document.querySelector('#job_issues').hidden"));
  const Json first = get("/jobs/4")["result"]["first"];
  ASSERT_GE(first.size(), 1U);
  EXPECT_EQ(b.value("document.querySelectorAll('#job_issue_list tbody tr').length"), first.size());
  EXPECT_THAT(text(b, "#job_issue_list"), HasSubstr(first[0]["path"].get<std::string>()));
  expect_fits(b, 400);
  enter(b, "#job_issues a");
  EXPECT_TRUE(says(b, "#review", first[0]["path"].get<std::string>()));
  EXPECT_THAT(b.complaints(), IsEmpty());
}

TEST_F(DashboardJobs, AreSubmittedByAFormWithWhatTheyBeginWithBesideIt) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  start_store();
  train_and_relabel(1);
  Browser b;
  b.open("http://" + tuner_->http() + "/");
  enter(b, "a[href='#submit']");
  ASSERT_TRUE(says(b, "#submit_plan", "attic"));
  EXPECT_THAT(text(b, "#submit_plan"),
              AllOf(HasSubstr("60"), HasSubstr("Job 1 took"), HasSubstr("no job like it is done"),
                    HasSubstr("--profile auto")));
  fill(b, "[name=epochs]", "0");
  EXPECT_TRUE(says(b, "#submit_refusal", "epochs 0"));
  EXPECT_EQ(b.value("document.querySelector('#submit_send').disabled"), true);
  fill(b, "[name=epochs]", "2");
  fill(b, "[name=head]", "linear");
  fill(b, "[name=promote]", "candidate");
  fill(b, "#submit_form [name=name]", "by a form");
  EXPECT_TRUE(b.await("document.querySelector('#submit_send').disabled === false"));
  keep(b, "dashboard_submit.png");
  expect_fits(b, 400);
  enter(b, "#submit_send");
  EXPECT_TRUE(b.await("location.hash === '#job/3'"));
  EXPECT_TRUE(says(b, "#job_title", "Job 3: finetune, by a form"));
  const Json job = get("/jobs/3");
  EXPECT_EQ(job["spec"]["epochs"], 2);
  EXPECT_EQ(job["spec"]["head"], "linear");
  EXPECT_EQ(job["spec"]["promote"], false);
  EXPECT_EQ(job["spec"]["stores"], "all");
  await([&] { return state(3) == "done"; });
  b.value("location.hash = 'overview'");
  EXPECT_TRUE(
      b.await("[...document.querySelectorAll('#jobs .why')].some(n =>"
              " /^version 2 \\(\\w+\\) is not in force$/.test(n.textContent))"))
      << "its reasons are on its page";

  b.value("location.hash = 'submit'");
  EXPECT_TRUE(says(b, "#submit_plan", "when it has begun, by job 3"));
  EXPECT_THAT(text(b, "#submit_plan"), HasSubstr("Stores send"));
  fill(b, "#submit_form [name=kind]", "relabel");
  b.value("document.querySelector('[name=dry_run]').click()");
  b.value("document.querySelector('[name=stores]').click()");
  fill(b, "[name=model]", "");
  EXPECT_TRUE(b.await("document.querySelector('fieldset[data-kinds=finetune]').hidden"));
  EXPECT_TRUE(says(b, "#submit_plan", "Job 2 took"));
  enter(b, "#submit_send");
  EXPECT_TRUE(b.await("location.hash === '#job/4'"));
  const Json relabel = get("/jobs/4")["spec"];
  EXPECT_EQ(relabel["kind"], "relabel");
  EXPECT_EQ(relabel["dry_run"], true);
  EXPECT_EQ(relabel["stores"], Json({"attic"}));
  EXPECT_THAT(b.complaints(), ::testing::Each(HasSubstr("400")));
}

TEST_F(DashboardJobs, BeginWithAModelThatIsChosenInTheBrowser) {
  if (!Browser::lacking().empty()) GTEST_SKIP() << Browser::lacking();
  Browser b;
  b.open("http://" + tuner_->http() + "/#submit");
  EXPECT_TRUE(says(b, "#submit_refusal", "no version is in force yet: a finetune needs a model"));
  b.value(R"js({
    const files = new DataTransfer();
    files.items.add(new File(["any bytes"], "<b>model</b>.onnx"));
    const input = document.querySelector("#submit_file");
    input.files = files.files;
    input.dispatchEvent(new Event("change", {bubbles: true}));
  })js");
  EXPECT_TRUE(says(b, "#submit_sent", "<b>model</b>.onnx is on the Tuner"));
  EXPECT_EQ(b.value("document.querySelector('[name=model]').value"), to_hex(sha256("any bytes")));
  EXPECT_EQ(client_->get("/models/" + to_hex(sha256("any bytes")))->status, 200);
  EXPECT_TRUE(says(b, "#submit_plan", "none is here"));
  EXPECT_THAT(b.complaints(), ::testing::Each(HasSubstr("400")));
}

}  // namespace
}  // namespace ndtrain::tuner
