// Stores of one collection, several in each process, and a process that is killed.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "ndp/http/http_client.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

class ManyStores : public testing_cli::SiteTest {
 protected:
  static constexpr int kOfEachProcess = 6, kStores = 2 * kOfEachProcess, kPhotos = 60;

  // Each photo is in a store of either process.
  void SetUp() override {
    draw_photos(kPhotos);
    ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
    for (int i = 0; i < kPhotos; ++i) {
      const std::string photo = "c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg";
      for (const char* process : {"a", "b"}) {
        const std::string to = at(directory(process, i % kOfEachProcess) + "/" + photo);
        std::filesystem::create_directories(parent_of(to));
        std::filesystem::copy_file(at("photos/" + photo), to);
      }
    }
  }
  void TearDown() override {
    for (const auto& [name, pid] : running_) kill(pid, SIGKILL);
    for (const auto& [name, pid] : running_) (void)end_of(pid, name);
    testing_cli::SiteTest::TearDown();
  }

  static std::string directory(const std::string& process, int store) {
    return "photos_of_" + process + "/s" + std::to_string(store);
  }

  void start_tuner(const std::string& round) {
    running_["tuner"] = start_as("tuner", {"tuner", "serve", "--state", round + "/tuner",
                                           "--listen", link(), "--http", "127.0.0.1:0"});
    http_ = http_of("tuner");
  }
  void start_process(const std::string& round, const std::string& name) {
    std::vector<std::string> words = {
        "pipestore", "serve", "--name",   name,     "--state",      round + "/" + name,
        "--tuner",   link(),  "--labels", "folder", "--http",       "127.0.0.1:0",
        "-j",        "1",     "-b",       "4",      "--collection", "default",
        "--no-watch"};
    for (int s = 0; s < kOfEachProcess; ++s) {
      words.push_back("--photos=s" + std::to_string(s) + "=" + directory(name, s));
    }
    running_[name] = start_as(name, words);
  }
  void kill_process(const std::string& name) {
    const auto it = running_.find(name);
    kill(it->second, SIGKILL);
    (void)end_of(it->second, name);
    running_.erase(it);
  }
  void end_all() {
    for (const auto& [name, pid] : running_) {
      kill(pid, SIGTERM);
      EXPECT_EQ(end_of(pid, name).code, 0) << said_by(name);
    }
    running_.clear();
  }

  std::string link() const { return "unix:" + at("link"); }
  // Where it says that it serves HTTP.
  std::string http_of(const std::string& name) const {
    const std::string mark = "HTTP on ";
    const auto said = [&] { return said_by(name).find(mark); };
    EXPECT_TRUE(comes([&] { return said() != std::string::npos; })) << said_by(name);
    const std::string from = said_by(name).substr(said() + mark.size());
    return from.substr(0, from.find('\n'));
  }
  nlohmann::json get(const std::string& path) const {
    return nlohmann::json::parse(HttpClient(http_).get(path).or_throw().body);
  }
  int64_t stores_here() const {
    const nlohmann::json all = get("/stores");
    return std::ranges::count_if(all, [](const nlohmann::json& s) { return s.at("here") == true; });
  }
  void submit(std::vector<std::string> words) const {
    words.insert(words.begin(), {"job", "submit"});
    words.insert(words.end(), {"--stores", std::to_string(kStores), "--store-timeout", "600",
                               "--deterministic", "--http", http_});
    const Outcome o = run(words);
    ASSERT_EQ(o.code, 0) << o.err;
  }
  // Some rows of it are durable, or it is over.
  bool has_rows(int job) const {
    const nlohmann::json json = get("/jobs/" + std::to_string(job));
    return json.at("state") != "running" || json.at("rows") > 0;
  }
  bool is_done(int job) const { return get("/jobs/" + std::to_string(job)).at("state") == "done"; }

  // The weights, and the labels by photo, whichever of its stores is named there.
  std::pair<std::string, std::vector<std::string>> result(const std::string& round) const {
    const Outcome o = run({"labels", "export", "--db", "sqlite:" + round + "/tuner/labels.db"});
    EXPECT_EQ(o.code, 0) << o.err;
    std::vector<std::string> labels;
    std::istringstream lines(o.out);
    for (std::string line; std::getline(lines, line);) {
      const size_t path = line.find('/'), label = line.find(',');
      if (path == std::string::npos) continue;  // the names of the columns
      const size_t score = line.find(',', label + 1);
      labels.push_back(line.substr(path, line.find(',', score + 1) - path));
    }
    std::ranges::sort(labels);
    return {real_fs().read(at(round + "/tuner/jobs/1/run/model.onnx")).or_throw(), labels};
  }

  std::map<std::string, pid_t> running_;  // by name
  std::string http_;
};

TEST_F(ManyStores, GiveTheSameBytesWhenAProcessOfThemIsKilled) {
  std::pair<std::string, std::vector<std::string>> undisturbed, killed;
  for (const bool kills : {false, true}) {
    const std::string round = kills ? "killed" : "undisturbed";
    std::filesystem::create_directories(at(round));
    start_tuner(round);
    for (const char* name : {"a", "b"}) start_process(round, name);
    ASSERT_TRUE(comes([&] { return stores_here() == kStores; })) << said_by("a") << said_by("b");
    if (kills) kill(running_["b"], SIGSTOP);  // so that the job waits for what it has of photos
    ASSERT_NO_FATAL_FAILURE(submit({"finetune", "-m", "m.onnx", "--head", "linear", "-e", "2"}));
    if (kills) {
      ASSERT_TRUE(comes([&] { return get("/jobs/1").at("state") == "running"; }));
      kill_process("b");
      ASSERT_TRUE(comes([&] { return stores_here() == kOfEachProcess; }));
      EXPECT_EQ(get("/jobs/1").at("state"), "running") << "it waits for those that are away";
      start_process(round, "b");
      ASSERT_TRUE(comes([&] { return has_rows(1); }));
      kill_process("b");
    }
    ASSERT_TRUE(comes([&] { return is_done(1); })) << get("/jobs/1");
    if (kills) start_process(round, "b");
    ASSERT_NO_FATAL_FAILURE(submit({"relabel"}));
    if (kills) {
      ASSERT_TRUE(comes([&] { return has_rows(2); }));
      kill_process("a");
    }
    ASSERT_TRUE(comes([&] { return is_done(2); })) << get("/jobs/2");
    end_all();
    (kills ? killed : undisturbed) = result(round);
  }
  EXPECT_EQ(undisturbed.second.size(), 2 * size_t{kPhotos}) << "a label for each copy";
  EXPECT_EQ(killed.second, undisturbed.second);
  EXPECT_TRUE(killed.first == undisturbed.first) << "the models differ";
}

TEST_F(ManyStores, OfOneCollectionHaveMetricsOfTheirOwnAndShowNoPhotos) {
  start_tuner("round");
  start_process("round", "a");
  ASSERT_TRUE(comes([&] { return stores_here() == kOfEachProcess; })) << said_by("a");
  for (const nlohmann::json& s : get("/stores")) {
    EXPECT_EQ(s.at("collection"), "default");
    EXPECT_EQ(s.at("photos"), kPhotos / kOfEachProcess) << s;
    EXPECT_EQ(s.at("http"), "") << "nobody is sent there";
  }
  const HttpClient a(http_of("a"));
  EXPECT_TRUE(comes([&] { return a.get("/readyz").or_throw().status == 200; }));
  EXPECT_THAT(a.get("/metrics").or_throw().body,
              AllOf(HasSubstr("{store=\"s0@a\"}"), HasSubstr("{store=\"s5@a\"}")));
  const std::string photo = real_fs().read(at("photos/c0/0.jpg")).or_throw();
  EXPECT_EQ(a.post("/photos", photo, "image/jpeg").or_throw().status, 404);
  EXPECT_EQ(a.get("/photos/" + to_hex(sha256(photo))).or_throw().status, 404);
  EXPECT_EQ(HttpClient(http_).post("/uploads", photo, "image/jpeg").or_throw().status, 503);
  end_all();
  const Outcome other = run({"pipestore", "serve", "--name", "a", "--state", "round/a", "--tuner",
                             link(), "--photos", "s0=" + directory("a", 0)});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("--collection s0: the photos of"))
      << "its collection is for good";
}

}  // namespace
}  // namespace ndtrain
