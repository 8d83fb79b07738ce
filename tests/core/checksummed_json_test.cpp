#include "framework/core/checksummed_json.h"

#include <gtest/gtest.h>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

TEST(ChecksummedJson, NoBitIsAnotherUnnoticed) {
  for (const int indent : {-1, 2}) {
    const Json value = {{"term", 5}, {"names", {"rose", "tulip"}}, {"share", 0.25}};
    const std::string whole = checksummed(value, indent);
    for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
      std::string text = whole;
      text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
      try {
        EXPECT_EQ(verified(text), value) << text;
      } catch (const Error&) {  // it is said
      }
    }
  }
}

TEST(ChecksummedJson, ATextWithoutAChecksumIsTakenAsItIs) {
  EXPECT_EQ(verified(R"({"checksums": 1})"), Json({{"checksums", 1}}));
  EXPECT_EQ(verified("[1]"), Json::array({1}));
}

// What is written of it, for the checksum, is written by calls in each other.
TEST(ChecksummedJson, ATextThatIsTooDeepIsDamaged) {
  const std::string text = R"({"checksum": "0", "a": )" + std::string(10'000'000, '[') +
                           std::string(10'000'000, ']') + "}";
  EXPECT_THROW((void)verified(text), Error);
}

}  // namespace
}  // namespace ndtrain
