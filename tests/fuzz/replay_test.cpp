// What the fuzzers of tests/fuzz look for at length, for a moment in each run of the tests: the
// seeds, what was once found (tests/fuzz/corpus), and inputs made of these by a few changes. A
// sanitizer, a thrown exception other than Error, or the time a test may take is what fails.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>

#include "framework/core/log.h"
#include "framework/core/rng.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/paths.h"

namespace ndtrain::fuzz {

void PrintTo(const FuzzTarget& target, std::ostream* os) { *os << target.name; }

namespace {

constexpr int kChanged = 400;  // inputs for each target

std::vector<std::string> corpus(const std::string& name) {
  const std::filesystem::path directory =
      std::filesystem::path(support::source_path("/tests/fuzz/corpus")) / name;
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(directory)) return files;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return files;
}

// One of libFuzzer's changes, by chance: a bit, a byte, a cut, bytes repeated, a part of another.
std::string changed(std::string bytes, const std::string& other, Rng& rng) {
  const size_t at = bytes.empty() ? 0 : rng.next_below(bytes.size());
  const auto drawn = static_cast<char>(rng.next_bits());
  switch (rng.next_below(6)) {
    case 0:
      if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.next_below(8)));
      break;
    case 1:
      if (!bytes.empty()) bytes[at] = drawn;
      break;
    case 2:
      bytes.resize(at);
      break;
    case 3:
      bytes.insert(at, bytes.substr(at, 1 + rng.next_below(32)));
      break;
    case 4:
      bytes.insert(at, 1 + rng.next_below(8), drawn);
      break;
    default:
      if (!other.empty()) bytes.replace(at, 16, other.substr(rng.next_below(other.size()), 16));
  }
  return bytes;
}

class Fuzzed : public ::testing::TestWithParam<FuzzTarget> {
 protected:
  void SetUp() override { log::set_level(log::Level::kOff); }
  void TearDown() override { log::set_level(log::Level::kInfo); }
};

TEST_P(Fuzzed, TakesItsSeedsAndRefusesTheRest) {
  const FuzzTarget& target = GetParam();
  std::vector<std::string> inputs = target.seeds();
  ASSERT_FALSE(inputs.empty());
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(read_by(target, inputs[i])) << "seed " << i << " is refused";
  }
  for (std::string& found : corpus(target.name)) {
    read_by(target, found);
    inputs.push_back(std::move(found));
  }
  read_by(target, "");
  Rng rng(24, target.name);
  int refused = 0;
  for (int i = 0; i < kChanged; ++i) {
    std::string input = inputs[rng.next_below(inputs.size())];
    for (uint64_t n = 1 + rng.next_below(4); n > 0; --n) {
      input = changed(std::move(input), inputs[rng.next_below(inputs.size())], rng);
    }
    refused += read_by(target, input) ? 0 : 1;
  }
  EXPECT_GT(refused, 0) << "nothing it was given was refused";
}

INSTANTIATE_TEST_SUITE_P(Readers, Fuzzed, ::testing::ValuesIn(all_targets()),
                         [](const auto& target) { return target.param.name; });

}  // namespace
}  // namespace ndtrain::fuzz
