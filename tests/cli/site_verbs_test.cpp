// Verbs that ask a Tuner for something, and what a person sees of it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "framework/core/hash.h"
#include "framework/core/publish.h"
#include "ndp/labels/label_db.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;

class SiteVerbs : public testing_cli::SiteTest {
 protected:
  void begin(int photos, int stores) {
    draw_photos(photos);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    site_ = up_json(stores);
  }
  // With --http.
  Outcome run_at(std::vector<std::string> words) const {
    words.insert(words.end(), {"--http", site_.at("http").get<std::string>()});
    return run(words);
  }
  // So many photos of c0 are what their folder says, by a person, at this time.
  void say(int photos, int64_t time) const {
    const auto db = open_label_db("sqlite:" + at("site/tuner/labels.db")).or_throw();
    LabelBatch said{.task = db->task(kDefaultTask).or_throw(), .source = LabelSource::kHuman};
    const std::vector<std::string> names = {"c0"};
    const int64_t c0 = db->class_ids(said.task, names).or_throw()[0];
    for (const auto& file : std::filesystem::directory_iterator(at("photos/c0"))) {
      if (std::ssize(said.labels) == photos) break;
      const std::vector<PhotoPlace> place = {
          {file.path().filename().string(), sha256(real_fs().read(file.path()).or_throw())}};
      const int64_t collection = db->collection(kDefaultCollection).or_throw();
      said.labels.push_back(
          {.photo = db->add_photos(collection, place).or_throw()[0], .class_id = c0, .time = time});
    }
    db->put_labels(said).or_throw();
  }
  nlohmann::json job(int number) const {
    return ask(site_, {"job", "show", std::to_string(number)});
  }
  bool is_away(const std::string& name) const {
    const nlohmann::json stores = ask(site_, {"store", "ls"});
    return std::ranges::any_of(stores, [&](const nlohmann::json& s) {
      return s.at("store") == name && s.at("here") == false;
    });
  }

  nlohmann::json site_;
};

TEST_F(SiteVerbs, AJobThatWaitsForAStoreBeginsWithoutItOnStartNow) {
  begin(12, 2);
  kill_member("store2");
  ASSERT_EQ(
      ask(site_, {"job", "submit", "eval", "-m", "m.onnx", "--store-timeout", "600"}).at("job"), 1);
  ASSERT_TRUE(comes([&] { return job(1).contains("waits_for"); }));
  Outcome o = run_at({"job", "start-now", "1"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("job        1\n"));
  o = run_at({"job", "show", "1", "--follow"});
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_THAT(o.err, HasSubstr("begins without waiting for stores that are not ready, on request"));
  EXPECT_THAT(o.out, ::testing::ContainsRegex("left out +store2: [1-9]"));
  o = run_at({"job", "start-now", "1"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("job 1 waits for no store"));
}

TEST_F(SiteVerbs, AJobIsPausedUntilItIsResumed) {
  begin(8, 1);
  const std::vector<std::string> words = {"job", "submit", "eval", "-m", "m.onnx", "--stores"};
  const auto submit = [&](const std::string& stores) {
    std::vector<std::string> all = words;
    all.push_back(stores);
    return ask(site_, all).at("job").get<int>();
  };
  const int first = submit("2");
  EXPECT_EQ(ask(site_, {"job", "pause", std::to_string(first)}).at("state"), "paused");
  const int second = submit("1");
  EXPECT_EQ(run_at({"job", "show", std::to_string(second), "--follow"}).code, 0);
  EXPECT_EQ(job(first).at("state"), "paused");
  EXPECT_EQ(run_at({"job", "pause", std::to_string(first)}).code, 1);
  ask(site_, {"job", "resume", std::to_string(first), "--stores", "1"});
  EXPECT_EQ(run_at({"job", "show", std::to_string(first), "--follow"}).code, 0);
}

TEST_F(SiteVerbs, AStoreThatIsGoneIsForgotten) {
  begin(8, 2);
  EXPECT_EQ(ask(site_, {"store", "drain", "store2"}).at("drained"), true);
  EXPECT_EQ(ask(site_, {"store", "ls"}).at(1).at("drained"), true);
  EXPECT_EQ(ask(site_, {"store", "drain", "store2", "--undo"}).at("drained"), false);
  EXPECT_EQ(ask(site_, {"store", "ls"}).at(1).at("drained"), false);
  Outcome o = run_at({"store", "forget", "store2"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("store 'store2' is here; stop it first"));
  kill_member("store2");
  ASSERT_TRUE(comes([&] { return is_away("store2"); }));
  EXPECT_EQ(run_at({"store", "forget", "store2"}).code, 0);
  EXPECT_EQ(ask(site_, {"store", "ls"}).size(), 1U);
  o = run_at({"store", "drain", "store2"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("there is no store 'store2'"));
}

TEST_F(SiteVerbs, APhotoIsRemovedWithItsLabels) {
  begin(8, 1);
  // Of a version that is in force.
  ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--follow"});
  ask(site_, {"job", "submit", "relabel", "--follow"});
  const std::string file = real_fs().read(at("photos/c1/3.jpg")).or_throw();
  const auto labelled = [&] {
    return run({"labels", "export", "--db", "sqlite:site/tuner/labels.db"}).out;
  };
  ASSERT_THAT(labelled(), AllOf(HasSubstr("store1/c0/0.jpg,"), HasSubstr("store1/c1/3.jpg,")));
  const Outcome o = run_at({"photos", "rm", "store1/c0/0.jpg", to_hex(sha256(file)), "--now"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("store1/c0/0.jpg is deleted; told: store1\n"));
  EXPECT_TRUE(comes([&] {
    return !real_fs().exists(at("photos/c0/0.jpg")) && !real_fs().exists(at("photos/c1/3.jpg"));
  }));
  EXPECT_TRUE(comes([&] {
    const std::string all = labelled();
    return all.find("c0/0.jpg") == all.npos && all.find("c1/3.jpg") == all.npos;
  })) << labelled();
  EXPECT_THAT(labelled(), HasSubstr("store1/c0/2.jpg,"));
  EXPECT_EQ(run_at({"photos", "rm", "store1/nowhere.jpg"}).code, 1);
}

TEST_F(SiteVerbs, PhotosLikeOneAreNamedNearestFirst) {
  begin(8, 1);
  ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--follow"});
  ask(site_, {"job", "submit", "relabel", "--follow"});
  const std::string photo = "store1/c0/0.jpg";
  const nlohmann::json by_path = ask(site_, {"photos", "like", photo, "-k", "3"});
  ASSERT_EQ(by_path.at("photos").size(), 3U);
  EXPECT_EQ(by_path["photos"][0].at("path"), photo);
  EXPECT_EQ(by_path.at("searched"), 8);
  const std::string file = at("photos/c0/0.jpg");
  EXPECT_EQ(ask(site_, {"photos", "like", file, "--top-k", "3"}), by_path);
  const std::string id = by_path["photos"][0].at("id");
  EXPECT_EQ(ask(site_, {"photos", "like", id, "-k", "3"}), by_path);
  const Outcome o = run_at({"photos", "like", photo});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, AllOf(HasSubstr("similarity"), HasSubstr(photo),
                           HasSubstr("of 8 photos that version 1 has features of")));
  Outcome bad = run_at({"photos", "like", photo, "--task", "weather"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("no version of task weather is in force"));
  bad = run_at({"photos", "like", photo, "--collection", "garden"});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("no store of the collection garden"));
  EXPECT_THAT(run_at({"photos", "like", photo, "-k", "0"}).err, HasSubstr("1 to 1000"));
  bad = run_at({"photos", "like", at("m.onnx")});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.err, HasSubstr("not a photo"));
}

// The oracle: what labels export says, byte for byte.
TEST_F(SiteVerbs, APhotoIsInTheTrashUntilItIsRestoredAndThenAsItWas) {
  begin(8, 1);
  ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--follow"});
  ask(site_, {"job", "submit", "relabel", "--follow"});
  const std::string photo = "store1/c0/0.jpg";
  const auto exported = [&] {
    return run({"labels", "export", "--db", "sqlite:site/tuner/labels.db"}).out;
  };
  const auto are_counted = [&](int photos) {
    return comes([&] { return ask(site_, {"store", "ls"})[0].at("photos") == photos; });
  };
  const std::string before = exported();
  ASSERT_THAT(before, HasSubstr(photo + ","));
  EXPECT_THAT(run_at({"photos", "trash"}).out, HasSubstr("the trash is empty"));
  Outcome o = run_at({"photos", "rm", photo, "--dry-run"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr(photo + " would go to the trash; told: store1; it is at " + photo));
  EXPECT_THAT(run_at({"photos", "rm", photo, "--now", "--dry-run"}).out,
              HasSubstr(photo + " would be deleted for good"));
  EXPECT_EQ(exported(), before);
  EXPECT_EQ(ask(site_, {"photos", "trash"}), nlohmann::json::array());

  o = run_at({"photos", "rm", photo, "--keep", "12h"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr(photo + " is in the trash until "));
  ASSERT_TRUE(comes([&] { return exported().find(photo) == std::string::npos; })) << exported();
  EXPECT_TRUE(real_fs().exists(at("photos/c0/0.jpg"))) << "its file is not touched";
  EXPECT_TRUE(are_counted(7));
  const nlohmann::json trash = ask(site_, {"photos", "trash"});
  ASSERT_EQ(trash.size(), 1U);
  EXPECT_EQ(trash[0].at("paths"), nlohmann::json::array({photo}));
  EXPECT_EQ(trash[0].at("until").get<int64_t>() - trash[0].at("since").get<int64_t>(), 12 * 3600);
  EXPECT_THAT(run_at({"photos", "trash"}).out, HasSubstr(photo));
  ask(site_, {"job", "submit", "relabel", "--follow"});
  EXPECT_EQ(job(3).at("result").at("photos"), 7) << "no job is about it";

  o = run_at({"photos", "restore", photo});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr(photo + " is restored"));
  EXPECT_TRUE(are_counted(8));
  EXPECT_TRUE(comes([&] { return exported() == before; })) << exported() << before;
  EXPECT_EQ(run_at({"photos", "restore", photo}).code, 1) << "it is not in the trash any more";
  EXPECT_EQ(run_at({"photos", "rm", photo, "--keep", "soon"}).code, 2);
}

TEST_F(SiteVerbs, APhotoThatCannotBeReadEndsARelabellingWithExit3) {
  draw_photos(8);
  publish(real_fs(), at("photos/c0/torn.jpg"), "\xff\xd8\xff and nothing more").or_throw();
  begin(8, 1);
  const Outcome o = run_at({"job", "submit", "relabel", "-m", "m.onnx", "--follow"});
  EXPECT_EQ(o.code, 3) << o.err;
  EXPECT_THAT(o.out, ::testing::ContainsRegex("\nleft_out +1\n"));
  EXPECT_THAT(o.out, HasSubstr("without 1 photo of its stores: unreadable"));
  EXPECT_EQ(job(1).at("result").at("labelled"), 8);
}

TEST_F(SiteVerbs, ADryRunOfARelabellingLabelsNothing) {
  begin(8, 1);
  ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--follow"});
  const nlohmann::json said = ask(site_, {"job", "submit", "relabel", "--dry-run", "--follow"});
  EXPECT_EQ(said.at("state"), "done");
  EXPECT_EQ(said.at("result").at("to_label"), 8);
  EXPECT_FALSE(said.at("result").contains("labelled"));
  const std::vector<std::string> label = {"job", "submit", "relabel", "--follow"};
  EXPECT_EQ(ask(site_, label).at("result").at("labelled"), 8) << "none was labelled before";
}

TEST_F(SiteVerbs, AccuracyWithoutValidationIsADashAndNullInJson) {
  begin(8, 1);
  const std::vector<std::string> train = {"job",    "submit", "finetune", "-m",
                                          "m.onnx", "--head", "linear",   "--val-split",
                                          "0",      "-e",     "1",        "--follow"};
  const Outcome o = run_at(train);
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("0 for validation: there will be no accuracy"));
  for (const char* key : {"top1", "top5", "val_loss"}) {
    EXPECT_THAT(o.out, ::testing::ContainsRegex(std::string("\n") + key + " +-\n"));
    EXPECT_TRUE(job(1).at("result").at(key).is_null()) << key;
  }
  EXPECT_THAT(run_at({"job", "ls"}).out, HasSubstr("top-1 -"));
  EXPECT_THAT(run_at({"model", "ls"}).out, ::testing::ContainsRegex("\n +1 .* - "));
}

TEST_F(SiteVerbs, LaterRunsLearnLessWhenDampedAndEachHasItsBound) {
  begin(40, 1);
  const Outcome o =
      run_at({"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "-r", "3", "-e", "1",
              "--lr", "0.03", "--damp", "--val-split", "0", "--follow"});
  ASSERT_EQ(o.code, 0) << o.err;
  // Of three runs, (N - run/2) / N with runs counted from 0: 1, 5/6 and 2/3.
  const std::string rows = real_fs().read(at("site/tuner/jobs/1/run/results.csv")).or_throw();
  EXPECT_THAT(rows, ::testing::ContainsRegex("\n1,[^\n]*,0.03,[^\n]*\n2,[^\n]*,0.025,[^\n]*\n"
                                             "3,[^\n]*,0.02,"));
  // NDPipe, lemma 5.2: sqrt(ln(2 parameters / theta) / (2 photos)), theta 0.05.
  constexpr double kParameters = 2 * 64 + 2;
  int photos = 0;
  for (int i = 1; i <= 3; ++i) {
    const std::string run = "run " + std::to_string(i) + "/3: ";
    const size_t begins = o.err.find(run);
    ASSERT_NE(begins, o.err.npos) << o.err;
    const int n = std::stoi(o.err.substr(begins + run.size()));
    const double bound = std::sqrt(std::log(2 * kParameters / .05) / (2.0 * n));
    EXPECT_THAT(o.err.substr(begins, o.err.find('\n', begins) - begins),
                HasSubstr(fmt::format("bound on the difference of loss between runs {:.3f} (95 %)",
                                      bound)));
    photos += n;
  }
  EXPECT_EQ(photos, 40);
}

TEST_F(SiteVerbs, AJobThatDivergesPublishesNothing) {
  begin(12, 1);
  const Outcome o = run_at({"job", "submit", "finetune", "-m", "m.onnx", "--freeze", "layer1",
                            "--lr", "1e30", "-e", "3", "-b", "4", "--follow"});
  EXPECT_EQ(o.code, 1) << o.out;
  EXPECT_THAT(o.out, AllOf(HasSubstr("state      failed: "), HasSubstr("diverged"),
                           HasSubstr("lower learning rate")));
  EXPECT_TRUE(ask(site_, {"model", "ls"}).empty());
  EXPECT_EQ(ask(site_, {"store", "ls"}).at(0).at("version_in_force"), 0);
  EXPECT_FALSE(real_fs().exists(at("site/tuner/jobs/1/run/model.onnx")));
}

TEST_F(SiteVerbs, AJobIsTrainedByTheFlagsOfTrain) {
  begin(24, 1);
  int jobs = 0;
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear",
                               "-b", "4", "--deterministic", "--follow", "--no-publish"});
    const nlohmann::json result = ask(site_, more).at("result");
    const std::string run = fmt::format("site/tuner/jobs/{}/run/model.onnx", ++jobs);
    return std::pair(real_fs().read(at(run)).or_throw(), result);
  };
  const auto plain = train({"-e", "2"}).first;
  EXPECT_EQ(train({"-e", "2", "--class-weights", "c0=1,c1=1"}).first, plain);
  EXPECT_NE(train({"-e", "2", "--class-weights", "c0=4"}).first, plain);
  EXPECT_NE(train({"-e", "2", "--sampling", "balanced"}).first, plain);
  EXPECT_NE(train({"-e", "2", "--label-smoothing", "0.2"}).first, plain);
  EXPECT_NE(train({"-e", "2", "--augment", "mixup=1"}).first, plain);
  EXPECT_EQ(train({"-e", "2", "--layer-decay", "0.5"}).first, plain) << "of one layer";
  const auto [calibrated, result] = train({"-e", "2", "--calibrate"});
  EXPECT_NE(calibrated, plain);
  EXPECT_GT(result.at("temperature").get<double>(), 0);
  EXPECT_EQ(train({"-e", "9", "--lr", "1e-30", "--patience", "2"}).second.at("epochs"), 3);
}

TEST_F(SiteVerbs, AFlagOfAnotherKindOfJobIsRefused) {
  begin(2, 1);
  for (const auto& [kind, flag, value] : {std::tuple{"relabel", "--epochs", "3"},
                                          {"relabel", "--promote", "always"},
                                          {"eval", "--since", "7"},
                                          {"eval", "--only", "stale"},
                                          {"finetune", "--only", "stale"},
                                          {"finetune", "--top-k", "3"}}) {
    const Outcome o = run_at({"job", "submit", kind, flag, value, "-m", "m.onnx"});
    EXPECT_EQ(o.code, 2) << kind << flag;
    EXPECT_THAT(o.err, HasSubstr(std::string(flag) + " says nothing to the kind " + kind));
  }
  for (const std::vector<std::string>& flag :
       {std::vector<std::string>{"--model", "m.onnx"}, {"--only", "stale"}, {"--epochs", "3"}}) {
    const Outcome o = run_at({"job", "submit", "refine", flag[0], flag[1]});
    EXPECT_EQ(o.code, 2) << flag[0];
    EXPECT_THAT(o.err, HasSubstr(flag[0] + " says nothing to the kind refine"));
  }
  // What holds for other verbs and kinds, too, is no mistake.
  publish(real_fs(), at("ndtrain.toml"), "epochs = 3\n").or_throw();
  EXPECT_EQ(run_at({"job", "submit", "relabel", "-m", "m.onnx", "--store-timeout", "9", "--top-k",
                    "1", "--precision", "bf16", "--max-drop", "100", "--follow", "--json",
                    "--quiet", "--seed", "3"})
                .code,
            0);
}

TEST_F(SiteVerbs, ARefinementListsLabelsThatPhotosContradict) {
  begin(24, 1);
  (void)ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--follow"});
  (void)ask(site_, {"job", "submit", "relabel", "--follow"});
  const std::vector<std::string> db = {"--db", "sqlite:site/tuner/labels.db"};
  std::string truth = "path,label\n";
  for (int i = 0; i < 24; ++i) truth += fmt::format("store1/c{0}/{1}.jpg,c{0}\n", i % 2, i);
  publish(real_fs(), at("truth.csv"), truth).or_throw();
  ASSERT_EQ(run({"labels", "import", "truth.csv", db[0], db[1]}).code, 0);
  const nlohmann::json job = ask(site_, {"job", "submit", "refine", "--dry-run", "--follow"});
  EXPECT_EQ(job.at("result").at("looked_at"), 24);
  EXPECT_EQ(job.at("spec").at("dry_run"), true);
  EXPECT_THAT(run_at({"job", "ls"}).out,
              ::testing::ContainsRegex("refine +done .*[0-9]+ of 24 labels contradicted"));
}

TEST_F(SiteVerbs, AJobIsTrainedOnThePhotosThatAreChosen) {
  begin(24, 1);
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear",
                               "-e", "1", "--follow", "--no-publish"});
    return ask(site_, more).at("result");
  };
  const nlohmann::json all = train({});
  const auto photos = all.at("train_photos").get<int64_t>();
  const nlohmann::json few = train({"--sample", "5"});
  EXPECT_EQ(few.at("train_photos"), 5);
  EXPECT_EQ(few.at("val_photos"), all.at("val_photos"));
  const auto one = train({"--label", "c1"}).at("train_photos").get<int64_t>();
  EXPECT_TRUE(one > 0 && one < photos) << one;
  EXPECT_EQ(train({"--label", "c0,c1"}).at("train_photos"), photos);
  say(10, 200);
  const auto recent = train({"--since", "200"}).at("train_photos").get<int64_t>();
  EXPECT_TRUE(recent > 0 && recent <= 10) << recent;
  EXPECT_EQ(train({"--since", "200", "--sample", "3", "--truth-share", "0.5"}).at("train_photos"),
            recent + 3);
  const Outcome none = run_at({"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear",
                               "--since", "4000000000", "--follow"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("no photo to train on is left by what --since 4000000000"));
}

TEST_F(SiteVerbs, UploadsOfAnOlderPipeStoreAreNoClassAndItIsSaid) {
  const std::string photo = encode_jpeg(cli::draw_demo_photo(0, cli::Look::kDay, 1000));
  const std::string hex = to_hex(sha256(photo));
  const std::string folder = at("photos/uploads/" + hex.substr(0, 2));
  std::filesystem::create_directories(folder);
  publish(real_fs(), folder + "/" + hex + ".jpg", photo).or_throw();
  begin(8, 1);
  const Outcome job = run_at({"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--follow"});
  EXPECT_EQ(job.code, 0) << job.err;
  EXPECT_THAT(job.err, HasSubstr("8 photos of 2 classes"));
  EXPECT_THAT(real_fs().read(at("site/store1.log")).or_throw(),
              HasSubstr("were uploaded to an older version; they stay in use, as no class"));

  const Outcome train = run({"train", "photos", "-m", "m.onnx", "-o", "run", "-e", "1"});
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_THAT(train.err, AllOf(HasSubstr("8 photos of 2 classes: c0 4, c1 4\n"),
                               HasSubstr("photos/uploads: 1 photos are left out that people "
                                         "uploaded to a PipeStore of an older version")));
}

TEST_F(SiteVerbs, BenchesOfHttpAskARunningSite) {
  begin(8, 1);
  const std::string tuner = site_.at("http");
  const std::string store = ask(site_, {"store", "ls"}).at(0).at("http");
  const auto bench = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "bench");
    words.push_back("--json");
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out);
  };
  const nlohmann::json http = bench({"http", tuner, "--slow", "20", "--seconds", "1"});
  EXPECT_EQ(http.at("unanswered"), 0);
  EXPECT_GT(http.at("asked"), 0);
  EXPECT_GE(http.at("dialled"), 20);
  const nlohmann::json all =
      bench({"http", tuner, "--slow", "20", "--kinds", "heads,bodies,readers", "--slow-path", "/",
             "--addresses", "2", "--ask", "/jobs", "--seconds", "1"});
  EXPECT_EQ(all.at("unanswered"), 0);
  EXPECT_EQ(all.at("ask").at("unanswered"), 0);
  EXPECT_GT(all.at("ask").at("asked"), 0);
  EXPECT_THAT(run({"bench", "http", tuner, "--kinds", "tails"}).err,
              HasSubstr("--kinds tails: there are heads, bodies and readers"));
  EXPECT_THAT(run({"bench", "http", tuner, "--addresses", "251"}).err,
              HasSubstr("--addresses 251: 0 to 250"));
  const nlohmann::json upload =
      bench({"upload", store, "--photos", "photos", "-c", "2", "--seconds", "0.5"});
  // Kept: without a version in force there is no label to answer with.
  EXPECT_GT(upload.at("answers").at("202"), 0) << upload;
  // The one of number i is due after i / rate seconds; each client may have one under way.
  const nlohmann::json paced =
      bench({"upload", store, "--photos", "photos", "-c", "2", "--seconds", "1", "--rate", "10"});
  EXPECT_LE(paced.at("answers").at("202"), 12) << paced;
  EXPECT_GE(paced.at("seconds"), 1) << paced;
}

TEST_F(SiteVerbs, APipeStoreWithoutPhotosSaysSo) {
  const Outcome o = run({"pipestore", "serve", "--photos", "nowhere", "--state", "state"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("no directory of photos at nowhere"));
}

TEST_F(SiteVerbs, AJobSaysWhichClassesFallAndWhyNothingWasPredicted) {
  begin(12, 1);
  (void)ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--follow"});
  Outcome o = run_at({"job", "show", "1"});
  EXPECT_THAT(o.out,
              AllOf(::testing::ContainsRegex("not predicted +no fine-tuning with this model"),
                    Not(HasSubstr(" falls")), Not(HasSubstr("predicted by"))));
  (void)ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "-e", "1", "--follow"});
  EXPECT_EQ(run({"down", "site"}).code, 0);
  const std::string path = at("site/tuner/jobs/2/job.json");
  nlohmann::json record = nlohmann::json::parse(real_fs().read(path).or_throw());
  record.erase("checksum");
  const auto fall = [](const char* name, int photos, int before, int after, bool beyond) {
    return nlohmann::json{{"class", name},
                          {"photos", photos},
                          {"before", before},
                          {"after", after},
                          {"chance", beyond ? 0.01 : 0.5},
                          {"beyond_chance", beyond}};
  };
  record["result"]["class_falls"] = {fall("c0", 10, 10, 1, true), fall("c1", 4, 4, 3, false)};
  record["message"] = "version 2 (0a) is not in force: no better: it waits";
  publish(real_fs(), path, record.dump()).or_throw();
  site_ = up_json(1);
  EXPECT_THAT(run_at({"job", "ls"}).out, HasSubstr(", version 2 (0a) is not in force\n"));
  o = run_at({"job", "show", "2"});
  EXPECT_THAT(o.out, HasSubstr("no better: it waits"));
  EXPECT_THAT(o.out,
              HasSubstr("class c0 falls                   1 of 10 photos right, 10 before: beyond "
                        "chance\nclass c1 falls                   3 of 4 photos right, 4 before: "
                        "may be chance\n"));
  EXPECT_THAT(o.out, AllOf(HasSubstr("predicted by job 1: "), Not(HasSubstr("not predicted"))));
}

TEST_F(SiteVerbs, JobsAndVersionsHaveNamesNotesAndTags) {
  begin(24, 1);
  ASSERT_EQ(ask(site_, {"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "-e", "2",
                        "--name", "Rosen", "--note", "first", "--tag", "july", "--follow"})
                .at("name"),
            "Rosen");
  EXPECT_THAT(run_at({"job", "ls"}).out, HasSubstr("  Rosen  [july]\n"));
  EXPECT_THAT(run_at({"job", "tag", "1", "+x", "-july"}).out, HasSubstr("tags          x\n"));
  EXPECT_EQ(run_at({"job", "note", "1", "second"}).code, 0);
  EXPECT_THAT(run_at({"job", "show", "1"}).out,
              HasSubstr("name          Rosen\nnote          second\ntags          x\n"));
  EXPECT_EQ(job(1).at("spec").contains("notes"), false);
  EXPECT_EQ(run_at({"model", "note", "1", "good", "--name", "Tulpen"}).code, 0);
  EXPECT_THAT(run_at({"model", "tag", "1", "+y"}).out,
              HasSubstr("name          Tulpen\nnote          good\ntags          y\n"));
  EXPECT_THAT(run_at({"model", "ls"}).out, HasSubstr("  Tulpen  [y]\n"));
  // What is wrong is said, and nothing changes.
  EXPECT_THAT(run_at({"job", "tag", "9", "+x"}).err, HasSubstr("there is no job 9"));
  EXPECT_THAT(run_at({"model", "tag", "1", "-z"}).err, HasSubstr("there is no tag 'z'"));
  EXPECT_EQ(run_at({"job", "tag", "x", "+x"}).code, 2);
  EXPECT_EQ(run_at({"job", "submit", "eval", "--tag", "a b"}).code, 2);
  // The run of the job has the job's; they are changed at the Tuner.
  const nlohmann::json runs = nlohmann::json::parse(run({"runs", "ls", "site", "--json"}).out);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs.at(0).at("job"), 1);
  EXPECT_EQ(runs.at(0).at("name"), "Rosen");
  EXPECT_EQ(runs.at(0).at("epochs_asked"), 2);
  EXPECT_EQ(runs.at(0).at("state"), "done");
  EXPECT_THAT(run({"runs", "tag", runs.at(0).at("run"), "+z"}).err, HasSubstr("ndtrain job tag 1"));
  // A Tuner that starts again has them still.
  ASSERT_EQ(run({"down", "site"}).code, 0);
  site_ = up_json(1);
  EXPECT_EQ(job(1).at("note"), "second");
  EXPECT_EQ(ask(site_, {"model", "ls"}).at(0).at("tags"), nlohmann::json({"y"}));
}

}  // namespace
}  // namespace ndtrain
