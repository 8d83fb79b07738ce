#include "ndp/jobs/database_labels.h"

#include <gmock/gmock.h>

#include "ndp/jobs/evaluate_photos.h"
#include "ndp/jobs/relabel.h"
#include "tests/jobs/finetune_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatabaseLabelsTest : public FinetuneTest {
 protected:
  void SetUp() override {
    FinetuneTest::SetUp();
    db_ = open_label_db(url()).or_throw();
    collection_ = db_->collection(kDefaultCollection).or_throw();
    task_ = db_->task(kDefaultTask).or_throw();
    for (const std::string part : {"photos/train", "photos/val"}) {
      for (const Photo& p : photos(part).photos) {
        places_.push_back({p.path, p.digest});
      }
    }
    ids_ = db_->add_photos(collection_, places_).or_throw();
  }

  std::string url() const { return "sqlite:" + at("labels.db"); }
  PhotoSet photos(const std::string& part) const {
    NoProgress quiet;
    const std::string root = at(part);
    return all_photos(real_fs(), *open_catalogue(real_fs(), at("cache"), root), root, quiet);
  }
  void say(LabelSource source, size_t photo, const std::string& name) {
    const std::vector<std::string> names{name};
    std::optional<int64_t> version;
    if (source == LabelSource::kModel) {
      version = db_->version(task_, {.content = sha256("model"), .created = 1}).or_throw();
    }
    db_->put_labels({.task = task_,
                     .source = source,
                     .version = version,
                     .labels = {{.photo = ids_[photo],
                                 .class_id = db_->class_ids(task_, names).or_throw()[0],
                                 .time = ++time_}}})
        .or_throw();
  }
  // What the folders say, as `source` says it.
  void say_folders(LabelSource source) {
    for (size_t i = 0; i < places_.size(); ++i) say(source, i, places_[i].path.substr(0, 2));
  }
  DatabaseLabelsConfig labels(bool pseudo = false) const {
    return {.url = url(), .pseudo = pseudo};
  }
  FinetuneConfig by_database(const std::string& run, bool pseudo = false) const {
    FinetuneConfig c = config(run);
    c.database = labels(pseudo);
    return c;
  }
  static std::string error_of(const std::function<void()>& f) {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  std::unique_ptr<LabelDb> db_;
  int64_t collection_ = 0, task_ = 0, time_ = 0;
  std::vector<PhotoPlace> places_;
  std::vector<int64_t> ids_;
};

TEST_F(DatabaseLabelsTest, TheHighestSourceCountsAndAModelOnlyWhenAsked) {
  // The lowest rank speaks last, so that no newest label is the one that counts.
  say(LabelSource::kHuman, 0, "human");
  for (const size_t i : {0, 1}) say(LabelSource::kImport, i, "import");
  for (const size_t i : {0, 1, 2}) say(LabelSource::kFolder, i, "folder");
  for (const size_t i : {0, 1, 2, 3}) say(LabelSource::kModel, i, "model");
  const PhotoSet all = photos("photos/train");
  auto names = [&](bool pseudo) {
    PhotoSet set = all;
    DatabaseLabels(labels(pseudo)).label(set);
    EXPECT_EQ(set.unlabelled + static_cast<int64_t>(set.photos.size()), kClasses * kTrain);
    std::vector<std::string> found;
    for (const Photo& p : set.photos) found.push_back(set.classes.at(static_cast<size_t>(p.label)));
    return found;
  };
  EXPECT_THAT(names(false), ElementsAre("human", "import", "folder"));
  EXPECT_THAT(names(true), ElementsAre("human", "import", "folder", "model"));
  PhotoSet set = all;
  const DatabaseLabels pseudo(labels(true));
  pseudo.label(set);
  EXPECT_EQ(pseudo.sources_of(set), "1 human, 1 import, 1 folder, 1 model");
}

TEST_F(DatabaseLabelsTest, ClassesAreTheTasksInTheOrderOfTheirIdsWhateverComesLater) {
  say(LabelSource::kImport, 0, "zebra");
  say(LabelSource::kImport, 1, "ape");
  EXPECT_THAT(DatabaseLabels(labels()).classes(), ElementsAre("zebra", "ape"));
  say(LabelSource::kHuman, 2, "mule");
  EXPECT_THAT(DatabaseLabels(labels()).classes(), ElementsAre("zebra", "ape", "mule"));
}

TEST_F(DatabaseLabelsTest, TrainingOnImportedLabelsEqualsTrainingOnFolders) {
  say_folders(LabelSource::kImport);
  train(config("folders"));
  const FinetuneResult r = train(by_database("database"));
  EXPECT_EQ(r.unlabelled, 0);
  EXPECT_EQ(bytes("folders/model.onnx"), bytes("database/model.onnx"));
}

TEST_F(DatabaseLabelsTest, APersonsWordIsTrainedOnInsteadOfTheModels) {
  say_folders(LabelSource::kModel);
  train(by_database("model", true));
  train(config("folders"));
  EXPECT_EQ(bytes("model/model.onnx"), bytes("folders/model.onnx"));
  say(LabelSource::kHuman, 0, "c1");
  train(by_database("corrected", true));
  EXPECT_NE(bytes("corrected/model.onnx"), bytes("folders/model.onnx"));
}

TEST_F(DatabaseLabelsTest, PhotosWithoutALabelAreLeftOutAndCounted) {
  for (size_t i = 0; i < places_.size(); ++i) {
    if (i % 3 != 0) say(LabelSource::kImport, i, places_[i].path.substr(0, 2));
  }
  const FinetuneResult r = train(by_database("run"));
  const auto all = static_cast<int64_t>(places_.size());
  EXPECT_EQ(r.unlabelled, (all + 2) / 3);
  EXPECT_EQ(r.train_photos + r.val_photos + r.unlabelled, all);
  EXPECT_EQ(r.extraction.extracted, all - r.unlabelled) << "nothing is inferred in vain";
}

TEST_F(DatabaseLabelsTest, ErrorsNameWhatIsMissingAndTheRemedyAndMakeNothing) {
  const DatabaseLabelsConfig absent{.url = "sqlite:" + at("absent.db")};
  EXPECT_THAT(error_of([&] { DatabaseLabels{absent}; }), HasSubstr("absent.db"));
  EXPECT_FALSE(real_fs().exists(at("absent.db")));

  DatabaseLabelsConfig other = labels();
  other.task = "birds";
  EXPECT_THAT(error_of([&] { DatabaseLabels{other}; }),
              ::testing::AllOf(HasSubstr("task 'birds'"), HasSubstr("there are: default")));
  EXPECT_THAT(db_->tasks().or_throw(), ElementsAre("default"));
  other = labels();
  other.collection = "attic";
  EXPECT_THAT(error_of([&] { DatabaseLabels{other}; }), HasSubstr("collection 'attic'"));

  say_folders(LabelSource::kModel);
  EXPECT_THAT(error_of([&] { train(by_database("run")); }),
              ::testing::AllOf(HasSubstr("none of its 24 photos"), HasSubstr("labels set"),
                               HasSubstr("labels import"), HasSubstr("--pseudo")));
}

TEST_F(DatabaseLabelsTest, ResumeRefusesLabelsThatChangedMeanwhile) {
  say_folders(LabelSource::kImport);
  train(by_database("run"));
  FinetuneConfig c = by_database("run");
  c.resume = true;
  EXPECT_NO_THROW(train(c));
  say(LabelSource::kHuman, 0, "c2");
  EXPECT_THAT(error_of([&] { train(c); }), HasSubstr("the photos or their labels are others"));
}

TEST_F(DatabaseLabelsTest, AModelsOwnLabelsAgreeWithItEntirely) {
  train(config("run"));
  const ModelFile model = load_model(real_fs(), at("run"));
  NoProgress quiet;
  relabel({.photos = {.names = {at("photos/val")}}, .cache = at("cache")}, model, device_, *db_,
          real_fs(), system_clock(), quiet);
  PhotoSet set = photos("photos/val");
  DatabaseLabels(labels(true)).label(set);
  count_in(set, model.classes);
  EXPECT_EQ(evaluate_photos(model, device_, real_fs(), set, 4, quiet).top1, 1.0);
}

TEST_F(DatabaseLabelsTest, AClassThatTheModelDoesNotKnowIsNamed) {
  say(LabelSource::kHuman, 0, "c0");
  say(LabelSource::kHuman, 1, "unicorn");
  PhotoSet set = photos("photos/train");
  DatabaseLabels(labels()).label(set);
  PhotoSet known = set;
  known.photos.resize(1);
  count_in(known, {"x", "c0"});
  EXPECT_EQ(known.photos[0].label, 1) << "unused classes of the task do no harm";
  EXPECT_THAT(error_of([&] { count_in(set, {"x", "c0"}); }), HasSubstr("unicorn"));
}

}  // namespace
}  // namespace ndtrain::ndp
