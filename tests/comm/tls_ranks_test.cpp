// Ranks that meet by certificates, among others that have none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "framework/comm/rendezvous.h"
#include "framework/tls/tls_net.h"
#include "tests/support/files.h"
#include "tests/wire/authority.h"

namespace ndtrain::comm_tests {
namespace {

using namespace std::chrono_literals;
using ndp::LinkSecurity;
using support::Authority, support::bytes_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Met = Result<std::vector<std::unique_ptr<Stream>>>;

std::unique_ptr<TlsNet> net_of(const LinkSecurity& s) {
  return TlsNet::make(real_net(), s.authority, s.certificate, s.key).or_throw();
}

class TlsRanks : public ::testing::Test {
 protected:
  RankPlace place(int rank, int ranks) const {
    return {.rank = rank,
            .ranks = ranks,
            .rendezvous = listener_->address(),
            .listen = "127.0.0.1:0",
            .patience = 60s};
  }
  // Each rank with a certificate of its own.
  std::vector<Met> meet(int ranks) {
    std::vector<Met> met;
    for (int r = 0; r < ranks; ++r) met.emplace_back(Status(Code::kNotFound, "to come"));
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        const auto net = net_of(ours_.member("rank" + std::to_string(r)));
        met[static_cast<size_t>(r)] =
            r == 0 ? receive_ranks(*listener_, place(0, ranks)) : meet_ranks(*net, place(r, ranks));
      });
    }
    threads.clear();
    return met;
  }

  const Authority ours_, theirs_;
  const std::unique_ptr<Net> net_ = net_of(ours_.member("rank0"));
  const std::unique_ptr<Listener> listener_ = net_->listen("127.0.0.1:0").or_throw();
};

TEST_F(TlsRanks, MeetAmongThoseWhoAreSilentOrSpeakOtherwise) {
  std::vector<std::unique_ptr<Stream>> strangers;
  for (int i = 0; i < 15; ++i) {
    strangers.push_back(real_net().dial(listener_->address()).or_throw());  // silent
    strangers.push_back(real_net().dial(listener_->address()).or_throw());
    strangers.back()->write(bytes_of("GET / HTTP/1.1\r\nHost: rank0\r\n\r\n")).or_throw();
    strangers.push_back(real_net().dial(listener_->address()).or_throw());
    strangers.back()->write(bytes_of("\x16\x03\x01")).or_throw();  // a handshake's beginning
  }
  for (const Met& met : meet(3)) EXPECT_TRUE(met.ok()) << met.status().message();
}

TEST_F(TlsRanks, WhoHasNoGoodCertificateIsNamedWithTheReason) {
  RankPlace zero = place(0, 2);
  Met host = Status(Code::kNotFound, "to come");
  std::jthread thread([&] {
    zero.patience = 5s;
    host = receive_ranks(*listener_, zero);
  });
  const Met store = meet_ranks(*net_of(ours_.store("attic")), place(1, 2));
  EXPECT_EQ(store.status().code(), Code::kCorrupt);
  EXPECT_THAT(store.status().message(),
              HasSubstr("refuses the certificate of this side: unsupported certificate"));
  LinkSecurity other = theirs_.member("rank1");
  other.authority = ours_.own.certificate;  // it does believe rank 0
  const Met foreign = meet_ranks(*net_of(other), place(1, 2));
  EXPECT_THAT(foreign.status().message(),
              HasSubstr("refuses the certificate of this side: unknown ca"));
  const Met doubting = meet_ranks(*net_of(theirs_.member("rank1")), place(1, 2));
  EXPECT_THAT(doubting.status().message(),
              AllOf(HasSubstr(listener_->address()), HasSubstr("its certificate does not do"),
                    HasSubstr("it is of 'rank0'")));
  thread.join();
  EXPECT_EQ(host.status().code(), Code::kCancelled);
  EXPECT_THAT(
      host.status().message(),
      AllOf(HasSubstr("rank 1 has not come"),
            HasSubstr("it is not for clients and servers, as that of a rank is (it is of 'attic')"),
            HasSubstr("(it is of 'rank1')")));
}

TEST_F(TlsRanks, WhoGoesInTheClearIsToldAndTheOtherWayRound) {
  RankPlace zero = place(0, 2);
  zero.patience = 2s;
  Met host = Status(Code::kNotFound, "to come");
  {
    std::jthread thread([&] { host = receive_ranks(*listener_, zero); });
    EXPECT_FALSE(meet_ranks(real_net(), place(1, 2)).ok());
  }
  EXPECT_THAT(host.status().message(), HasSubstr("was refused: speaks no TLS"));

  const auto plain = real_net().listen("127.0.0.1:0").or_throw();
  RankPlace one = place(1, 2);
  one.rendezvous = plain->address();
  std::jthread thread([&] { host = receive_ranks(*plain, zero); });
  const Met met = meet_ranks(*net_, one);
  EXPECT_EQ(met.status().code(), Code::kCorrupt);
  EXPECT_EQ(met.status().message(), plain->address() + ": speaks no TLS");
}

}  // namespace
}  // namespace ndtrain::comm_tests
