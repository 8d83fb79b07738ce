#include "ndp/jobs/evaluate_photos.h"
#include "ndp/jobs/relabel.h"
#include "tests/jobs/finetune_fixture.h"

namespace ndtrain::ndp {
namespace {

using namespace testing_jobs;

// Asks the job to stop after so many progress reports.
class StopAfter final : public Progress {
 public:
  explicit StopAfter(int reports) : left_(reports) {}
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override { --left_; }
  void end() override {}
  void say(const std::string&) override {}
  bool interrupted() const override { return left_ < 0; }

 private:
  int left_;
};

// What a job says for people.
class Sayings final : public Progress {
 public:
  void begin(const std::string&, int64_t, const std::string&) override {}
  void update(int64_t, const std::string&) override {}
  void end() override {}
  void say(const std::string& line) override { all += line + "\n"; }

  std::string all;
};

TEST_F(FinetuneTest, SixteenBitsOnACpuAreTrainedInF32AndThatIsSaidOnce) {
  Sayings plain, asked;
  train(config("plain"), plain);
  FinetuneConfig c = config("sixteen");
  c.how.trainer.compute = DType::kBF16;
  train(c, asked);
  EXPECT_EQ(bytes("sixteen/model.onnx"), bytes("plain/model.onnx"));
  const std::string words = "--compute bf16: trained in f32";
  const size_t at = asked.all.find(words);
  ASSERT_NE(at, std::string::npos) << asked.all;
  EXPECT_EQ(asked.all.find(words, at + 1), std::string::npos);
  EXPECT_EQ(plain.all.find("f32"), std::string::npos) << plain.all;
}

TEST_F(FinetuneTest, ASecondTrainingOfTheSamePhotosDecodesNone) {
  const FinetuneResult first = train(config("first")), second = train(config("second"));
  EXPECT_EQ(first.extraction.extracted, kClasses * (kTrain + kVal));
  EXPECT_EQ(second.extraction.extracted, 0);
  EXPECT_EQ(second.extraction.cached, kClasses * (kTrain + kVal));
  EXPECT_EQ(bytes("first/model.onnx"), bytes("second/model.onnx"));
}

TEST_F(FinetuneTest, StreamedFromDiskEqualsHeldInMemory) {
  FinetuneConfig streamed = config("streamed");
  streamed.memory_limit = 1;
  train(config("held"));
  train(streamed);
  EXPECT_EQ(bytes("held/model.onnx"), bytes("streamed/model.onnx"));
}

TEST_F(FinetuneTest, StoppedAnywhereAndResumedEqualsUnbroken) {
  for (const std::string freeze : {"layer1", "none"}) {
    FinetuneConfig unbroken = config("unbroken_" + freeze);
    unbroken.freeze = freeze;
    train(unbroken);
    int stops = 0;
    for (int after = 4; after < 28; after += 5) {
      FinetuneConfig broken = config("broken_" + freeze + std::to_string(after));
      broken.freeze = freeze;
      StopAfter stop(after);
      if (train(broken, stop).interrupted) {
        ++stops;
        broken.resume = true;
        EXPECT_FALSE(train(broken).interrupted);
      }
      EXPECT_EQ(bytes(name_of_path(unbroken.out) + "/model.onnx"),
                bytes(name_of_path(broken.out) + "/model.onnx"))
          << freeze << " stopped after " << after << " reports";
      EXPECT_EQ(parse_metrics(bytes(name_of_path(broken.out) + "/metrics.jsonl")).size(), 3U);
    }
    EXPECT_GT(stops, 2) << "nothing was interrupted";
  }
}

TEST_F(FinetuneTest, ResumeRefusesOtherSettingsAndAFreshDirectory) {
  FinetuneConfig c = config("run");
  c.resume = true;
  EXPECT_THROW(train(c), Error);
  c.resume = false;
  train(c);
  EXPECT_THROW(train(c), Error) << "the directory holds a run";
  c.resume = true;
  c.freeze = "layer2";
  EXPECT_THROW(train(c), Error);
}

TEST_F(FinetuneTest, BadPhotosAreListedAndTheJobGoesOn) {
  const std::string good = bytes("photos/train/c0/0.jpg");
  publish(real_fs(), at("photos/train/c0/short.jpg"),
          std::string_view(good).substr(0, good.size() / 2))
      .or_throw();
  publish(real_fs(), at("photos/train/c1/noise.jpg"), "this is no photo").or_throw();
  const FinetuneResult r = train(config("run"));
  EXPECT_EQ(r.quarantined, 2);
  EXPECT_EQ(r.train_photos, kClasses * kTrain);
  const std::string list = bytes("run/quarantine.csv");
  EXPECT_NE(list.find("short.jpg"), std::string::npos);
  EXPECT_NE(list.find("noise.jpg"), std::string::npos);
}

TEST_F(FinetuneTest, ExportedModelGivesTheAccuracyOfTheRun) {
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    FinetuneConfig c = config(std::string(name_of(dtype)));
    c.cache_dtype = dtype;
    const FinetuneResult r = train(c);
    const ModelFile model = load_model(real_fs(), r.model);
    EXPECT_EQ(model.classes, (std::vector<std::string>{"c0", "c1", "c2"}));
    save_model(real_fs(), at("again.onnx"), model);
    EXPECT_EQ(load_model(real_fs(), at("again.onnx")).id(), model.id());
    NoProgress quiet;
    const LabelledPhotos val = read_image_folder(real_fs(), at("photos/val")).or_throw();
    const PhotoSet set =
        hash_photos(real_fs(), *open_catalogue(real_fs(), at("cache"), val.root), val, quiet);
    EXPECT_EQ(evaluate_photos(model, device_, real_fs(), set, 3, quiet).top1, r.top1);
  }
}

TEST_F(FinetuneTest, AFineTunedModelIsFineTunedAgainFromTheSameFeatures) {
  const FinetuneResult first = train(config("first"));
  FinetuneConfig again = config("again");
  again.model = first.model;
  EXPECT_EQ(train(again).extraction.extracted, 0) << "the frozen part is the same";
}

// A class whose name sorts before the others comes behind them all the same.
TEST_F(FinetuneTest, ClassesAreAddedBehindThoseOfTheModelAndFeaturesServeAgain) {
  FinetuneConfig first = config("first");
  first.freeze = "auto";
  const FinetuneResult known = train(first);
  for (const std::string part : {"train", "val"}) {
    std::filesystem::create_directories(at("photos/" + part + "/a new one"));
    for (uint64_t i = 0; i < kVal; ++i) {
      const uint64_t seed = i + (part == "val" ? 100 : 0);
      publish(real_fs(), at("photos/" + part + "/a new one/" + std::to_string(i) + ".jpg"),
              encode_jpeg(cli::draw_demo_photo(kClasses, cli::Look::kDay, seed)))
          .or_throw();
    }
  }
  FinetuneConfig more = first;
  more.out = at("more");
  more.model = known.model;
  more.head = "grow";
  const FinetuneResult r = train(more);
  EXPECT_EQ(r.extraction.extracted, 2 * kVal) << "photos of the new class alone";
  EXPECT_EQ(bytes("more/classes.txt"), "c0\nc1\nc2\na new one\n");
  EXPECT_EQ(load_model(real_fs(), r.model).classes.back(), "a new one");
  more.out = at("unnamed");
  more.model = at("base.onnx");
  EXPECT_THROW(train(more), Error) << "its classes have no names";
}

TEST_F(FinetuneTest, TakesLabelsFromACsvFile) {
  std::string csv = "file,class\n";
  for (int i = 0; i < kTrain; ++i) {
    csv += "c0/" + std::to_string(i) + ".jpg,tidy\nc2/" + std::to_string(i) + ".jpg,messy\n";
  }
  publish(real_fs(), at("labels.csv"), csv).or_throw();
  FinetuneConfig c = config("run");
  c.data = at("photos/train");
  c.labels = at("labels.csv");
  c.val_split = 0.25;
  const FinetuneResult r = train(c);
  EXPECT_EQ(r.classes, 2);
  EXPECT_EQ(r.train_photos + r.val_photos, 2 * kTrain);
  EXPECT_EQ(bytes("run/classes.txt"), "messy\ntidy\n");
}

TEST_F(FinetuneTest, LinearHeadAndWholeTrainingRun) {
  FinetuneConfig linear = config("linear");
  linear.freeze = "auto";
  linear.head = "linear";
  EXPECT_EQ(train(linear).parameters, 64 * kClasses + kClasses);
  FinetuneConfig whole = config("whole");
  whole.freeze = "none";
  EXPECT_GT(train(whole).parameters, 20'000);
}

TEST_F(FinetuneTest, RelabelSkipsWhatTheVersionHasLabelledAndNeverOverrulesAPerson) {
  const FinetuneResult r = train(config("run"));
  const ModelFile model = load_model(real_fs(), r.model);
  const auto db = open_label_db("sqlite:" + at("labels.db")).or_throw();
  RelabelConfig c{.photos = {.names = {at("photos/val")}}, .cache = at("cache")};
  NoProgress quiet;
  c.dry_run = true;
  EXPECT_EQ(relabel(c, model, device_, *db, real_fs(), system_clock(), quiet).labelled,
            kClasses * kVal);
  c.dry_run = false;
  c.keep_crops = true;
  EXPECT_EQ(relabel(c, model, device_, *db, real_fs(), system_clock(), quiet).labelled,
            kClasses * kVal);
  EXPECT_EQ(relabel(c, model, device_, *db, real_fs(), system_clock(), quiet).labelled, 0);

  const int64_t collection = db->collection(kDefaultCollection).or_throw(),
                task = db->task(kDefaultTask).or_throw();
  set_label(*db, collection, task, "c0/8.jpg", "c2", 1).or_throw();
  FinetuneConfig again = config("again");
  again.how.trainer.seed = 8;
  again.model = r.model;
  const ModelFile newer = load_model(real_fs(), train(again).model);
  const RelabelResult second = relabel(c, newer, device_, *db, real_fs(), system_clock(), quiet);
  EXPECT_EQ(second.labelled, kClasses * kVal);
  EXPECT_EQ(second.engine.crops, kClasses * kVal) << "nothing is decoded again";
  EXPECT_GT(second.cache_bytes, 0);
  LabelQuery human{.collection = collection, .task = task, .sources = {LabelSource::kHuman}};
  ASSERT_EQ(db->query(human).or_throw().rows.size(), 1U);
  EXPECT_EQ(db->query(human).or_throw().rows[0].class_name, "c2");
}

}  // namespace
}  // namespace ndtrain::ndp
