// Tokens and TLS, as people set them up.
#include <gmock/gmock.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "framework/tls/tls.h"
#include "ndp/http/http_client.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
using namespace ndp;

namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing_cli::Outcome;

class TokenVerbs : public testing_cli::ProgramTest {
 protected:
  // Once the program that was started has said `pattern`, the port in it.
  std::string port_said(const std::string& pattern) const {
    std::smatch port;
    std::string said;
    for (int i = 0; i < 600; ++i) {
      if (const auto text = real_fs().read(at("err")); text.ok()) said = *text;
      if (std::regex_search(said, port, std::regex(pattern))) return port[1].str();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    throw Error("it has not said ", pattern, ": ", said);
  }
  static void end(pid_t program) {
    kill(program, SIGTERM);
    int status = 0;
    waitpid(program, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }

  Outcome token(std::vector<std::string> words) const {
    words.insert(words.begin(), "token");
    words.insert(words.end(), {"--state", "state"});
    return run(words);
  }
};

TEST_F(TokenVerbs, MakeListAndRevoke) {
  EXPECT_THAT(token({"new", "ann"}).err, HasSubstr("there is no state directory state"));
  real_fs().make_directories(at("state")).or_throw();
  const Outcome made = token({"new", "ann", "--role", "labeller", "--expires", "90d"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, StartsWith("ndt_"));
  EXPECT_THAT(made.err, HasSubstr("without a token"));
  EXPECT_THAT(token({"new", "ann"}).err, HasSubstr("there is a token ann already"));
  const Outcome bob = token({"new", "bob", "--collection", "attic", "--json"});
  EXPECT_EQ(nlohmann::json::parse(bob.out).at("collection"), "attic");
  EXPECT_THAT(bob.err, Not(HasSubstr("from now on")));
  const Outcome carl = token({"new", "carl", "--role", "labeller", "--task", "mood", "--json"});
  EXPECT_EQ(nlohmann::json::parse(carl.out).at("task"), "mood") << carl.err;

  EXPECT_EQ(token({"revoke", "bob"}).code, 0);
  EXPECT_THAT(token({"revoke", "bob"}).err, HasSubstr("there is no token 'bob'"));
  const nlohmann::json all = nlohmann::json::parse(token({"ls", "--json"}).out);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].at("task"), "");
  EXPECT_EQ(all[2].at("task"), "mood");
  EXPECT_EQ(all[0].at("role"), "labeller");
  EXPECT_EQ(all[0].at("expires").get<int64_t>() - all[0].at("created").get<int64_t>(), 90 * 86400);
  EXPECT_GT(all[1].at("revoked"), 0);
  EXPECT_THAT(token({"ls"}).out,
              AllOf(HasSubstr("valid"), HasSubstr("revoked 2"), HasSubstr("mood")));

  const std::string secret = made.out.substr(4, 64),
                    files = real_fs().read(at("state/tokens.json")).or_throw() +
                            real_fs().read(at("state/audit.jsonl")).or_throw();
  EXPECT_THAT(files, AllOf(Not(HasSubstr(secret)), HasSubstr("token new ann --role labeller"),
                           HasSubstr("token new carl --role labeller --task mood"),
                           HasSubstr("token revoke bob")));
}

TEST_F(TokenVerbs, SayWhatIsWrong) {
  real_fs().make_directories(at("state")).or_throw();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"new", "a b"},
        {"new", "ann", "--role", "king"},
        {"new", "ann", "--expires", "soon"},
        {"new", "ann", "--task", "a\tb"},
        {"new", "ann", "--task", "mood", "--role", "uploader"},
        {"new", "ann", "--task", "mood", "--role", "operator"},
        {"new", "ann", "--expires", "0d"},
        {"new"}}) {
    const Outcome o = token(words);
    EXPECT_EQ(o.code, 2) << o.err;
  }
  EXPECT_FALSE(real_fs().exists(at("state/tokens.json")));
  EXPECT_EQ(run({"token", "ls"}).code, 2);
}

TEST_F(TokenVerbs, CertificatesOfHostsReplaceNoOthers) {
  const std::string longest = std::string(60, 'a') + "." + std::string(60, 'b');
  const Outcome o =
      run({"cert", "init", "certs", "--store", "attic", "--web", "attic,ca,tuner,::1," + longest});
  ASSERT_EQ(o.code, 0) << o.err;
  std::set<std::string> texts;
  for (const std::string name :
       {"ca", "tuner", "attic", "web-attic", "web-ca", "web-tuner", "web-::1"}) {
    texts.insert(real_fs().read(at("certs/" + name + ".crt")).or_throw());
  }
  texts.insert(real_fs().read(at("certs/web-" + longest + ".crt")).or_throw());
  EXPECT_EQ(texts.size(), 8U);
  EXPECT_THAT(run({"cert", "init", "certs", "--web", "attic"}).err, HasSubstr("exists; --force"));
  EXPECT_EQ(run({"cert", "init", "certs", "--web", "attic", "--force"}).code, 0);
  EXPECT_TRUE(texts.contains(real_fs().read(at("certs/attic.crt")).or_throw()));
}

TEST_F(TokenVerbs, ACertificateOfAStoreMayNameWhereItsHttpIs) {
  const Outcome o =
      run({"cert", "init", "certs", "--store", "attic=attic.example+10.0.0.7,cellar"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto hosts = [&](const std::string& name) {
    return TlsServer::make(real_fs().read(at("certs/" + name + ".crt")).or_throw(),
                           real_fs().read(at("certs/" + name + ".key")).or_throw())
        .or_throw()
        ->hosts();
  };
  EXPECT_THAT(hosts("attic"), ::testing::ElementsAre("attic.example", "10.0.0.7"));
  EXPECT_THAT(hosts("cellar"), ::testing::IsEmpty());
  for (const char* bad : {"a=", "a=b c", "a=b+", "=b"}) {
    EXPECT_EQ(run({"cert", "init", "certs", "--store", bad}).code, 2) << bad;
  }
  EXPECT_THAT(run({"tuner", "serve", "--state", "state", "--http-name", "a b"}).err,
              HasSubstr("--http-name 'a b': no DNS name"));
  EXPECT_THAT(run({"tuner", "serve", "--state", "state", "--loopback", "all"}).err,
              HasSubstr("--loopback all: there are own and open"));
  EXPECT_THAT(run({"tuner", "serve", "--state", "state", "--http-tls", "1.1"}).err,
              HasSubstr("--http-tls 1.1: there are 1.2 and 1.3"));
  EXPECT_THAT(run({"tuner", "serve", "--state", "state", "--http-rate", "-1"}).err,
              HasSubstr("--http-rate -1: a number of at least 0"));
  EXPECT_THAT(run({"tuner", "serve", "--state", "state", "--http-drain", "4000"}).err,
              HasSubstr("--http-drain 4000: 0 to 3600 seconds"));
}

TEST_F(TokenVerbs, OffLoopbackHttpNeedsTls) {
  const Outcome o = run({"tuner", "serve", "--state", "state", "--http", "0.0.0.0:0"});
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr("0.0.0.0:0 can be reached by other machines"),
                           HasSubstr("--http-cert"), HasSubstr("cert init DIR --web HOST")));
}

TEST_F(TokenVerbs, LetPeopleInToATunerWithTls) {
  const Outcome certs = run({"cert", "init", "certs", "--web", "127.0.0.1"});
  ASSERT_EQ(certs.code, 0) << certs.err;
  const pid_t tuner = start({"tuner", "serve", "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0",
                             "--http-cert", "certs/web-127.0.0.1.crt", "--http-key",
                             "certs/web-127.0.0.1.key", "--state", "state"});
  const std::string port = port_said("HTTPS on 0.0.0.0:([0-9]+)\n");
  const std::string said = real_fs().read(at("err")).or_throw();
  EXPECT_THAT(said, HasSubstr("nobody has a token yet"));
  const std::vector<std::string> ls = {
      "job", "ls", "--json", "--http", "https://127.0.0.1:" + port, "--http-ca", "certs/ca.crt"};
  EXPECT_THAT(run(ls).err, HasSubstr("a token is needed"));
  std::string secret = token({"new", "ann"}).out;
  secret.pop_back();
  std::vector<std::string> with = ls;
  with.insert(with.end(), {"--token", secret});
  EXPECT_EQ(run(with).out, "[]\n");
  setenv("NDTRAIN_TOKEN", secret.c_str(), 1);
  EXPECT_EQ(run(ls).out, "[]\n");
  EXPECT_THAT(
      run({"model", "rollback", "--http", "https://127.0.0.1:" + port, "--http-ca", "certs/ca.crt"})
          .err,
      HasSubstr("needs the role operator; the token of ann has viewer"));
  unsetenv("NDTRAIN_TOKEN");
  EXPECT_THAT(run({"job", "ls", "--http", "https://127.0.0.1:" + port}).err,
              HasSubstr("certificate does not do"));
  end(tuner);
}

TEST_F(TokenVerbs, ATokenMayAskSoManyTimesASecond) {
  const pid_t tuner = start({"tuner", "serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                             "--http-rate", "0.01", "--state", "state"});
  const std::string http = "127.0.0.1:" + port_said("HTTP on 127.0.0.1:([0-9]+)\n");
  std::string secret = token({"new", "ann"}).out;
  secret.pop_back();
  const std::vector<std::string> ls = {"job", "ls", "--json", "--http", http, "--token", secret};
  EXPECT_EQ(run(ls).out, "[]\n");
  EXPECT_THAT(run(ls).err, HasSubstr("the token of ann asks more than 0.01 times a second"));
  end(tuner);
}

}  // namespace
}  // namespace ndtrain
