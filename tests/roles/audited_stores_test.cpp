// A store that sends features which are finite, of the right size, and not those of its photos: the
// Tuner finds it by what others make of the same photos, before anything is trained on them.
#include <gmock/gmock.h>

#include <atomic>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ndp/http/http_client.h"
#include "ndp/jobs/features.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/numbers.h"
#include "tests/roles/hostile_store_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::Hostile;
using testing::RunningStore;
using testing::RunningTuner;

class AuditedStores : public testing::HostileStoreTest {
 protected:
  static nlohmann::json ask(const Result<HttpResponse>& answer) {
    answer.status().or_throw();
    EXPECT_LT(answer->status, 400) << answer->body;
    return nlohmann::json::parse(answer->body);
  }
  static nlohmann::json job(const HttpClient& tuner) { return ask(tuner.get("/jobs/1")); }
  static nlohmann::json store_named(const HttpClient& tuner, const std::string& name) {
    for (const nlohmann::json& s : ask(tuner.get("/stores"))) {
      if (s.at("store") == name) return s;
    }
    return {};
  }
  // The one line of the audit log about a store.
  static nlohmann::json drain_in(const std::string& lines) {
    nlohmann::json drain;
    std::istringstream from(lines);
    for (std::string text; std::getline(from, text);) {
      nlohmann::json line = nlohmann::json::parse(text);
      if (line.at("what") != "store") continue;
      EXPECT_TRUE(drain.is_null()) << lines;
      drain = std::move(line);
    }
    EXPECT_FALSE(drain.is_null()) << lines;
    return drain;
  }
  nlohmann::json spec_of(const HttpClient& tuner) const {
    const std::string file = real_fs().read(at("base.onnx")).or_throw();
    const std::string model = to_hex(sha256(file));
    (void)ask(tuner.put("/models/" + model, file));
    JobSpec spec = fine_tuning(0);
    spec.stores = {};
    spec.model = model;
    return nlohmann::json::parse(spec.text());
  }
  // Rows of tenths, of whatever it is asked for, until `stop`.
  void lie(const std::atomic<bool>& stop) {
    Hostile evil(address());
    (void)evil.greet(hello());
    wire::Job job;
    size_t bytes = 0;
    uint64_t chunks = 0;
    while (!stop) {
      const wire::ToStore m = evil.await(
          [&](const auto& a) { return stop || a.has_job() || a.has_wanted() || a.has_job_end(); });
      if (m.has_job()) {
        job = m.job();
        const ModelFile extractor = load_model(
            real_fs(), at("tuner/models/" + to_hex(digest_of(job.extractor()).value()) + ".onnx"));
        bytes = 0;
        for (const TensorType& t : row_types_of(extractor.model)) bytes += bytes_of_row(t);
        wire::FromStore photos = inventory(job.job());
        photos.set_answers(job.serial());
        evil.send(photos);
      } else if (m.has_wanted()) {
        evil.send(rows_of_tenths(job, m.wanted(), bytes, ++chunks));
      }
    }
  }
  static wire::FromStore rows_of_tenths(const wire::Job& job, const wire::Wanted& wanted,
                                        size_t bytes, uint64_t chunk) {
    wire::FromStore m;
    m.set_answers(job.serial());
    wire::Rows& rows = *m.mutable_rows();
    rows.set_job(job.job());
    rows.set_run(wanted.run());
    rows.set_chunk(chunk);
    rows.set_numbers(wanted.numbers());
    const size_t n = unpack_numbers(wanted.numbers(), UINT64_MAX, 1000).or_throw().size();
    const std::vector<float> tenths(n * bytes / sizeof(float), .1F);
    rows.set_rows(std::string(reinterpret_cast<const char*>(tenths.data()), n * bytes));
    rows.set_checksum(xxh3(rows.rows().data(), rows.rows().size()));
    return m;
  }
};

TEST_F(AuditedStores, OneWhoseFeaturesAreNotThoseOfOthersIsDrainedAndTheJobBeginsAnewWithoutIt) {
  const nlohmann::json calm = run(fine_tuning(2), "calm");
  TunerConfig config = tuner("tuner");
  config.http = "127.0.0.1:0";
  std::atomic<bool> stop = false;
  std::jthread evil;
  {
    RunningTuner t(config, devices_);
    const HttpClient tuner(t.http());
    RunningStore a(store("a", 0, 1), devices_), b(store("b", 0, 1), devices_);
    evil = std::jthread([&] {
      try {
        lie(stop);
      } catch (const std::exception&) {  // its Tuner goes
      }
    });
    await([&] { return ask(tuner.get("/stores")).size() == 3; });
    (void)ask(tuner.post("/jobs", spec_of(tuner).dump()));
    await([&] { return job(tuner).at("state") == "failed"; });
    const std::string why = job(tuner).at("message");
    EXPECT_THAT(why, HasSubstr("store evil makes other features than store "));
    EXPECT_THAT(why, HasSubstr("evil is drained, and ndtrain job resume 1 begins anew without it"));
    const nlohmann::json drained = store_named(tuner, "evil");
    EXPECT_EQ(drained.at("drained"), true);
    EXPECT_THAT(why, HasSubstr(drained.at("wrong_features").get<std::string>()));
    EXPECT_EQ(store_named(tuner, "a").at("wrong_features"), "");
    EXPECT_THAT(tuner.get("/metrics").or_throw().body,
                HasSubstr(R"(ndtrain_store_features_wrong{store="evil"} 1)"));

    const nlohmann::json line = drain_in(tuner.get("/audit").or_throw().body);
    EXPECT_EQ(line.at("who"), "job 1");
    EXPECT_EQ(line.at("request"), "POST /stores/evil/drain");
    const nlohmann::json& asked = line.at("asked");
    EXPECT_EQ(asked.at("why"), drained.at("wrong_features"));
    const std::string photo = asked.at("photo");
    EXPECT_EQ(photo.size(), 2 * sizeof(Digest));
    EXPECT_THAT(why, HasSubstr("of photo " + photo.substr(0, 12) + ": they differ by"));

    (void)ask(tuner.post("/jobs/1/resume", R"({"stores": ["a", "b"]})"));
    await([&] { return job(tuner).at("state") == "done"; });
    const nlohmann::json result = job(tuner).at("result");
    EXPECT_EQ(result.at("train_photos"), calm.at("train_photos"));
    EXPECT_EQ(result.at("model_id"), calm.at("model_id")) << "no row of it was left";
  }
  stop = true;
  evil.join();

  RunningTuner again(config, devices_);
  const HttpClient tuner(again.http());
  EXPECT_NE(store_named(tuner, "evil").at("wrong_features"), "") << "after a restart, too";
  (void)ask(tuner.post("/stores/evil/undrain", ""));
  EXPECT_EQ(store_named(tuner, "evil").at("wrong_features"), "") << "it is given work again";
  EXPECT_EQ(store_named(tuner, "evil").at("drained"), false);
}

}  // namespace
}  // namespace ndtrain::tuner
