#include "ndp/wire/state_directory.h"

#include <gtest/gtest.h>

#include "framework/testing/memory_fs.h"
#include "tests/support/files.h"

namespace ndtrain::ndp {
namespace {

StateDirectory open(Fs& fs, const std::string& role) {
  return StateDirectory::open(fs, "state", role).or_throw();
}

TEST(StateDirectory, EachStartOfATunerHasTheNextTermAndANumberOfItsOwn) {
  MemoryFs fs;
  const TunerIdentity first = open(fs, "tuner").next_term(11).or_throw();
  const TunerIdentity second = open(fs, "tuner").next_term(12).or_throw();
  EXPECT_EQ(first.id, second.id);
  EXPECT_EQ(second.term, first.term + 1);
  EXPECT_EQ(first.start, 11u);
  EXPECT_EQ(second.start, 12u);
  EXPECT_NE(open(fs, "tuner").next_term(0).or_throw().start, 0u) << "0 says that none was drawn";
}

TEST(StateDirectory, AStoreKnowsItsTunerAfterAPowerCut) {
  MemoryFs fs;
  const TunerIdentity met{std::string(16, 'x'), 5, UINT64_MAX};
  open(fs, "pipestore").remember(met).or_throw();
  fs.crash(MemoryFs::Survives::kNothing);
  EXPECT_EQ(open(fs, "pipestore").known_tuner().or_throw(), met);
}

// An earlier program writes the term that it meets and leaves what it does not know as it was.
TEST(StateDirectory, TheStartOfAnEarlierTermIsNotTakenForThatOfThisOne) {
  MemoryFs fs;
  open(fs, "pipestore").remember({std::string(16, 'x'), 5, 11}).or_throw();
  std::string text = fs.read("state/state.json").or_throw();
  const std::string term = "\"term\": 5";
  text.replace(text.find(term), term.size(), "\"term\": 6");
  ASSERT_TRUE(fs.remove("state/state.json").ok());
  support::write_file(fs, "state/state.json", text);
  EXPECT_EQ(open(fs, "pipestore").known_tuner().or_throw(),
            (TunerIdentity{std::string(16, 'x'), 6, 0}));
}

}  // namespace
}  // namespace ndtrain::ndp
