#include "framework/tls/tls_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <array>
#include <future>
#include <thread>

#include "framework/testing/memory_net.h"
#include "framework/tls/tls.h"
#include "framework/tls/tls_context.h"
#include "framework/tls/tls_stream.h"
#include "tests/support/files.h"
#include "tests/support/temporary_directory.h"
#include "tests/wire/authority.h"

namespace ndtrain {
namespace {

using namespace std::chrono_literals;
using ndp::LinkRole, ndp::LinkSecurity;
using support::Authority, support::bytes_of;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Streams = std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>>;

std::unique_ptr<TlsNet> over(Net& below, const LinkSecurity& s, TlsNetOptions options = {}) {
  options.revoked = s.revoked;
  return TlsNet::make(below, s.authority, s.certificate, s.key, options).or_throw();
}

// What the accepting end reads: a text of so many bytes, or why there is none.
std::string heard(Stream& stream, size_t bytes = 5) {
  std::string text;
  std::array<std::byte, 4096> part;
  while (text.size() < bytes) {
    const Result<size_t> n = stream.read(part, 10s);
    if (!n.ok()) return n.status().message();
    if (*n == 0) return "the end";
    text.append(reinterpret_cast<const char*>(part.data()), *n);
  }
  return text;
}

class TlsNetTest : public ::testing::Test {
 protected:
  // Who is dialled reads what the other one writes, each with its certificate.
  struct Meeting {
    Status dialled, written;
    std::string heard, answer;  // by who listens, and by who dialled
  };
  Meeting meet(const LinkSecurity& listens, const LinkSecurity& dials) {
    const auto listener = over(real_net(), listens)->listen("127.0.0.1:0").or_throw();
    Meeting m;
    std::jthread host([&] {
      const auto stream = listener->accept(10s).or_throw();
      m.heard = heard(*stream);
      static_cast<void>(stream->write(bytes_of("hello")).ok());
    });
    const auto stream = over(real_net(), dials)->dial(listener->address());
    m.dialled = stream.status();
    if (!stream.ok()) return m;
    m.written = (*stream)->write(bytes_of("hallo"));
    m.answer = heard(**stream);
    host.join();
    return m;
  }
  // Both ends, the dialling one first, after a handshake.
  Streams connect(Net& below, const std::string& address, const TlsNetOptions& options = {}) {
    const auto net = over(below, ours_.member("rank0"), options);
    const auto listener = net->listen(address).or_throw();
    std::promise<std::unique_ptr<Stream>> accepted;
    std::jthread host([&] {
      auto stream = listener->accept(10s).or_throw();
      EXPECT_EQ(heard(*stream), "hallo");
      accepted.set_value(std::move(stream));
    });
    auto dialled = net->dial(listener->address()).or_throw();
    dialled->write(bytes_of("hallo")).or_throw();
    return {std::move(dialled), accepted.get_future().get()};
  }

  const Authority ours_, theirs_;
};

TEST_F(TlsNetTest, MembersOfOneAuthorityUnderstandEachOther) {
  const Meeting m = meet(ours_.member("rank0"), ours_.member("rank1"));
  EXPECT_TRUE(m.dialled.ok()) << m.dialled.message();
  EXPECT_EQ(m.heard, "hallo");
  EXPECT_EQ(m.answer, "hello");
}

TEST_F(TlsNetTest, CarriesBothDirectionsAtOnceUnderManyKeys) {
  auto [a, b] = connect(real_net(), "127.0.0.1:0", {.rekey_bytes = 100'000});
  const auto text_of = [](char first) {
    std::string text(3'000'000, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(first + i * i % 251);
    return text;
  };
  const std::string from_a = text_of('a'), from_b = text_of('b');
  std::string at_a, at_b;
  {
    std::jthread write_a([&] { EXPECT_TRUE(a->write(bytes_of(from_a)).ok()); });
    std::jthread write_b([&] {
      for (size_t at = 0; at < from_b.size(); at += 9'999) {
        EXPECT_TRUE(b->write(bytes_of(std::string_view(from_b).substr(at, 9'999))).ok());
      }
    });
    std::jthread read_a([&] { at_a = heard(*a, from_b.size()); });
    at_b = heard(*b, from_a.size());
  }
  EXPECT_TRUE(at_b == from_a);
  EXPECT_TRUE(at_a == from_b);
}

TEST_F(TlsNetTest, HoldsInMemoryAndOnAUnixSocketToo) {
  const support::TemporaryDirectory directory;
  MemoryNet memory;
  const std::pair<Net*, std::string> places[] = {{&memory, "localhost:0"},
                                                 {&real_net(), "unix:" + directory.at("s")}};
  for (const auto& [net, address] : places) {
    auto [a, b] = connect(*net, address);
    b->write(bytes_of("hello")).or_throw();
    EXPECT_EQ(heard(*a), "hello");
  }
}

TEST_F(TlsNetTest, ASilenceIsNoEnd) {
  auto [a, b] = connect(real_net(), "127.0.0.1:0");
  std::array<std::byte, 5> got;
  EXPECT_EQ(a->read(got, 20ms).status().code(), Code::kCancelled);
  b->write(bytes_of("hello")).or_throw();
  EXPECT_EQ(heard(*a), "hello");
}

TEST_F(TlsNetTest, AReaderIsWokenByItsOwnEnd) {
  auto [a, b] = connect(real_net(), "127.0.0.1:0");
  std::jthread reader([&] {
    std::array<std::byte, 5> got;
    EXPECT_EQ(a->read(got, 60s).status().code(), Code::kIo);
  });
  std::this_thread::sleep_for(20ms);
  a->close();
}

// A handshake that begins late.
TEST_F(TlsNetTest, AReadThatEndedBeforeTheHandshakeGoesOnWithIt) {
  const auto net = over(real_net(), ours_.member("rank0"));
  const auto listener = net->listen("127.0.0.1:0").or_throw();
  auto below = real_net().dial(listener->address()).or_throw();
  const auto accepted = listener->accept(10s).or_throw();
  std::array<std::byte, 5> got;
  EXPECT_EQ(accepted->read(got, 20ms).status().code(), Code::kCancelled);
  const auto context = tls::new_context(TLS_client_method(), TLS1_3_VERSION);
  const LinkSecurity one = ours_.member("rank1");
  tls::show(*context, one.certificate, one.key).or_throw();
  tls::TlsStream late(std::move(below), context.get(), tls::End::kDialled);
  std::jthread writer([&] { EXPECT_TRUE(late.write(bytes_of("hallo")).ok()); });
  EXPECT_EQ(heard(*accepted), "hallo");
}

TEST_F(TlsNetTest, ACertificateOfAnotherAuthorityIsRefusedByWhoIsDialled) {
  LinkSecurity other = theirs_.member("rank1");
  other.authority = ours_.own.certificate;  // it does believe who is dialled
  const Meeting m = meet(ours_.member("rank0"), other);
  EXPECT_THAT(m.heard,
              AllOf(HasSubstr("its certificate does not do"), HasSubstr("(it is of 'rank1')")));
  EXPECT_THAT(m.answer, HasSubstr("refuses the certificate of this side: unknown ca"));
}

TEST_F(TlsNetTest, ACertificateOfAnotherAuthorityIsRefusedByWhoDials) {
  const Meeting m = meet(theirs_.member("rank0"), ours_.member("rank1"));
  EXPECT_EQ(m.dialled.code(), Code::kCorrupt);
  EXPECT_THAT(m.dialled.message(),
              AllOf(HasSubstr("its certificate does not do"), HasSubstr("(it is of 'rank0')")));
  EXPECT_THAT(m.heard, HasSubstr("refuses the certificate of this side"));
}

TEST_F(TlsNetTest, AStoresCertificateIsRefusedAtBothEnds) {
  Meeting m = meet(ours_.member("rank0"), ours_.store("attic"));
  EXPECT_THAT(m.heard, HasSubstr("it is not for clients and servers, as that of a rank is (it is "
                                 "of 'attic')"));
  EXPECT_THAT(m.answer, HasSubstr("unsupported certificate"));
  m = meet(ours_.store("attic"), ours_.member("rank1"));
  EXPECT_EQ(m.dialled.code(), Code::kCorrupt);
  EXPECT_THAT(m.dialled.message(), HasSubstr("purpose (it is of 'attic')"));
}

TEST_F(TlsNetTest, ATunersCertificateIsDialledAndDoesNotDial) {
  Meeting m = meet(ours_.tuner(), ours_.member("rank1"));
  EXPECT_EQ(m.heard, "hallo");
  EXPECT_EQ(m.answer, "hello");
  m = meet(ours_.member("rank0"), ours_.tuner());
  EXPECT_THAT(m.heard, HasSubstr("it is not for clients and servers"));
}

TEST_F(TlsNetTest, ACertificateThatHasExpiredIsRefusedAtBothEnds) {
  const LinkSecurity late =
      ours_.issue("rank1", LinkRole::kMember, {ours_.now - 3000, ours_.now - 10});
  Meeting m = meet(ours_.member("rank0"), late);
  EXPECT_THAT(m.heard, HasSubstr("expired (it is of 'rank1')"));
  EXPECT_THAT(m.answer, HasSubstr("certificate expired"));
  m = meet(late, ours_.member("rank0"));
  EXPECT_THAT(m.dialled.message(), HasSubstr("expired (it is of 'rank1')"));
}

TEST_F(TlsNetTest, AnotherHostThanTheCertificateNamesIsRefused) {
  const ndp::Credentials c =
      ndp::issue(ours_.own, {.role = LinkRole::kMember, .name = "rank0", .hosts = {"x.example"}},
                 support::around(ours_.now))
          .or_throw();
  const Meeting m = meet({ours_.own.certificate, c.certificate, c.key}, ours_.member("rank1"));
  EXPECT_EQ(m.dialled.code(), Code::kCorrupt);
  EXPECT_THAT(m.dialled.message(), HasSubstr("mismatch (it is of 'rank0')"));
}

TEST_F(TlsNetTest, WhoShowsNoCertificateIsRefused) {
  const auto listener = over(real_net(), ours_.member("rank0"))->listen("127.0.0.1:0").or_throw();
  std::jthread host([&] {
    const auto stream = listener->accept(10s).or_throw();
    EXPECT_THAT(heard(*stream), HasSubstr("did not return a certificate"));
  });
  const auto client = TlsClient::make(ours_.own.certificate).or_throw();
  const auto stream =
      client->wrap(real_net().dial(listener->address()).or_throw(), "127.0.0.1", 10s).or_throw();
  EXPECT_THAT(heard(*stream), HasSubstr("certificate required"));
}

TEST_F(TlsNetTest, AnOlderTlsIsRefused) {
  const auto listener = over(real_net(), ours_.member("rank0"))->listen("127.0.0.1:0").or_throw();
  std::jthread host([&] {
    const auto stream = listener->accept(10s).or_throw();
    EXPECT_THAT(heard(*stream), HasSubstr("unsupported protocol"));
  });
  const auto context = tls::new_context(TLS_client_method(), TLS1_2_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_2_VERSION);
  tls::TlsStream old(real_net().dial(listener->address()).or_throw(), context.get(),
                     tls::End::kDialled);
  EXPECT_THAT(old.handshake(10s).message(), HasSubstr("protocol version"));
}

TEST_F(TlsNetTest, WhoSpeaksNoTlsIsRefusedAtBothEnds) {
  const auto net = over(real_net(), ours_.member("rank0"));
  const auto listener = net->listen("127.0.0.1:0").or_throw(),
             plain = real_net().listen("127.0.0.1:0").or_throw();
  {
    const auto stranger = real_net().dial(listener->address()).or_throw();
    stranger->write(bytes_of("a greeting of another kind")).or_throw();
    const auto accepted = listener->accept(10s).or_throw();
    std::jthread leaves([&] { EXPECT_NE(heard(*stranger, 1), ""); });
    EXPECT_THAT(heard(*accepted), HasSubstr(": speaks no TLS"));
  }
  std::jthread host([&] {
    const auto stream = plain->accept(10s).or_throw();
    static_cast<void>(stream->write(bytes_of("a greeting of another kind")).ok());
  });
  EXPECT_EQ(net->dial(plain->address()).status().message(), plain->address() + ": speaks no TLS");
}

// Of what is written a bit is turned, once that is asked for.
class Damage final : public Stream {
 public:
  Damage(std::unique_ptr<Stream> below, const bool& now) : below_(std::move(below)), now_(now) {}
  Result<size_t> read(std::span<std::byte> to, std::chrono::milliseconds timeout) override {
    return below_->read(to, timeout);
  }
  Status write(std::span<const std::byte> bytes) override {
    std::vector<std::byte> all(bytes.begin(), bytes.end());
    if (now_) all[all.size() / 2] ^= std::byte{4};
    return below_->write(all);
  }
  void close() override { below_->close(); }
  std::string peer() const override { return below_->peer(); }

 private:
  const std::unique_ptr<Stream> below_;
  const bool& now_;
};

class DamagedNet final : public Net {
 public:
  Result<std::unique_ptr<Stream>> dial(const std::string& address) override {
    return std::unique_ptr<Stream>(
        std::make_unique<Damage>(real_net().dial(address).or_throw(), damaged));
  }
  Result<std::unique_ptr<Listener>> listen(const std::string& address) override {
    return real_net().listen(address);
  }
  bool damaged = false;
};

TEST_F(TlsNetTest, WhatCameDamagedIsNotRead) {
  DamagedNet net;
  auto [a, b] = connect(net, "127.0.0.1:0");
  net.damaged = true;
  a->write(bytes_of("hello")).or_throw();
  std::array<std::byte, 5> got;
  const Result<size_t> n = b->read(got, 10s);
  EXPECT_EQ(n.status().code(), Code::kCorrupt);
  EXPECT_THAT(n.status().message(), HasSubstr("cannot read: "));
}

// Where a connection breaks in the handshake or behind it: an error at both ends, and no byte that
// was not sent.
TEST_F(TlsNetTest, AConnectionMayBreakAnywhere) {
  int whole = 0;
  for (int64_t at = 0; at < 6'000; at += 211) {
    MemoryNet memory;
    const auto net = over(memory, ours_.member("rank0"));
    const auto listener = net->listen("localhost:0").or_throw();
    memory.cut_next_after(at);
    std::jthread host([&] {
      const auto stream = listener->accept(10s).or_throw();
      const std::string text = heard(*stream);
      whole += text == "hallo";
      EXPECT_TRUE(text == "hallo" || text.find("connection") != text.npos) << text;
    });
    const auto stream = net->dial(listener->address());
    if (stream.ok()) static_cast<void>((*stream)->write(bytes_of("hallo")).ok());
  }
  EXPECT_GT(whole, 0);
  EXPECT_LT(whole, 28);
}

LinkSecurity with_list(LinkSecurity s, const Authority& by, const std::string& certificate) {
  s.revoked = ndp::revoke(by.own, "", certificate, by.now).or_throw();
  return s;
}

TEST_F(TlsNetTest, WhoIsRevokedIsRefusedAtBothEnds) {
  const LinkSecurity rank0 = ours_.member("rank0"), rank1 = ours_.member("rank1");
  Meeting m = meet(with_list(rank0, ours_, rank1.certificate), rank1);
  EXPECT_THAT(m.heard, HasSubstr("certificate revoked (it is of 'rank1')"));
  EXPECT_THAT(m.answer, HasSubstr("certificate revoked"));
  m = meet(rank0, with_list(rank1, ours_, rank0.certificate));
  EXPECT_THAT(m.dialled.message(), HasSubstr("certificate revoked (it is of 'rank0')"));
  // The list of another authority says nothing of ours.
  m = meet(with_list(rank0, theirs_, theirs_.member("rank1").certificate), rank1);
  EXPECT_EQ(m.heard, "hallo");
}

TEST_F(TlsNetTest, IsRenewedForNewStreamsWhileOldOnesGoOn) {
  const LinkSecurity rank0 = ours_.member("rank0"), new0 = theirs_.member("rank0");
  const auto net = over(real_net(), rank0);
  const auto listener = net->listen("127.0.0.1:0").or_throw();
  const auto dial = [&](const LinkSecurity& as) {
    std::string first;
    std::unique_ptr<Stream> accepted;
    std::jthread host([&] {
      accepted = listener->accept(10s).or_throw();
      first = heard(*accepted);
    });
    auto stream = over(real_net(), as)->dial(listener->address());
    if (stream.ok()) static_cast<void>((*stream)->write(bytes_of("hallo")).ok());
    host.join();
    return std::tuple(stream.ok() ? std::move(*stream) : nullptr, std::move(accepted), first);
  };
  const auto [old, old_end, first] = dial(ours_.member("rank1"));
  EXPECT_EQ(first, "hallo");
  net->renew(new0.authority, new0.certificate, new0.key, "").or_throw();
  EXPECT_EQ(std::get<2>(dial(theirs_.member("rank1"))), "hallo");
  EXPECT_THAT(std::get<2>(dial(ours_.member("rank1"))), ::testing::Not("hallo"));
  old->write(bytes_of("still")).or_throw();
  EXPECT_EQ(heard(*old_end), "still");

  EXPECT_FALSE(net->renew(rank0.authority, rank0.certificate, new0.key, "").ok());
  EXPECT_FALSE(net->renew(rank0.authority, rank0.certificate, rank0.key, "no list").ok());
  EXPECT_EQ(std::get<2>(dial(theirs_.member("rank1"))), "hallo") << "as before";
}

// At both ends; also a read that waits.
TEST_F(TlsNetTest, AStreamEndsWhenItsOtherSideIsRevokedAndOthersGoOn) {
  const LinkSecurity rank0 = ours_.member("rank0"), rank1 = ours_.member("rank1"),
                     rank2 = ours_.member("rank2");
  for (const bool at_listener : {true, false}) {
    const auto host = over(real_net(), rank0), bad = over(real_net(), rank1),
               good = over(real_net(), rank2);
    const auto listener = host->listen("127.0.0.1:0").or_throw();
    const auto meet_one = [&](Net& who) {
      std::unique_ptr<Stream> accepted;
      std::jthread accepting([&] {
        accepted = listener->accept(10s).or_throw();
        EXPECT_EQ(heard(*accepted), "hallo");
      });
      auto dialled = who.dial(listener->address()).or_throw();
      dialled->write(bytes_of("hallo")).or_throw();
      accepting.join();
      return std::pair(std::move(dialled), std::move(accepted));
    };
    const auto ended = meet_one(*bad), stays = meet_one(*good);
    Stream& mine = at_listener ? *ended.second : *ended.first;
    std::string why;
    std::jthread reads([&] { why = heard(mine); });
    std::this_thread::sleep_for(50ms);
    // The list of who listens names who dialled, and the other way round.
    const LinkSecurity now = at_listener ? with_list(rank0, ours_, rank1.certificate)
                                         : with_list(rank1, ours_, rank0.certificate);
    (at_listener ? *host : *bad)
        .renew(now.authority, now.certificate, now.key, now.revoked)
        .or_throw();
    reads.join();
    EXPECT_THAT(why, HasSubstr("its certificate was revoked"));
    EXPECT_THAT(mine.write(bytes_of("more")).message(), HasSubstr("its certificate was revoked"));
    stays.first->write(bytes_of("still")).or_throw();
    EXPECT_EQ(heard(*stays.second), "still");
  }
}

TEST_F(TlsNetTest, CertificateAndKeyMustBelongTogether) {
  const LinkSecurity a = ours_.member("a"), b = ours_.member("b");
  const auto why = [](const std::string& authority, const std::string& c, const std::string& k) {
    return TlsNet::make(real_net(), authority, c, k).status().message();
  };
  EXPECT_THAT(why(a.authority, a.certificate, b.key), HasSubstr("do not fit"));
  EXPECT_THAT(why(a.authority, "none", a.key), HasSubstr("no certificate in PEM"));
  EXPECT_THAT(why("none", a.certificate, a.key), HasSubstr("no certificate in PEM"));
  EXPECT_THAT(why(a.authority, a.certificate, "none"), HasSubstr("no key in PEM"));
}

}  // namespace
}  // namespace ndtrain
