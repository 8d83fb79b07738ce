// Certificates that are replaced and taken back while a Tuner and a PipeStore serve.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <regex>
#include <thread>

#include "framework/tls/tls.h"
#include "ndp/http/http_client.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::HasSubstr;
using testing_cli::Outcome;

class CertVerbs : public testing_cli::ProgramTest {
 protected:
  void TearDown() override {
    for (const pid_t child : running_) {
      kill(child, SIGTERM);
      waitpid(child, nullptr, 0);
    }
  }
  Outcome cert(std::vector<std::string> words) const {
    words.insert(words.begin(), "cert");
    return run(words);
  }
  static bool comes(const std::function<bool()>& true_soon) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!true_soon()) {
      if (std::chrono::steady_clock::now() >= until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return true;
  }
  static std::vector<std::string> with_certificates(std::vector<std::string> words,
                                                    const std::string& name) {
    words.insert(words.end(), {"--ca", "certs/ca.crt", "--cert", "certs/" + name + ".crt", "--key",
                               "certs/" + name + ".key", "--crl", "certs/ca.crl"});
    return words;
  }
  void serve() {
    running_.push_back(start_as(
        "tuner", with_certificates({"tuner", "serve", "--listen", "127.0.0.1:0", "--http",
                                    "127.0.0.1:0", "--http-cert", "certs/web-127.0.0.1.crt",
                                    "--http-key", "certs/web-127.0.0.1.key", "--state", "tuner"},
                                   "tuner")));
    std::smatch ports;
    std::string said;
    const std::regex line("listens on (127.0.0.1:[0-9]+), HTTPS on (127.0.0.1:[0-9]+)\n");
    ASSERT_TRUE(comes([&] { return std::regex_search(said = said_by("tuner"), ports, line); }))
        << said;
    http_ = "https://" + ports[2].str();
    running_.push_back(start_as(
        "store", with_certificates({"pipestore", "serve", "--tuner", ports[1].str(), "--photos",
                                    "photos", "--state", "store", "--name", "attic"},
                                   "attic")));
  }
  std::string metrics() const {
    const std::string ca = real_fs().read(at("certs/ca.crt")).or_throw();
    const Result<HttpResponse> r =
        HttpClient(http_, std::chrono::seconds(10), {.tls = TlsClient::make(ca).or_throw()})
            .get("/metrics");
    return r.ok() ? r->body : r.status().message();
  }
  bool shows(const std::string& sample) const {
    return metrics().find(sample + "\n") != std::string::npos;
  }
  std::string expiry(const std::string& certificate) const {
    const std::string text = metrics();
    std::smatch value;
    const std::regex sample("expires_seconds\\{certificate=\"" + certificate + "\"\\} ([0-9.e+]+)");
    return std::regex_search(text, value, sample) ? value[1].str() : text;
  }

  std::string http_;
  std::vector<pid_t> running_;
};

TEST_F(CertVerbs, ReplacedFilesAreInForceWithoutARestart) {
  draw_photos(2);
  ASSERT_EQ(cert({"init", "certs", "--store", "attic", "--web", "127.0.0.1"}).code, 0);
  ASSERT_EQ(cert({"revoke", "certs"}).code, 0);
  ASSERT_NO_FATAL_FAILURE(serve());
  const std::string up = "ndtrain_store_up{store=\"attic\"} 1",
                    away = "ndtrain_store_up{store=\"attic\"} 0";
  ASSERT_TRUE(comes([&] { return shows(up); })) << metrics() << said_by("store");

  const std::string web = expiry("http"), link = expiry("link");
  ASSERT_EQ(cert({"init", "certs", "--web", "127.0.0.1", "--days", "30", "--force"}).code, 0);
  EXPECT_TRUE(comes([&] { return expiry("http") != web; })) << metrics();
  const std::string tuner = real_fs().read(at("certs/tuner.crt")).or_throw();
  publish(real_fs(), at("certs/tuner.crt"), "no PEM").or_throw();
  EXPECT_TRUE(comes([&] { return shows("ndtrain_certificate_stale{certificate=\"link\"} 1"); }));
  EXPECT_TRUE(shows("ndtrain_certificate_stale{certificate=\"http\"} 0"));
  EXPECT_THAT(said_by("tuner"), HasSubstr("certs/tuner.crt: holds no certificate in PEM"));
  publish(real_fs(), at("certs/tuner.crt"), tuner).or_throw();
  EXPECT_TRUE(comes([&] { return shows("ndtrain_certificate_stale{certificate=\"link\"} 0"); }));
  EXPECT_EQ(expiry("link"), link);
  EXPECT_TRUE(shows(up)) << "the session has gone on all the time";

  ASSERT_EQ(cert({"revoke", "certs", "attic"}).code, 0);
  EXPECT_TRUE(comes([&] { return shows(away); })) << metrics();
  EXPECT_TRUE(comes([&] {
    return said_by("store").find("the certificate of 'attic' is revoked") != std::string::npos;
  })) << said_by("store");
  ASSERT_EQ(cert({"init", "certs", "--store", "attic", "--force"}).code, 0);
  EXPECT_TRUE(comes([&] { return shows(up); })) << metrics() << said_by("store");
}

TEST_F(CertVerbs, ARevokedCertificateIsInTheListForOthersToo) {
  ASSERT_EQ(cert({"init", "certs", "--store", "attic,cellar"}).code, 0);
  const Outcome o = cert({"revoke", "certs", "attic", "--json"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("\"added\": true"));
  EXPECT_THAT(cert({"revoke", "certs", "attic"}).out,
              HasSubstr("attic was already in certs/ca.crl"));
  if (std::system("openssl version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no openssl";
  const auto openssl = [&](const std::string& command) {
    return std::system(("cd " + at("certs") + " && openssl " + command + " > said 2>&1").c_str());
  };
  EXPECT_EQ(openssl("crl -in ca.crl -CAfile ca.crt -noout"), 0);
  EXPECT_THAT(real_fs().read(at("certs/said")).or_throw(), HasSubstr("verify OK"));
  const std::string verify = "verify -crl_check -CAfile ca.crt -CRLfile ca.crl ";
  EXPECT_EQ(openssl(verify + "cellar.crt"), 0);
  EXPECT_NE(openssl(verify + "attic.crt"), 0);
  EXPECT_THAT(real_fs().read(at("certs/said")).or_throw(), HasSubstr("certificate revoked"));
}

TEST_F(CertVerbs, SayWhatCannotBeRevoked) {
  ASSERT_EQ(cert({"init", "certs"}).code, 0);
  EXPECT_THAT(cert({"revoke", "certs", "nobody"}).err, HasSubstr("certs/nobody.crt"));
  EXPECT_EQ(cert({"revoke", "certs", "ca"}).code, 2);
  EXPECT_EQ(cert({"revoke"}).code, 2);
  ASSERT_EQ(cert({"init", "others", "--store", "attic"}).code, 0);
  const std::string other = real_fs().read(at("others/attic.crt")).or_throw();
  publish(real_fs(), at("certs/attic.crt"), other).or_throw();
  EXPECT_THAT(cert({"revoke", "certs", "attic"}).err,
              HasSubstr("certs attic: was not issued by this authority"));
  EXPECT_FALSE(real_fs().exists(at("certs/ca.crl")));
}

}  // namespace
}  // namespace ndtrain
