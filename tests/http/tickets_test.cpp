// Tickets, and what a server makes of them.
#include "ndp/http/tickets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "framework/testing/memory_fs.h"
#include "ndp/http/access.h"

namespace ndtrain::ndp {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TicketsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs_.make_directories("state").or_throw();
    (void)TokensFile::open(fs_, "state").or_throw().add({.name = "ann"}).or_throw();
    access_ = std::make_unique<Access>(fs_, clock_, Access::Setting{"state", "here"});
    access_->set_ticket_key(tickets_.key_of("attic"));
  }
  std::string ticket(const std::string& store = "attic", const std::string& method = "POST") const {
    return tickets_.make(store, {.who = "an_n@example.org", .method = method, .path = "/photos"});
  }
  int status(const std::string& token, const std::string& method = "POST",
             const std::string& path = "/photos") {
    const HttpPermission need = {Role::kUploader, HttpScope::kPhotos};
    HttpRequest request{.method = method, .path = path};
    const Access::Verdict shown = access_->check(request, "Bearer " + token, &need);
    request.query["ticket"] = token;
    const Access::Verdict asked = access_->check(request, "", &need);
    EXPECT_EQ(shown.refuse.has_value(), asked.refuse.has_value());
    EXPECT_EQ(shown.who, asked.who);
    who_ = shown.who;
    return shown.refuse ? shown.refuse->status : 200;
  }

  MemoryFs fs_;
  ManualClock clock_;
  Tickets tickets_{clock_};
  std::unique_ptr<Access> access_;
  std::string who_;
};

TEST_F(TicketsTest, AreGoodForOneRequestAtOneStore) {
  EXPECT_EQ(status(ticket()), 200);
  EXPECT_EQ(who_, "an_n@example.org");
  EXPECT_EQ(status(ticket(), "PUT"), 401);
  EXPECT_EQ(status(ticket(), "POST", "/photos/"), 401);
  EXPECT_EQ(status(ticket("cellar")), 401);
  EXPECT_EQ(status(ticket("attic", "GET"), "HEAD"), 200);
  EXPECT_THAT(ticket(), Not(HasSubstr(ticket("cellar").substr(ticket().rfind('_')))));
}

TEST_F(TicketsTest, WhereThereAreSeveralCollectionsAreForTheOneOfTheirStore) {
  access_ = std::make_unique<Access>(fs_, clock_, Access::Setting{"state", ""});
  access_->set_ticket_key(tickets_.key_of("family@attic"), "family");
  access_->set_ticket_key(tickets_.key_of("garden@attic"), "garden");
  const HttpPermission need = {Role::kUploader, HttpScope::kPhotos};
  const auto shown = [&](const std::string& collection) {
    HttpRequest request{.method = "POST", .path = "/photos"};
    if (!collection.empty()) request.query["collection"] = collection;
    const Access::Verdict v = access_->check(request, "Bearer " + ticket("family@attic"), &need);
    return v.refuse ? v.refuse->status : 200;
  };
  EXPECT_EQ(shown("family"), 200);
  EXPECT_EQ(shown("garden"), 401);
  EXPECT_EQ(shown("cellar"), 401);
  EXPECT_EQ(shown(""), 401);
}

TEST_F(TicketsTest, EndAfterAMinute) {
  const std::string t = ticket();
  clock_.advance(std::chrono::seconds(kTicketSeconds - 1));
  EXPECT_EQ(status(t), 200);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(status(t), 401);
}

TEST_F(TicketsTest, OfWhichOneCharacterIsAnotherAreNone) {
  const std::string t = ticket();
  for (size_t i = 0; i < t.size(); ++i) {
    std::string wrong = t;
    wrong[i] = wrong[i] == '1' ? '2' : '1';
    EXPECT_EQ(status(wrong), 401) << wrong;
    EXPECT_EQ(status(t.substr(0, i)), 401) << i;
  }
  EXPECT_EQ(status(t + "0"), 401);
  EXPECT_EQ(status("ndtt___"), 401);
}

TEST_F(TicketsTest, AreNoneWhereThereIsNoKey) {
  access_->set_ticket_key("");
  EXPECT_EQ(status(ticket()), 401);
  EXPECT_EQ(status(make_ticket("", {.who = "", .method = "POST", .path = "/photos"},
                               clock_.unix_seconds())),
            401);
}

TEST_F(TicketsTest, OfAnotherStartOfTheTunerAreNone) {
  const Tickets other(clock_);
  EXPECT_EQ(status(other.make("attic", {.who = "ann", .method = "POST", .path = "/photos"})), 401);
}

}  // namespace
}  // namespace ndtrain::ndp
