#include "framework/core/byte_reader.h"

#include <gtest/gtest.h>

#include <limits>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

TEST(ByteReader, ReadsVarintsOfEveryLength) {
  for (int bits = 0; bits < 64; ++bits) {
    for (const uint64_t n : {uint64_t{1} << bits, (uint64_t{1} << bits) - 1}) {
      std::string text;
      put_varint(text, n);
      EXPECT_EQ(text.size(), varint_bytes(n)) << n;
      ByteReader in(text);
      EXPECT_EQ(in.varint(), n);
      EXPECT_TRUE(in.empty());
    }
  }
  std::string text;
  put_varint(text, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(text.size(), 10U);
  EXPECT_EQ(ByteReader(text).varint(), std::numeric_limits<uint64_t>::max());
}

TEST(ByteReader, SaysWhatIsWrong) {
  EXPECT_THROW(ByteReader("\x80").varint(), Error);
  EXPECT_THROW(ByteReader("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02").varint(), Error);
  EXPECT_THROW(ByteReader("abc").bytes(4), Error);
}

TEST(ByteReader, TakesBytesFromTheFront) {
  ByteReader in("abcdef");
  EXPECT_EQ(in.bytes(2), "ab");
  EXPECT_EQ(in.size(), 4U);
  EXPECT_EQ(in.rest(), "cdef");
  EXPECT_TRUE(in.empty());
}

}  // namespace
}  // namespace ndtrain
