// A relabelling beside a fine-tuning, at the same stores: each gives what it gives alone, whatever
// happens to the other.
#include <gmock/gmock.h>

#include <set>

#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::RunningStore;
using testing::RunningTuner;

class RoleJobsAtOnce : public testing::RolesTest {
 protected:
  using Label = std::tuple<std::string, std::string, std::optional<double>>;  // path, class, score

  TunerConfig tuner_at(const std::string& state) const {
    TunerConfig config = tuner(state);
    config.http = "127.0.0.1:0";
    return config;
  }
  PipeStoreConfig store_at(uint32_t i) const {
    PipeStoreConfig config = store(i == 0 ? "a" : "b", i, 2);
    config.http = "127.0.0.1:0";
    return config;
  }
  static nlohmann::json ask(const Result<HttpResponse>& answer) {
    answer.status().or_throw();
    EXPECT_LT(answer->status, 400) << answer->body;
    return nlohmann::json::parse(answer->body);
  }
  uint64_t submit(const HttpClient& tuner, JobSpec spec) const {
    const std::string file = real_fs().read(at("base.onnx")).or_throw();
    spec.model = to_hex(sha256(file));
    (void)ask(tuner.put("/models/" + spec.model, file));
    return ask(tuner.post("/jobs", spec.text())).at("job");
  }
  static nlohmann::json job(const HttpClient& tuner, uint64_t id) {
    return ask(tuner.get("/jobs/" + std::to_string(id)));
  }
  static std::string state(const HttpClient& tuner, uint64_t id) {
    return job(tuner, id).at("state");
  }
  static void await_done(const HttpClient& tuner, uint64_t id) {
    await([&] {
      const std::string now = state(tuner, id);
      return now != "running" && now != "queued";
    });
    EXPECT_EQ(state(tuner, id), "done") << job(tuner, id);
  }
  static void await_stores(const HttpClient& tuner, size_t n) {
    await([&] {
      const nlohmann::json all = ask(tuner.get("/stores"));
      return std::ranges::count_if(all, [](const nlohmann::json& s) {
               return s.at("here") == true;
             }) == static_cast<long>(n);
    });
  }
  static JobSpec finetuning(const std::vector<std::string>& stores) {
    JobSpec spec;
    spec.stores.names = stores;
    spec.freeze = "layer1";
    spec.trainer.epochs = 120;
    spec.trainer.batch = 8;
    return spec;
  }
  static JobSpec relabelling() {
    JobSpec spec;
    spec.kind = JobKind::kRelabel;
    spec.stores.names = {"a", "b"};
    return spec;
  }
  std::set<Label> labels(const std::string& tuner_state) const {
    const auto db = open_label_db("sqlite:" + at(tuner_state) + "/labels.db").or_throw();
    const LabelQuery query{.collection = db->collection(kDefaultCollection).or_throw(),
                           .task = db->task(kDefaultTask).or_throw()};
    std::set<Label> all;
    for (const LabelRow& row : db->query(query).or_throw().rows) {
      if (row.source == LabelSource::kModel) all.emplace(row.path, row.class_name, row.score);
    }
    return all;
  }
  // What comes of a job alone, at stores that are as they were before the others.
  nlohmann::json alone(const JobSpec& spec, const std::string& tuner_state) {
    RunningTuner t(tuner_at(tuner_state), devices_);
    RunningStore a(store_at(0), devices_), b(store_at(1), devices_);
    const HttpClient client(t.http());
    await_stores(client, 2);
    const uint64_t id = submit(client, spec);
    await_done(client, id);
    nlohmann::json result = job(client, id).at("result");
    return result;
  }
  void forget_stores() const {
    for (const char* s : {"state-a", "state-b"}) std::filesystem::remove_all(at(s));
  }
};

TEST_F(RoleJobsAtOnce, ARelabellingFinishesWhileAFineTuningRunsAndPeopleUpload) {
  const std::string content = alone(finetuning({"a", "b"}), "training").at("content");
  (void)alone(relabelling(), "labelling");
  forget_stores();
  RunningTuner t(tuner_at("tuner"), devices_);
  RunningStore a(store_at(0), devices_), b(store_at(1), devices_);
  const HttpClient client(t.http());
  await_stores(client, 2);
  const uint64_t training = submit(client, finetuning({"a", "b"}));
  const uint64_t labelling = submit(client, relabelling());
  const uint64_t next = submit(client, finetuning({"a", "b"}));
  EXPECT_EQ(state(client, labelling), "running");
  const std::string metrics = client.get("/metrics").or_throw().body;
  EXPECT_THAT(metrics, HasSubstr("ndtrain_jobs{state=\"running\"} 2\n"));
  EXPECT_THAT(metrics, HasSubstr("ndtrain_job_photos{job=\"1\"}"));
  EXPECT_THAT(metrics, HasSubstr("ndtrain_job_photos{job=\"2\"}"));
  EXPECT_EQ(
      job(client, next).at("waits_for_job"),
      nlohmann::json({{"job", training}, {"why", "both train, and a Tuner trains one at a time"}}));
  const std::string photo = encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, 1000));
  const HttpResponse r = HttpClient(a.http()).post("/photos", photo, "image/jpeg").or_throw();
  EXPECT_EQ(r.status, 202) << r.body << ": no version is in force";
  await_done(client, labelling);
  EXPECT_EQ(state(client, training), "running") << "it was over too soon for this test";
  (void)ask(client.post("/jobs/" + std::to_string(next) + "/cancel", ""));
  await_done(client, training);
  EXPECT_EQ(job(client, training).at("result").at("content"), content);
  std::set<Label> together = labels("tuner");
  std::erase_if(together,
                [](const Label& l) { return std::get<0>(l).find("uploads") != std::string::npos; });
  EXPECT_EQ(together.size(), static_cast<size_t>(kPhotos));
  EXPECT_EQ(together, labels("labelling"));
}

TEST_F(RoleJobsAtOnce, BothGoOnAfterARestartAndOneWithoutTheOther) {
  const std::string content = alone(finetuning({"a"}), "training").at("content");
  (void)alone(relabelling(), "labelling");
  forget_stores();
  RunningStore a(store_at(0), devices_);
  auto t = std::make_unique<RunningTuner>(tuner_at("tuner"), devices_);
  {
    RunningStore b(store_at(1), devices_);
    await_stores(HttpClient(t->http()), 2);
  }
  JobSpec waits = relabelling();
  waits.store_timeout = 600;
  const uint64_t training = submit(HttpClient(t->http()), finetuning({"a"}));
  const uint64_t labelling = submit(HttpClient(t->http()), waits);
  const auto trains = [&] {
    const std::string doing = job(HttpClient(t->http()), training).at("doing");
    return doing.starts_with("epoch");
  };
  await(trains);
  EXPECT_EQ(state(HttpClient(t->http()), labelling), "running");
  t.reset();
  t = std::make_unique<RunningTuner>(tuner_at("tuner"), devices_);
  const HttpClient client(t->http());
  for (const uint64_t id : {training, labelling}) {
    const nlohmann::json log = ask(client.get("/jobs/" + std::to_string(id) + "/log"));
    EXPECT_THAT(log.at("lines").get<std::vector<std::string>>(),
                Contains("the Tuner goes on with this job"));
  }
  await(trains);
  (void)ask(client.post("/jobs/" + std::to_string(training) + "/pause", ""));
  EXPECT_EQ(state(client, labelling), "running");
  RunningStore b(store_at(1), devices_);
  await_done(client, labelling);
  EXPECT_EQ(state(client, training), "paused");
  EXPECT_EQ(labels("tuner"), labels("labelling"));
  (void)ask(client.post("/jobs/" + std::to_string(training) + "/resume", ""));
  await_done(client, training);
  EXPECT_EQ(job(client, training).at("result").at("content"), content);
}

}  // namespace
}  // namespace ndtrain::tuner
