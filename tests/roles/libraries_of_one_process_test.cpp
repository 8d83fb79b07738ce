#include <gmock/gmock.h>

#include "tests/roles/libraries_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RunningStore;
using testing::RunningTuner;
using testing::TwoLibraries;

// Two collections in one process, and a store beside it.
class LibrariesOfOneProcess : public TwoLibraries {
 protected:
  void SetUp() override {
    TwoLibraries::SetUp();
    for (int i = 0; i < kPhotos; ++i) {  // the other half of the photos are the garden's
      if (i % 2 == 0) continue;
      const std::string name =
          "c" + std::to_string(i % kClasses) + "/" + std::to_string(i) + ".jpg";
      std::filesystem::create_directories(at("garden/c" + std::to_string(i % kClasses)));
      std::filesystem::rename(at("photos/" + name), at("garden/" + name));
    }
  }
  PipeStoreConfig process() const {
    PipeStoreConfig config = store("attic", 0, 1);
    config.photos = "";
    config.several = {{"family", at("photos")}, {"garden", at("garden")}};
    config.http = "127.0.0.1:0";
    return config;
  }
  static nlohmann::json of(const nlohmann::json& stores, const std::string& name) {
    for (const nlohmann::json& s : stores) {
      if (s.at("store") == name) return s;
    }
    return {};
  }
};

TEST_F(LibrariesOfOneProcess, AreStoresOfTheirOwnThatShareHttpAndExtractors) {
  RunningTuner t(tuner_config(), devices_);
  const HttpClient tuner(t.http());
  auto attic = std::make_unique<RunningStore>(process(), devices_);
  PipeStoreConfig beside = store("cellar", 0, 1);
  beside.collection = "cellar";
  const RunningStore cellar(beside, devices_);
  await([&] { return read(tuner.get("/stores")).size() == 3; });
  const nlohmann::json stores = read(tuner.get("/stores"));
  for (const char* name : kCollections) {
    const nlohmann::json s = of(stores, std::string(name) + "@attic");
    EXPECT_EQ(s.at("collection"), name);
    EXPECT_EQ(s.at("photos"), kPhotos / 2);
    EXPECT_EQ(s.at("http"), attic->http());
  }
  say_moods();
  job(tuner, finetuning(tuner, "default", "family"));
  job(tuner, finetuning(tuner, "mood", "family"));
  const HttpClient http(attic->http());
  const auto loads = [&] {
    const std::string m = http.get("/metrics").or_throw().body;
    const std::string name = "\nndtrain_extractor_loads_total ";
    return std::stoi(m.substr(m.find(name) + name.size()));
  };
  await([&] {
    const std::string m = http.get("/metrics").or_throw().body;
    return m.find("\nndtrain_upload_extractors 1\n") != std::string::npos;
  });
  const int loaded = loads();
  EXPECT_GT(loaded, 0);
  for (const char* task : kTasks) {
    const auto made = job(tuner, {{"kind", "relabel"}, {"task", task}, {"collection", "garden"}});
    EXPECT_EQ(made.at("labelled"), kPhotos / 2);
  }
  EXPECT_EQ(loads(), loaded) << "jobs have the one by which uploads are labelled";

  const std::string path = "/photos/" + to_hex(sha256(photo(3)));
  EXPECT_EQ(http.post("/photos", photo(3), "image/jpeg").or_throw().status, 400);
  EXPECT_EQ(http.post("/photos?collection=cellar", photo(3), "image/jpeg").or_throw().status, 400);
  EXPECT_EQ(read(http.post("/photos?collection=garden", photo(3), "image/jpeg")).at("version"), 1);
  EXPECT_EQ(http.get(path + "?collection=family").or_throw().status, 404);
  EXPECT_EQ(http.get(path + "?collection=garden").or_throw().body, photo(3));
  EXPECT_EQ(http.get(path).or_throw().body, photo(3)) << "who holds it shows it";
  EXPECT_EQ(http.get("/photos/" + std::string(64, 'a')).or_throw().status, 404);
  EXPECT_EQ(read(tuner.post("/uploads?collection=family", photo(4), "image/jpeg")).at("version"),
            1);
  EXPECT_EQ(http.get("/photos/" + to_hex(sha256(photo(4))) + "?collection=family").or_throw().body,
            photo(4));
  EXPECT_EQ(tuner.get("/stores/garden@attic" + path).or_throw().status, 200);
  await([&] {
    const std::string m = http.get("/metrics").or_throw().body;
    return m.find("\nndtrain_upload_extractors 1\n") != std::string::npos;
  });
  const std::string metrics = http.get("/metrics").or_throw().body;
  for (const char* name : kCollections) {
    for (const char* task : kTasks) {
      EXPECT_THAT(metrics, HasSubstr("ndtrain_upload_version{task=\"" + std::string(task) +
                                     "\",collection=\"" + name + "\"}"));
    }
  }
  await([&] {
    for (const LabelRow& row : labels("garden", "mood")) {
      if (row.digest == sha256(photo(3))) return row.path.starts_with("garden@attic/");
    }
    return false;
  });
  for (const LabelRow& row : labels("family", "mood")) {
    EXPECT_NE(row.digest, sha256(photo(3)));
  }

  attic.reset();
  attic = std::make_unique<RunningStore>(process(), devices_);
  const HttpClient again(attic->http());
  const std::string label = path + "/label?collection=garden&task=mood";
  await([&] { return again.get(label).or_throw().status == 200; });
  EXPECT_EQ(read(again.get(label)).at("version"), 2);
  EXPECT_EQ(read(tuner.get("/stores")).size(), 3U);
}

TEST_F(LibrariesOfOneProcess, ATokenOrATicketOfOneIsForNoOther) {
  const auto token = [&](const Token& made) {
    return TokensFile::open(real_fs(), at("tuner")).or_throw().add(made).or_throw();
  };
  RunningTuner t(tuner_config(), devices_);
  const RunningStore attic(process(), devices_);
  await([&] { return read(HttpClient(t.http()).get("/stores")).size() == 2; });
  const std::string family =
      token({.name = "ann", .role = Role::kUploader, .collection = "family"});
  const std::string all = token({.name = "bob", .role = Role::kViewer});
  const auto with = [](const std::string& address, const std::string& secret) {
    return HttpClient(address, std::chrono::seconds(10), {.token = secret});
  };
  const HttpClient http = with(attic.http(), family);
  // Each of the two hears of the tokens on its own; before, nobody needs one.
  for (const std::string name : {"family", "garden"}) {
    const std::string none = "/photos/" + std::string(64, 'a') + "?collection=" + name;
    await([&] { return HttpClient(attic.http()).get(none).or_throw().status == 401; });
    await([&] { return with(attic.http(), all).get(none).or_throw().status == 404; });
  }
  const auto post = [&](const std::string& query) {
    return http.post("/photos" + query, photo(5), "image/jpeg").or_throw().status;
  };
  EXPECT_EQ(post(""), 403);
  EXPECT_EQ(post("?collection=garden"), 403);
  EXPECT_EQ(post("?collection=family"), 202);

  HttpResponse sent;
  await([&] {
    sent = with(t.http(), family).post("/photos?collection=family", "", "image/jpeg").or_throw();
    return sent.status == 307;
  });
  const std::string location = sent.headers.at("Location");
  const std::string query = location.substr(location.find('?'));
  EXPECT_THAT(query, HasSubstr("?collection=family&ticket="));
  const HttpClient nobody(attic.http());
  EXPECT_EQ(nobody.post("/photos" + query, photo(6), "image/jpeg").or_throw().status, 202);
  const std::string moved = "?collection=garden" + query.substr(query.find('&'));
  EXPECT_EQ(nobody.post("/photos" + moved, photo(6), "image/jpeg").or_throw().status, 401);
}

TEST_F(LibrariesOfOneProcess, HaveADirectoryEachBelowTheState) {
  const auto start = [&](const PipeStoreConfig& config) -> std::string {
    try {
      const PipeStoreDaemon daemon(config, devices_, real_fs(), system_clock());
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  PipeStoreConfig alone = store("attic", 0, 1), several = process();
  EXPECT_EQ(start(several), "");
  EXPECT_TRUE(real_fs().exists(at("state-attic/family/collection.json")));
  EXPECT_THAT(start(alone), HasSubstr("is the state of a pipestore of several collections"));
  alone.state = several.state = at("other");
  EXPECT_EQ(start(alone), "");
  EXPECT_THAT(start(several), ::testing::AllOf(HasSubstr("is the state of a pipestore, not of"),
                                               HasSubstr("has a directory below it")));
}

}  // namespace
}  // namespace ndtrain::tuner
