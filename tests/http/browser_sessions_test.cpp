// How long codes and browsers' sessions are good, and for whom.
#include "ndp/http/browser_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ndtrain::ndp {
namespace {

using std::chrono::seconds;
using Time = BrowserSessions::Time;

const Digest kAnn = sha256("ann"), kBob = sha256("bob");
constexpr uid_t kSomebody = 1000, kAnother = 1001;

class BrowserSessionsTest : public ::testing::Test {
 protected:
  std::string session(const Digest& token, Time now = Time(0)) {
    return all_.redeem(all_.make_code(token, {}, now), {}, now).value();
  }
  BrowserSessions all_;
};

TEST_F(BrowserSessionsTest, ACodeIsGoodOnceAndForAMinute) {
  const std::string code = all_.make_code(kAnn, {}, seconds(0)),
                    late = all_.make_code(kAnn, {}, seconds(0));
  EXPECT_FALSE(all_.redeem("", {}, seconds(1)));
  EXPECT_FALSE(all_.redeem(code.substr(1), {}, seconds(1)));
  const auto session = all_.redeem(code, {}, kLoginCode - Time(1));
  ASSERT_TRUE(session);
  EXPECT_NE(*session, code);
  EXPECT_FALSE(all_.redeem(code, {}, seconds(1)));
  EXPECT_FALSE(all_.redeem(late, {}, kLoginCode));
  EXPECT_FALSE(all_.token_of(code, {}, seconds(1))) << "a code is no session";
  EXPECT_FALSE(all_.redeem(*session, {}, seconds(1))) << "nor the other way round";
}

TEST_F(BrowserSessionsTest, ASessionStandsForItsTokenUntilItsEnd) {
  const std::string ann = session(kAnn), bob = session(kBob);
  EXPECT_EQ(all_.token_of(ann, {}, kBrowserSession - Time(1)), kAnn);
  EXPECT_EQ(all_.token_of(bob, {}, seconds(1)), kBob);
  EXPECT_FALSE(all_.token_of("", {}, seconds(1)));
  EXPECT_FALSE(all_.token_of(ann, {}, kBrowserSession));
  all_.end(bob);
  EXPECT_FALSE(all_.token_of(bob, {}, seconds(1)));
  EXPECT_EQ(all_.token_of(ann, {}, seconds(1)), kAnn);
}

TEST_F(BrowserSessionsTest, AreOfTheUserWhoAskedAndWhoseBrowserItIs) {
  const std::string code = all_.make_code(kAnn, kSomebody, Time(0));
  EXPECT_FALSE(all_.redeem(code, kAnother, Time(0)));
  EXPECT_FALSE(all_.redeem(code, {}, Time(0)));
  const std::string session = all_.redeem(code, kSomebody, Time(0)).value();
  EXPECT_EQ(all_.token_of(session, kSomebody, Time(0)), kAnn);
  EXPECT_FALSE(all_.token_of(session, kAnother, Time(0)));
  EXPECT_FALSE(all_.token_of(session, 0, Time(0)));
  // sudo ndtrain dashboard
  const std::string roots = all_.make_code(kAnn, 0, Time(0));
  const std::string theirs = all_.redeem(roots, kSomebody, Time(0)).value();
  EXPECT_FALSE(all_.token_of(theirs, kAnother, Time(0)));
  EXPECT_EQ(all_.token_of(theirs, kSomebody, Time(0)), kAnn);
}

TEST_F(BrowserSessionsTest, ATokenHasSoManyAndItsOldestMakesWay) {
  const std::string bob = session(kBob);
  std::vector<std::string> anns;
  for (size_t i = 0; i <= kSessionsOfToken; ++i) anns.push_back(session(kAnn));
  EXPECT_FALSE(all_.token_of(anns[0], {}, seconds(1)));
  for (size_t i = 1; i < anns.size(); ++i) {
    EXPECT_EQ(all_.token_of(anns[i], {}, seconds(1)), kAnn) << i;
  }
  EXPECT_EQ(all_.token_of(bob, {}, seconds(1)), kBob) << "nobody else's goes";
  std::vector<std::string> codes;
  for (size_t i = 0; i <= kCodesOfToken; ++i) codes.push_back(all_.make_code(kAnn, {}, Time(0)));
  EXPECT_FALSE(all_.redeem(codes[0], {}, seconds(1)));
  EXPECT_TRUE(all_.redeem(codes[1], {}, seconds(1)));
}

TEST(SessionCookie, IsAnotherForEachPort) {
  EXPECT_EQ(session_cookie("127.0.0.1:8420", false), "ndtrain_8420");
  EXPECT_EQ(session_cookie("[::1]:8420", false), "ndtrain_8420");
  EXPECT_EQ(session_cookie("[::1]", false), "ndtrain");
  EXPECT_EQ(session_cookie("tuner.example", true), "__Host-ndtrain");
  EXPECT_EQ(session_cookie("tuner:8,x=y", false), "ndtrain");
}

TEST(SessionCookie, IsFoundAmongOthers) {
  EXPECT_EQ(cookie_value("a=1; ndtrain_8420=x=y; ndtrain=z", "ndtrain_8420"), "x=y");
  EXPECT_EQ(cookie_value("xndtrain=1;ndtrain=2", "ndtrain"), "2");
  EXPECT_EQ(cookie_value("ndtrain", "ndtrain"), "");
  EXPECT_EQ(cookie_value("", "ndtrain"), "");
}

}  // namespace
}  // namespace ndtrain::ndp
