#include "ndp/wire/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/wire/authority.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNow = 1'600'000'000;

class Certificates : public ::testing::Test {
 protected:
  std::string refusal(const Credentials& authority) const {
    return ndtrain::ndp::issue(authority, {.name = "a"}, support::around(kNow)).status().message();
  }

  const support::Authority ours_{.now = kNow}, theirs_{.now = kNow};
};

TEST_F(Certificates, AreValidForAsLongAsTheyShouldBe) {
  const Credentials c = ours_.credentials("a", LinkRole::kStore, {kNow, kNow + 60});
  const Validity v = validity_of(c.certificate).or_throw();
  EXPECT_EQ(v.from, kNow);
  EXPECT_EQ(v.until, kNow + 60);
  EXPECT_FALSE(validity_of("no PEM").ok());
}

TEST_F(Certificates, EndWithTheirAuthority) {
  const Credentials c = ours_.credentials("a", LinkRole::kStore, {kNow, kNow + 36000});
  EXPECT_EQ(validity_of(c.certificate).or_throw().until, kNow + 3600);
  const auto late =
      ndtrain::ndp::issue(ours_.own, {.name = "a"}, {.from = kNow + 3600, .until = kNow + 7200});
  EXPECT_EQ(late.status().message(),
            "the authority's certificate expired on 2020-09-13 13:26:40 UTC");
}

TEST_F(Certificates, TellTheRole) {
  for (const LinkRole role : {LinkRole::kTuner, LinkRole::kStore, LinkRole::kMember}) {
    EXPECT_EQ(link_role_of(ours_.credentials("a", role, support::around(kNow)).certificate), role);
  }
  EXPECT_EQ(link_role_of(ours_.own.certificate), std::nullopt);
  EXPECT_EQ(link_role_of("no PEM"), std::nullopt);
}

TEST_F(Certificates, AreNeverTheSame) {
  const Credentials a = ours_.credentials("a", LinkRole::kStore, support::around(kNow));
  const Credentials b = ours_.credentials("a", LinkRole::kStore, support::around(kNow));
  EXPECT_NE(a.key, b.key);
  EXPECT_NE(a.certificate, b.certificate);
}

TEST_F(Certificates, AreRevokedOneAfterTheOther) {
  const auto certificate = [&](const char* name) {
    return ours_.credentials(name, LinkRole::kStore, support::around(kNow)).certificate;
  };
  const std::string a = certificate("a"), b = certificate("b"), c = certificate("a");
  const auto names = [&](const std::string& list) {
    const LinkSecurity s = {.authority = ours_.own.certificate, .revoked = list};
    return std::array{is_revoked(s, a), is_revoked(s, b), is_revoked(s, c)};
  };
  const std::string none = revoke(ours_.own, "", "", kNow).or_throw(),
                    one = revoke(ours_.own, none, a, kNow).or_throw(),
                    two = revoke(ours_.own, one, b, kNow).or_throw();
  EXPECT_EQ(names(none), (std::array{false, false, false}));
  EXPECT_EQ(names(one), (std::array{true, false, false}));
  EXPECT_EQ(names(two), (std::array{true, true, false})) << "a name may have another certificate";
}

TEST_F(Certificates, AreRevokedByTheirAuthorityAlone) {
  const std::string a = ours_.credentials("a", LinkRole::kStore, support::around(kNow)).certificate;
  const auto why = [&](const Credentials& authority, const std::string& list,
                       const std::string& certificate) {
    return revoke(authority, list, certificate, kNow).status().message();
  };
  EXPECT_EQ(why(theirs_.own, "", a), "was not issued by this authority");
  EXPECT_EQ(why(ours_.own, "", "no PEM"), "is no certificate in PEM");
  EXPECT_THAT(why(ours_.own, "no PEM", a), HasSubstr("list that is there is not one of"));
  EXPECT_THAT(why(ours_.own, revoke(theirs_.own, "", "", kNow).or_throw(), a),
              HasSubstr("list that is there is not one of"));
  EXPECT_THAT(why({ours_.own.certificate, theirs_.own.key}, "", a),
              HasSubstr("key does not belong to its certificate"));
}

TEST_F(Certificates, AreNotIssuedByWhatIsNoAuthority) {
  EXPECT_THAT(refusal({ours_.own.certificate, theirs_.own.key}),
              HasSubstr("key does not belong to its certificate"));
  EXPECT_THAT(refusal({"no PEM", ours_.own.key}), HasSubstr("certificate is not in PEM"));
  EXPECT_THAT(refusal({ours_.own.certificate, "no PEM"}), HasSubstr("key is not in PEM"));
  EXPECT_THAT(refusal(ours_.credentials("a", LinkRole::kTuner, support::around(kNow))),
              HasSubstr("not that of an authority"));
}

TEST(CertificateHosts, AreDnsNamesAndAddresses) {
  for (const std::string host : {"a", "localhost", "tuner-1.example.org", "10.0.0.7", "::1",
                                 "fe80::1", "1.example", "xn--bcher-kva.example"}) {
    EXPECT_TRUE(is_host(host)) << host;
  }
  for (const std::string host :
       {"", ".", "a.", "a..b", "-a", "a b", "a,DNS:b", "*.example", "a_b", "a:1", "[::1]",
        "b\xc3\xbc"
        "cher",
        "a/b"}) {
    EXPECT_FALSE(is_host(host)) << host;
  }
  EXPECT_TRUE(is_host(std::string(63, 'a')));
  EXPECT_FALSE(is_host(std::string(64, 'a')));
  const std::string long_name =
      std::string(63, 'a') + "." + std::string(63, 'b') + "." + std::string(63, 'c') + ".";
  EXPECT_TRUE(is_host(long_name + std::string(61, 'd')));
  EXPECT_FALSE(is_host(long_name + std::string(62, 'd')));
}

TEST_F(Certificates, NameNothingElse) {
  EXPECT_THROW(static_cast<void>(ndtrain::ndp::issue(ours_.own, {.name = "a", .hosts = {"b,DNS:c"}},
                                                     support::around(kNow))),
               Error);
}

}  // namespace
}  // namespace ndtrain::ndp
