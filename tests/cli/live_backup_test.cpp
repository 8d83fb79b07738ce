// ndtrain backup of a Tuner and a PipeStore that are at work, and another site begun with it.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/wire/state_directory.h"
#include "tests/cli/site_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using testing_cli::Outcome;

// 2, or as many as NDT_BACKUPS says.
int backups() {
  const char* n = std::getenv("NDT_BACKUPS");
  return n ? std::atoi(n) : 2;
}

class LiveBackupTest : public testing_cli::SiteTest {
 protected:
  // What was answered so far.
  struct Answered {
    std::set<Digest> taken, named, deleted;
  };

  Answered answered() {
    const std::lock_guard lock(mutex_);
    return answered_;
  }

  // Uploads to the store, every 4th named by a person, every 8th deleted again.
  void upload(const HttpClient& store, int client, const std::stop_token& stop) {
    // Slowly enough for what a store may state (docs/wire.md): the Tuner lets the rest wait.
    constexpr std::chrono::milliseconds kBetween{60};
    for (int n = 0; !stop.stop_requested(); ++n, std::this_thread::sleep_for(kBetween)) {
      const Image photo =
          cli::draw_demo_photo(n % 2, cli::Look::kDay,
                               static_cast<uint64_t>(client) * 100'000 + static_cast<uint64_t>(n));
      const std::string file = encode_jpeg(photo);
      const Digest id = sha256(file);
      const std::string path = "/photos/" + to_hex(id);
      const auto done = [](const Result<HttpResponse>& r) { return r.ok() && r->status < 300; };
      if (!done(store.post("/photos", file, "image/jpeg"))) continue;
      keep(&Answered::taken, id);
      if (n % 4 == 1 && done(store.put(path + "/label", R"({"label":"said"})"))) {
        keep(&Answered::named, id);
      }
      if (n % 8 == 2) {
        forgoing(id);  // asked for: it may be gone in any later state
        if (done(store.remove(path))) keep(&Answered::deleted, id);
      }
    }
  }
  void keep(std::set<Digest> Answered::*what, const Digest& id) {
    const std::lock_guard lock(mutex_);
    (answered_.*what).insert(id);
  }
  void forgoing(const Digest& id) {
    const std::lock_guard lock(mutex_);
    answered_.taken.erase(id);
    answered_.named.erase(id);
  }

  // Saved, and put back elsewhere.
  void move(const std::string& role, const std::string& state) const {
    Outcome o = run_as("saved", {"backup", state, "-o", role + ".tar.zst"});
    ASSERT_EQ(o.code, 0) << o.err;
    ASSERT_THAT(o.out, ::testing::HasSubstr(", which goes on: "));
    o = run_as("back", {"restore", role + ".tar.zst", "-o", "other/" + role});
    ASSERT_EQ(o.code, 0) << o.err;
  }
  Outcome run_as(const std::string& name, const std::vector<std::string>& words) const {
    return end_of(start_as(name, words), name);
  }

  // A store's log and its files, as it finds them when it starts there.
  void expect_all(const std::string& state, const Answered& before) {
    const auto log = UploadLog::open(real_fs(), at(state + "/uploads")).or_throw();
    for (const Digest& id : before.taken) {
      const auto known = log->find(id);
      ASSERT_TRUE(known) << to_hex(id) << " was answered before the backup began";
      if (known->removed) continue;  // asked for after that
      EXPECT_TRUE(known->uploaded);
      EXPECT_TRUE(real_fs().exists(at(state + "/" + known->path)) || deleted_since(id))
          << known->path;
    }
    for (const Digest& id : before.named) {
      const auto known = log->find(id);
      EXPECT_TRUE(known && (known->truth == "said" || known->removed)) << to_hex(id);
    }
    for (const Digest& id : before.deleted) {
      const auto known = log->find(id);
      EXPECT_TRUE(known && known->removed) << to_hex(id);
      if (!known || known->path.empty()) continue;
      EXPECT_FALSE(real_fs().exists(at(state + "/" + known->path))) << known->path;
    }
  }
  // The restored roles together: what the store was answered for comes to the label database.
  void begin_elsewhere(const Answered& before) {
    const std::string link = "unix:" + at("link");
    const pid_t tuner = start_as(
        "tuner", {"tuner", "serve", "--state", "other/tuner", "--listen", link, "--http", "none"});
    const pid_t store =
        start_as("store", {"pipestore", "serve", "--state", "other/store1", "--photos", "photos",
                           "--name", "store1", "--tuner", link});
    const std::vector<Digest> taken(before.taken.begin(), before.taken.end());
    const auto lacking = [&] {
      const auto db =
          open_label_db("sqlite:" + at("other/tuner/labels.db"), OpenLabelDb::kExisting);
      if (!db.ok()) return taken.size();
      const std::vector<int64_t> ids = (*db)->photos_with(taken).or_throw();
      size_t n = 0;
      for (size_t i = 0; i < taken.size(); ++i) n += ids[i] == 0 && !deleted_since(taken[i]);
      return n;
    };
    EXPECT_TRUE(comes([&] {
      return said_by("store").find("session with the Tuner") != std::string::npos && lacking() == 0;
    })) << lacking()
        << said_by("store");
    for (const auto& [name, pid] : {std::pair("tuner", tuner), std::pair("store", store)}) {
      kill(pid, SIGTERM);
      EXPECT_EQ(end_of(pid, name).code, 0) << said_by(name);
    }
  }
  bool deleted_since(const Digest& id) { return !answered().taken.contains(id); }

  std::mutex mutex_;
  Answered answered_;
};

TEST_F(LiveBackupTest, NothingThatWasAnsweredBeforeItIsLost) {
  draw_photos(16);
  ASSERT_EQ(run({"model", "build", "tinynet", "-o", "m.onnx", "--classes", "2"}).code, 0);
  const nlohmann::json site = up_json(1);
  const std::string tuner = site.at("http");
  ASSERT_EQ(ask(site, {"job", "submit", "finetune", "-m", "m.onnx", "--head", "linear", "--stores",
                       "1", "-e", "1", "--follow"})
                .at("state"),
            "done");
  std::string address;
  ASSERT_TRUE(comes([&] {
    const auto r = HttpClient(tuner).get("/stores");
    const nlohmann::json stores =
        r.ok() ? nlohmann::json::parse(r->body, nullptr, false) : nlohmann::json();
    if (!stores.is_array() || stores.empty()) return false;
    address = stores[0].value("http", "");
    return !address.empty();
  }));
  const HttpClient store(address);
  std::vector<std::jthread> clients;
  for (int c = 0; c < 2; ++c) {
    clients.emplace_back([&, c](const std::stop_token& stop) { upload(store, c, stop); });
  }
  const HttpClient to_tuner(tuner);
  clients.emplace_back([&](const std::stop_token& stop) {  // jobs without end
    while (!stop.stop_requested()) {
      (void)to_tuner.post("/jobs", R"({"kind":"relabel","stores":1})").ok();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  });
  for (int i = 0; i < backups(); ++i) {
    const size_t had = answered().taken.size();
    ASSERT_TRUE(comes([&] { return answered().taken.size() > had + 10; }));
    const Answered before = answered();
    // Stores first: what they call kept, the Tuner has by then.
    ASSERT_NO_FATAL_FAILURE(move("store1", "site/store1/state"));
    ASSERT_NO_FATAL_FAILURE(move("tuner", "site/tuner"));
    expect_all("other/store1", before);
    begin_elsewhere(before);
    ASSERT_FALSE(HasFailure()) << "backup " << i;
    std::printf("backup %d: %zu photos, %zu named, %zu deleted\n", i, before.taken.size(),
                before.named.size(), before.deleted.size());
    std::fflush(stdout);
    for (const char* name : {"other", "store1.tar.zst", "tuner.tar.zst"}) {
      std::filesystem::remove_all(at(name));
    }
  }
}

}  // namespace
}  // namespace ndtrain
