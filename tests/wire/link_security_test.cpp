#include "ndp/wire/link_security.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"
#include "tests/wire/authority.h"

namespace ndtrain::ndp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What load_security finds in the files ca.crt, a.crt and a.key.
class LoadSecurity : public ::testing::Test {
 protected:
  void SetUp() override {
    put("ca.crt", ours_.own.certificate);
    put(ours_.credentials("a", LinkRole::kStore, around_));
  }
  void put(const std::string& name, const std::string& text) {
    publish(fs_, name, text).or_throw();
  }
  // What load() says with the list ca.crl.
  std::string refusal_with_list() {
    return load_security(fs_, clock_, LinkRole::kStore, "ca.crt", "a.crt", "a.key", "ca.crl")
        .status()
        .message();
  }
  void put(const Credentials& c) {
    put("a.crt", c.certificate);
    put("a.key", c.key);
  }
  Result<LinkSecurity> load(LinkRole role = LinkRole::kStore) {
    return load_security(fs_, clock_, role, "ca.crt", "a.crt", "a.key");
  }
  std::string refusal(LinkRole role = LinkRole::kStore) {
    const auto r = load(role);
    return r.ok() ? "" : r.status().message();
  }

  MemoryFs fs_;
  ManualClock clock_;
  const int64_t now_ = clock_.unix_seconds();
  const Validity around_ = support::around(now_);
  const support::Authority ours_{.now = now_}, theirs_{.now = now_};
};

TEST_F(LoadSecurity, TakesWhatFitsTogether) {
  const LinkSecurity s = load().or_throw();
  EXPECT_TRUE(s.on());
  EXPECT_EQ(s.authority, ours_.own.certificate);
  EXPECT_EQ(s.certificate, *fs_.read("a.crt"));
  EXPECT_EQ(s.key, *fs_.read("a.key"));
}

TEST_F(LoadSecurity, IsNoneWithoutFiles) {
  EXPECT_FALSE(load_security(fs_, clock_, LinkRole::kStore, "", "", "").or_throw().on());
}

TEST_F(LoadSecurity, WantsAllThree) {
  const auto without = [&](const char* a, const char* c, const char* k) {
    return load_security(fs_, clock_, LinkRole::kStore, a, c, k).status().message();
  };
  EXPECT_THAT(without("", "a.crt", "a.key"), StartsWith("the authority's certificate is missing"));
  EXPECT_THAT(without("ca.crt", "", "a.key"), StartsWith("a certificate is missing"));
  EXPECT_THAT(without("ca.crt", "a.crt", ""), StartsWith("the key of the certificate is missing"));
}

TEST_F(LoadSecurity, NamesAFileThatIsNotThere) {
  for (const std::string file : {"ca.crt", "a.crt", "a.key"}) {
    SetUp();
    fs_.remove(file).or_throw();
    EXPECT_THAT(refusal(), AllOf(StartsWith(file + ": "), HasSubstr("ndtrain cert init"))) << file;
  }
}

TEST_F(LoadSecurity, NamesAFileThatIsNotWhatItShouldBe) {
  for (const std::string file : {"ca.crt", "a.crt", "a.key"}) {
    for (const std::string text : {"", "no PEM", "-----BEGIN CERTIFICATE-----\nAAAA\n"}) {
      SetUp();
      put(file, text);
      EXPECT_THAT(refusal(), StartsWith(file + ": holds no ")) << file << " " << text;
    }
  }
}

TEST_F(LoadSecurity, TakesAListOfTheAuthoritys) {
  const std::string a = *fs_.read("a.crt"),
                    b = ours_.credentials("b", LinkRole::kStore, around_).certificate;
  const std::string list = revoke(ours_.own, "", b, now_).or_throw();
  put("ca.crl", list);
  EXPECT_EQ(refusal_with_list(), "");
  const LinkSecurity s = {.authority = ours_.own.certificate, .revoked = list};
  EXPECT_TRUE(is_revoked(s, b));
  EXPECT_FALSE(is_revoked(s, a));
  EXPECT_FALSE(is_revoked({}, b));
  put("ca.crl", revoke(ours_.own, list, a, now_).or_throw());
  EXPECT_EQ(refusal_with_list(),
            "a.crt: is revoked by ca.crl; `ndtrain cert init` with --force makes a new one");
}

TEST_F(LoadSecurity, NamesAListThatDoesNotDo) {
  EXPECT_THAT(refusal_with_list(), StartsWith("ca.crl: "));
  for (const std::string text : {"", "no PEM", "-----BEGIN X509 CRL-----\nAAAA\n"}) {
    put("ca.crl", text);
    EXPECT_EQ(refusal_with_list(), "ca.crl: holds no revocation list in PEM") << text;
  }
  put("ca.crl", revoke(theirs_.own, "", "", now_).or_throw());
  EXPECT_EQ(refusal_with_list(), "ca.crl: is not signed by ca.crt");
  const support::Authority brief{.now = now_,
                                 .own = make_authority("brief", {now_ - 3600, now_ + 60})};
  put("ca.crt", ours_.own.certificate + brief.own.certificate);
  put("ca.crl", revoke(brief.own, "", "", now_).or_throw());
  EXPECT_EQ(refusal_with_list(), "");
  clock_.advance(std::chrono::seconds(61));
  EXPECT_THAT(refusal_with_list(), StartsWith("ca.crl: was to be replaced until"));
  EXPECT_THAT(load_security(fs_, clock_, LinkRole::kStore, "", "", "", "ca.crl").status().message(),
              StartsWith("the authority's certificate is missing"));
}

TEST_F(LoadSecurity, ReadsNoFileOverTheLimit) {
  const std::string pem = *fs_.read("a.crt");
  for (const int64_t bytes : {limits::kPemFile - 1, limits::kPemFile, limits::kPemFile + 1}) {
    put("a.crt", pem + std::string(static_cast<size_t>(bytes) - pem.size(), '\n'));
    const auto r = load();
    EXPECT_EQ(r.ok(), bytes <= limits::kPemFile);
    EXPECT_EQ(r.status().code(), bytes <= limits::kPemFile ? Code::kOk : Code::kTooLarge);
  }
}

TEST_F(LoadSecurity, RefusesTheKeyOfAnother) {
  put("a.key", ours_.credentials("a", LinkRole::kStore, around_).key);
  EXPECT_EQ(refusal(), "a.key: is not the key of a.crt");
}

TEST_F(LoadSecurity, AsksForNoPassphrase) {
  put("a.key",
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
      "MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhUCcu/ky3qaAICCAAw\n"
      "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEAQIEECHZltywxi3cOv3jmDEefhgEgZB1\n"
      "eD832zlxZ3Nx1ydT3N2Pm2U3Zc794QJQOsHzTkqRtrCWwDyW3qGERNp1PPlmua+E\n"
      "EWo88iPR82fx0Egaoel2/uIgdQ9KTaCfV9fCQkR1uEx1F2CVXj11GPoFLEJwXBL7\n"
      "3bgryXBEY0nSjvpURQfqRO3/2ueXx+Vx3j1cPYJQDURSEOAqy0RFdu4FMggTo/U=\n"
      "-----END ENCRYPTED PRIVATE KEY-----\n");
  EXPECT_EQ(refusal(), "a.key: has a passphrase, and there is nobody to ask for it");
}

TEST_F(LoadSecurity, NamesTheDateOfACertificateThatExpired) {
  put(ours_.credentials("a", LinkRole::kStore, {now_ - 60, now_ + 60}));
  EXPECT_EQ(refusal(), "");
  clock_.advance(std::chrono::seconds(61));
  EXPECT_EQ(refusal(),
            "a.crt: expired on 2020-09-13 12:27:40 UTC, and it is 2020-09-13 12:27:41 UTC now; "
            "`ndtrain cert init` with --force makes a new one");
}

TEST_F(LoadSecurity, NamesTheDateOfACertificateThatIsNotValidYet) {
  put(ours_.credentials("a", LinkRole::kStore, {now_ + 60, now_ + 120}));
  EXPECT_EQ(refusal(),
            "a.crt: is not valid before 2020-09-13 12:27:40 UTC, and it is 2020-09-13 12:26:40 UTC "
            "now; is this machine's clock right?");
  clock_.advance(std::chrono::seconds(60));
  EXPECT_EQ(refusal(), "");
}

TEST_F(LoadSecurity, NamesAnAuthorityThatExpired) {
  clock_.advance(std::chrono::seconds(3601));
  EXPECT_THAT(refusal(), HasSubstr("expired on 2020-09-13 13:26:40 UTC"));
}

TEST_F(LoadSecurity, RefusesACertificateOfAnotherAuthority) {
  put(theirs_.credentials("a", LinkRole::kStore, around_));
  EXPECT_THAT(refusal(), StartsWith("a.crt: was not issued by ca.crt: "));
}

TEST_F(LoadSecurity, TakesACertificateOfOneOfSeveralAuthorities) {
  put("ca.crt", theirs_.own.certificate + ours_.own.certificate);
  EXPECT_EQ(refusal(), "");
}

TEST_F(LoadSecurity, RefusesTheCertificateOfTheOtherRole) {
  EXPECT_EQ(refusal(LinkRole::kTuner),
            "a.crt: is not for a Tuner; is it the certificate of a PipeStore?");
  put(ours_.credentials("tuner", LinkRole::kTuner, around_));
  EXPECT_EQ(refusal(LinkRole::kTuner), "");
  EXPECT_EQ(refusal(), "a.crt: is not for a PipeStore; is it the certificate of the Tuner?");
}

TEST_F(LoadSecurity, AMembersCertificateIsOfNoOtherRole) {
  EXPECT_EQ(refusal(LinkRole::kMember),
            "a.crt: is not for a member of a training; is it the certificate of a PipeStore?");
  put(ours_.credentials("tuner", LinkRole::kTuner, around_));
  EXPECT_EQ(refusal(LinkRole::kMember),
            "a.crt: is not for a member of a training; is it the certificate of the Tuner?");
  put(ours_.credentials("a", LinkRole::kMember, around_));
  EXPECT_EQ(refusal(LinkRole::kMember), "");
  EXPECT_EQ(refusal(LinkRole::kTuner),
            "a.crt: is not for a Tuner; is it the certificate of a member of a training?");
  EXPECT_EQ(refusal(LinkRole::kStore),
            "a.crt: is not for a PipeStore; is it the certificate of a member of a training?");
}

TEST_F(LoadSecurity, AnAuthoritysOwnCertificateIsOfNoMember) {
  put(ours_.own);  // it does not say what it is for
  EXPECT_EQ(refusal(LinkRole::kMember),
            "a.crt: is not for a member of a training; it does not say that it is for clients and "
            "servers");
}

TEST(CheckExposure, LetsLoopbackAndUnixSocketsBe) {
  for (const std::string address : {"unix:/run/ndt", "127.0.0.1:25258", "127.0.0.0:1",
                                    "127.255.255.255:1", "localhost:0", "[::1]:25258"}) {
    EXPECT_TRUE(check_exposure(address, false, false).ok()) << address;
  }
}

TEST(CheckExposure, DemandsCertificatesOrConsentElsewhere) {
  for (const std::string address :
       {"0.0.0.0:25258", ":25258", "126.255.255.255:1", "128.0.0.0:1", "[::]:1", "[::2]:1",
        "[::ffff:127.0.0.1]:1", "tuner:1", "localhost.example:1", "127.0.0.1.example:1", "127.1:1",
        "", "localhosts:1"}) {
    const Status s = check_exposure(address, false, false);
    EXPECT_FALSE(s.ok()) << address;
    EXPECT_THAT(s.message(),
                AllOf(StartsWith(address), HasSubstr("--cert"), HasSubstr("--insecure")));
    EXPECT_TRUE(check_exposure(address, true, false).ok());
    EXPECT_TRUE(check_exposure(address, false, true).ok());
  }
}

}  // namespace
}  // namespace ndtrain::ndp
