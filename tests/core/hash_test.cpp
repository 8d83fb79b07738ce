#include "framework/core/hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "framework/core/error.h"

namespace ndtrain {
namespace {

// FIPS 180-4 examples.
TEST(Sha256, GivesTheKnownAnswers) {
  EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(to_hex(sha256("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, DoesNotDependOnHowTheBytesArrive) {
  Sha256 hash;
  for (size_t left = 1'000'000, n = 1; left > 0; left -= n, n = std::min(left, n * 3)) {
    hash.update(std::string(n, 'a')).update(nullptr, 0);
  }
  EXPECT_EQ(to_hex(hash.finish()),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, FieldsCannotRunIntoEachOther) {
  const Digest ab_c = Sha256().field("ab").field("c").finish();
  EXPECT_NE(ab_c, Sha256().field("a").field("bc").finish());
  EXPECT_NE(ab_c, Sha256().field("abc").finish());
  EXPECT_NE(Sha256().field("").finish(), Sha256().finish());
  EXPECT_NE(Sha256().field(1).field(0).finish(), Sha256().field(0).field(1).finish());
  const std::string first("\x01\0\0\0\0\0\0\0a", 9);  // the layout is fixed: it names files
  EXPECT_EQ(Sha256().field("a").finish(), sha256(first));
}

TEST(Sha256, EndsOnce) {
  Sha256 hash;
  hash.finish();
  EXPECT_THROW(hash.finish(), Error);
  EXPECT_THROW(hash.update("x"), Error);
}

TEST(Digest, ReadsWhatItWrites) {
  const Digest d = sha256("x");
  EXPECT_EQ(digest_from_hex(to_hex(d)), d);
  EXPECT_EQ(digest_from_hex(std::string(64, 'F')), digest_from_hex(std::string(64, 'f')));
}

TEST(Digest, RefusesWhatIsNotOne) {
  EXPECT_THROW(digest_from_hex(""), Error);
  EXPECT_THROW(digest_from_hex(std::string(63, 'a')), Error);
  EXPECT_THROW(digest_from_hex(std::string(65, 'a')), Error);
  EXPECT_THROW(digest_from_hex(std::string(63, 'a') + "g"), Error);
}

TEST(Xxh3, GivesTheKnownAnswers) {
  EXPECT_EQ(xxh3("", 0), 0x2d06800538d394c2u);
  EXPECT_EQ(xxh3("a", 1), 0xe6c632b61e964e1fu);
  EXPECT_EQ(xxh3("abc", 3), 0x78af5f94892f3950u);
  EXPECT_NE(xxh3("abc", 3, 1), xxh3("abc", 3));
}

}  // namespace
}  // namespace ndtrain
