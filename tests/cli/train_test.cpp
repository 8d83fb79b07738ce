// What `train` and `eval` say before they start, how a run goes on, and how it is repeated.
#include <gmock/gmock.h>
#include <stdlib.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "framework/train/schedule.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;

class TrainProgram : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    draw_photos(24);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }

  Outcome train(const std::string& run_directory, std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "photos", "-m", "m.onnx", "-o", run_directory});
    return run(more);
  }
  std::string bytes(const std::string& name) const { return real_fs().read(at(name)).or_throw(); }
};

TEST_F(TrainProgram, ClassesAndHowManyValidateAreSaidBeforeItStarts) {
  Outcome o = train("run", {"-e", "1"});
  ASSERT_EQ(o.code, 0) << o.err;
  const size_t classes = o.err.find("photos: 24 photos of 2 classes: c0 12, c1 12\n"),
               split = o.err.find(" to validate, a share of 0.2 by their content\n"),
               begins = o.err.find("extracting features");
  EXPECT_TRUE(classes < split && split < begins && begins != o.err.npos) << o.err;
  o = run({"eval", "run", "--data", "photos"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_LT(o.err.find("photos: 24 photos of 2 classes: c0 12, c1 12\n"), o.err.find("evaluating"))
      << o.err;
}

TEST_F(TrainProgram, EvalSaysHowGoodEachClassIs) {
  ASSERT_EQ(train("run", {"-e", "1"}).code, 0);
  const Outcome o = run({"eval", "run", "--data", "photos", "--json", "--confusion", "m.csv"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json json = nlohmann::json::parse(o.out);
  int64_t m[2][2] = {};
  ASSERT_EQ(
      std::sscanf(real_fs().read(at("m.csv")).or_throw().c_str(),
                  "truth,c0,c1\nc0,%ld,%ld\nc1,%ld,%ld", &m[0][0], &m[0][1], &m[1][0], &m[1][1]),
      4);
  double sum = 0;
  for (const int c : {0, 1}) {
    const nlohmann::json& quality = json.at("classes").at(static_cast<size_t>(c));
    EXPECT_EQ(quality.at("class"), "c" + std::to_string(c));
    EXPECT_EQ(quality.at("photos"), m[c][0] + m[c][1]);
    const auto right = static_cast<double>(m[c][c]);
    const double f1 = 2 * right / static_cast<double>(m[c][0] + m[c][1] + m[0][c] + m[1][c]);
    EXPECT_NEAR(quality.at("recall").get<double>(), right / 12, 1e-12);
    EXPECT_NEAR(quality.at("f1").get<double>(), f1, 1e-12);
    sum += f1;
  }
  EXPECT_NEAR(json.at("macro_f1").get<double>(), sum / 2, 1e-12);
  EXPECT_GE(json.at("calibration_error").get<double>(), 0);
  EXPECT_THAT(
      run({"eval", "run", "--data", "photos"}).out,
      AllOf(HasSubstr("macro_f1 "), HasSubstr("class  photos  precision  recall      F1\nc0 "),
            ::testing::Not(HasSubstr("classes"))));
  EXPECT_THAT(real_fs().read(at("run/report.html")).or_throw(),
              AllOf(HasSubstr("validation macro F1"), HasSubstr("<th>precision</th>")));
}

TEST_F(TrainProgram, CalibratesWithoutChangingAPrediction) {
  const nlohmann::json plain = nlohmann::json::parse(train("plain", {"-e", "3", "--json"}).out);
  const Outcome o = train("fitted", {"-e", "3", "--calibrate", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const nlohmann::json fitted = nlohmann::json::parse(o.out);
  EXPECT_TRUE(plain.at("temperature").is_null());
  EXPECT_GT(fitted.at("temperature").get<double>(), 0.04);
  EXPECT_EQ(fitted.at("top1"), plain.at("top1"));
  EXPECT_THAT(o.err, HasSubstr("the classifier is divided by a temperature of "));
  EXPECT_NE(bytes("fitted/model.onnx"), bytes("plain/model.onnx"));
  const auto evaluated = [&](const std::string& name) {
    return nlohmann::json::parse(run({"eval", name, "--data", "photos", "--json"}).out);
  };
  EXPECT_EQ(evaluated("fitted").at("classes"), evaluated("plain").at("classes"));
  const Outcome none = train("none", {"-e", "1", "--val-split", "0", "--calibrate"});
  EXPECT_EQ(none.code, 0) << none.err;
  EXPECT_THAT(none.err, HasSubstr("no validation photos: probabilities stay as they are"));
}

TEST_F(TrainProgram, WithoutValidationThereIsNoAccuracy) {
  Outcome o = train("run", {"-e", "1", "--val-split", "0"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, AllOf(HasSubstr("24 photos to train on, 0 to validate: there will be no"),
                           HasSubstr("no photo validated")));
  EXPECT_THAT(o.err, ::testing::ContainsRegex("loss [0-9.]+ \\(top-1 [0-9.]+, top-5 1.0000\\)"));
  for (const char* key : {"top1", "top5", "val_loss"}) {
    EXPECT_THAT(o.out, ::testing::ContainsRegex(std::string("(^|\n)") + key + " +-\n"));
  }
  const nlohmann::json json =
      nlohmann::json::parse(train("again", {"-e", "1", "--val-split", "0", "--json"}).out);
  EXPECT_TRUE(json.at("top1").is_null()) << json;
}

TEST_F(TrainProgram, AModelWithoutClassNamesIsNotEvaluatedOnFolders) {
  Outcome o = run({"eval", "m.onnx", "--data", "photos"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("m.onnx has no class names"),
                           HasSubstr("ndtrain model import m.onnx --classes")));
  publish(real_fs(), at("names.txt"), "c0\nc1\n").or_throw();
  ASSERT_EQ(run({"model", "import", "m.onnx", "--classes", "names.txt", "-o", "named.onnx"}).code,
            0);
  EXPECT_EQ(run({"eval", "named.onnx", "--data", "photos"}).code, 0);
  // Numbers are of outputs, and names in a list have their order.
  publish(real_fs(), at("numbers.csv"), "file,class\nc0/0.jpg,0\nc1/1.jpg,1\n").or_throw();
  EXPECT_EQ(run({"eval", "m.onnx", "--data", "photos", "--labels", "numbers.csv"}).code, 0);
  std::filesystem::create_directories(at("lists"));
  publish(real_fs(), at("lists/names.csv"), "file,class\nc0/0.jpg,cat\nc1/1.jpg,dog\n").or_throw();
  const std::vector<std::string> by_name = {"eval",   "m.onnx",   "--data",
                                            "photos", "--labels", "lists/names.csv"};
  EXPECT_THAT(run(by_name).err, HasSubstr("has no class names"));
  publish(real_fs(), at("lists/classes.txt"), "dog\ncat\n").or_throw();
  EXPECT_EQ(run(by_name).code, 0);
}

TEST_F(TrainProgram, ARunIsRepeatedFromItsSettings) {
  ASSERT_EQ(train("run", {"-e", "2", "-b", "5", "--lr", "3e-3", "--sched", "cosine", "--opt",
                          "adamw", "--weight-decay", "1e-2", "--freeze", "layer2", "--seed", "9",
                          "--deterministic"})
                .code,
            0);
  const std::string settings = bytes("run/args.toml");
  for (const char* line :
       {"DATA = \"photos\"\n", "lr = \"3e-3\"\n", "momentum = \"0.9\"\n", "nesterov = \"false\"\n",
        "warmup = \"0\"\n", "\n[begun]\nversion = ", "\nmodel_sha256 = ", "\nphotos_sha256 = "}) {
    EXPECT_THAT(settings, HasSubstr(line));
  }
  // Whatever holds elsewhere by now.
  publish(real_fs(), at("ndtrain.toml"), "[train]\nepochs = 1\nmomentum = 0.5\n").or_throw();
  setenv("NDTRAIN_LR", "1", 1);
  Outcome o = run({"train", "--config", "run", "-o", "again"});
  unsetenv("NDTRAIN_LR");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(bytes("again/model.onnx"), bytes("run/model.onnx"));
  EXPECT_EQ(bytes("again/args.toml"), settings);
  EXPECT_THAT(o.err, Not(HasSubstr("not as in the run")));

  std::filesystem::remove(at("photos/c0/0.jpg"));
  o = run({"train", "--config", "run/args.toml", "-o", "other", "-e", "1"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("not as in the run that is repeated: the photos"));
  EXPECT_THAT(bytes("other/args.toml"), HasSubstr("epochs = \"1\"\n"));
}

TEST_F(TrainProgram, EachOptimizerHasItsVariants) {
  const auto trained = [&](const std::string& name, std::vector<std::string> flags) {
    flags.insert(flags.end(), {"-e", "2", "-b", "5", "--deterministic", "--weight-decay", "0.01"});
    const Outcome o = train(name, flags);
    EXPECT_EQ(o.code, 0) << o.err;
    return o.code == 0 ? bytes(name + "/model.onnx") : name;
  };
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> variants = {
      {{"--opt", "sgd"}, {"--dampening", "0.5"}},
      {{"--opt", "adam"}, {"--amsgrad"}},
      {{"--opt", "adam"}, {"--betas", "0.5,0.9"}},
      {{"--opt", "adamw"}, {"--eps", "0.001"}},
      {{"--opt", "rmsprop"}, {"--centered"}},
      {{"--opt", "rmsprop"}, {"--alpha", "0.5"}},
      {{"--opt", "rmsprop"}, {"--momentum", "0"}},
      {{"--opt", "sgd"}, {"--clip-norm", "0.01"}},
      {{"--opt", "adam"}, {"--ema", "0.9"}},
      // Of a step's parts statistics of a batch are others; sums of rows alone may be the same.
      {{"--opt", "sgd", "--freeze", "layer2"}, {"--accumulate", "2"}}};
  int run = 0;
  for (auto [flags, variant] : variants) {
    const std::string name = "run" + std::to_string(run++);
    const std::string plain = trained(name, flags);
    flags.insert(flags.end(), variant.begin(), variant.end());
    EXPECT_NE(trained(name + "v", flags), plain) << flags[1] << " " << variant[0];
  }
  const Outcome o = train("none", {"--opt", "sgd", "--amsgrad"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("amsgrad is of adam and adamw"));
  for (const char* wrong : {"0.9", "0.9,1", "0.9,x", "0.9,0.99,0.999", "-1,0.9"}) {
    EXPECT_EQ(train("none", {"--betas", wrong}).code, 2) << wrong;
  }
}

TEST_F(TrainProgram, AnAverageOfTheWeightsIsWrittenAndGoneOnWith) {
  const auto flags = [](const char* epochs) {
    return std::vector<std::string>{"-e", epochs, "-b", "5", "--deterministic", "--ema", "0.9"};
  };
  const Outcome whole = train("whole", flags("4"));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.err, HasSubstr("an average of the weights, of which 0.9 stays at a step, is "
                                   "evaluated and written instead of them"));
  ASSERT_EQ(train("run", flags("2")).code, 0);
  Outcome o = train("run", {"-e", "4", "-b", "5", "--deterministic", "--resume"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("--ema is not given and was 0.9"));
  std::vector<std::string> on = flags("4");
  on.emplace_back("--resume");
  o = train("run", on);
  ASSERT_EQ(o.code, 0) << o.err;
  for (const char* file : {"model.onnx", "last.safetensors", "best.safetensors"}) {
    EXPECT_EQ(bytes(std::string("run/") + file), bytes(std::string("whole/") + file)) << file;
  }
  for (const char* wrong : {"0", "1", "-0.5"}) {
    o = train("none", {"--ema", wrong});
    EXPECT_EQ(o.code, 2) << wrong;
    EXPECT_THAT(o.err, HasSubstr(std::string("--ema ") + wrong + ": above 0 and below 1"));
  }
}

TEST_F(TrainProgram, EachScheduleTrainsAndGoesOnAsItWouldHave) {
  std::set<std::string> models;
  for (const auto& [kind, name] : kSchedules) {
    const std::string sched(name);
    const auto flags = [&](const char* epochs) {
      return std::vector<std::string>{"-e",      epochs, "-b",       "5",  "--deterministic",
                                      "--sched", sched,  "--warmup", "0.5"};
    };
    const Outcome whole = train(sched, flags("4"));
    ASSERT_EQ(whole.code, 0) << whole.err;
    models.insert(bytes(sched + "/last.safetensors"));
    if (follows_length(kind)) continue;
    ASSERT_EQ(train(sched + "2", flags("2")).code, 0);
    std::vector<std::string> on = flags("4");
    on.emplace_back("--resume");
    const Outcome o = train(sched + "2", on);
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.err, Not(HasSubstr("from here on the learning rate")));
    EXPECT_EQ(bytes(sched + "2/last.safetensors"), bytes(sched + "/last.safetensors")) << sched;
  }
  EXPECT_EQ(models.size(), kSchedules.size());
  const Outcome o = train("none", {"--sched", "linear"});
  EXPECT_NE(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("'linear'; there are constant, step, cosine, polynomial"));
}

TEST_F(TrainProgram, AugmentedPhotosAreTrainedOnWhereNothingIsFrozen) {
  const std::vector<std::string> flags = {"-b", "5", "--deterministic", "--freeze", "none"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), flags.begin(), flags.end());
    return more;
  };
  const std::vector<std::string> augmented =
      with({"-e", "3", "--augment", "crop,flip,cutout,jitter,randaugment"});
  ASSERT_EQ(train("plain", with({"-e", "3"})).code, 0);
  Outcome o = train("run", augmented);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(bytes("run/model.onnx"), bytes("plain/model.onnx"));
  EXPECT_THAT(bytes("run/args.toml"),
              HasSubstr("augment = \"crop,flip,cutout,jitter,randaugment\"\n"));
  o = run({"train", "--config", "run", "-o", "again"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(bytes("again/model.onnx"), bytes("run/model.onnx"));

  o = train("run", with({"-e", "3", "--resume"}));
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("--augment"));
  o = train("run",
            with({"-e", "4", "--resume", "--augment", "crop,flip,cutout,jitter,randaugment"}));
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("from here on cut-out is that of the longer run"));
  o = train("frozen", {"--augment", "flip"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("--augment flip: "), HasSubstr("--freeze none")));
  o = train("wrong", with({"--augment", "crops"}));
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(
      o.err,
      HasSubstr("unknown augmentation 'crops'; there are crop, flip, cutout, jitter, randaugment, "
                "mixup=ALPHA and cutmix=ALPHA"));
}

TEST_F(TrainProgram, ResumeNamesTheSettingThatIsAnother) {
  ASSERT_EQ(train("run", {"-e", "2", "--lr", "3e-3", "--deterministic"}).code, 0);
  Outcome o = train("run", {"-e", "2", "--deterministic", "--resume", "--weight-decay", "0.1"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("--lr is 0.001 and was 3e-3"),
                           HasSubstr("--weight-decay is 0.1 and was 0"), HasSubstr("another -o")));
  o = train("run", {"-e", "1", "--lr", "3e-3", "--deterministic", "--resume"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("--epochs is 1 and was 2"));
  ASSERT_EQ(
      run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2", "--seed", "3"}).code, 0);
  std::filesystem::remove(at("photos/c0/0.jpg"));
  o = train("run", {"-e", "2", "--lr", "3e-3", "--deterministic", "--resume"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("the model m.onnx is another one"),
                           HasSubstr("the photos or their labels are others")));
}

TEST_F(TrainProgram, ResumeGoesOnToMoreEpochs) {
  ASSERT_EQ(train("whole", {"-e", "4", "-b", "5", "--deterministic"}).code, 0);
  ASSERT_EQ(train("run", {"-e", "2", "-b", "5", "--deterministic"}).code, 0);
  const Outcome o = train("run", {"-e", "4", "-b", "5", "--deterministic", "--resume"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("going on to 4 epochs, instead of 2"));
  for (const char* file : {"model.onnx", "args.toml", "last.safetensors"}) {
    EXPECT_EQ(bytes(std::string("run/") + file), bytes(std::string("whole/") + file)) << file;
  }
  const std::string rows = bytes("run/results.csv");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 1 + 4);
}

TEST_F(TrainProgram, PatienceEndsItWhenTheAccuracyRisesNoMore) {
  // So small a learning rate changes nothing.
  const Outcome o = train("run", {"-e", "9", "--patience", "2", "--lr", "1e-12", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("epochs"), 3);
  EXPECT_EQ(nlohmann::json::parse(o.out).at("best_epoch"), 1);
}

// By a rate at which the loss goes on falling when no more photos can be right.
TEST_F(TrainProgram, TheBestEpochIsThatOfTheMetricThatIsAskedFor) {
  const std::vector<std::string> flags = {"-e", "6", "--deterministic", "--lr", "0.01", "--json"};
  for (const std::string metric : {"top1", "top5", "loss", "macro-f1"}) {
    std::vector<std::string> more = flags;
    more.insert(more.end(), {"--best", metric});
    const Outcome o = train(metric, more);
    ASSERT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(bytes(metric + "/report.html"), HasSubstr("validation " + metric));
    EXPECT_THAT(bytes(metric + "/args.toml"), HasSubstr("best = \"" + metric + "\"\n"));
    const std::string rows = bytes(metric + "/metrics.jsonl");
    std::vector<double> losses;
    std::istringstream lines(rows);
    for (std::string line; std::getline(lines, line);) {
      losses.push_back(nlohmann::json::parse(line).at("val_loss"));
    }
    ASSERT_EQ(losses.size(), 6U) << rows;
    const auto least = std::min_element(losses.begin(), losses.end());
    if (metric == "loss") {
      EXPECT_EQ(nlohmann::json::parse(o.out).at("best_epoch"), least - losses.begin() + 1) << rows;
      EXPECT_NEAR(nlohmann::json::parse(o.out).at("val_loss").get<double>(), *least, 1e-6);
    }
    if (metric == "top5") {
      EXPECT_EQ(nlohmann::json::parse(o.out).at("best_epoch"), 1) << "of two classes";
    }
  }
  Outcome o = train("loss", {"-e", "7", "--deterministic", "--lr", "0.01", "--resume"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("--best is not given and was loss"));
  o = train("none", {"--best", "accuracy"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("there are top1, top5, loss and macro-f1"));
}

TEST_F(TrainProgram, AddedClassesComeBehindTheModelsOwn) {
  ASSERT_EQ(train("run", {"-e", "1"}).code, 0);
  std::filesystem::rename(at("photos/c0"), at("photos/b0"));
  const std::vector<std::string> words = {"train", "photos", "-m", "run", "-e", "1"};
  const auto trained = [&](const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"-o", name});
    all.insert(all.end(), more.begin(), more.end());
    EXPECT_EQ(run(all).code, 0);
    return bytes(name + "/classes.txt");
  };
  EXPECT_EQ(trained("more", {"--add-classes"}), "c0\nc1\nb0\n");
  EXPECT_EQ(trained("anew", {}), "b0\nc1\n");
}

TEST_F(TrainProgram, FeaturesAreKeptAsTheCacheDtypeSays) {
  const auto feature_bytes = [&](const std::string& dtype) -> int64_t {
    const Outcome o = train("run" + dtype, {"-e", "1", "--cache-dtype", dtype, "--json"});
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out).at("feature_bytes");
  };
  EXPECT_EQ(feature_bytes("f32"), 2 * feature_bytes("f16"));
  EXPECT_EQ(train("run", {"--cache-dtype", "f64"}).code, 2);
}

TEST_F(TrainProgram, ASetOfWhichNoPhotoCanBeReadHasNoAccuracy) {
  ASSERT_EQ(train("run", {"-e", "1"}).code, 0);
  std::filesystem::create_directories(at("torn/c0"));
  publish(real_fs(), at("torn/c0/0.jpg"), "\xff\xd8\xff and nothing more").or_throw();
  const std::vector<std::string> eval = {"eval", "run", "--data", "torn"};
  const Outcome o = run(eval);
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_THAT(o.out, ::testing::ContainsRegex("(^|\n)top1 +-\n"));
  std::vector<std::string> as_json = eval;
  as_json.emplace_back("--json");
  const nlohmann::json json = nlohmann::json::parse(run(as_json).out);
  EXPECT_TRUE(json.at("top1").is_null()) << json;
  EXPECT_TRUE(json.at("top5").is_null()) << json;
}

TEST_F(TrainProgram, TheCacheShrinksToItsBudgetByWholeExtractors) {
  for (const char* dtype : {"f32", "f16"}) {
    ASSERT_EQ(train(std::string("run") + dtype, {"-e", "1", "--cache-dtype", dtype}).code, 0);
  }
  const auto ls = [&] { return nlohmann::json::parse(run({"cache", "ls", "--json"}).out); };
  const nlohmann::json before = ls();
  ASSERT_EQ(before.at("extractors").size(), 2U);
  const int64_t all = before.at("disk_bytes");
  Outcome o = run({"cache", "gc", "--budget", std::to_string(all)});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, ::testing::ContainsRegex("extractors_evicted +0\n"));
  o = run({"cache", "gc", "--budget", std::to_string(all - 1), "--json"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("bytes_before"), all);
  EXPECT_EQ(nlohmann::json::parse(o.out).at("extractors_evicted"), 1);
  const nlohmann::json after = ls();
  ASSERT_EQ(after.at("extractors").size(), 1U);
  EXPECT_EQ(after.at("disk_bytes"), nlohmann::json::parse(o.out).at("bytes_after"));
}

TEST_F(TrainProgram, CachedFeaturesAreSpokenOfWhereThereAreSome) {
  EXPECT_THAT(train("first", {"-e", "1"}).err, Not(HasSubstr("cached features")));
  EXPECT_THAT(train("second", {"-e", "1"}).err, HasSubstr("reading cached features  24 photos"));
}

}  // namespace
}  // namespace ndtrain
