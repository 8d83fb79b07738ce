#include "framework/core/error.h"

#include <gtest/gtest.h>

#include <sstream>

#include "framework/core/shape.h"

namespace ndtrain {
namespace {

template <typename... Parts>
std::string streamed(const Parts&... parts) {
  std::ostringstream os;
  (os << ... << parts);
  return os.str();
}

template <typename... Parts>
void expect_as_streamed(const Parts&... parts) {
  EXPECT_EQ(Error(parts...).what(), streamed(parts...));
}

enum Colour { kRed = 3 };

TEST(Error, SaysItsPartsAsAnOutputStreamWritesThem) {
  expect_as_streamed("a", std::string("b"), std::string_view("c"), 'd');
  expect_as_streamed(true, false, int8_t{65}, uint8_t{66}, int16_t{-7}, kRed);
  expect_as_streamed(INT64_MIN, UINT64_MAX, 0, -1, 5U);
  expect_as_streamed(0.1, 1e30, -2.5F, 1.0 / 3, 1e-9);
  expect_as_streamed(Shape{2, 3}, TensorType{DType::kBF16, {1}});
}

TEST(Error, LeavesOutATextThatIsNotThere) {
  const char* nothing = nullptr;
  EXPECT_STREQ(Error("archive: ", nothing, ".").what(), "archive: .");
}

}  // namespace
}  // namespace ndtrain
