// What `ndtrain fsck` looks at: the state directories of a Tuner and a PipeStore that have worked.
#include "cli/state_check.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "framework/core/rng.h"
#include "ndp/http/http_client.h"
#include "ndp/labels/label_db.h"
#include "ndp/sqlite/sqlite.h"
#include "tests/roles/roles_fixture.h"

namespace ndtrain {
using namespace ndp;
using namespace tuner;

namespace {

using cli::check_state;
using cli::CheckedState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string bytes_of(const std::string& path) { return real_fs().read(path).or_throw(); }

void put_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class StateCheck : public testing::RolesTest {
 protected:
  // A fine-tuning over a store, an upload and a deletion there.
  void work() {
    {
      PipeStoreConfig config = store("attic", 0, 1);
      config.http = "127.0.0.1:0";
      TunerDaemon daemon(tuner("state"), devices_, real_fs(), system_clock());
      const testing::RunningStore attic(config, devices_);
      JobSpec spec{.kind = JobKind::kFinetune, .stores = 1};
      spec.head = "linear";
      spec.trainer.epochs = 1;
      spec.model = to_hex(daemon.add_model(at("base.onnx")));
      outcome(daemon, spec);
      const Image photo = cli::draw_demo_photo(0, cli::Look::kDay, 999);
      const HttpClient http("http://" + attic.http());
      ASSERT_EQ(http.post("/photos", encode_jpeg(photo)).or_throw().status / 100, 2);
    }
    for (const char* name : {"state", "state-attic"}) ASSERT_TRUE(check(name).damaged.empty());
  }
  CheckedState check(const std::string& name, bool repair = false) {
    NoProgress progress;
    return check_state(real_fs(), at(name), name == "state" ? "tuner" : "pipestore", repair,
                       progress);
  }
  std::vector<std::string> files(const std::string& state) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(at(state))) {
      if (!entry.is_regular_file() || entry.file_size() == 0) continue;
      names.push_back(std::filesystem::relative(entry.path(), at(state)).string());
    }
    std::ranges::sort(names);
    return names;
  }
};

TEST_F(StateCheck, FindsABitThatIsAnotherInWhateverHasAChecksum) {
  work();
  Rng rng(24, "state");
  for (const char* const state : {"state", "state-attic"}) {
    const CheckedState good = check(state);
    std::set<std::string> unchecked(good.unchecked.begin(), good.unchecked.end());
    int64_t found = 0;
    for (const std::string& name : files(state)) {
      if (unchecked.contains(name) || name.ends_with("lock")) continue;
      const std::string path = at(std::string(state) + "/" + name), whole = bytes_of(path);
      for (int i = 0; i < 6; ++i) {
        const size_t at = rng.next_below(whole.size());
        std::string bytes = whole;
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.next_below(8)));
        put_bytes(path, bytes);
        const CheckedState now = check(state);
        found += static_cast<int64_t>(now.damaged.size());
        EXPECT_LE(now.damaged.size(), 1U);
        for (const cli::DamagedFile& f : now.damaged) EXPECT_EQ(f.file, name);
        if (name.ends_with(".onnx") || name.ends_with(".seg") || name.ends_with(".cbor")) {
          EXPECT_EQ(now.damaged.size(), 1U) << name << ", byte " << at;
        }
      }
      put_bytes(path, whole);
    }
    EXPECT_GT(found, 20) << state;
    EXPECT_TRUE(check(state).damaged.empty());
  }
}

TEST_F(StateCheck, RepairsWhatAStoreMakesAgain) {
  work();
  const auto damage = [&](const std::string& name) {
    const std::string path = at("state-attic/" + name);
    std::string bytes = bytes_of(path);
    bytes[bytes.size() / 2] ^= 1;
    put_bytes(path, bytes);
  };
  std::vector<std::string> derived, kept;
  for (const std::string& name : files("state-attic")) {
    if (name.ends_with(".seg") || name.ends_with(".onnx") || name.ends_with(".sqlite")) {
      derived.push_back(name);
    }
    if (name.starts_with("uploads/") && name.ends_with(".jpg")) kept.push_back(name);
  }
  ASSERT_GE(derived.size(), 3U);
  ASSERT_EQ(kept.size(), 1U);
  for (const std::string& name : derived) damage(name);
  damage(kept[0]);
  CheckedState found = check("state-attic", true);
  EXPECT_FALSE(found.whole());
  for (const cli::DamagedFile& f : found.damaged) {
    EXPECT_EQ(f.removed, f.file != kept[0]) << f.file;
    EXPECT_EQ(real_fs().exists(at("state-attic/" + f.file)), f.file == kept[0]) << f.file;
  }
  EXPECT_EQ(found.damaged.size(), derived.size() + 1);
  std::filesystem::remove(at("state-attic/" + kept[0]));
  found = check("state-attic");
  EXPECT_TRUE(found.whole());

  TunerDaemon daemon(tuner("state"), devices_, real_fs(), system_clock());
  const testing::RunningStore attic(store("attic", 0, 1), devices_);
  const auto result = outcome(daemon, {.kind = JobKind::kRelabel, .stores = 1});
  EXPECT_GE(result["labelled"], kPhotos - 1) << result.dump();
}

TEST_F(StateCheck, CountsLabelsAgain) {
  work();
  const std::string labels = at("state/labels.db");
  const int64_t collection =
      open_label_db("sqlite:" + labels).or_throw()->collection("c").or_throw();
  sql::Database(labels).execute("INSERT INTO photo_counts VALUES (" + std::to_string(collection) +
                                ", 3)");
  CheckedState found = check("state");
  ASSERT_EQ(found.damaged.size(), 1U);
  EXPECT_THAT(found.damaged[0].what, HasSubstr("are counted"));
  EXPECT_TRUE(found.damaged[0].derived);
  EXPECT_FALSE(found.whole());
  found = check("state", true);
  ASSERT_EQ(found.damaged.size(), 1U);
  EXPECT_TRUE(found.damaged[0].mended);
  EXPECT_FALSE(found.damaged[0].removed);
  EXPECT_TRUE(found.whole());
  EXPECT_TRUE(check("state").damaged.empty());
}

TEST_F(StateCheck, SaysWhatItCannotMakeAgain) {
  work();
  std::string text = bytes_of(at("state/versions.json"));
  text[text.find("\"version\"") + 12] ^= 1;
  put_bytes(at("state/versions.json"), text);
  const CheckedState found = check("state", true);
  ASSERT_EQ(found.damaged.size(), 1U);
  EXPECT_EQ(found.damaged[0].file, "versions.json");
  EXPECT_FALSE(found.damaged[0].derived);
  EXPECT_FALSE(found.whole());
  EXPECT_TRUE(real_fs().exists(at("state/versions.json")));
}

}  // namespace
}  // namespace ndtrain
