// What an importer of models that was taken over can still do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/sandbox/hostile_pool.h"

namespace ndtrain::ndp {
namespace {

using testing::checked_by;
using testing::ended;
using ::testing::HasSubstr;
using testing::hostile_models;

bool has(const ModelSandbox& sandbox, const char* what) {
  return sandbox.missing().find(what) == std::string::npos;
}

TEST(ConfinedImporter, IsEndedWhereItAsksForWhatNoImporterNeeds) {
  ModelSandbox sandbox(hostile_models());
  if (!has(sandbox, "the filter of system calls")) {
    GTEST_SKIP() << "the sandbox lacks here: " << sandbox.missing();
  }
  int64_t stopped = 0;
  for (const char* act :
       {"!read a file", "!write a file", "!list a directory", "!make a socket",
        "!make a local socket", "!fork", "!vfork", "!exec", "!kill its owner", "!trace its owner",
        "!run memory", "!raise its limits", "!read what it has not"}) {
    SCOPED_TRACE(act);
    const Status s = checked_by(sandbox, act);
    EXPECT_EQ(s.code(), Code::kCorrupt);
    EXPECT_EQ(s.message(),
              "it is not imported: a process that tried was stopped: it asked the kernel for what "
              "no importer needs, and was ended (SIGSYS)");
    EXPECT_EQ(ended(sandbox, WorkerEnd::kForbidden), ++stopped);
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/ndtrain-hostile"));
  EXPECT_TRUE(checked_by(sandbox, "!begin a thread").ok());
}

TEST(ConfinedImporter, ReachesNoFileWithoutTheFilterEither) {
  ModelSandbox::Config config = hostile_models();
  config.filter = false;
  ModelSandbox sandbox(config);
  if (!has(sandbox, "Landlock")) {
    GTEST_SKIP() << "the sandbox lacks here: " << sandbox.missing();
  }
  for (const char* act : {"!read a file", "!write a file", "!list a directory", "!exec"}) {
    EXPECT_EQ(checked_by(sandbox, act).message(), "Permission denied") << act;
  }
}

// The other half of the tests above: nothing else keeps it from a file.
TEST(ConfinedImporter, SaysWhatItLacks) {
  ModelSandbox::Config config = hostile_models();
  config.filter = config.landlock = false;
  ModelSandbox sandbox(config);
  EXPECT_THAT(sandbox.missing(), HasSubstr("Landlock (not wanted)"));
  EXPECT_TRUE(checked_by(sandbox, "!read a file").ok());
}

TEST(ConfinedImporter, HasAsMuchMemoryAsItIsGiven) {
  ModelSandbox sandbox(hostile_models());
  if (!has(sandbox, "the limit of memory")) {
    GTEST_SKIP() << "the sandbox lacks here: " << sandbox.missing();
  }
  const Status s = checked_by(sandbox, "!take 1 GiB");
  EXPECT_EQ(s.code(), Code::kTooLarge);
  EXPECT_EQ(s.message(), "importing it takes more memory than a model worker may have");
  EXPECT_EQ(sandbox.counts().ended, ModelSandbox::Counts().ended);
}

}  // namespace
}  // namespace ndtrain::ndp
