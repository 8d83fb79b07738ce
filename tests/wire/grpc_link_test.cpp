#include "ndp/wire/grpc_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "framework/core/limits.h"
#include "framework/core/net.h"
#include "tests/support/temporary_directory.h"
#include "tests/wire/link_fixture.h"
#include "tests/wire/relay.h"

namespace ndtrain::ndp {
namespace {

using support::count_to_the_end, support::expect, support::message_of, support::nothing_left;
using ::testing::HasSubstr;
using wire::FromStore, wire::ToStore;

constexpr auto kLimit = static_cast<size_t>(limits::kMessage);

// A server, and links to it that are numbered from 1.
class GrpcLink : public ::testing::TestWithParam<std::string> {
 protected:
  GrpcLink() { server_ = LinkServer::listen(address(), {}, at_server_).or_throw(); }

  std::string address() const {
    return GetParam() == "unix" ? "unix:" + directory_.at("s") : "127.0.0.1:0";
  }
  std::unique_ptr<LinkClient> dial(LinkId id = 1) {
    return LinkClient::dial(server_->address(), {}, id, at_client_);
  }
  // Both ends have opened.
  std::unique_ptr<LinkClient> connect(LinkId id = 1) {
    auto client = dial(id);
    expect<LinkOpened>(at_client_);
    expect<LinkOpened>(at_server_, &link_);
    return client;
  }
  void expect_nothing_more() {
    server_.reset();
    EXPECT_TRUE(nothing_left(at_server_));
    EXPECT_TRUE(nothing_left(at_client_));
  }

  support::TemporaryDirectory directory_;
  support::FromStores at_server_;
  support::ToStores at_client_;
  std::unique_ptr<LinkServer> server_;
  LinkId link_ = 0;  // the last one connected, at the server
};

INSTANTIATE_TEST_SUITE_P(Over, GrpcLink, ::testing::Values("tcp", "unix"),
                         [](const auto& test) { return test.param; });

TEST_P(GrpcLink, CarriesMessagesBothWaysInOrder) {
  constexpr int kMessages = 10000, kLargeEvery = 1000;
  auto client = connect();
  for (int i = 0; i < kMessages; ++i) {
    const size_t bytes = i % kLargeEvery == 0 ? 1 << 20 : 64;
    client->send(message_of<FromStore>(bytes, i));
    server_->send(link_, message_of<ToStore>(bytes, i));
  }
  for (int i = 0; i < kMessages; ++i) {
    const size_t bytes = i % kLargeEvery == 0 ? 1 << 20 : 64;
    LinkId link = 0;
    const FromStore up = expect<FromStore>(at_server_, &link);
    ASSERT_EQ(link, link_);
    ASSERT_EQ(up.SerializeAsString(), message_of<FromStore>(bytes, i).SerializeAsString());
    const ToStore down = expect<ToStore>(at_client_, &link);
    ASSERT_EQ(link, 1u);
    ASSERT_EQ(down.SerializeAsString(), message_of<ToStore>(bytes, i).SerializeAsString());
  }
}

TEST_P(GrpcLink, ThatTheServerClosesDeliversWhatWasSentBefore) {
  constexpr int kMessages = 200;
  auto client = connect();
  for (int i = 0; i < kMessages; ++i) server_->send(link_, message_of<ToStore>(32 << 10, i));
  server_->close(link_);
  server_->send(link_, message_of<ToStore>(64, kMessages));  // dropped
  std::string reason;
  EXPECT_EQ(count_to_the_end(at_client_, &reason), kMessages);
  EXPECT_THAT(reason, HasSubstr(server_->address() + " closed the stream"));
  EXPECT_EQ(expect<LinkClosed>(at_server_).reason, "closed by this side");
  server_->send(link_, message_of<ToStore>(64));
  client->send(message_of<FromStore>(64));
  expect_nothing_more();
}

TEST_P(GrpcLink, ThatTheClientClosesDeliversWhatWasSentBefore) {
  constexpr int kMessages = 200;
  auto client = connect();
  for (int i = 0; i < kMessages; ++i) client->send(message_of<FromStore>(32 << 10, i));
  client->close();
  client->send(message_of<FromStore>(64, kMessages));  // dropped
  std::string reason;
  EXPECT_EQ(count_to_the_end(at_server_, &reason), kMessages);
  EXPECT_THAT(reason, HasSubstr("closed the stream"));
  EXPECT_EQ(expect<LinkClosed>(at_client_).reason, "closed by this side");
  expect_nothing_more();
}

TEST_P(GrpcLink, ClosedBeforeItIsOpenStillDeliversWhatWasSent) {
  auto client = dial();
  client->send(message_of<FromStore>(64));
  client->close();
  expect<LinkOpened>(at_server_);
  expect<FromStore>(at_server_);
  expect<LinkClosed>(at_server_);
  expect<LinkOpened>(at_client_);
  expect<LinkClosed>(at_client_);
  expect_nothing_more();
}

TEST_P(GrpcLink, WhoseClientDiesIsClosedAtTheServer) {
  connect().reset();
  EXPECT_THAT(expect<LinkClosed>(at_server_).reason, HasSubstr("the stream broke"));
  expect<LinkClosed>(at_client_);
  expect_nothing_more();
}

TEST_P(GrpcLink, WhoseServerDiesIsClosedAtTheClient) {
  const auto client = connect();
  const std::string address = server_->address();
  server_.reset();
  EXPECT_THAT(expect<LinkClosed>(at_client_).reason, HasSubstr(address));
  expect<LinkClosed>(at_server_);
  expect_nothing_more();
}

TEST_P(GrpcLink, ThatIsCutIsClosedAtBothEnds) {
  support::Relay relay(server_->address());
  auto client = LinkClient::dial(relay.address(), {}, 1, at_client_);
  expect<LinkOpened>(at_client_);
  expect<LinkOpened>(at_server_);
  relay.cut();
  EXPECT_THAT(expect<LinkClosed>(at_server_).reason, HasSubstr("the stream broke"));
  EXPECT_THAT(expect<LinkClosed>(at_client_).reason, HasSubstr(relay.address() + ": "));
  expect_nothing_more();
}

TEST_P(GrpcLink, TakesMessagesUpToTheLimitAtTheServer) {
  auto client = connect();
  for (const size_t bytes : {kLimit - 1, kLimit}) {
    client->send(message_of<FromStore>(bytes));
    EXPECT_EQ(expect<FromStore>(at_server_).ByteSizeLong(), bytes);
  }
  client->send(message_of<FromStore>(kLimit + 1));
  const std::string reason = expect<LinkClosed>(at_server_).reason;
  EXPECT_THAT(reason, HasSubstr(GetParam() == "unix" ? "unix:" : "127.0.0.1:"));
  EXPECT_THAT(reason, HasSubstr("a message of 4194305 bytes; the limit is 4194304"));
  EXPECT_THAT(expect<LinkClosed>(at_client_).reason, HasSubstr("the limit is 4194304"));
  expect_nothing_more();
}

TEST_P(GrpcLink, TakesMessagesUpToTheLimitAtTheClient) {
  auto client = connect();
  for (const size_t bytes : {kLimit - 1, kLimit}) {
    server_->send(link_, message_of<ToStore>(bytes));
    EXPECT_EQ(expect<ToStore>(at_client_).ByteSizeLong(), bytes);
  }
  server_->send(link_, message_of<ToStore>(kLimit + 1));
  EXPECT_EQ(expect<LinkClosed>(at_client_).reason,
            server_->address() + ": a message of 4194305 bytes; the limit is 4194304");
  expect<LinkClosed>(at_server_);
  expect_nothing_more();
}

TEST_P(GrpcLink, EndsWithAMessageFarBeyondTheLimit) {
  auto client = connect();
  client->send(message_of<FromStore>(3 * kLimit));
  EXPECT_THAT(expect<LinkClosed>(at_server_).reason, HasSubstr("more than 8388608 bytes"));
  EXPECT_THAT(expect<LinkClosed>(at_client_).reason, HasSubstr("larger than max"));
  client = connect(2);
  server_->send(link_, message_of<ToStore>(3 * kLimit));
  EXPECT_THAT(expect<LinkClosed>(at_client_).reason, HasSubstr("larger than max"));
  expect<LinkClosed>(at_server_);
  expect_nothing_more();
}

TEST_P(GrpcLink, OfOneClientIsNotThatOfAnother) {
  auto first = connect(7);
  const LinkId first_link = link_;
  auto second = connect(8);
  ASSERT_NE(first_link, link_);
  LinkId link = 0;
  second->send(message_of<FromStore>(64, 2));
  EXPECT_EQ(expect<FromStore>(at_server_, &link).term(), 2u);
  EXPECT_EQ(link, link_);
  first->send(message_of<FromStore>(64, 1));
  EXPECT_EQ(expect<FromStore>(at_server_, &link).term(), 1u);
  EXPECT_EQ(link, first_link);
  server_->send(first_link, message_of<ToStore>(64, 3));
  EXPECT_EQ(expect<ToStore>(at_client_, &link).term(), 3u);
  EXPECT_EQ(link, 7u);
  server_->close(first_link);
  expect<LinkClosed>(at_client_, &link);
  EXPECT_EQ(link, 7u);
  server_->send(link_, message_of<ToStore>(64, 4));
  EXPECT_EQ(expect<ToStore>(at_client_, &link).term(), 4u);
  EXPECT_EQ(link, 8u);
}

TEST_P(GrpcLink, HasItsAddressForItself) {
  support::FromStores others;
  const auto second = LinkServer::listen(server_->address(), {}, others);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kIo);
  EXPECT_THAT(second.status().message(), HasSubstr(server_->address()));
  connect();  // the first still answers
}

TEST_P(GrpcLink, CanBeListenedForAgainAfterItsServer) {
  auto client = connect();
  const std::string address = server_->address();
  server_.reset();
  expect<LinkClosed>(at_client_);
  expect<LinkClosed>(at_server_);
  server_ = LinkServer::listen(address, {}, at_server_).or_throw();
  connect(2);
}

TEST_P(GrpcLink, DiesWithMessagesStillQueued) {
  auto client = connect();
  for (int i = 0; i < 64; ++i) {
    client->send(message_of<FromStore>(1 << 20, i));
    server_->send(link_, message_of<ToStore>(1 << 20, i));
  }
  client.reset();
  std::string reason;
  EXPECT_LE(count_to_the_end(at_client_, &reason), 64);
  EXPECT_LE(count_to_the_end(at_server_, &reason), 64);
  client = connect(2);
  for (int i = 0; i < 64; ++i) server_->send(link_, message_of<ToStore>(1 << 20, i));
  server_.reset();
  EXPECT_LE(count_to_the_end(at_client_, &reason), 64);
  EXPECT_EQ(expect<LinkClosed>(at_server_).reason, "this side shut down");
}

TEST(GrpcDial, WithoutAServerNamesTheAddress) {
  const std::string free = real_net().listen("127.0.0.1:0").or_throw()->address();
  const support::TemporaryDirectory directory;
  for (const std::string& address : {free, "unix:" + directory.at("none")}) {
    support::ToStores events;
    auto client = LinkClient::dial(address, {}, 1, events);
    client->send(message_of<FromStore>(64));
    EXPECT_THAT(expect<LinkClosed>(events).reason, HasSubstr(address + ": "));
    client->close();
    client.reset();
    EXPECT_TRUE(nothing_left(events));
  }
}

TEST(GrpcDial, CanBeGivenUpWhileTheServerIsSilent) {
  const auto silent = real_net().listen("127.0.0.1:0").or_throw();
  support::ToStores events;
  auto client = LinkClient::dial(silent->address(), {}, 1, events);
  client->send(message_of<FromStore>(1 << 20));
  client.reset();
  EXPECT_EQ(expect<LinkClosed>(events).reason, "this side shut down");
}

// As one whose process is stopped: what is written to it is not taken, and the connection stands.
TEST(GrpcDial, IsGivenUpInTheMidstOfAWriteThatIsNotTaken) {
  const support::TemporaryDirectory directory;
  support::FromStores at_server;
  support::ToStores at_client;
  const auto server =
      LinkServer::listen("unix:" + directory.at("server"), {}, at_server).or_throw();
  support::Relay relay(server->address(), "unix:" + directory.at("relay"), size_t{128} << 10);
  auto client = LinkClient::dial(relay.address(), {}, 1, at_client);
  expect<LinkOpened>(at_client);
  client->send(message_of<FromStore>(kLimit));
  relay.await_still();
  auto ended = std::async(std::launch::async, [&] { client.reset(); });
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(expect<LinkClosed>(at_client).reason, "this side shut down");
  relay.cut();
  ended.wait();
  EXPECT_TRUE(nothing_left(at_client));
}

TEST(GrpcListen, RefusesWhatIsNoAddress) {
  support::FromStores events;
  for (const std::string address : {"nowhere", "127.0.0.1:no", "unix:"}) {
    const auto server = LinkServer::listen(address, {}, events);
    ASSERT_FALSE(server.ok()) << address;
    EXPECT_EQ(server.status().code(), Code::kIo);
    EXPECT_THAT(server.status().message(), HasSubstr(address));
  }
}

}  // namespace
}  // namespace ndtrain::ndp
