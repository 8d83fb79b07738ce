// Collections and tasks, each with labels of its own, by stores of one collection each.
#include <gmock/gmock.h>

#include "tests/roles/libraries_fixture.h"
#include "tests/support/browser.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RunningStore;
using testing::RunningTuner;
using testing::TwoLibraries;

TEST_F(TwoLibraries, HaveTheirOwnLabelsOfEachTaskWhileJobsRunAndPhotosAreUploaded) {
  RunningTuner t(tuner_config(), devices_);
  const HttpClient tuner(t.http());
  const RunningStore garden(store_of(0), devices_), family(store_of(1), devices_);
  const RunningStore* const stores[] = {&garden, &family};
  await([&] { return read(tuner.get("/stores")).size() == 2; });
  std::map<std::string, int> in_folder;  // by collection
  for (const auto& s : read(tuner.get("/stores"))) in_folder[s.at("collection")] = s.at("photos");
  EXPECT_EQ(in_folder["garden"] + in_folder["family"], kPhotos);
  say_moods();

  std::atomic<bool> enough = false;
  std::vector<std::string> uploaded[2];
  std::vector<std::jthread> people;
  for (int s = 0; s < 2; ++s) {
    people.emplace_back([&, s] {
      const HttpClient client(stores[s]->http());
      for (int i = 0; !enough && i < 200; ++i) {
        const auto r = client.post("/photos", photo(500 * s + i), "image/jpeg");
        EXPECT_TRUE(r.ok() && r->status < 300) << r.status().message();
        uploaded[s].push_back(to_hex(sha256(photo(500 * s + i))));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  job(tuner, finetuning(tuner, "default", "garden"));
  job(tuner, finetuning(tuner, "mood", "family"));
  // Each task is of the other collection as well once that is relabelled by it.
  for (const char* task : kTasks) {
    for (const char* collection : kCollections) {
      const nlohmann::json made =
          job(tuner, {{"kind", "relabel"}, {"task", task}, {"collection", collection}});
      const nlohmann::json& from = made.at("report").at("made_from");
      // Version 2 has the extractor of version 1, through which each photo went in a fine-tuning.
      EXPECT_GE(made.at("labelled"), in_folder[collection]);
      EXPECT_GE(from.value("features", 0), in_folder[collection]) << from.dump();
    }
  }
  enough = true;
  people.clear();

  for (int s = 0; s < 2; ++s) {
    const HttpClient client(stores[s]->http());
    await([&] {
      const std::string m = client.get("/metrics").or_throw().body;
      return m.find("\nndtrain_upload_unlabelled 0\n") != std::string::npos &&
             m.find("\nndtrain_upload_outbox 0\n") != std::string::npos;
    });
    EXPECT_THAT(client.get("/metrics").or_throw().body,
                HasSubstr("\nndtrain_upload_extractors 1\n"))
        << "of both tasks";
    for (const char* task : kTasks) {
      std::map<std::string, LabelRow> rows;
      for (const LabelRow& row : labels(kCollections[s], task)) rows[to_hex(row.digest)] = row;
      for (const std::string& id : uploaded[s]) {
        ASSERT_TRUE(rows.contains(id)) << kCollections[s] << " " << task;
        EXPECT_EQ(rows[id].path.substr(0, 7), std::string(kCollections[s]) + "/");
      }
      for (const std::string& id : uploaded[1 - s]) EXPECT_FALSE(rows.contains(id)) << task;
      const std::set<std::string> moods = {"calm", "gay"};
      for (const auto& [id, row] : rows) {
        EXPECT_EQ(moods.contains(row.class_name), task == kTasks[1]) << row.class_name;
      }
    }
    // The store says the same of a photo, in both.
    const std::string path = "/photos/" + uploaded[s].front() + "/label";
    const nlohmann::json said = read(client.get(path));
    EXPECT_EQ(said.at("version"), 1);
    EXPECT_EQ(said.at("tasks").at("mood").at("version"), 2);
    EXPECT_EQ(read(client.get(path + "?task=mood")).at("version"), 2);
    EXPECT_EQ(client.get(path + "?task=weather").or_throw().status, 404);
    // And so hears a person's word.
    const nlohmann::json put = read(client.put(path + "?task=mood", R"({"label": "calm"})"));
    EXPECT_EQ(put.at("source"), "human");
    EXPECT_EQ(read(client.get(path)).at("source"), "model");
    await([&] {
      for (const LabelRow& row : labels(kCollections[s], "mood")) {
        if (to_hex(row.digest) == uploaded[s].front()) return row.source == LabelSource::kHuman;
      }
      return false;
    });
  }
  if (!support::Browser::lacking().empty()) GTEST_SKIP() << support::Browser::lacking();
  // The default collection has no store, so that the first by name is shown.
  support::Browser b;
  b.open("http://" + t.http() + "/#labels");
  const auto shows = [&](const std::string& one, const std::string& other) {
    return b.await("((found) => found.includes('" + one + "/') && !found.includes('" + other +
                   "/'))(document.querySelector('#results')?.innerHTML ?? '')");
  };
  EXPECT_TRUE(shows("family", "garden"));
  b.value(
      "{const n = document.querySelector('#collection'); n.value = 'garden';"
      " n.dispatchEvent(new Event('change'))}");
  EXPECT_TRUE(shows("garden", "family"));
}

TEST_F(TwoLibraries, AnUploadIsSentToAStoreOfItsCollectionAndATokenIsOfOne) {
  const auto token = [&](const std::string& collection) {
    return TokensFile::open(real_fs(), at("tuner"))
        .or_throw()
        .add({.name = collection + "'s", .role = Role::kUploader, .collection = collection})
        .or_throw();
  };
  RunningTuner t(tuner_config(), devices_);
  const RunningStore garden(store_of(0), devices_), family(store_of(1), devices_);
  const HttpClient open(t.http());
  await([&] { return read(open.get("/stores")).size() == 2; });
  const auto where = [&](const HttpClient& tuner, const std::string& query) {
    HttpResponse r;
    await([&] {
      r = tuner.post("/photos" + query, photo(0), "image/jpeg").or_throw();
      return r.status != 503 || query.empty();
    });
    return r.status == 307 ? r.headers.at("Location") : std::to_string(r.status);
  };
  EXPECT_THAT(where(open, "?collection=family"), HasSubstr(family.http()));
  EXPECT_THAT(where(open, "?collection=garden"), HasSubstr(garden.http()));
  EXPECT_EQ(where(open, ""), "503") << "no store has the default collection";
  const HttpClient to_garden(garden.http());
  const HttpResponse wrong =
      to_garden.post("/photos?collection=family", photo(1), "image/jpeg").or_throw();
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("in the collection garden, not in family"));

  const std::string of_garden = token("garden"), of_family = token("family");
  const auto status = [&](const RunningStore& store, const std::string& with) {
    const HttpClient client(store.http(), std::chrono::seconds(10), {.token = with});
    return client.post("/photos", photo(2), "image/jpeg").or_throw().status;
  };
  // Each store has heard of the token that was made last, so of both.
  await([&] { return status(garden, of_family) == 403 && status(family, of_family) < 300; });
  EXPECT_EQ(status(garden, ""), 401);
  EXPECT_EQ(status(family, ""), 401);
  EXPECT_LT(status(garden, of_garden), 300);
  EXPECT_EQ(status(family, of_garden), 403);
}

TEST_F(TwoLibraries, ATaskThatIsTakenAwayIsGoneAtBothStoresThoughOneWasAwayAndTheTunerRestarts) {
  auto t = std::make_unique<RunningTuner>(tuner_config(), devices_);
  std::unique_ptr<RunningStore> stores[2];
  const auto client = [&](int s) { return HttpClient(stores[s]->http()); };
  const std::string label = "/photos/" + to_hex(sha256(photo(7))) + "/label";
  const auto in_mood = [&](int s) { return client(s).get(label + "?task=mood").or_throw(); };
  {
    const HttpClient tuner(t->http());
    for (uint32_t s = 0; s < 2; ++s) {
      stores[s] = std::make_unique<RunningStore>(store_of(s), devices_);
    }
    await([&] { return read(tuner.get("/stores")).size() == 2; });
    say_moods();
    job(tuner, finetuning(tuner, "default", "family"));
    job(tuner, finetuning(tuner, "mood", "family"));
    for (const char* task : kTasks) {
      job(tuner, {{"kind", "relabel"}, {"task", task}, {"collection", "garden"}});
    }
    for (int s = 0; s < 2; ++s) {
      (void)read(client(s).post("/photos", photo(7), "image/jpeg"));
      await([&] { return in_mood(s).body.find("\"version\":2") != std::string::npos; });
      (void)read(client(s).put(label + "?task=mood", R"({"label": "calm"})"));
    }
    stores[0].reset();
    const nlohmann::json would = read(tuner.get("/tasks/mood"));
    EXPECT_EQ(would.at("versions"), nlohmann::json({2}));
    EXPECT_EQ(would.at("collections"), nlohmann::json({"family", "garden"}));
    EXPECT_EQ(would.at("stores"), nlohmann::json({"family"}));
    EXPECT_EQ(would.at("away"), nlohmann::json({"garden"}));
    EXPECT_GE(would.at("labels"), kPhotos);
    EXPECT_GE(would.at("by_people"), kPhotos);
    EXPECT_EQ(would.at("refused"), nlohmann::json());
    EXPECT_EQ(read(tuner.get("/tasks")).size(), 2U) << "nothing has changed";
    EXPECT_EQ(read(tuner.remove("/tasks/mood")).at("removed"), true);
    EXPECT_EQ(tuner.get("/tasks/mood").or_throw().status, 404);
    EXPECT_EQ(tuner.remove("/tasks/default").or_throw().status, 400);
  }
  t.reset();
  t = std::make_unique<RunningTuner>(tuner_config(), devices_);
  const HttpClient tuner(t->http());
  stores[0] = std::make_unique<RunningStore>(store_of(0), devices_);
  for (int s = 0; s < 2; ++s) {
    await([&] {
      for (const nlohmann::json& store : read(tuner.get("/stores"))) {
        if (store.at("store") != kCollections[s]) continue;
        return store.at("here") == true && store.at("in_force") == nlohmann::json({{"default", 1}});
      }
      return false;
    });
    await([&] { return read(client(s).get(label)).at("version") == 1; });
    await([&] { return in_mood(s).status == 404; });
    nlohmann::json said;
    await([&] {  // when the version is loaded
      said = read(client(s).post("/photos", photo(8), "image/jpeg"));
      return said.at("version") == 1;
    });
    EXPECT_FALSE(said.contains("tasks")) << said.dump();
    await([&] {
      return client(s).get("/metrics").or_throw().body.find("\nndtrain_upload_outbox 0\n") !=
             std::string::npos;
    });
    stores[s].reset();
    stores[s] = std::make_unique<RunningStore>(store_of(static_cast<uint32_t>(s)), devices_);
    await([&] { return read(client(s).get(label)).at("version") == 1; });
    EXPECT_EQ(in_mood(s).status, 404) << "also after a restart";
  }
  const auto db = open_label_db("sqlite:" + at("tuner/labels.db")).or_throw();
  await([&] { return db->tasks().or_throw() == std::vector<std::string>{"default"}; });
  EXPECT_EQ(read(tuner.get("/versions?task=mood")), nlohmann::json::array());
  ASSERT_EQ(read(tuner.get("/tasks")).size(), 1U);
  EXPECT_EQ(read(tuner.get("/tasks"))[0].at("in_force"), 1);
  EXPECT_EQ(tuner.get("/labels?task=mood").or_throw().status, 404);
  EXPECT_THAT(real_fs().read(at("tuner/audit.jsonl")).or_throw(),
              ::testing::AllOf(HasSubstr("DELETE /tasks/mood"), HasSubstr("version 2 (")));
}

TEST_F(TwoLibraries, ATokenOfOneSeesItsPhotosThroughTheTuner) {
  const auto token = [&](const std::string& collection) {
    return TokensFile::open(real_fs(), at("tuner"))
        .or_throw()
        .add({.name = collection + "'s", .role = Role::kViewer, .collection = collection})
        .or_throw();
  };
  RunningTuner t(tuner_config(), devices_);
  const RunningStore garden(store_of(0), devices_);
  await([&] { return read(HttpClient(t.http()).get("/stores")).size() == 1; });
  const std::string file = photo(1), path = "/stores/garden/photos/" + to_hex(sha256(file));
  (void)read(HttpClient(garden.http()).post("/photos", file, "image/jpeg"));
  const std::string of_garden = token("garden"), of_family = token("family");
  const auto status = [&](const std::string& with, const std::string& query) {
    const HttpClient client(t.http(), std::chrono::seconds(10), {.token = with});
    return client.get(path + query).or_throw().status;
  };
  await([&] { return status(of_garden, "?collection=garden") == 200; });
  EXPECT_EQ(status(of_garden, ""), 403) << "nothing is meant but the default collection";
  EXPECT_EQ(status(of_family, "?collection=garden"), 403);
  EXPECT_EQ(status(of_family, "?collection=family"), 404) << "the store has none of them";
}

TEST_F(TwoLibraries, AStoresCollectionIsForGood) {
  const auto start = [&](const std::string& collection) -> std::string {
    PipeStoreConfig config = store_of(0);
    config.collection = collection;
    try {
      const PipeStoreDaemon daemon(config, devices_, real_fs(), system_clock());
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(start("garden"), "");
  EXPECT_EQ(start("garden"), "");
  EXPECT_THAT(start("family"), ::testing::AllOf(HasSubstr("--collection family"),
                                                HasSubstr("in the collection garden")));
  EXPECT_THAT(start("default"), HasSubstr("in the collection garden"));
}

}  // namespace
}  // namespace ndtrain::tuner
