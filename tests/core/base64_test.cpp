#include "framework/core/base64.h"

#include <gtest/gtest.h>

namespace ndtrain {
namespace {

TEST(Base64, IsThatOfRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"},
                                                         {"\xfb\xff", "+/8="}};
  for (const auto& [bytes, text] : vectors) EXPECT_EQ(to_base64(bytes), text);
}

}  // namespace
}  // namespace ndtrain
