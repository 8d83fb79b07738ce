// Which photos are like another, at two stores of one collection and one of another.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "ndp/http/http_client.h"
#include "ndp/http/tokens.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RunningStore;
using testing::RunningTuner;

class SimilarPhotosOfStores : public testing::RolesTest {
 protected:
  TunerConfig tuner_config() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }
  // A third of the photos each.
  PipeStoreConfig store_of(uint32_t i) const {
    constexpr const char* kNames[] = {"attic", "cellar", "shed"};
    PipeStoreConfig config = store(kNames[i], i, 3);
    if (i == 2) config.collection = "garden";
    config.http = "127.0.0.1:0";
    return config;
  }
  static nlohmann::json read(const Result<HttpResponse>& answer) {
    answer.status().or_throw();
    EXPECT_LT(answer->status, 400) << answer->body;
    return nlohmann::json::parse(answer->body);
  }
  void run_job(const HttpClient& tuner, const nlohmann::json& spec) {
    const nlohmann::json id = read(tuner.post("/jobs", spec.dump()));
    nlohmann::json now;
    await([&] {
      now = read(tuner.get("/jobs/" + id.at("job").dump()));
      return now.at("state") == "done" || now.at("state") == "failed";
    });
    ASSERT_EQ(now.at("state"), "done") << now.dump(1);
  }
  void finetune(const HttpClient& tuner) {
    const std::string file = real_fs().read(at("base.onnx")).or_throw();
    const std::string model = to_hex(sha256(file));
    (void)read(tuner.put("/models/" + model, file));
    run_job(tuner, {{"kind", "finetune"},
                    {"model", model},
                    {"freeze", "layer3"},
                    {"epochs", 1},
                    {"batch", 8},
                    {"promote", true}});
    // Both stores label by it by then.
    const std::string file_of_any = files().begin()->second;
    await([&] {
      const HttpResponse r = tuner.post("/photos/like", file_of_any, "image/jpeg").or_throw();
      return r.status == 200 && nlohmann::json::parse(r.body).at("not_searched").empty();
    });
  }
  // All photos of the folder, by digest.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const auto& f : std::filesystem::recursive_directory_iterator(at("photos"))) {
      if (!f.is_regular_file()) continue;
      const std::string bytes = real_fs().read(f.path()).or_throw();
      all[to_hex(sha256(bytes))] = bytes;
    }
    return all;
  }
  // Of how many photos a store has features.
  static int64_t searched(const nlohmann::json& answer) {
    return answer.at("searched").get<int64_t>();
  }
};

TEST_F(SimilarPhotosOfStores, AreThoseOfAllStoresOfTheCollectionInOneOrder) {
  RunningTuner t(tuner_config(), devices_);
  const RunningStore attic(store_of(0), devices_), shed(store_of(2), devices_);
  auto cellar = std::make_unique<RunningStore>(store_of(1), devices_);
  const HttpClient tuner(t.http());
  await([&] { return read(tuner.get("/stores")).size() == 3; });
  ASSERT_NO_FATAL_FAILURE(finetune(tuner));

  // A photo of either store, whichever has the first.
  const auto everywhere = [&](const std::string& name) {
    return tuner.get("/photos/" + name + "/like?k=1000");
  };
  nlohmann::json found;
  std::string asked;
  for (const auto& [digest, bytes] : files()) {
    const Result<HttpResponse> r = everywhere(digest);
    if (r.ok() && r->status == 200) {
      found = nlohmann::json::parse(r->body);
      asked = digest;
      break;
    }
  }
  ASSERT_FALSE(asked.empty());
  EXPECT_EQ(found.at("version"), 1);
  EXPECT_EQ(found.at("not_searched"), nlohmann::json::object());
  // Each store says the same of its own.
  std::vector<std::pair<double, std::string>> expected;
  nlohmann::json embedding;
  const std::map<std::string, const RunningStore*> stores = {{"attic", &attic},
                                                             {"cellar", cellar.get()}};
  for (const auto& [name, s] : stores) {
    const Result<HttpResponse> e = HttpClient(s->http()).get("/photos/" + asked + "/embedding");
    if (e.ok() && e->status == 200) embedding = nlohmann::json::parse(e->body);
  }
  ASSERT_TRUE(embedding.is_object());
  int64_t total = 0;
  for (const auto& [name, s] : stores) {
    const nlohmann::json own =
        read(HttpClient(s->http()).post("/neighbours?k=1000", embedding.dump()));
    total += searched(own);
    for (const nlohmann::json& p : own.at("photos")) {
      expected.emplace_back(-p.at("similarity").get<double>(),
                            name + "/" + p.at("path").get<std::string>());
    }
  }
  std::ranges::stable_sort(expected);
  EXPECT_EQ(searched(found), total);
  ASSERT_EQ(found.at("photos").size(), expected.size());
  EXPECT_GT(total, 20);
  for (size_t i = 0; i < expected.size(); ++i) {
    const nlohmann::json& p = found["photos"][i];
    EXPECT_EQ(p.at("similarity"), -expected[i].first) << i;
    EXPECT_TRUE(p.at("path").get<std::string>().starts_with("attic/") ||
                p.at("path").get<std::string>().starts_with("cellar/"));
  }
  EXPECT_EQ(found["photos"][0].at("id"), asked) << "itself";

  // By its path, once it is labelled, by its bytes, and no more than are asked for.
  EXPECT_EQ(found["photos"][0].at("label"), nullptr);
  ASSERT_NO_FATAL_FAILURE(run_job(tuner, {{"kind", "relabel"}}));
  const std::string path = found["photos"][0].at("path");
  const nlohmann::json by_path = read(tuner.get("/photos/" + path + "/like?k=3"));
  const nlohmann::json by_bytes =
      read(tuner.post("/photos/like?k=3", files().at(asked), "image/jpeg"));
  EXPECT_EQ(by_path.at("photos").size(), 3U);
  EXPECT_TRUE(by_path["photos"][0].at("label").is_string());
  EXPECT_TRUE(by_path["photos"][0].at("photo").is_number());
  EXPECT_EQ(by_path, by_bytes);
  EXPECT_EQ(by_path["photos"][2].at("id"), found["photos"][2].at("id"));

  // One that is deleted is in no answer from then on, and soon in none of a store's.
  const std::string deleted = found["photos"][2].at("id");
  const auto names = [&](const nlohmann::json& answer) {
    return std::ranges::any_of(answer.at("photos"),
                               [&](const auto& p) { return p.at("id") == deleted; });
  };
  const auto since = system_clock().monotonic();
  (void)read(tuner.remove("/photos/" + deleted));
  EXPECT_FALSE(names(read(everywhere(asked))));
  const auto found_by_stores = [&] {
    return std::ranges::any_of(stores, [&](const auto& s) {
      return names(read(HttpClient(s.second->http()).post("/neighbours?k=1000", embedding.dump())));
    });
  };
  await([&] { return !found_by_stores(); });
  const std::chrono::duration<double, std::milli> took = system_clock().monotonic() - since;
  std::printf("a deleted photo is found by no store after %.0f ms\n", took.count());
  --total;

  // One that has gone is named.
  cellar.reset();
  await([&] {
    const nlohmann::json less = read(tuner.post("/photos/like", files().at(asked), "image/jpeg"));
    return less.at("not_searched").contains("cellar") && searched(less) < total;
  });
}

TEST_F(SimilarPhotosOfStores, AreOfOneCollectionAndOfWhoMaySeeIt) {
  const auto token = [&](const std::string& collection) {
    return TokensFile::open(real_fs(), at("tuner"))
        .or_throw()
        .add({.name = collection + "'s", .role = Role::kViewer, .collection = collection})
        .or_throw();
  };
  RunningTuner t(tuner_config(), devices_);
  const RunningStore attic(store_of(0), devices_), cellar(store_of(1), devices_),
      shed(store_of(2), devices_);
  const HttpClient open(t.http());
  await([&] { return read(open.get("/stores")).size() == 3; });
  ASSERT_NO_FATAL_FAILURE(finetune(open));
  const auto status = [](const Result<HttpResponse>& r) { return r.ok() ? r->status : 0; };
  const std::string file = files().begin()->second;
  EXPECT_EQ(status(open.post("/photos/like?collection=garden", file, "image/jpeg")), 409)
      << "no version labels it";
  EXPECT_EQ(status(open.post("/photos/like?collection=cats", file, "image/jpeg")), 503);
  EXPECT_EQ(status(open.post("/photos/like", "no photo", "image/jpeg")), 422);
  EXPECT_EQ(status(open.post("/photos/like", "", "image/jpeg")), 400);
  EXPECT_EQ(status(open.post("/photos/like?k=0", file, "image/jpeg")), 400);
  EXPECT_EQ(status(open.get("/photos/" + std::string(64, '0') + "/like")), 404);
  EXPECT_EQ(status(open.get("/photos/attic/none.jpg/like")), 404);

  const std::string of_default = token("default"), of_garden = token("garden");
  const auto as = [&](const std::string& with, const std::string& query) {
    const HttpClient client(t.http(), std::chrono::seconds(10), {.token = with});
    return status(client.post("/photos/like" + query, file, "image/jpeg"));
  };
  await([&] { return as("", "") == 401; });
  await([&] { return as(of_default, "") == 200; });  // when the stores know of tickets
  EXPECT_EQ(as(of_default, "?collection=garden"), 403);
  EXPECT_EQ(as(of_garden, "?collection=default"), 403);
  EXPECT_EQ(as(of_garden, "?collection=garden"), 409);
}

}  // namespace
}  // namespace ndtrain::tuner
