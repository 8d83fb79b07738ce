// Which photos `predict` and `relabel` are told to take.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "ndp/labels/label_db.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_cli::Outcome;

class NamedPhotosTest : public testing_cli::ProgramTest {
 protected:
  void SetUp() override {
    draw_photos(6);  // c0/0 c1/1 c0/2 c1/3 c0/4 c1/5
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  }

  Outcome predict(std::vector<std::string> words) const {
    words.insert(words.begin(), {"predict", "m.onnx"});
    words.insert(words.end(), {"-k", "1", "--json"});
    return run(words);
  }
  // Of what went well.
  std::vector<std::string> predicted(const std::vector<std::string>& words) const {
    const Outcome o = predict(words);
    EXPECT_EQ(o.code, 0) << o.err;
    return files_in(o);
  }
  static std::vector<std::string> files_in(const Outcome& o) {
    std::vector<std::string> files;
    for (const nlohmann::json& row : nlohmann::json::parse(o.out)) files.push_back(row.at("file"));
    return files;
  }
};

TEST_F(NamedPhotosTest, DirectoriesPhotosAndPatternsAreTaken) {
  EXPECT_THAT(predicted({"photos/c0"}), ElementsAre("0.jpg", "2.jpg", "4.jpg"));
  EXPECT_THAT(predicted({"photos/c1/5.jpg"}), ElementsAre("photos/c1/5.jpg"));
  EXPECT_THAT(predicted({"photos/c1/5.jpg", "photos/c0/0.jpg"}),
              ElementsAre("photos/c1/5.jpg", "photos/c0/0.jpg"));
  EXPECT_THAT(
      predicted({"photos/c0", "photos/c1/1.jpg"}),
      ElementsAre("photos/c0/0.jpg", "photos/c0/2.jpg", "photos/c0/4.jpg", "photos/c1/1.jpg"));
  EXPECT_THAT(predicted({"photos/*/[1-3].jpg"}),
              ElementsAre("photos/c0/2.jpg", "photos/c1/1.jpg", "photos/c1/3.jpg"));
  EXPECT_THAT(predicted({"**/5.jpg"}), ElementsAre("photos/c1/5.jpg"));
  EXPECT_EQ(predicted({"photos/c?"}).size(), 6U);
  // What one call says of a photo another says too.
  const nlohmann::json one = nlohmann::json::parse(predict({"photos/c0/2.jpg"}).out),
                       all = nlohmann::json::parse(predict({"photos"}).out);
  EXPECT_EQ(all.at(1).at("file"), "c0/2.jpg");
  EXPECT_EQ(one.at(0).at("top"), all.at(1).at("top"));
}

TEST_F(NamedPhotosTest, ListsAreTakenFromFilesAndFromStdin) {
  const std::string list = "photos/c0/4.jpg\r\n\nphotos/c1\n";
  publish(real_fs(), at("list.txt"), list).or_throw();
  publish(real_fs(), at("in"), list).or_throw();
  for (const char* name : {"list.txt", "-"}) {
    std::vector<std::string> files = predicted({name});
    std::ranges::sort(files);
    EXPECT_THAT(files, ElementsAre("photos/c0/4.jpg", "photos/c1/1.jpg", "photos/c1/3.jpg",
                                   "photos/c1/5.jpg"))
        << name;
  }
  // A photo without an extension is one all the same.
  std::filesystem::copy_file(at("photos/c0/0.jpg"), at("photo"));
  EXPECT_THAT(predicted({"photo"}), ElementsAre("photo"));
}

TEST_F(NamedPhotosTest, NamedTwiceIsThereOnceAndThatIsSaid) {
  const Outcome o = predict({"photos/c0/0.jpg", "./photos/c0/0.jpg", "photos/c0"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(files_in(o).size(), 3U);
  EXPECT_THAT(o.err, HasSubstr("2 photos were named more than once"));
}

TEST_F(NamedPhotosTest, WhatIsNotThereIsNamed) {
  Outcome o = predict({"photos/c0", "photos/nowhere.jpg"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("photos/nowhere.jpg"));
  o = predict({"photos/*.png"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("photos/*.png: nothing matches"));
  EXPECT_EQ(predict({}).code, 2);
  // One line of many stops nothing.
  publish(real_fs(), at("list.txt"), "photos/c0/0.jpg\nphotos/gone.jpg\n").or_throw();
  o = predict({"list.txt"});
  EXPECT_EQ(o.code, 3);
  EXPECT_THAT(files_in(o), ElementsAre("photos/c0/0.jpg"));
  EXPECT_THAT(o.err, HasSubstr("photos/gone.jpg: line 2 of list.txt"));
}

TEST_F(NamedPhotosTest, RelabelPutsThemWhereTheDirectoryWouldHave) {
  const std::vector<std::string> rest = {"-m", "m.onnx", "--db", "sqlite:labels.db", "--json"};
  const auto relabel = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "relabel");
    words.insert(words.end(), rest.begin(), rest.end());
    return run(words);
  };
  Outcome o = relabel({"photos/c0/0.jpg", "photos/c1/*.jpg", "--root", "photos"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("labelled"), 4);
  o = relabel({"photos"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(nlohmann::json::parse(o.out).at("labelled"), 2);
  EXPECT_EQ(nlohmann::json::parse(o.out).at("already_labelled"), 4);
  const auto db = open_label_db("sqlite:" + at("labels.db"), OpenLabelDb::kExisting).or_throw();
  std::vector<std::string> paths;
  const LabelPage page = db->query({.collection = existing_collection(*db, "default").or_throw(),
                                    .task = existing_task(*db, "default").or_throw()})
                             .or_throw();
  for (const LabelRow& row : page.rows) paths.push_back(row.path);
  std::ranges::sort(paths);
  EXPECT_THAT(paths,
              ElementsAre("c0/0.jpg", "c0/2.jpg", "c0/4.jpg", "c1/1.jpg", "c1/3.jpg", "c1/5.jpg"));
  o = relabel({"photos/c0/0.jpg", "--root", "photos/c1"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("photos/c0/0.jpg is not below the root photos/c1"));
}

TEST_F(NamedPhotosTest, PredictionsAreCsvJsonALineOfJsonForEachPhotoOrParquet) {
  const auto predict_as = [&](const std::string& format, std::vector<std::string> more = {}) {
    std::vector<std::string> args = {"predict", "m.onnx", "photos", "--format", format};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  };
  const nlohmann::json array = nlohmann::json::parse(predict_as("json").out);
  ASSERT_EQ(array.size(), 6U);
  const std::string lines = predict_as("jsonl").out;
  size_t at = 0;
  for (const nlohmann::json& photo : array) {
    const size_t end = lines.find('\n', at);
    ASSERT_NE(end, lines.npos);
    EXPECT_EQ(nlohmann::json::parse(lines.substr(at, end - at)), photo);
    at = end + 1;
  }
  EXPECT_EQ(at, lines.size());
  EXPECT_EQ(predict_as("csv").out.find("file,rank,class,score\nc0/0.jpg,1,"), 0U);
  EXPECT_EQ(predict_as("parquet", {"-o", "p.bin"}).out, "6 photos to p.bin\n");
  const std::string table = real_fs().read(this->at("p.bin")).or_throw();
  EXPECT_EQ(table.substr(0, 4) + table.substr(table.size() - 4), "PAR1PAR1");
  const Outcome named = run({"predict", "m.onnx", "photos", "-o", "p.parquet", "--json"});
  EXPECT_EQ(nlohmann::json::parse(named.out),
            (nlohmann::json{{"file", "p.parquet"}, {"photos", 6}}));
  EXPECT_EQ(real_fs().read(this->at("p.parquet")).or_throw(), table) << "by the file's name";
  const auto refusal = [](const Outcome& o) { return std::to_string(o.code) + ": " + o.err; };
  EXPECT_THAT(refusal(predict_as("parquet")),
              HasSubstr("2: ndtrain: --format parquet: is no text"));
  EXPECT_THAT(refusal(predict_as("xml")), HasSubstr("there are csv, jsonl, json and parquet"));
  EXPECT_THAT(refusal(predict_as("csv", {"--json"})), HasSubstr("--json and --format csv"));
}

TEST_F(NamedPhotosTest, VerbsThatDoNotReadObjectsRefuseThemByNameAndSayWhichDo) {
  for (const auto& [photos, what] : {std::pair<std::string, std::string>("s3://photos/july", "S3"),
                                     {"rados://photos/july", "RADOS"}}) {
    const std::vector<std::vector<std::string>> verbs = {
        {"predict", "m.onnx", photos},
        {"eval", "m.onnx", "--data", photos},
        {"model", "quantize", "m.onnx", "--data", photos, "-o", "int8.onnx"},
        {"photos", "duplicates", photos, "-m", "m.onnx"},
        {"profile", photos, "-m", "m.onnx", "--out", "p.json"},
        {"bench", "decode", photos},
        {"up", photos},
        {"train", photos, "-m", "m.onnx", "-o", "out.onnx"}};
    for (const std::vector<std::string>& words : verbs) {
      const Outcome o = run(words);
      EXPECT_EQ(o.code, 2) << words.front();
      EXPECT_THAT(o.err, HasSubstr(photos + ": this verb does not read " + what)) << words.front();
      EXPECT_THAT(o.err, HasSubstr("relabel and pipestore serve do")) << words.front();
    }
  }
}

TEST_F(NamedPhotosTest, WhatNamesNoNamespaceOfRadosIsRefusedWithWhatToWrite) {
  const Outcome o = run({"relabel", "rados://photos", "-m", "m.onnx", "--db", "sqlite:x.db"});
  EXPECT_NE(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("rados://POOL/NAMESPACE"));
}

TEST_F(NamedPhotosTest, DoctorSaysWhetherRadosIsRead) {
  const nlohmann::json rados = nlohmann::json::parse(run({"doctor", "--json"}).out).at("rados");
  const std::string text = run({"doctor"}).out;
  if (rados.contains("library")) {
    EXPECT_THAT(text,
                HasSubstr("photos: from RADOS by " + rados["library"].get<std::string>() + "\n"));
  } else {
    EXPECT_EQ(rados.at("missing").at("package"), "librados-dev");
    EXPECT_THAT(text, HasSubstr("photos: from RADOS not in this build (NDT_RADOS=ON, with "));
  }
}

}  // namespace
}  // namespace ndtrain
