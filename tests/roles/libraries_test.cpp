// Two collections, each at a store of its own, and two tasks, of which both are labelled.
#include <gmock/gmock.h>

#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "tests/roles/roles_fixture.h"
#include "tests/support/browser.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing::RunningStore;
using testing::RunningTuner;

constexpr const char* kCollections[] = {"garden", "family"};
constexpr const char* kTasks[] = {"default", "mood"};

nlohmann::json read(const Result<HttpResponse>& answer) {
  answer.status().or_throw();
  EXPECT_LT(answer->status, 400) << answer->body;
  return nlohmann::json::parse(answer->body);
}

class TwoLibraries : public testing::RolesTest {
 protected:
  TunerConfig tuner_config() const {
    TunerConfig config = tuner("tuner");
    config.http = "127.0.0.1:0";
    return config;
  }
  // Half of the photos each.
  PipeStoreConfig store_of(uint32_t i) const {
    PipeStoreConfig config = store(kCollections[i], i, 2);
    config.collection = kCollections[i];
    config.http = "127.0.0.1:0";
    return config;
  }
  static std::string photo(int i) {
    return encode_jpeg(
        cli::draw_demo_photo(i % kClasses, cli::Look::kDay, static_cast<uint64_t>(1000 + i)));
  }
  // Of a job that has ended.
  nlohmann::json job(const HttpClient& tuner, const nlohmann::json& spec) {
    const nlohmann::json id = read(tuner.post("/jobs", spec.dump()));
    const std::string path = "/jobs/" + id.at("job").dump();
    nlohmann::json now;
    await([&] {
      now = read(tuner.get(path));
      return now.at("state") == "done" || now.at("state") == "failed";
    });
    EXPECT_EQ(now.at("state"), "done") << now.dump(1);
    return now.at("result");
  }
  nlohmann::json finetuning(const HttpClient& tuner, const std::string& task,
                            const std::string& collection) {
    const std::string file = real_fs().read(at("base.onnx")).or_throw();
    const std::string model = to_hex(sha256(file));
    (void)read(tuner.put("/models/" + model, file));
    return {{"kind", "finetune"}, {"model", model}, {"task", task}, {"collection", collection},
            {"freeze", "layer1"}, {"epochs", 2},    {"batch", 8},   {"promote", true}};
  }
  // People's words on the photos of the folder, in the task mood.
  void say_moods() const {
    const auto db = open_label_db("sqlite:" + at("tuner/labels.db")).or_throw();
    LabelBatch said{.task = db->task("mood").or_throw(), .source = LabelSource::kHuman};
    const std::vector<std::string> names = {"calm", "gay"};
    const std::vector<int64_t> ids = db->class_ids(said.task, names).or_throw();
    const int64_t collection = db->collection("family").or_throw();
    for (const auto& file : std::filesystem::recursive_directory_iterator(at("photos"))) {
      if (!file.is_regular_file()) continue;
      const Digest id = sha256(real_fs().read(file.path()).or_throw());
      const std::vector<PhotoPlace> place = {{"family/" + file.path().filename().string(), id}};
      said.labels.push_back({.photo = db->add_photos(collection, place).or_throw()[0],
                             .class_id = ids[id[0] % 2],
                             .time = 100});
    }
    db->put_labels(said).or_throw();
  }
  std::vector<LabelRow> labels(const std::string& collection, const std::string& task) const {
    const auto db =
        open_label_db("sqlite:" + at("tuner/labels.db"), OpenLabelDb::kExisting).or_throw();
    return db
        ->query({.collection = existing_collection(*db, collection).or_throw(),
                 .task = existing_task(*db, task).or_throw(),
                 .limit = 1000})
        .or_throw()
        .rows;
  }
};

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
    config.collections = {{"family", at("photos")}, {"garden", at("garden")}};
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
  await([&] { return with(attic.http(), all).get("/readyz").or_throw().status == 200; });
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
