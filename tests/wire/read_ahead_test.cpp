#include "ndp/wire/read_ahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "tests/wire/link_fixture.h"

namespace ndtrain::ndp {
namespace {

using support::expect, support::message_of;
using wire::FromStore, wire::ToStore;

TEST(ReadAhead, PausesAtItsBoundAndGoesOnAtHalfOfIt) {
  int read_on = 0;
  const auto ahead = std::make_shared<ReadAhead>([&] { ++read_on; });
  std::vector<std::shared_ptr<void>> held;
  constexpr size_t kQuarter = ReadAhead::kMost / 4;
  for (int i = 1; i <= 4; ++i) {
    ReadAhead::Message m = ahead->take(kQuarter);
    EXPECT_EQ(m.read_on, i < 4);
    held.push_back(std::move(m.held));
  }
  held.erase(held.begin(), held.begin() + 2);
  EXPECT_EQ(read_on, 0) << "half of it waits still";
  held.pop_back();
  EXPECT_EQ(read_on, 1);
  held.clear();
  EXPECT_EQ(read_on, 1) << "once";
}

TEST(ReadAhead, ThatIsStoppedCallsNobodyAndIsOutlivedByItsMessages) {
  int read_on = 0;
  auto ahead = std::make_shared<ReadAhead>([&] { ++read_on; });
  const ReadAhead::Message m = ahead->take(ReadAhead::kMost);
  EXPECT_FALSE(m.read_on);
  ahead->stop();
  ahead.reset();
  EXPECT_EQ(read_on, 0);
}

// Who does not deal with messages has no more of them in memory than it may; the other end knows
// how many bytes wait for it, and all come when it goes on.
class SlowReaders : public ::testing::Test {
 protected:
  static constexpr size_t kBytes = 1 << 20;
  static constexpr int kMessages = 100;

  template <typename WaitingBytes>
  static void expect_waiting(const WaitingBytes& waiting) {
    constexpr size_t kBuffers = 16 << 20;  // of gRPC and the system, about
    size_t before = SIZE_MAX;
    while (waiting() < before) {  // until nothing moves
      before = waiting();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
    EXPECT_GT(before, kMessages * kBytes - ReadAhead::kMost - kBuffers);
    EXPECT_LT(before, kMessages * kBytes - ReadAhead::kMost / 2);
  }

  support::TemporaryDirectory directory_;
  support::FromStores at_server_;
  support::ToStores at_client_;
  std::unique_ptr<LinkServer> server_ =
      LinkServer::listen("unix:" + directory_.at("s"), {}, at_server_).or_throw();
  std::unique_ptr<LinkClient> client_ = LinkClient::dial(server_->address(), {}, 1, at_client_);
  LinkId link_ = 0;
};

TEST_F(SlowReaders, HoldUpTheServer) {
  expect<LinkOpened>(at_client_);
  expect<LinkOpened>(at_server_, &link_);
  for (int i = 0; i < kMessages; ++i) server_->send(link_, message_of<ToStore>(kBytes, i));
  expect_waiting([&] { return server_->waiting(link_); });
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(expect<ToStore>(at_client_).term(), static_cast<uint64_t>(i));
  }
  EXPECT_EQ(server_->waiting(link_), 0U);
}

TEST_F(SlowReaders, HoldUpTheClient) {
  expect<LinkOpened>(at_client_);
  expect<LinkOpened>(at_server_, &link_);
  for (int i = 0; i < kMessages; ++i) client_->send(message_of<FromStore>(kBytes, i));
  expect_waiting([&] { return client_->waiting(); });
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(expect<FromStore>(at_server_).term(), static_cast<uint64_t>(i));
  }
  EXPECT_EQ(client_->waiting(), 0U);
}

TEST_F(SlowReaders, EndTheirLinksAllTheSame) {
  expect<LinkOpened>(at_client_);
  expect<LinkOpened>(at_server_, &link_);
  for (int i = 0; i < kMessages; ++i) {
    server_->send(link_, message_of<ToStore>(kBytes, i));
    client_->send(message_of<FromStore>(kBytes, i));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  client_.reset();
  server_.reset();
}

}  // namespace
}  // namespace ndtrain::ndp
