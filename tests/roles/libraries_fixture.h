// Two collections, each at a store of its own, and two tasks, of which both are labelled.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::testing {

class TwoLibraries : public RolesTest {
 protected:
  static constexpr const char* kCollections[] = {"garden", "family"};
  static constexpr const char* kTasks[] = {"default", "mood"};

  static nlohmann::json read(const Result<HttpResponse>& answer) {
    answer.status().or_throw();
    EXPECT_LT(answer->status, 400) << answer->body;
    return nlohmann::json::parse(answer->body);
  }
  TunerConfig tuner_config() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }
  // Half of the photos each.
  PipeStoreConfig store_of(uint32_t i) const {
    PipeStoreConfig config = store(kCollections[i], i, 2);
    config.collection = kCollections[i];
    config.http = "127.0.0.1:0";
    return config;
  }
  static std::string photo(int i) {
    return encode_jpeg(cli::draw_demo_photo(i % kClasses, cli::Look::kDay,
                                            uint64_t{1000} + static_cast<uint64_t>(i)));
  }
  // Of a job that has ended.
  nlohmann::json job(const HttpClient& tuner, const nlohmann::json& spec) {
    const nlohmann::json id = read(tuner.post("/jobs", spec.dump()));
    const std::string path = "/jobs/" + id.at("job").dump();
    nlohmann::json now;
    await([&] {
      now = read(tuner.get(path));
      return now.at("state") == "done" || now.at("state") == "failed";
    });
    EXPECT_EQ(now.at("state"), "done") << now.dump(1);
    return now.at("result");
  }
  nlohmann::json finetuning(const HttpClient& tuner, const std::string& task,
                            const std::string& collection) {
    const std::string file = real_fs().read(at("base.onnx")).or_throw();
    const std::string model = to_hex(sha256(file));
    (void)read(tuner.put("/models/" + model, file));
    return {{"kind", "finetune"}, {"model", model}, {"task", task}, {"collection", collection},
            {"freeze", "layer1"}, {"epochs", 2},    {"batch", 8},   {"promote", true}};
  }
  // People's words on the photos of the folder, in the task mood.
  void say_moods() const {
    const auto db = open_label_db("sqlite:" + at("tuner/labels.db")).or_throw();
    LabelBatch said{.task = db->task("mood").or_throw(), .source = LabelSource::kHuman};
    const std::vector<std::string> names = {"calm", "gay"};
    const std::vector<int64_t> ids = db->class_ids(said.task, names).or_throw();
    const int64_t collection = db->collection("family").or_throw();
    for (const auto& file : std::filesystem::recursive_directory_iterator(at("photos"))) {
      if (!file.is_regular_file()) continue;
      const Digest id = sha256(real_fs().read(file.path()).or_throw());
      const std::vector<PhotoPlace> place = {{"family/" + file.path().filename().string(), id}};
      said.labels.push_back({.photo = db->add_photos(collection, place).or_throw()[0],
                             .class_id = ids[id[0] % 2],
                             .time = 100});
    }
    db->put_labels(said).or_throw();
  }
  std::vector<LabelRow> labels(const std::string& collection, const std::string& task) const {
    const auto db =
        open_label_db("sqlite:" + at("tuner/labels.db"), OpenLabelDb::kExisting).or_throw();
    return db
        ->query({.collection = existing_collection(*db, collection).or_throw(),
                 .task = existing_task(*db, task).or_throw(),
                 .limit = 1000})
        .or_throw()
        .rows;
  }
};

}  // namespace ndtrain::testing
