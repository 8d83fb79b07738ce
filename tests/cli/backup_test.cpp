// ndtrain backup and restore, on state directories written by hand.
#include <gmock/gmock.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "ndp/sqlite/sqlite.h"
#include "ndp/wire/state_directory.h"
#include "tests/cli/program_fixture.h"
#include "tests/support/files.h"

namespace ndtrain {
using namespace ndp;

namespace {

using support::write_file;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_cli::Outcome;

class BackupTest : public testing_cli::ProgramTest {
 protected:
  void write(const std::string& name, const std::string& text) const {
    write_file(real_fs(), at(name), text);
  }
  std::string bytes(const std::string& name) const { return real_fs().read(at(name)).or_throw(); }
  // A Tuner's next start on this directory.
  uint64_t next_term(const std::string& state) const {
    return StateDirectory::open(real_fs(), at(state), "tuner")
        .or_throw()
        .next_term(7)
        .or_throw()
        .term;
  }
  nlohmann::json backup(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"backup", "tuner", "-o", "b.tar.zst", "--json"});
    const Outcome o = run(more);
    EXPECT_EQ(o.code, 0) << o.err;
    return nlohmann::json::parse(o.out, nullptr, false);
  }

  void make_tuner() const {
    EXPECT_EQ(next_term("tuner"), 1u);
    write("tuner/versions.json", "[]\n");
    write("tuner/jobs/1/job.json", "{\"state\":\"done\"}\n");
    write("tuner/jobs/1/spool/a.seg", "rows");
    write("tuner/jobs/2/job.json", "{\"state\":\"failed\"}\n");
    write("tuner/jobs/2/spool/a.seg", "rows of a job that may be resumed");
    write("tuner/models/" + std::string(120, 'm') + ".onnx", std::string(3 << 20, '\3'));
  }
};

TEST_F(BackupTest, ComesBackAsItWasButForWhatIsComputedAgain) {
  make_tuner();
  EXPECT_THAT(backup().at("left_out"), ElementsAre("jobs/1/spool"));
  const Outcome o = run({"restore", "b.tar.zst", "-o", "again"});
  ASSERT_EQ(o.code, 0) << o.err;
  for (const std::string& name :
       {std::string("versions.json"), std::string("jobs/1/job.json"),
        std::string("jobs/2/spool/a.seg"), "models/" + std::string(120, 'm') + ".onnx"}) {
    EXPECT_TRUE(bytes("tuner/" + name) == bytes("again/" + name)) << name;
  }
  EXPECT_FALSE(real_fs().exists(at("again/jobs/1/spool")));
  EXPECT_FALSE(real_fs().exists(at("again.restoring")));

  real_fs().remove(at("b.tar.zst")).or_throw();
  EXPECT_TRUE(backup({"--all"}).at("left_out").empty());
  ASSERT_EQ(run({"restore", "b.tar.zst", "-o", "all"}).code, 0);
  EXPECT_EQ(bytes("all/jobs/1/spool/a.seg"), "rows");
}

TEST_F(BackupTest, ARestoredTunerTakesATermAboveEveryOneGivenOut) {
  make_tuner();
  (void)backup();
  uint64_t newest = 0;
  for (int i = 0; i < 5; ++i) newest = next_term("tuner");  // it went on after the backup
  ASSERT_EQ(run({"restore", "b.tar.zst", "-o", "second"}).code, 0);
  EXPECT_GT(next_term("second"), newest);
  for (int i = 0; i < 5; ++i) newest = next_term("second");
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));     // the clock shows seconds
  ASSERT_EQ(run({"restore", "b.tar.zst", "-o", "third"}).code, 0);  // the same old backup
  EXPECT_GT(next_term("third"), newest);
}

TEST_F(BackupTest, APipeStoresTermIsWhatItHasSeen) {
  auto state = StateDirectory::open(real_fs(), at("store"), "pipestore").or_throw();
  state.remember({.id = std::string(16, 'x'), .term = 9}).or_throw();
  write("store/cache/1.seg", "features");
  const Outcome o = run({"backup", "store", "-o", "s.tar.zst"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("of a pipestore, which goes on: "));
  EXPECT_THAT(o.out, HasSubstr("cache is left out"));
  ASSERT_EQ(run({"restore", "s.tar.zst", "-o", "again"}).code, 0);
  const auto again = StateDirectory::open(real_fs(), at("again"), "pipestore").or_throw();
  EXPECT_EQ(again.known_tuner().or_throw().term, 9u);
}

TEST_F(BackupTest, WhatIsComputedAgainIsCopiedOfAStoppedRoleAlone) {
  make_tuner();
  const auto state = StateDirectory::open(real_fs(), at("tuner"), "tuner").or_throw();
  const Outcome o = run({"backup", "tuner", "-o", "b.tar.zst", "--all"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("tuner belongs to another running tuner; stop it, or leave --all"));
  EXPECT_FALSE(real_fs().exists(at("b.tar.zst")));
  EXPECT_THAT(backup().at("left_out"), ElementsAre("jobs/1/spool", "jobs/2/spool"));
}

TEST_F(BackupTest, OfLabelsThatAreWrittenMeanwhileAMomentIsSaved) {
  make_tuner();
  sql::Database writer(at("tuner/labels.db"));
  writer.execute("PRAGMA journal_mode=WAL; CREATE TABLE a (n); CREATE TABLE b (n)");
  std::jthread writes([&](const std::stop_token& stop) {
    for (int64_t n = 0; !stop.stop_requested(); ++n) {
      sql::Transaction both(writer);
      writer.execute("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1)");
      both.commit();
    }
  });
  const nlohmann::json saved = backup();
  EXPECT_TRUE(saved.at("labels"));
  writes = {};
  const int64_t all = writer.integer("SELECT count(*) FROM a");
  ASSERT_EQ(run({"restore", "b.tar.zst", "-o", "again"}).code, 0);
  sql::Database restored(at("again/labels.db"));
  const int64_t n = restored.integer("SELECT count(*) FROM a");
  EXPECT_EQ(n, restored.integer("SELECT count(*) FROM b"));
  EXPECT_LE(n, all);
  for (const auto& file : std::filesystem::directory_iterator(root_.path())) {
    EXPECT_THAT(file.path().filename().string(),
                ::testing::Not(::testing::StartsWith("b.tar.zst.")));
  }
}

TEST_F(BackupTest, NothingIsReplaced) {
  make_tuner();
  (void)backup();
  const std::string before = bytes("b.tar.zst");
  Outcome o = run({"backup", "tuner", "-o", "b.tar.zst"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("b.tar.zst exists"));
  EXPECT_TRUE(bytes("b.tar.zst") == before);
  o = run({"restore", "b.tar.zst", "-o", "tuner"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("tuner exists and is not empty"));
  std::filesystem::create_directory(at("empty"));
  EXPECT_EQ(run({"restore", "b.tar.zst", "-o", "empty/"}).code, 0);
}

TEST_F(BackupTest, WhatIsCutShortOrChangedIsRefusedAndLeavesNothing) {
  make_tuner();
  (void)backup();
  const std::string whole = bytes("b.tar.zst");
  const auto refused = [&](const std::string& what, const std::string& text) {
    write("bad.tar.zst", text);
    const Outcome o = run({"restore", "bad.tar.zst", "-o", "back"});
    EXPECT_EQ(o.code, 1) << what;
    EXPECT_THAT(o.err, HasSubstr("bad.tar.zst")) << what;
    EXPECT_FALSE(real_fs().exists(at("back"))) << what;
    EXPECT_FALSE(real_fs().exists(at("back.restoring"))) << what;
  };
  refused("empty", "");
  refused("a text", "this is no archive\n");
  for (const size_t eighth : {1u, 3u, 5u, 7u})
    refused("short", whole.substr(0, whole.size() * eighth / 8));
  for (const size_t eighth : {1u, 3u, 5u, 7u}) {
    std::string changed = whole;
    changed[changed.size() * eighth / 8] ^= 0x10;
    refused("changed in eighth " + std::to_string(eighth), changed);
  }
  EXPECT_EQ(run({"restore", "b.tar.zst", "-o", "back"}).code, 0);
}

TEST_F(BackupTest, WhatIsNoStateDirectoryIsNamed) {
  std::filesystem::create_directory(at("photos"));
  Outcome o = run({"backup", "photos", "-o", "b.tar.zst"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("photos is no state of a Tuner or PipeStore"));
  o = run({"backup", "nowhere", "-o", "b.tar.zst"});
  EXPECT_EQ(o.code, 1);
  EXPECT_FALSE(real_fs().exists(at("nowhere")));
}

}  // namespace
}  // namespace ndtrain
