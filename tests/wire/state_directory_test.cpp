#include "ndp/wire/state_directory.h"

#include <gtest/gtest.h>

#include "framework/core/json.h"
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

// An earlier program, of format 1, writes the term that it meets and leaves what it does not know.
TEST(StateDirectory, TheStartOfAnEarlierTermIsNotTakenForThatOfThisOne) {
  MemoryFs fs;
  open(fs, "pipestore").remember({std::string(16, 'x'), 5, 11}).or_throw();
  Json json = parse_state(fs.read("state/state.json").or_throw()).or_throw();
  json["term"] = 6;
  json["format"] = 1;
  const std::string text = json_text(json);
  ASSERT_TRUE(fs.remove("state/state.json").ok());
  support::write_file(fs, "state/state.json", text);
  EXPECT_EQ(open(fs, "pipestore").known_tuner().or_throw(),
            (TunerIdentity{std::string(16, 'x'), 6, 0}));
}

TEST(StateDirectory, NoBitOfItsFileIsAnotherUnnoticed) {
  MemoryFs fs;
  const TunerIdentity met{std::string(16, 'x'), 5, UINT64_MAX};
  open(fs, "pipestore").remember(met).or_throw();
  const std::string whole = fs.read("state/state.json").or_throw();
  int refused = 0;
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    ASSERT_TRUE(fs.remove("state/state.json").ok());
    support::write_file(fs, "state/state.json", bytes);
    const Result<StateDirectory> state = StateDirectory::open(fs, "state", "pipestore");
    if (state.ok()) {
      EXPECT_EQ(state->known_tuner().or_throw(), met) << "bit " << bit;
    } else {
      EXPECT_NE(state.status().message().find("state/state.json"), std::string::npos);
      ++refused;
    }
  }
  EXPECT_GT(refused, 7 * static_cast<int>(whole.size()));
}

TEST(StateDirectory, OneOfAnEarlierProgramGetsAChecksumWhenItIsOpened) {
  MemoryFs fs;
  support::write_file(fs, "state/state.json",
                      R"({"role": "tuner", "format": 1, "tuner": "61", "term": 7, "later": [1]})");
  EXPECT_EQ(open(fs, "tuner").known_tuner().or_throw().term, 7U);
  const std::string text = fs.read("state/state.json").or_throw();
  EXPECT_NE(text.find("checksum"), std::string::npos);
  EXPECT_NE(text.find("later"), std::string::npos) << "what it does not know stays";
  EXPECT_EQ(open(fs, "tuner").next_term(1).or_throw().term, 8U);
}

TEST(StateDirectory, OneWhoseChecksumIsGoneIsRefused) {
  MemoryFs fs;
  (void)open(fs, "tuner");
  ASSERT_TRUE(fs.remove("state/state.json").ok());
  support::write_file(fs, "state/state.json", R"({"role": "tuner", "format": 2})");
  EXPECT_EQ(StateDirectory::open(fs, "state", "tuner").status().code(), Code::kCorrupt);
}

}  // namespace
}  // namespace ndtrain::ndp
