// Jobs of a Tuner take each flag of training that `train` takes, or say why they do not.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;
using Words = std::vector<std::string>;

// What a flag is tried with, and what it goes with.
struct Trial {
  Words value, with = {};
};

const Words kSparse = {"--tuners", "2", "--sync", "sparse"},
            kLocal = {"--tuners", "2", "--sync", "local"},
            kDiloco = {"--tuners", "2", "--sync", "diloco"},
            kControlled = {"--tuners", "2", "--sync",       "sparse",
                           "--batch",  "8", "--controller", "--convergence",
                           "c.txt"};

const std::map<std::string, Trial> kTrials = {
    {"accumulate", {{"2"}}},
    {"add-classes", {{}}},
    {"all-gather", {{"ring"}, kSparse}},
    {"alpha", {{"0.5"}, {"--opt", "rmsprop"}}},
    {"amsgrad", {{}, {"--opt", "adam"}}},
    {"augment", {{"mixup=0.4"}}},
    {"batch", {{"8"}}},
    {"best", {{"loss"}}},
    {"betas", {{"0.5,0.75"}, {"--opt", "adam"}}},
    {"calibrate", {{}}},
    {"centered", {{}, {"--opt", "rmsprop"}}},
    {"class-weights", {{"c0=2"}}},
    {"clip-norm", {{"2"}}},
    {"compressor", {{"topk"}, kSparse}},
    {"compute", {{"bf16"}}},
    {"controller",
     {{"--convergence", "c.txt"}, {"--tuners", "2", "--sync", "sparse", "--batch", "8"}}},
    {"convergence", {{"d.txt"}, kControlled}},
    {"dampening", {{"0.5"}, {"--opt", "sgd", "--momentum", "0.5"}}},
    {"deterministic", {{}}},
    {"drain-every", {{"7"}, {"--tuners", "2", "--sync", "sparse", "--staleness", "1"}}},
    {"drop", {{"0.9"}, kSparse}},
    {"drop-of", {{"*=0.5"}, kSparse}},
    {"dry-run", {{}, kControlled}},
    {"ema", {{"0.9"}}},
    {"epochs", {{"3"}}},
    {"eps", {{"0.1"}, {"--opt", "adam"}}},
    {"factor-rank", {{"3"}, {"--tuners", "2", "--sync", "powersgd"}}},
    {"fragments", {{"2"}, kDiloco}},
    {"freeze", {{"1"}}},
    {"group-duplicates", {{}}},
    {"head", {{"linear"}}},
    {"inner-steps", {{"7"}, kLocal}},
    {"label", {{"c0"}}},
    {"label-smoothing", {{"0.1"}}},
    {"largest-batch", {{"9"}, kControlled}},
    {"layer-decay", {{"0.5"}}},
    {"lr", {{"0.5"}}},
    {"lr-of", {{"fc.*=0.5"}}},
    {"max-drop", {{"2"}, {"--precision", "bf16"}}},
    {"micro-batches", {{"2"}, {"--tuners", "2", "--parallel", "pipeline"}}},
    {"mixing", {{"0.5"}, {"--tuners", "2", "--sync", "diloco", "--overlap", "1"}}},
    {"momentum", {{"0.5"}, {"--opt", "sgd"}}},
    {"nesterov", {{}, {"--opt", "sgd", "--momentum", "0.5"}}},
    {"opt", {{"sgd"}}},
    {"outer-lr", {{"0.5"}, kDiloco}},
    {"outer-momentum", {{"0.5"}, kDiloco}},
    {"overlap", {{"1"}, kDiloco}},
    {"parallel", {{"pipeline"}, {"--tuners", "2"}}},
    {"patience", {{"2"}}},
    {"pieces", {{}, kSparse}},
    {"pipeline-schedule", {{"1f1b"}, {"--tuners", "2", "--parallel", "pipeline"}}},
    {"precision", {{"bf16"}}},
    {"sample", {{"5"}}},
    {"sampling", {{"balanced"}}},
    {"scan", {{"rotate"}, kSparse}},
    {"sched", {{"cosine"}}},
    {"seed", {{"3"}}},
    {"shards", {{"2"}}},
    {"since", {{"100"}}},
    {"sparse-momentum", {{"lazy"}, {"--tuners", "2", "--sync", "sparse", "--opt", "sgd"}}},
    {"staleness", {{"1"}, kSparse}},
    {"sync", {{"auto"}, {"--tuners", "2"}}},
    {"truth-share", {{"0.5"}, {"--since", "100"}}},
    {"val-split", {{"0.5"}}},
    {"verify", {{"9"}, kSparse}},
    {"views", {{"3"}, {"--augment", "flip", "--views", "2"}}},
    {"warmup", {{"1"}}},
    {"weight-decay", {{"0.5"}}},
    {"wire-dtype", {{"bf16"}, kSparse}}};

// Of the verb or the job, not of its training.
const std::set<std::string> kOfOthers = {
    "collection", "help", "json", "labels", "model",   "name",     "note",        "out",
    "quiet",      "tag",  "task", "cache",  "threads", "device",   "less-memory", "tf32",
    "tuning",     "ca",   "cert", "key",    "crl",     "insecure", "site",        "rank-timeout"};

class TrainingFlags : public testing_cli::SiteTest {
 protected:
  std::vector<nlohmann::json> flags(const std::string& verb) const {
    Words words = {"help"};
    for (const std::string& word : verb == "finetune" ? Words{verb} : Words{"job", "submit"}) {
      words.push_back(word);
    }
    return options(words);
  }
  std::vector<nlohmann::json> options(Words words) const {
    words.emplace_back("--json");
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out).at("options").get<std::vector<nlohmann::json>>();
  }
  static bool has(const std::vector<nlohmann::json>& options, const std::string& name) {
    return std::ranges::any_of(options,
                               [&](const nlohmann::json& o) { return o.at("name") == name; });
  }
  // Of a job with these words.
  nlohmann::json spec(const Words& more) {
    Words words = {"job", "submit", "finetune", "-m", "m.onnx"};
    words.insert(words.end(), more.begin(), more.end());
    const nlohmann::json submitted = ask(site_, words);
    if (!submitted.is_object()) return {};
    return ask(site_, {"job", "show", std::to_string(submitted.at("job").get<int>())}).at("spec");
  }

  nlohmann::json site_;
};

TEST_F(TrainingFlags, OfTrainAreTakenByJobsOrRefusedWithTheReason) {
  for (const std::string verb : {"finetune", "job submit"}) {
    const std::vector<nlohmann::json> taken = flags(verb);
    for (const nlohmann::json& option : options({"help", "train"})) {
      const std::string name = option.at("name");
      if (has(taken, name)) {
        EXPECT_TRUE(kTrials.contains(name) || kOfOthers.contains(name))
            << "--" << name << " of train is new: say above how a job takes it";
        continue;
      }
      Words words = verb == "finetune" ? Words{"finetune"} : Words{"job", "submit", "finetune"};
      words.push_back("--" + name + "=1");
      const Outcome o = run(words);
      EXPECT_EQ(o.code, 2) << verb << " --" << name;
      EXPECT_THAT(o.err, HasSubstr("there is no --" + name + " here: ")) << verb;
    }
  }
}

// Each of them by itself changes what the Tuner is asked.
TEST_F(TrainingFlags, DecideWhatAJobIsAsked) {
  draw_photos(4);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  site_ = up_json(1);
  ask(site_, {"store", "drain", ask(site_, {"store", "ls"}).at(0).at("store")});
  for (const std::string profile : {"c.txt", "d.txt"}) {
    std::ofstream(at(profile)) << "ndtrain-convergence-1\n# " << profile
                               << "\nmodel m\nover drop\nreference_batch 8\n"
                                  "reference_drop 0.9\nlargest_batch 16\npoint 1 0.9 0.02\n";
  }
  std::map<Words, nlohmann::json> plain;  // by what goes with the flag
  for (const auto& [name, trial] : kTrials) {
    if (!plain.contains(trial.with)) plain[trial.with] = spec(trial.with);
    Words words = trial.with;
    words.push_back("--" + name);
    words.insert(words.end(), trial.value.begin(), trial.value.end());
    EXPECT_NE(spec(words), plain[trial.with]) << "--" << name << " is not heard of";
  }
}

}  // namespace
}  // namespace ndtrain
