// Tokens as they are kept.
#include "ndp/http/tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Tokens : public ::testing::Test {
 protected:
  void SetUp() override { fs_.make_directories("state").or_throw(); }
  TokensFile open() { return TokensFile::open(fs_, "state").or_throw(); }
  std::string text() { return fs_.read("state/tokens.json").or_throw(); }

  MemoryFs fs_;
};

TEST_F(Tokens, AreKeptAsDigestsAlone) {
  const std::string secret = open().add({.name = "ann", .role = Role::kLabeller}).or_throw();
  EXPECT_THAT(secret, StartsWith("ndt_"));
  EXPECT_EQ(secret.size(), 4U + 64U);
  EXPECT_THAT(text(), Not(HasSubstr(secret.substr(4))));
  EXPECT_THAT(text(), HasSubstr(to_hex(sha256(secret))));
  EXPECT_NE(open().add({.name = "bob"}).or_throw(), secret);
}

TEST_F(Tokens, AreReadAsTheyWereWritten) {
  (void)open()
      .add({.name = "ann",
            .role = Role::kUploader,
            .collection = "attic",
            .created = 5,
            .expires = 7})
      .or_throw();
  open().revoke("ann", 6).or_throw();
  const std::vector<Token> all = parse_tokens(text()).or_throw();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "ann");
  EXPECT_EQ(all[0].role, Role::kUploader);
  EXPECT_EQ(all[0].collection, "attic");
  EXPECT_EQ(all[0].created, 5);
  EXPECT_EQ(all[0].expires, 7);
  EXPECT_EQ(all[0].revoked, 6);
}

TEST_F(Tokens, OfATaskAreInAListThatProgramsWithoutThemRefuse) {
  (void)open().add({.name = "ann", .role = Role::kAdmin}).or_throw();
  EXPECT_THAT(text(), HasSubstr("\"format\": 1"));
  EXPECT_THAT(text(), Not(HasSubstr("\"task\"")));
  const std::string before = text();
  EXPECT_EQ(without_tokens_of_tasks(before), before);
  (void)open().add({.name = "bob", .role = Role::kLabeller, .task = "mood"}).or_throw();
  EXPECT_THAT(text(), HasSubstr("\"format\": 2"));
  const std::vector<Token> all = parse_tokens(text()).or_throw();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].task, "");
  EXPECT_EQ(all[1].task, "mood");
  EXPECT_EQ(without_tokens_of_tasks(text()), before) << "such a program gets the others";
  EXPECT_EQ(without_tokens_of_tasks("no list"), "no list");
}

TEST_F(Tokens, HaveANameEachUntilTheyAreRevoked) {
  (void)open().add({.name = "ann"}).or_throw();
  EXPECT_EQ(open().add({.name = "ann"}).status().code(), Code::kExists);
  open().revoke("ann", 1).or_throw();
  EXPECT_EQ(open().revoke("ann", 2).code(), Code::kNotFound);
  EXPECT_TRUE(open().add({.name = "ann"}).ok());
  EXPECT_EQ(open().all().size(), 2U);
}

TEST_F(Tokens, AreChangedByOneAtATime) {
  const TokensFile first = open();
  EXPECT_EQ(TokensFile::open(fs_, "state").status().code(), Code::kExists);
}

TEST_F(Tokens, AreAtMostSoManyAndRevokedOnesMakeWay) {
  std::vector<Token> many;
  for (int64_t i = 0; i < kMostTokens - 1; ++i) many.push_back({.name = std::to_string(i)});
  publish(fs_, "state/tokens.json", tokens_text(many)).or_throw();
  EXPECT_TRUE(open().add({.name = "last"}).ok());
  EXPECT_EQ(open().add({.name = "more"}).status().code(), Code::kTooLarge);
  open().revoke("7", 1).or_throw();
  EXPECT_TRUE(open().add({.name = "more"}).ok());
  EXPECT_EQ(open().all().size(), static_cast<size_t>(kMostTokens));
  EXPECT_LT(static_cast<int64_t>(text().size()), kTokensBytes);
}

TEST_F(Tokens, OfAnotherFormatAreRefused) {
  for (const std::string bad :
       {"", "{}", "[1]", R"({"format": 3, "tokens": []})", R"({"format": 1, "tokens": [{}]})",
        R"({"format": 1, "tokens": [{"name": "a", "role": "king", "collection": "",
            "digest": "", "created": 0, "expires": 0, "revoked": 0}]})"}) {
    EXPECT_EQ(parse_tokens(bad).status().code(), Code::kCorrupt) << bad;
    publish(fs_, "state/tokens.json", bad).or_throw();
    EXPECT_THAT(TokensFile::open(fs_, "state").status().message(), HasSubstr("state/tokens.json"));
  }
}

TEST_F(Tokens, NeedAStateDirectoryThatIsThere) {
  EXPECT_THAT(TokensFile::open(fs_, "nowhere").status().message(), HasSubstr("nowhere"));
}

TEST(TokenNames, AreLettersDigitsAndLittleElse) {
  EXPECT_TRUE(is_token_name("ann@example.org"));
  EXPECT_TRUE(is_token_name(std::string(64, 'a')));
  for (const std::string& bad : {std::string(), std::string(65, 'a'), std::string("a b"),
                                 std::string("a\n"), std::string("\"")}) {
    EXPECT_FALSE(is_token_name(bad)) << bad;
  }
}

TEST(Roles, HaveNamesInTheirOrder) {
  Role before = Role::kAnyone;
  for (const char* name : {"viewer", "uploader", "labeller", "operator", "admin"}) {
    const Role role = *role_of(name);
    EXPECT_EQ(name_of(role), name);
    EXPECT_LT(before, role);
    before = role;
  }
  EXPECT_FALSE(role_of("anyone"));
  EXPECT_FALSE(role_of(""));
}

}  // namespace
}  // namespace ndtrain::ndp
