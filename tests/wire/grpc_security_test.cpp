#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ndp/wire/grpc_link.h"
#include "tests/support/temporary_directory.h"
#include "tests/wire/authority.h"
#include "tests/wire/link_fixture.h"

namespace ndtrain::ndp {
namespace {

using support::expect, support::message_of, support::nothing_left;
using ::testing::HasSubstr;
using wire::FromStore, wire::ToStore;

class GrpcSecurity : public ::testing::Test {
 protected:
  std::unique_ptr<LinkClient> dial(const LinkSecurity& security) {
    return LinkClient::dial(server_->address(), security, 1, at_client_);
  }
  void serve(const LinkSecurity& security) {
    server_ = LinkServer::listen("127.0.0.1:0", security, at_server_).or_throw();
  }
  // The link never opens, and the server hears nothing of it.
  void expect_refusal(const LinkSecurity& security) {
    auto client = dial(security);
    client->send(message_of<FromStore>(64));
    EXPECT_THAT(expect<LinkClosed>(at_client_).reason, HasSubstr(server_->address() + ": "));
    client.reset();
    server_.reset();
    EXPECT_TRUE(nothing_left(at_server_));
    EXPECT_TRUE(nothing_left(at_client_));
  }

  support::Authority ours_, theirs_;
  support::FromStores at_server_;
  support::ToStores at_client_;
  std::unique_ptr<LinkServer> server_ =
      LinkServer::listen("127.0.0.1:0", ours_.tuner(), at_server_).or_throw();
};

TEST_F(GrpcSecurity, TellsEachEndTheNameOfTheOther) {
  auto client = dial(ours_.store("store-7"));
  const LinkOpened tuner = expect<LinkOpened>(at_client_);
  EXPECT_EQ(tuner.certified, "tuner");
  EXPECT_EQ(tuner.role, LinkRole::kTuner);
  LinkId link = 0;
  const LinkOpened store = expect<LinkOpened>(at_server_, &link);
  EXPECT_EQ(store.certified, "store-7");
  EXPECT_EQ(store.role, LinkRole::kStore);
  EXPECT_THAT(store.hosts, ::testing::UnorderedElementsAre("127.0.0.1", "localhost", "::1"));
  client->send(message_of<FromStore>(1 << 20, 1));
  EXPECT_EQ(expect<FromStore>(at_server_).term(), 1u);
  server_->send(link, message_of<ToStore>(1 << 20, 2));
  EXPECT_EQ(expect<ToStore>(at_client_).term(), 2u);
}

TEST_F(GrpcSecurity, HoldsOnAUnixSocketToo) {
  const support::TemporaryDirectory directory;
  const std::string address = "unix:" + directory.at("s");
  server_ = LinkServer::listen(address, ours_.tuner(), at_server_).or_throw();
  auto client = dial(ours_.store("store-8"));
  EXPECT_EQ(expect<LinkOpened>(at_server_).certified, "store-8");
  EXPECT_EQ(expect<LinkOpened>(at_client_).certified, "tuner");
}

TEST_F(GrpcSecurity, RefusesAClientOfAnotherAuthority) {
  LinkSecurity security = theirs_.store("store-7");
  security.authority = ours_.store("any").authority;  // it does trust the server
  expect_refusal(security);
}

TEST_F(GrpcSecurity, RefusesAClientWithoutACertificate) {
  expect_refusal({.authority = ours_.store("any").authority});
}

TEST_F(GrpcSecurity, RefusesAClientWithoutEncryption) { expect_refusal({}); }

TEST_F(GrpcSecurity, LetsAClientRefuseAServerOfAnotherAuthority) {
  LinkSecurity security = ours_.store("store-7");  // the server would take it
  security.authority = theirs_.store("any").authority;
  expect_refusal(security);
}

TEST_F(GrpcSecurity, RefusesAClientWhoseCertificateExpired) {
  expect_refusal(ours_.issue("store-7", LinkRole::kStore, {ours_.now - 7200, ours_.now - 3600}));
}

TEST_F(GrpcSecurity, RefusesAStoreThatPlaysTheTuner) {
  serve(ours_.store("store-6"));
  expect_refusal(ours_.store("store-7"));
}

TEST_F(GrpcSecurity, TellsAMemberFromAStore) {
  auto client = dial(ours_.member("rank-1"));
  const LinkOpened member = expect<LinkOpened>(at_server_);
  EXPECT_EQ(member.certified, "rank-1");
  EXPECT_EQ(member.role, LinkRole::kMember);
}

TEST_F(GrpcSecurity, RefusesAMemberThatPlaysTheTuner) {
  serve(ours_.member("rank-1"));
  const auto client = dial(ours_.store("store-7"));
  EXPECT_EQ(
      expect<LinkClosed>(at_client_).reason,
      server_->address() + ": shows the certificate of a member of a training, not of the Tuner");
}

TEST_F(GrpcSecurity, RefusesATunerThatPlaysAStore) { expect_refusal(ours_.tuner()); }

TEST_F(GrpcSecurity, RefusesATunerAtAnAddressThatItsCertificateDoesNotName) {
  const auto elsewhere = ndtrain::ndp::issue(
      ours_.own, {.role = LinkRole::kTuner, .name = "tuner", .hosts = {"tuner.example"}},
      support::around(ours_.now));
  serve({ours_.own.certificate, elsewhere->certificate, elsewhere->key});
  expect_refusal(ours_.store("store-7"));
}

TEST_F(GrpcSecurity, IsNotHadFromWhatIsNoCertificate) {
  support::FromStores events;
  LinkSecurity broken = ours_.tuner();
  broken.certificate = "no PEM";
  const auto server = LinkServer::listen("127.0.0.1:0", broken, events);
  ASSERT_FALSE(server.ok());
  EXPECT_EQ(server.status().code(), Code::kIo);
  EXPECT_THAT(server.status().message(), HasSubstr("certificate"));
}

LinkSecurity revoking(LinkSecurity s, const support::Authority& by, const LinkSecurity& whom) {
  s.revoked = revoke(by.own, s.revoked, whom.certificate, by.now).or_throw();
  return s;
}

TEST_F(GrpcSecurity, IsRenewedForNewLinksWhileOldOnesGoOn) {
  auto old = dial(ours_.store("store-7"));
  expect<LinkOpened>(at_client_);
  LinkId link = 0;
  expect<LinkOpened>(at_server_, &link);
  server_->renew(theirs_.tuner());
  support::ToStores at_new;
  auto next = LinkClient::dial(server_->address(), theirs_.store("store-8"), 2, at_new);
  EXPECT_EQ(expect<LinkOpened>(at_new).certified, "tuner");
  EXPECT_EQ(expect<LinkOpened>(at_server_).certified, "store-8");
  old->send(message_of<FromStore>(64, 1));
  EXPECT_EQ(expect<FromStore>(at_server_).term(), 1u);
  server_->send(link, message_of<ToStore>(64, 2));
  EXPECT_EQ(expect<ToStore>(at_client_).term(), 2u);
  old.reset();
  expect<LinkClosed>(at_client_);
  expect<LinkClosed>(at_server_);
  const auto late = dial(ours_.store("store-7"));
  expect<LinkClosed>(at_client_);
  EXPECT_TRUE(nothing_left(at_server_));
}

TEST_F(GrpcSecurity, RefusesWhoIsRevokedAndEndsTheLink) {
  const LinkSecurity tuner = ours_.tuner(), store = ours_.store("store-7");
  auto client = dial(store);
  expect<LinkOpened>(at_client_);
  expect<LinkOpened>(at_server_);
  support::ToStores at_other;
  const auto other = LinkClient::dial(server_->address(), ours_.store("store-8"), 2, at_other);
  LinkId stays = 0;
  expect<LinkOpened>(at_server_, &stays);
  server_->renew(revoking(tuner, ours_, store));
  EXPECT_THAT(expect<LinkClosed>(at_server_).reason,
              HasSubstr("the certificate of 'store-7' is revoked"));
  const std::string why = server_->address() + ": the certificate of 'store-7' is revoked";
  EXPECT_EQ(expect<LinkClosed>(at_client_).reason, why);
  client = dial(store);
  EXPECT_EQ(expect<LinkClosed>(at_client_).reason, why);
  expect<LinkOpened>(at_other);
  server_->send(stays, message_of<ToStore>(64, 2));
  EXPECT_EQ(expect<ToStore>(at_other).term(), 2u);
  EXPECT_TRUE(nothing_left(at_server_));
}

TEST_F(GrpcSecurity, LetsAClientRefuseATunerThatIsRevoked) {
  const LinkSecurity tuner = ours_.tuner(), store = ours_.store("store-7");
  serve(tuner);
  const std::string why = server_->address() + ": the certificate of 'tuner' is revoked";
  auto client = dial(store);
  expect<LinkOpened>(at_client_);
  client->end_if_revoked(revoking(store, ours_, ours_.tuner()));
  EXPECT_TRUE(nothing_left(at_client_));
  const LinkSecurity knows = revoking(store, ours_, tuner);
  client->end_if_revoked(knows);
  EXPECT_EQ(expect<LinkClosed>(at_client_).reason, why);
  client = dial(knows);
  EXPECT_EQ(expect<LinkClosed>(at_client_).reason, why);
}

TEST(GrpcWithoutSecurity, CertifiesNoName) {
  support::FromStores at_server;
  support::ToStores at_client;
  const auto server = LinkServer::listen("127.0.0.1:0", {}, at_server).or_throw();
  const auto client = LinkClient::dial(server->address(), {}, 1, at_client);
  EXPECT_EQ(expect<LinkOpened>(at_server).certified, "");
  const LinkOpened opened = expect<LinkOpened>(at_client);
  EXPECT_EQ(opened.certified, "");
  EXPECT_EQ(opened.peer, server->address());
}

}  // namespace
}  // namespace ndtrain::ndp
