// Who is let in.
#include "ndp/http/access.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/testing/memory_fs.h"
#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"

namespace ndtrain::ndp {
namespace {

using support::RawHttp;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr Role kRoles[] = {Role::kViewer, Role::kUploader, Role::kLabeller, Role::kOperator,
                           Role::kAdmin};

class AccessTest : public ::testing::Test {
 protected:
  void SetUp() override { fs_.make_directories("state").or_throw(); }
  std::string add(Token token) {
    return TokensFile::open(fs_, "state").or_throw().add(std::move(token)).or_throw();
  }
  void revoke(const std::string& name) {
    TokensFile::open(fs_, "state").or_throw().revoke(name, clock_.unix_seconds()).or_throw();
  }
  void guard(bool demanded = false) {
    access_ = std::make_unique<Access>(fs_, clock_, Access::Setting{"state", "here", demanded});
  }
  // 200 for who is let in.
  int status(const std::string& authorization, const HttpPermission& need) {
    const Access::Verdict v = access_->check(request_, authorization, &need);
    why_ = v.refuse ? v.refuse->body : "";
    who_ = v.who;
    return v.refuse ? v.refuse->status : 200;
  }
  static std::string bearer(const std::string& token) { return "Bearer " + token; }

  MemoryFs fs_;
  ManualClock clock_;
  std::unique_ptr<Access> access_;
  HttpRequest request_{.method = "GET", .path = "/x"};
  std::string why_, who_;
};

TEST_F(AccessTest, AnybodyMayDoAnythingUntilThereIsATokenAndNobodyWithoutOneAfterwards) {
  guard();
  EXPECT_EQ(status("", Role::kAdmin), 200);
  const std::string ann = add({.name = "ann", .role = Role::kAdmin});
  EXPECT_EQ(status("", Role::kViewer), 401);
  EXPECT_THAT(why_, AllOf(HasSubstr("ndtrain token new"), Not(HasSubstr("nobody"))));
  EXPECT_EQ(status(bearer(ann), Role::kAdmin), 200);
  EXPECT_EQ(who_, "ann");
  revoke("ann");
  EXPECT_EQ(status("", Role::kViewer), 401);
  fs_.remove("state/tokens.json").or_throw();
  EXPECT_EQ(status("", Role::kViewer), 401);  // nor when the list is gone
}

TEST_F(AccessTest, OnLoopbackOtherUsersOfTheMachineNeedATokenFromTheStart) {
  access_ = std::make_unique<Access>(
      fs_, clock_, Access::Setting{.directory = "state", .collection = "here", .own_user = true});
  request_.peer = "127.0.0.1";
  for (const uid_t user : {::geteuid(), uid_t{0}}) {
    request_.user = user;
    EXPECT_EQ(status("", Role::kAdmin), 200);
  }
  for (const std::optional<uid_t> user :
       {std::optional<uid_t>(::geteuid() + 1), std::optional<uid_t>()}) {
    request_.user = user;
    EXPECT_EQ(status("", Role::kAnyone), 200);
    EXPECT_EQ(status("", Role::kViewer), 401);
    EXPECT_THAT(why_, AllOf(HasSubstr("ndtrain token new"), HasSubstr("--loopback open")));
  }
  request_.peer = "10.0.0.7";
  EXPECT_EQ(status("", Role::kViewer), 200) << "what is not on loopback is not told apart";
  request_.peer = "127.0.0.1";
  const std::string ann = add({.name = "ann", .role = Role::kAdmin});
  EXPECT_EQ(status(bearer(ann), Role::kAdmin), 200);
  request_.user = ::geteuid();
  EXPECT_EQ(status("", Role::kViewer), 401) << "from then on all need one";
}

TEST_F(AccessTest, WhereItIsDemandedThereIsNothingButHealthUntilThereIsAToken) {
  guard(true);
  EXPECT_EQ(status("", Role::kAnyone), 200);
  EXPECT_EQ(status("", Role::kViewer), 401);
  EXPECT_THAT(why_, HasSubstr("nobody has made any yet"));
  EXPECT_EQ(status(bearer(add({.name = "ann"})), Role::kViewer), 200);
}

TEST_F(AccessTest, EachRoleMayDoWhatThoseBeforeItMay) {
  guard();
  for (const Role has : kRoles) {
    const std::string token = add({.name = std::string(name_of(has)), .role = has});
    EXPECT_EQ(status(bearer(token), Role::kAnyone), 200);
    for (const Role needed : kRoles) {
      EXPECT_EQ(status(bearer(token), needed), has < needed ? 403 : 200)
          << name_of(has) << " " << name_of(needed);
      if (has >= needed) continue;
      EXPECT_THAT(why_, HasSubstr("GET /x needs the role " + std::string(name_of(needed)) +
                                  "; the token of " + std::string(name_of(has)) + " has " +
                                  std::string(name_of(has))));
    }
  }
}

TEST_F(AccessTest, WhatIsNoTokenIsRefused) {
  guard();
  const std::string token = add({.name = "ann", .role = Role::kAdmin});
  std::string wrong = token;
  wrong.back() = wrong.back() == '0' ? '1' : '0';
  for (const std::string& bad :
       {wrong, token + "0", token.substr(0, token.size() - 1), std::string("x"),
        to_hex(sha256(token)), std::string(limits::kHttpHead, 'x')}) {
    EXPECT_EQ(status(bearer(bad), Role::kViewer), 401) << bad.substr(0, 80);
    EXPECT_THAT(why_, HasSubstr("not known here"));
  }
  for (const std::string& bad : {std::string("Bearer"), std::string("Bearer "), token,
                                 "Digest " + token, "Bearer" + token}) {
    EXPECT_EQ(status(bad, Role::kViewer), 401) << bad;
  }
  EXPECT_EQ(status("bearer " + token, Role::kAdmin), 200);
}

TEST_F(AccessTest, ATokenEndsWhenItShould) {
  guard();
  const std::string token =
      add({.name = "ann", .role = Role::kViewer, .expires = clock_.unix_seconds() + 60});
  clock_.advance(std::chrono::seconds(59));
  EXPECT_EQ(status(bearer(token), Role::kViewer), 200);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(status(bearer(token), Role::kViewer), 401);
  EXPECT_THAT(why_, HasSubstr("the token of ann expired on 2020-09-13 12:27:40 UTC"));
}

TEST_F(AccessTest, ARevokedTokenIsGoodForNothingAtOnce) {
  guard();
  const std::string token = add({.name = "ann", .role = Role::kAdmin});
  EXPECT_EQ(status(bearer(token), Role::kViewer), 200);
  revoke("ann");
  EXPECT_EQ(status(bearer(token), Role::kViewer), 401);
  EXPECT_THAT(why_, HasSubstr("the token of ann was revoked"));
  const std::string next = add({.name = "ann"});
  EXPECT_EQ(status(bearer(token), Role::kViewer), 401);
  EXPECT_EQ(status(bearer(next), Role::kViewer), 200);
}

TEST_F(AccessTest, ATokenOfACollectionIsForItsPhotosAlone) {
  guard();
  const std::string ours = bearer(add({.name = "ann", .role = Role::kAdmin, .collection = "here"}));
  const std::string others =
      bearer(add({.name = "bob", .role = Role::kAdmin, .collection = "there"}));
  const HttpPermission photos = {Role::kLabeller, HttpScope::kPhotos};
  EXPECT_EQ(status(ours, photos), 200);
  EXPECT_EQ(access_->check(request_, ours, &photos).collection, "here");
  EXPECT_EQ(status(ours, Role::kViewer), 403);
  EXPECT_THAT(why_, HasSubstr("is of the whole site"));
  EXPECT_EQ(status(others, photos), 403);
  EXPECT_THAT(why_, HasSubstr("for the collection there; GET /x is of here"));
}

TEST_F(AccessTest, ATokenOfACollectionGetsItWhereItCanBeAskedForAndNoOther) {
  guard();
  const std::string ours = bearer(add({.name = "ann", .role = Role::kAdmin, .collection = "here"}));
  const std::string others =
      bearer(add({.name = "bob", .role = Role::kAdmin, .collection = "there"}));
  const HttpPermission photos = {Role::kViewer, HttpScope::kPhotos},
                       labels = {Role::kViewer, HttpScope::kCollection};
  EXPECT_EQ(status(ours, labels), 200);
  EXPECT_EQ(status(others, labels), 403);
  request_.query["collection"] = "there";
  EXPECT_EQ(status(ours, labels), 403);
  EXPECT_EQ(status(others, labels), 200);
  // Where the photos are those of the server, saying so does not make them another's.
  EXPECT_EQ(status(ours, photos), 200);
  EXPECT_EQ(status(others, photos), 403);
  request_.query["collection"] = "";
  EXPECT_EQ(status(ours, labels), 403);
}

TEST_F(AccessTest, WhereThereAreSeveralCollectionsATokenOfOneIsForWhatNamesIt) {
  access_ = std::make_unique<Access>(fs_, clock_, Access::Setting{"state", ""});
  const std::string ours = bearer(add({.name = "ann", .role = Role::kAdmin, .collection = "here"})),
                    all = bearer(add({.name = "bob", .role = Role::kAdmin}));
  const HttpPermission photos = {Role::kViewer, HttpScope::kPhotos};
  EXPECT_EQ(status(all, photos), 200);
  EXPECT_EQ(status(ours, photos), 403);
  EXPECT_THAT(why_, HasSubstr("the collection here, which GET /x must name: ?collection=NAME"));
  request_.query["collection"] = "here";
  EXPECT_EQ(status(ours, photos), 200);
  EXPECT_EQ(status(ours, Role::kViewer), 403) << "of the whole site";
  for (const char* other : {"there", ""}) {
    request_.query["collection"] = other;
    EXPECT_EQ(status(ours, photos), 403) << other;
    EXPECT_EQ(status(all, photos), 200) << other;
  }
}

TEST_F(AccessTest, ATokenOfATaskIsForPhotosAndForWhatIsSaidInIt) {
  guard();
  const std::string ours = bearer(add({.name = "ann", .role = Role::kAdmin, .task = "mood"}));
  const HttpPermission photo = {Role::kViewer, HttpScope::kPhotos, HttpTask::kPhoto},
                       label = {Role::kLabeller, HttpScope::kCollection, HttpTask::kNamed};
  EXPECT_EQ(status(ours, photo), 200);
  EXPECT_EQ(status(ours, label), 403) << "of the default one, or of all";
  EXPECT_THAT(why_, HasSubstr("the task mood, which GET /x must name: ?task=NAME"));
  for (const HttpScope scope : {HttpScope::kSite, HttpScope::kPhotos, HttpScope::kCollection}) {
    EXPECT_EQ(status(ours, {Role::kViewer, scope}), 403) << "nobody said that it is of a task";
    EXPECT_THAT(why_, HasSubstr("photos and their labels in the task mood; GET /x is not"));
  }
  request_.query["task"] = "mood";
  EXPECT_EQ(status(ours, label), 200);
  EXPECT_EQ(status(ours, Role::kViewer), 403) << "what the query says is not asked there";
  for (const std::string other : {"default", "", "moo", "mood "}) {
    request_.query["task"] = other;
    EXPECT_EQ(status(ours, label), 403) << other;
    EXPECT_THAT(why_, HasSubstr("for the task mood; GET /x is of " + other));
  }
}

TEST_F(AccessTest, ATokenOfTheDefaultTaskIsNotForAllOfThem) {
  guard();
  const std::string ours = bearer(add({.name = "ann", .task = "default"}));
  const HttpPermission label = {Role::kViewer, HttpScope::kPhotos, HttpTask::kNamed};
  EXPECT_EQ(status(ours, label), 403);
  request_.query["task"] = "default";
  EXPECT_EQ(status(ours, label), 200);
}

TEST_F(AccessTest, ATokenOfATaskAndACollectionIsForBoth) {
  guard();
  const std::string ours = bearer(add({.name = "ann", .collection = "there", .task = "mood"}));
  const HttpPermission photo = {Role::kViewer, HttpScope::kPhotos, HttpTask::kPhoto},
                       label = {Role::kViewer, HttpScope::kCollection, HttpTask::kNamed};
  request_.query["task"] = "mood";
  EXPECT_EQ(status(ours, photo), 403);
  EXPECT_EQ(status(ours, label), 403);
  EXPECT_THAT(why_, HasSubstr("for the collection there; GET /x is of here"));
  request_.query["collection"] = "there";
  EXPECT_EQ(status(ours, label), 200);
  request_.query["task"] = "default";
  EXPECT_EQ(status(ours, label), 403);
}

TEST_F(AccessTest, AListThatCannotBeReadLetsNobodyElseIn) {
  guard();
  const std::string ann = add({.name = "ann"});
  EXPECT_EQ(status(bearer(ann), Role::kViewer), 200);
  publish(fs_, "state/tokens.json", "nonsense").or_throw();
  EXPECT_EQ(status(bearer(ann), Role::kViewer), 200);
  EXPECT_EQ(status("", Role::kViewer), 401);
  EXPECT_THROW(guard(), Error);  // not at the start
  publish(fs_, "state/tokens.json", tokens_text({})).or_throw();
  EXPECT_EQ(status(bearer(ann), Role::kViewer), 401);
}

// A server with a route for each role, guarded.
class GuardedServer : public AccessTest {
 protected:
  void SetUp() override {
    AccessTest::SetUp();
    guard();
    token_ = add({.name = "ann", .role = Role::kLabeller});
    const auto count = [this](const HttpRequest& q) {
      ++calls_;
      return HttpResponse{.body = q.who + " " + q.body};
    };
    server_ = HttpServer::listen("127.0.0.1:0",
                                 {{"GET", "/healthz", Role::kAnyone, count},
                                  {"POST", "/labels", Role::kLabeller, count},
                                  {"POST", "/jobs", Role::kOperator, count}},
                                 1000, {.access = access_.get()})
                  .or_throw();
  }
  HttpClient client(const std::string& token = "") const {
    return HttpClient(server_->address(), std::chrono::seconds(10), {.token = token});
  }
  // Sends only the head of a request with a body, and waits for the answer.
  std::string head_alone(const std::string& path, const std::string& headers) const {
    RawHttp raw(server_->address());
    raw.say("POST " + path + " HTTP/1.1\r\nHost: here\r\nContent-Length: 900\r\n" + headers +
            "\r\n");
    return raw.hear("\r\n\r\n");
  }

  std::atomic<int> calls_ = 0;
  std::string token_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(GuardedServer, AnswersOnlyHealthToWhoHasNoToken) {
  EXPECT_EQ(client().get("/healthz").or_throw().status, 200);
  for (const std::string path : {"/labels", "/jobs", "/elsewhere", "/healthz/", "/"}) {
    EXPECT_EQ(client().post(path, "body").or_throw().status, 401) << path;
    EXPECT_EQ(client().get(path).or_throw().status, 401) << path;
  }
  EXPECT_EQ(calls_, 1);
  const HttpResponse r = client().get("/jobs").or_throw();
  EXPECT_EQ(r.headers.at("WWW-Authenticate"), "Bearer realm=\"ndtrain\"");
}

TEST_F(GuardedServer, TellsTheHandlerWhoAsks) {
  EXPECT_EQ(client(token_).post("/labels", "rose").or_throw().body, "ann rose");
  EXPECT_EQ(client(token_).post("/elsewhere", "").or_throw().status, 404);
  EXPECT_EQ(client(token_).get("/labels").or_throw().status, 405);
  const HttpResponse r = client(token_).post("/jobs", "{}").or_throw();
  EXPECT_EQ(r.status, 403);
  EXPECT_THAT(r.body, HasSubstr("POST /jobs needs the role operator; the token of ann has "
                                "labeller"));
}

TEST_F(GuardedServer, RefusesBeforeABodyComes) {
  EXPECT_THAT(head_alone("/labels", ""), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(head_alone("/labels", "Authorization: Bearer no\r\n"), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(head_alone("/jobs", "Authorization: Bearer " + token_ + "\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_EQ(calls_, 0);
}

TEST_F(GuardedServer, ChangesNothingForAPageOfAnotherSite) {
  const std::string ours = "Authorization: Bearer " + token_ + "\r\n";
  for (const std::string from :
       {"Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\nOrigin: http://here\r\n"}) {
    EXPECT_THAT(head_alone("/labels", ours + from), StartsWith("HTTP/1.1 403")) << from;
  }
  EXPECT_EQ(calls_, 0);
  for (const std::string from : {"", "Origin: http://here\r\n", "Sec-Fetch-Site: same-origin\r\n",
                                 "Sec-Fetch-Site: none\r\nOrigin: http://proxy\r\n"}) {
    RawHttp raw(server_->address());
    raw.say("POST /labels HTTP/1.1\r\nHost: here\r\n" + ours + from + "\r\n");
    EXPECT_THAT(raw.hear("\r\n\r\n"), StartsWith("HTTP/1.1 200")) << from;
  }
}

TEST_F(GuardedServer, SaysWhatEachRouteNeeds) {
  EXPECT_THAT(server_->needs(),
              ::testing::ElementsAre("GET /healthz: anyone", "POST /labels: labeller",
                                     "POST /jobs: operator"));
}

}  // namespace
}  // namespace ndtrain::ndp
