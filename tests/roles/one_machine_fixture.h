// The same training by one machine that has all photos, and by PipeStores that share them. One
// machine has photos in the order of their paths, a job in that of their digests: here these are
// the same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ndp/jobs/finetune.h"
#include "tests/roles/tuner_group_fixture.h"

namespace ndtrain::testing {

class OneMachine : public TunerGroup {
 protected:
  void SetUp() override {
    RolesTest::SetUp();
    flatten();
  }
  // Once more, where there are other photos since.
  void flatten() const {
    std::map<std::string, std::string> labels;
    std::filesystem::create_directories(at("flat"));
    for (const auto& entry : std::filesystem::recursive_directory_iterator(at("photos"))) {
      if (!entry.is_regular_file()) continue;
      const std::string file = real_fs().read(entry.path()).or_throw();
      const std::string name = to_hex(sha256(file)) + ".jpg";
      publish(real_fs(), at("flat/" + name), file).or_throw();
      labels[name] = entry.path().parent_path().filename();
    }
    std::string csv;
    for (const auto& [name, label] : labels) csv += name + "," + label + "\n";
    publish(real_fs(), at("labels.csv"), csv).or_throw();
  }

  // What both do, with the same bytes.
  static JobSpec exact() {
    JobSpec s;
    s.stores = 1u;
    s.deterministic = true;
    s.seed = s.trainer.seed = 7;
    s.trainer.epochs = 4;
    s.trainer.batch = 8;
    s.trainer.schedule.lr = 5e-3;
    s.freeze = "layer1";
    return s;
  }

  // The model's id.
  std::string by_one_machine(const JobSpec& s) {
    FinetuneConfig c{.data = at("flat"),
                     .model = at("base.onnx"),
                     .out = at("run" + std::to_string(++runs_)),
                     .labels = at("labels.csv"),
                     .val_split = s.val_split,
                     .group_duplicates = s.group_duplicates,
                     .freeze = s.freeze};
    c.how.trainer = s.trainer;
    c.augmentation = s.augmentation;
    c.views = s.views;
    c.cache = at("cache");
    NoProgress quiet;
    const FinetuneResult r = finetune(c, devices_.get(true), real_fs(), system_clock(), quiet);
    return to_hex(load_model(real_fs(), r.model).id());
  }

  PipeStoreConfig flat_store(const std::string& name, uint32_t i, uint32_t n) const {
    PipeStoreConfig c = store(name, i, n);
    c.photos = at("flat");
    c.labels = at("labels.csv");
    return c;
  }
  // The job's result.
  nlohmann::json by_stores(JobSpec s, const std::string& state, uint32_t stores) {
    s.stores = stores;
    TunerDaemon daemon(tuner(state), devices_, real_fs(), system_clock());
    std::vector<PipeStoreConfig> configs;
    for (uint32_t i = 0; i < stores; ++i) {
      configs.push_back(flat_store(state + std::to_string(i), i, stores));
    }
    return train_by(daemon, s, configs);
  }

 private:
  int runs_ = 0;
};

}  // namespace ndtrain::testing
