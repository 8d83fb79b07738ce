#include "framework/core/text.h"

#include <gtest/gtest.h>

namespace ndtrain {
namespace {

TEST(Text, OfPeopleStaysAsItIs) {
  for (const std::string text : {"", "a photo.jpg", "Gänseblümchen", "\xe9\x9b\x8f\xe8\x8f\x8a",
                                 "\xf0\x9f\x8c\xb7", "a\\nb", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_plain(text)) << text;
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Text, HasItsControlCharactersWrittenOut) {
  const std::pair<std::string, std::string> cases[] = {
      {"a\nwarning: b", "a\\nwarning: b"},
      {"a\r\tb", "a\\r\\tb"},
      {std::string("a\0b", 3), "a\\x00b"},
      {"\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"},
      {"\x7f", "\\x7f"},
      {"\xc2\x9b", "\\xc2\\x9b"},                    // C1: a terminal may take it for ESC [
      {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},           // line separator
      {"\xe2\x80\xae", "\\xe2\\x80\\xae"},           // right to left from here on
      {"\xff\xfe", "\\xff\\xfe"},                    // no UTF-8
      {"\xc0\x8a", "\\xc0\\x8a"},                    // an overlong line feed
      {"\xed\xa0\x80", "\\xed\\xa0\\x80"},           // half of a pair
      {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},  // beyond Unicode
      {"\xe9\x9b", "\\xe9\\x9b"},                    // cut short
  };
  for (const auto& [text, shown] : cases) {
    EXPECT_FALSE(is_plain(text)) << shown;
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(printable(printable(text)), shown) << "twice is once";
  }
}

TEST(Text, IsUtf8OrNot) {
  for (const std::string text : {"", "a\nb", "\xc2\x9b", "\xe2\x80\xae", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << printable(text);
  }
  for (const char* text :
       {"\xff\xfe", "a\xc0\x8a", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe9\x9b"}) {
    EXPECT_FALSE(is_utf8(text)) << printable(text);
  }
}

TEST(Text, ThatIsTooLongIsCutBetweenCharactersAndSaysSo) {
  EXPECT_EQ(printable("123456", 6), "123456");
  EXPECT_EQ(printable("1234567", 6), "123…");
  EXPECT_EQ(printable("12\n4567", 6), "12…") << "half of an escape";
  EXPECT_EQ(printable("ääääää", 6), "ä…");
  EXPECT_EQ(printable("\n\n", 3), "…");
  for (size_t most = 3; most < 40; ++most) {
    const std::string once = printable("a\nä\x1b text that goes on and on", most);
    EXPECT_LE(once.size(), most);
    EXPECT_EQ(printable(once, most), once);
  }
}

TEST(Text, IsAPathBelowADirectoryOrNot) {
  for (const char* path : {"a", "a/b.jpg", "uploads/5f/5f70.jpg", "..a", "a..", "...", "ä/ b"}) {
    EXPECT_TRUE(is_path_below(path)) << path;
  }
  for (const char* path : {"", ".", "..", "/", "/a", "a/", "a//b", "a/./b", "a/../b", "../a",
                           "a/..", "a\nb", "\xff"}) {
    EXPECT_FALSE(is_path_below(path)) << path;
  }
}

}  // namespace
}  // namespace ndtrain
