// The program as a user meets it: exit codes, messages, and what survives being killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "framework/core/rng.h"
#include "ndp/labels/label_db.h"
#include "ndp/wire/link_security.h"
#include "tests/cli/program_fixture.h"
#include "tests/support/paths.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

using testing_cli::Outcome;
using testing_cli::ProgramTest;

TEST_F(ProgramTest, MistypedVerbsAndFlagsSuggestTheRightOnes) {
  Outcome o = run({"trian"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("did you mean 'ndtrain train'"));
  o = run({"model", "inspekt", "x"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("model inspect"));
  o = run({"store"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("'store' needs a second word: store ls, store drain, store forget"));
  o = run({"train", "--epoch", "3"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("--epochs"));
  o = run({"train", "photos", "-m", "x", "-o", "y", "-e", "three"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("three"));
}

// The verbs that the program lists, as words.
std::vector<std::vector<std::string>> listed_verbs(const std::string& overview) {
  std::vector<std::vector<std::string>> verbs;
  std::istringstream lines(overview);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  ")) continue;
    std::istringstream words(line.substr(2, line.find("  ", 2) - 2));
    verbs.emplace_back(std::istream_iterator<std::string>(words),
                       std::istream_iterator<std::string>());
  }
  return verbs;
}

TEST_F(ProgramTest, HelpOfEveryVerbHasExamplesAndNoEmptyDefaults) {
  const Outcome all = run({"--help"});
  EXPECT_EQ(all.code, 0);
  const auto verbs = listed_verbs(all.out);
  EXPECT_GT(verbs.size(), 15u) << all.out;
  for (std::vector<std::string> words : verbs) {
    std::string name;
    for (const std::string& w : words) name += " " + w;
    words.emplace_back("--help");
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << name;
    EXPECT_THAT(o.out, HasSubstr("Examples:\n  ndtrain" + name));
    EXPECT_THAT(o.out, ::testing::Not(HasSubstr("(default: \"\")"))) << name;
    EXPECT_THAT(o.out, HasSubstr("--json")) << name;
  }
  EXPECT_THAT(run({"doctor", "--help"}).out, ::testing::Not(HasSubstr("\nOptions:\n")));
  EXPECT_THAT(run({"eval", "--help"}).out,
              ::testing::AllOf(HasSubstr("Arguments:\n  MODEL  a run directory"),
                               HasSubstr("(default: 32)")));
}

// In the sources of this directory, without their blanks.
bool is_run(const std::vector<std::string>& verb, const std::vector<std::string>& tests) {
  std::string words = "{";
  for (const std::string& w : verb) words += (words == "{" ? "\"" : ",\"") + w + "\"";
  return std::ranges::any_of(tests, [&](const std::string& text) {
    if (text.find(words) != text.npos) return true;
    // Or of a fixture that puts the first word before the others.
    return verb.size() == 2 && text.find("words.begin(),\"" + verb[0] + "\")") != text.npos &&
           text.find("({\"" + verb[1] + "\"") != text.npos;
  });
}

TEST_F(ProgramTest, EveryVerbIsRunByATest) {
  std::vector<std::string> tests;
  for (const auto& file : std::filesystem::directory_iterator(support::source_path("/tests/cli"))) {
    if (!file.path().native().ends_with("_test.cpp")) continue;
    std::string& text = tests.emplace_back(real_fs().read(file.path()).or_throw());
    std::erase_if(text, [](unsigned char c) { return std::isspace(c); });
  }
  for (const std::vector<std::string>& verb : listed_verbs(run({"--help"}).out)) {
    std::string name;
    for (const std::string& w : verb) name += w + " ";
    EXPECT_TRUE(is_run(verb, tests)) << name;
  }
}

TEST_F(ProgramTest, VersionIsPrinted) {
  const Outcome o = run({"version"});
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out, ::testing::MatchesRegex("ndtrain [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST_F(ProgramTest, DoctorListsEveryBackendAsLoadedOrSaysWhyNot) {
  const nlohmann::json j = nlohmann::json::parse(run({"doctor", "--json"}).out);
  std::set<std::string> loaded, all;
  for (const nlohmann::json& b : j.at("backends")) loaded.insert(b.at("name").get<std::string>());
  all = loaded;
  for (const nlohmann::json& b : j.value("unavailable_backends", nlohmann::json::array())) {
    EXPECT_NE(b.at("why"), "") << b;
    EXPECT_TRUE(all.insert(b.at("name").get<std::string>()).second) << b << " is loaded";
  }
  EXPECT_TRUE(loaded.contains("cpu")) << j;
  EXPECT_EQ(all, (std::set<std::string>{"cpu", "onednn", "cuda"})) << j;
}

TEST_F(ProgramTest, DoctorSaysByWhatRanksCanTalkOrWhyNot) {
  const nlohmann::json j = nlohmann::json::parse(run({"doctor", "--json"}).out);
  std::set<std::string> all;
  for (const nlohmann::json& c : j.at("communication")) {
    all.insert(c.at("name").get<std::string>());
    EXPECT_NE(c.value("library", ""), c.value("why_not", "")) << c << " has one of them";
    EXPECT_TRUE(c.contains("library") != c.contains("why_not")) << c;
  }
  EXPECT_EQ(all, (std::set<std::string>{"mpi", "nccl"})) << j;
}

TEST_F(ProgramTest, DoctorListsEveryPhotoDecoderOrHowToBuildIt) {
  const nlohmann::json j = nlohmann::json::parse(run({"doctor", "--json"}).out);
  const std::string text = run({"doctor"}).out;
  std::set<std::string> all;
  for (const nlohmann::json& p : j.at("photos")) {
    const auto use = p.at("use").get<std::string>();
    all.insert(use);
    EXPECT_TRUE(p.contains("library") != p.contains("missing")) << p;
    EXPECT_THAT(text, HasSubstr("photos: " + use + (p.contains("library") ? " by " : " not in")));
  }
  EXPECT_EQ(all, (std::set<std::string>{"JPEG", "PNG", "HEIC", "AVIF", "WebP", "GIF", "TIFF",
                                        "colour profiles"}))
      << j;
}

TEST_F(ProgramTest, MissingFilesAreNamed) {
  const Outcome o = run({"model", "inspect", "nowhere.onnx"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("nowhere.onnx"));
}

TEST_F(ProgramTest, FlagsComeFromTheFileThenTheEnvironmentThenTheCommandLine) {
  publish(real_fs(), at("ndtrain.toml"), "classes = 7\n[\"model build\"]\nimg-size = 40\n")
      .or_throw();
  using Environment = std::map<std::string, std::string>;
  const auto built = [&](const Environment& environment, const std::vector<std::string>& flags) {
    std::vector<std::string> words = {"model", "build", "tinynet", "-o", "a.onnx"};
    words.insert(words.end(), flags.begin(), flags.end());
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    const Outcome build = run(words);
    for (const auto& [name, value] : environment) unsetenv(name.c_str());
    EXPECT_EQ(build.code, 0) << build.err;
    return nlohmann::json::parse(run({"model", "inspect", "a.onnx", "--json"}).out);
  };
  const auto size_of = [](const nlohmann::json& model) {
    return model.at("preprocessing").get<std::string>();
  };
  const auto more_classes = [&](const nlohmann::json& more, const nlohmann::json& fewer) {
    constexpr int64_t kPerClass = 65;  // weights and a bias
    return (more.at("parameters").get<int64_t>() - fewer.at("parameters").get<int64_t>()) /
           kPerClass;
  };
  const nlohmann::json file = built({}, {});
  EXPECT_THAT(size_of(file), HasSubstr("crop 40"));
  const Environment set = {{"NDTRAIN_CLASSES", "9"}, {"NDTRAIN_IMG_SIZE", "48"}};
  const nlohmann::json environment = built(set, {});
  EXPECT_THAT(size_of(environment), HasSubstr("crop 48")) << "the file overruled the environment";
  EXPECT_EQ(more_classes(environment, file), 2) << "the file overruled the environment";
  const nlohmann::json command_line = built(set, {"--classes", "12"});
  EXPECT_EQ(more_classes(command_line, environment), 3);
  EXPECT_THAT(size_of(command_line), HasSubstr("crop 48"));
}

TEST_F(ProgramTest, SettingsThatNoVerbKnowsAreErrorsWithASuggestion) {
  const std::vector<std::string> build = {"model",  "build",     "tinynet", "-o",
                                          "m.onnx", "--classes", "2"};
  const auto refused = [&](const std::string& toml, const std::string& what) {
    publish(real_fs(), at("ndtrain.toml"), toml).or_throw();
    const Outcome o = run(build);
    EXPECT_EQ(o.code, 2) << toml;
    EXPECT_THAT(o.err, HasSubstr(what));
  };
  refused("seed = 1\nepoch = 3\n",
          "ndtrain.toml line 2: no verb has an option 'epoch'; did you mean 'epochs'?");
  refused("[train]\nlearning-rate = 3\n", "line 2: ndtrain train has no option 'learning-rate'");
  refused("[trian]\nepochs = 3\n", "there is no verb 'trian'; did you mean 'train'?");
  refused("[train]\nimg-sise = 3\n", "ndtrain train has no option 'img-sise'");
  refused("a = = 3\n", "ndtrain.toml: line 1: ");
  refused("[.\n", "ndtrain.toml: no TOML");
  // What other verbs know is fine.
  publish(real_fs(), at("ndtrain.toml"), "epochs = 3\n[train]\nepochs = 4\n").or_throw();
  EXPECT_EQ(run(build).code, 0);

  setenv("NDTRAIN_EPOCH", "3", 1);
  const Outcome o = run(build);
  unsetenv("NDTRAIN_EPOCH");
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("NDTRAIN_EPOCH is in the environment"));
  EXPECT_THAT(o.err, HasSubstr("did you mean 'NDTRAIN_EPOCHS'?"));
  setenv("NDTRAIN_IMG_SIZE", "40", 1);
  EXPECT_EQ(run(build).code, 0);
  unsetenv("NDTRAIN_IMG_SIZE");
  EXPECT_THAT(run({"model", "inspect", "m.onnx"}).out, HasSubstr("f32[1,3,40,40]"));
}

TEST_F(ProgramTest, ARelabelKilledAgainAndAgainLabelsEveryPhotoOnce) {
  constexpr int kPhotos = 400;
  draw_photos(kPhotos);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const std::vector<std::string> words = {"relabel",          "photos", "-m", "m.onnx", "--db",
                                          "sqlite:labels.db", "-b",     "4",  "--json"};
  Rng rng(1, "kill");
  for (int i = 0; i < 10; ++i) {
    const pid_t child = start(words);
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + rng.next_below(130)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }
  const Outcome last = run(words);
  ASSERT_EQ(last.code, 0) << last.err;
  const auto json = nlohmann::json::parse(last.out);
  EXPECT_EQ(json.at("labelled").get<int>() + json.at("already_labelled").get<int>(), kPhotos);

  const auto db = open_label_db("sqlite:" + at("labels.db")).or_throw();
  const int64_t collection = db->collection(kDefaultCollection).or_throw(),
                task = db->task(kDefaultTask).or_throw();
  const LabelPage page = db->query({.collection = collection, .task = task}).or_throw();
  ASSERT_EQ(page.rows.size(), static_cast<size_t>(kPhotos));
  for (const LabelRow& r : page.rows)
    EXPECT_EQ(db->history(task, r.photo).or_throw().size(), 1U) << r.path;
}

TEST_F(ProgramTest, ADryRelabelCountsAndLabelsNothing) {
  draw_photos(6);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const auto relabel = [&](const std::string& more) {
    const Outcome o =
        run({"relabel", "photos", "-m", "m.onnx", "--db", "sqlite:labels.db", "--json", more});
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out);
  };
  EXPECT_EQ(relabel("--dry-run").at("to_label"), 6);
  EXPECT_EQ(relabel("--quiet").at("labelled"), 6) << "none was before";
  EXPECT_EQ(relabel("--dry-run").at("to_label"), 0);
}

TEST_F(ProgramTest, ARelabelKilledInTheMiddleGoesOnFromThere) {
  constexpr int kPhotos = 400;
  draw_photos(kPhotos);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const std::vector<std::string> words = {
      "relabel", "photos", "-m", "m.onnx", "--db",  "sqlite:labels.db",
      "-b",      "4",      "-j", "1",      "--json"};
  const auto labels = [&]() -> size_t {
    const auto db = open_label_db("sqlite:" + at("labels.db"), OpenLabelDb::kExisting);
    if (!db.ok()) return 0;
    const auto collection = existing_collection(**db, std::string(kDefaultCollection));
    const auto task = existing_task(**db, std::string(kDefaultTask));
    if (!collection.ok() || !task.ok()) return 0;
    const auto page = (*db)->query({.collection = *collection, .task = *task, .limit = kPhotos});
    return page.ok() ? page->rows.size() : 0;
  };
  // On a busy machine it may have ended before it is looked at; or who looks has the database when
  // it wants to make it.
  size_t done = kPhotos;
  for (int attempt = 0; attempt < 20 && (done == kPhotos || done == 0); ++attempt) {
    for (const char* file : {"labels.db", "labels.db-wal", "labels.db-shm"}) {
      std::filesystem::remove(at(file));
    }
    const pid_t child = start(words);
    while (labels() == 0 && waitpid(child, nullptr, WNOHANG) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    done = labels();
  }
  EXPECT_GT(done, 0U);
  ASSERT_LT(done, size_t{kPhotos}) << "it was never in the middle";
  const Outcome last = run(words);
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(nlohmann::json::parse(last.out).at("already_labelled"), done);
  EXPECT_EQ(nlohmann::json::parse(last.out).at("labelled"), kPhotos - done);
}

TEST_F(ProgramTest, CompressedCropsTakeFewerBytesAndServeTheNextRelabelling) {
  draw_photos(40);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  std::map<std::string, int64_t> bytes;
  for (const std::string way : {"keep-crops", "compress-crops"}) {
    for (const bool again : {false, true}) {
      const std::string db = "sqlite:" + way + (again ? "2.db" : ".db");
      const Outcome o = run(
          {"relabel", "photos", "-m", "m.onnx", "--db", db, "--cache", way, "--" + way, "--json"});
      ASSERT_EQ(o.code, 0) << o.err;
      const nlohmann::json j = nlohmann::json::parse(o.out);
      EXPECT_EQ(j.at("from_crops"), again ? 40 : 0);
      bytes[way] = j.at("cache_bytes");
      const nlohmann::json listed =
          nlohmann::json::parse(run({"cache", "ls", "--cache", way, "--json"}).out);
      EXPECT_EQ(listed.at("disk_bytes"), bytes[way]);
    }
  }
  EXPECT_GT(bytes["compress-crops"], 0);
  EXPECT_LT(bytes["compress-crops"], bytes["keep-crops"]);
}

TEST_F(ProgramTest, BenchesShowTheTimeAndRateOfEachOp) {
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const auto profile = [&](const std::string& what) {
    const Outcome o = run({"bench", what, "-m", "m.onnx", "--seconds", "0", "--profile"});
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_THAT(o.out, HasSubstr("GOP/s"));
    EXPECT_THAT(o.out, HasSubstr("a pointwise convolution of 512 channels"));
    return o.out;
  };
  // With its pool where the processor has no better way.
  EXPECT_THAT(profile("forward"), HasSubstr("FusedConv"));
  EXPECT_THAT(profile("train"), AllOf(HasSubstr("ConvGradWeight"), HasSubstr("AdamStep")));
}

TEST_F(ProgramTest, DeterministicTrainingGivesTheSameBytesForAnyNumberOfThreads) {
  draw_photos(40);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  for (const std::string freeze : {"layer1", "none"}) {
    std::vector<std::string> models;
    for (const std::string threads : {"1", "2", "5"}) {
      const std::string name = "run_" + freeze + threads;
      const Outcome o =
          run({"train", "photos", "-m", "m.onnx", "-o", name, "-e", "2", "-b", "7", "--freeze",
               freeze, "--deterministic", "-j", threads, "--cache", "cache" + threads});
      ASSERT_EQ(o.code, 0) << o.err;
      models.push_back(real_fs().read(at(name + "/model.onnx")).or_throw());
    }
    EXPECT_TRUE(models[0] == models[1] && models[0] == models[2]) << freeze;
  }
}

TEST_F(ProgramTest, TrainsAndEvaluatesOnTheLabelsOfADatabase) {
  draw_photos(24);
  std::string csv = "path,label\n";
  for (int i = 0; i < 20; ++i) {
    const std::string c = "c" + std::to_string(i % 2);
    csv += c + "/" + std::to_string(i) + ".jpg," + (i % 2 == 0 ? "tidy" : "messy") + "\n";
  }
  publish(real_fs(), at("truth.csv"), csv).or_throw();
  const std::vector<std::string> db = {"--db", "sqlite:labels.db", "--task", "rooms"};
  auto with_db = [&](std::vector<std::string> words) {
    words.insert(words.end(), db.begin(), db.end());
    return run(words);
  };
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const std::vector<std::string> train = {"train", "photos", "-m", "m.onnx", "-o",
                                          "run",   "-e",     "1",  "--json"};
  Outcome o = with_db(train);
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("labels.db"));
  ASSERT_EQ(run({"relabel", "photos", "-m", "m.onnx", "--db", "sqlite:labels.db"}).code, 0);
  ASSERT_EQ(with_db({"labels", "import", "truth.csv"}).code, 0);
  o = with_db(train);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("unlabelled"), 4);
  EXPECT_EQ(real_fs().read(at("run/classes.txt")).or_throw(), "tidy\nmessy\n");
  o = with_db({"eval", "run", "--data", "photos", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("photos"), 20);
  EXPECT_EQ(nlohmann::json::parse(o.out).at("unlabelled"), 4);

  EXPECT_EQ(with_db({"eval", "run", "--data", "photos", "--labels", "truth.csv"}).code, 2);
  EXPECT_EQ(run({"eval", "run", "--data", "photos", "--pseudo"}).code, 2);
}

TEST_F(ProgramTest, QuarantinedPhotosGiveExitCodeThree) {
  draw_photos(6);
  publish(real_fs(), at("photos/c0/bad.jpg"), "no photo at all").or_throw();
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const Outcome o = run({"predict", "m.onnx", "photos", "-k", "1"});
  EXPECT_EQ(o.code, 3);
  EXPECT_THAT(o.err, HasSubstr("bad.jpg"));
  EXPECT_THAT(o.out, HasSubstr("c1/5.jpg,1,"));
}

TEST_F(ProgramTest, CertInitMakesWhatBothSidesLoad) {
  Outcome o = run({"cert", "init", "certs", "--host", "10.0.0.5,tuner.example", "--store", "a,b-1",
                   "--member", "rank0=10.0.0.6+rank0.example,rank1", "--days", "30", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto load = [&](const std::string& name, LinkRole role) {
    const std::string path = at("certs/") + name;
    return load_security(real_fs(), system_clock(), role, at("certs/ca.crt"), path + ".crt",
                         path + ".key")
        .status()
        .message();
  };
  EXPECT_EQ(load("tuner", LinkRole::kTuner), "");
  EXPECT_EQ(load("a", LinkRole::kStore), "");
  EXPECT_EQ(load("b-1", LinkRole::kStore), "");
  EXPECT_EQ(load("rank0", LinkRole::kMember), "");
  EXPECT_EQ(load("rank1", LinkRole::kMember), "");
  EXPECT_THAT(load("a", LinkRole::kMember), HasSubstr("is not for a member of a training"));
  const auto json = nlohmann::json::parse(o.out);
  ASSERT_EQ(json.at("files").size(), 6u);
  for (const auto& file : json.at("files")) {
    struct stat s;
    ASSERT_EQ(::stat(at(file.at("key").get<std::string>()).c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 0777, 0600u) << file;
    const int64_t days = file.at("name") == "ca" ? 3650 : 30;
    const int64_t left = file.at("expires").get<int64_t>() - system_clock().unix_seconds();
    EXPECT_NEAR(static_cast<double>(left), static_cast<double>(days * 24 * 3600), 600) << file;
  }
  EXPECT_THAT(json.at("commands").at(1).get<std::string>(),
              HasSubstr("--tuner 10.0.0.5:25258 --state STATE --ca certs/ca.crt --cert "
                        "certs/a.crt --key certs/a.key"));
}

TEST_F(ProgramTest, CertInitReplacesOnlyWhatItIsToldTo) {
  ASSERT_EQ(run({"cert", "init", "certs", "--store", "a"}).code, 0);
  const auto certificate = [&](const std::string& name) {
    return real_fs().read(at("certs/" + name + ".crt")).or_throw();
  };
  const std::string ca = certificate("ca"), tuner = certificate("tuner"), a = certificate("a");

  Outcome o = run({"cert", "init", "certs", "--store", "b,a"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("certs/a.crt exists; --force replaces it"));
  EXPECT_FALSE(real_fs().exists(at("certs/b.crt")));

  o = run({"cert", "init", "certs", "--store", "b"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("kept  certs/ca.crt"));
  EXPECT_THAT(o.out, HasSubstr("made  certs/b.crt"));
  ASSERT_EQ(run({"cert", "init", "certs", "--store", "a", "--force"}).code, 0);
  EXPECT_EQ(certificate("ca"), ca);
  EXPECT_EQ(certificate("tuner"), tuner);
  EXPECT_NE(certificate("a"), a);

  EXPECT_EQ(run({"cert", "init", "certs", "--host", "other"}).code, 1);
  ASSERT_EQ(run({"cert", "init", "certs", "--host", "other", "--force"}).code, 0);
  EXPECT_NE(certificate("tuner"), tuner);

  real_fs().remove(at("certs/ca.key")).or_throw();
  o = run({"cert", "init", "certs", "--store", "c"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("certs/ca.key is missing beside certs/ca.crt"));
}

TEST_F(ProgramTest, CertInitNamesWhatCannotBe) {
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"cert", "init", "certs"});
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 2);
    EXPECT_FALSE(real_fs().exists(at("certs")));
    return o.err;
  };
  EXPECT_THAT(refused({"--host", "a,b:1"}), HasSubstr("--host 'b:1'"));
  EXPECT_THAT(refused({"--host", "a,"}), HasSubstr("--host ''"));
  EXPECT_THAT(refused({"--store", "a,.b"}), HasSubstr("--store '.b'"));
  EXPECT_THAT(refused({"--store", "ca"}), HasSubstr("--store 'ca'"));
  EXPECT_THAT(refused({"--store", "tuner"}), HasSubstr("--store 'tuner'"));
  EXPECT_THAT(refused({"--member", "a=b:1"}), HasSubstr("--member 'a=b:1': 'b:1'"));
  EXPECT_THAT(refused({"--member", "tuner"}), HasSubstr("--member 'tuner'"));
  EXPECT_THAT(refused({"--member", "a", "--store", "a"}), HasSubstr("'a' is named twice"));
  EXPECT_THAT(refused({"--days", "0"}), HasSubstr("--days 0"));
  EXPECT_THAT(refused({"--days", "3651"}), HasSubstr("--days 3651"));
  EXPECT_THAT(refused({"--force"}), HasSubstr("--host, --store, --member or --web"));
  EXPECT_THAT(refused({"--web", "a,b:1"}), HasSubstr("--web 'b:1'"));
}

}  // namespace
}  // namespace ndtrain
