// Ranks of the program that meet by certificates.
#include <gmock/gmock.h>
#include <signal.h>

#include "tests/cli/ranks_fixture.h"
#include "tests/support/files.h"
#include "tests/wire/authority.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_cli::Outcome;

class TlsRanks : public testing_cli::RanksTest {
 protected:
  void SetUp() override {
    RanksTest::SetUp();
    for (const char* directory : {"certs", "others"}) {
      const Outcome o =
          run({"cert", "init", directory, "--member", "rank0,rank1,rank2", "--store", "attic"});
      ASSERT_EQ(o.code, 0) << o.err;
    }
  }
  static Words certified(const Words& words, const std::string& name,
                         const std::string& directory = "certs") {
    Words all = words;
    for (const std::string& word :
         {std::string("--ca"), directory + "/ca.crt", std::string("--cert"),
          directory + "/" + name + ".crt", std::string("--key"), directory + "/" + name + ".key"}) {
      all.push_back(word);
    }
    return all;
  }
  pid_t start_rank(int rank, const std::string& rendezvous, const std::string& certificate,
                   const std::string& directory = "certs") const {
    const std::string number = std::to_string(rank);
    return start_as("rank" + number,
                    certified(at_place(train("run" + number, {"-e", "2", "--shards", "4"}), rank, 2,
                                       rendezvous),
                              certificate, directory));
  }
  // Waits until rank 0 has said so.
  bool says(const std::string& text) const {
    for (int i = 0; i < 10'000; ++i) {
      if (said_by("rank0").find(text) != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }
};

TEST_F(TlsRanks, ThreeOfThemEndWithTheBytesOfOneProcess) {
  ASSERT_EQ(run(train("one", {"-e", "2", "--shards", "4"})).code, 0);
  const std::string rendezvous = free_address();
  std::vector<pid_t> ranks;
  for (const int rank : {0, 1, 2}) {
    const std::string name = "rank" + std::to_string(rank);
    ranks.push_back(start_as(
        name,
        certified(at_place(train("by" + name, {"-e", "2", "--shards", "4"}), rank, 3, rendezvous),
                  name)));
  }
  for (const int rank : {1, 2, 0}) {
    const Outcome o = end_of(ranks[static_cast<size_t>(rank)], "rank" + std::to_string(rank));
    EXPECT_EQ(o.code, 0) << o.err;
  }
  EXPECT_THAT(said_by("rank0"), HasSubstr("3 ranks talk by TCP, encrypted"));
  EXPECT_TRUE(model("byrank0") == model("one"));
}

TEST_F(TlsRanks, ThoseThatAreStartedHereMayHaveThem) {
  const Outcome o = run(certified(
      {"bench", "collectives", "--ranks", "2", "--megabytes", "1", "--rounds", "1"}, "rank0"));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("2 ranks talk by TCP, encrypted"));
}

TEST_F(TlsRanks, WhoHasNoGoodCertificateIsRefusedAndTheRightOneIsTaken) {
  const std::string rendezvous = free_address();
  const pid_t first = start_rank(0, rendezvous, "rank0");
  ASSERT_TRUE(says("2 ranks talk by TCP"));
  Outcome o = end_of(start_rank(1, rendezvous, "rank1", "others"), "rank1");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, AllOf(HasSubstr(rendezvous), HasSubstr("its certificate does not do"),
                           HasSubstr("(it is of 'rank0')")));
  // One that believes rank 0, which does not believe it.
  publish(real_fs(), at("others/ca.crt"),
          real_fs().read(at("others/ca.crt")).or_throw() +
              real_fs().read(at("certs/ca.crt")).or_throw())
      .or_throw();
  o = end_of(start_rank(1, rendezvous, "rank1", "others"), "rank1");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("refuses the certificate of this side: unknown ca"));
  EXPECT_TRUE(says("(it is of 'rank1')"));
  // In the clear, and not at all.
  const auto plain = real_net().dial(rendezvous).or_throw(),
             silent = real_net().dial(rendezvous).or_throw();
  plain->write(support::bytes_of("GET / HTTP/1.1\r\n\r\n")).or_throw();
  EXPECT_TRUE(says("was refused: speaks no TLS"));
  o = end_of(
      start_as("rank1", at_place(train("run1", {"-e", "2", "--shards", "4"}), 1, 2, rendezvous)),
      "rank1");
  EXPECT_EQ(o.code, 1);
  const pid_t second = start_rank(1, rendezvous, "rank1");
  EXPECT_EQ(end_of(second, "rank1").code, 0);
  o = end_of(first, "rank0");
  EXPECT_EQ(o.code, 0) << o.err;
}

TEST_F(TlsRanks, ReplacedFilesAreInForceForWhoComesLater) {
  const std::string rendezvous = free_address();
  const pid_t first = start_rank(0, rendezvous, "rank0");
  ASSERT_TRUE(says("2 ranks talk by TCP"));
  for (const char* file : {"ca.crt", "rank0.crt", "rank0.key"}) {
    const std::string now = real_fs().read(at(std::string("others/") + file)).or_throw();
    publish(real_fs(), at(std::string("certs/") + file), now).or_throw();
  }
  ASSERT_TRUE(says("ranks: new certificates are in force")) << said_by("rank0");
  Outcome o = end_of(start_rank(1, rendezvous, "rank1", "others"), "rank1");
  EXPECT_EQ(o.code, 0) << o.err;
  o = end_of(first, "rank0");
  EXPECT_EQ(o.code, 0) << o.err;
}

TEST_F(TlsRanks, TheFileThatDoesNotDoIsNamedAtStart) {
  const auto refused = [&](const std::string& certificate, const std::string& directory = "certs") {
    const Outcome o = end_of(start_rank(1, "127.0.0.1:1", certificate, directory), "rank1");
    EXPECT_EQ(o.code, 1);
    return o.err;
  };
  EXPECT_THAT(refused("attic"),
              HasSubstr("certs/attic.crt: is not for a member of a training; is it the certificate "
                        "of a PipeStore?"));
  EXPECT_THAT(refused("tuner"), HasSubstr("is it the certificate of the Tuner?"));
  EXPECT_THAT(refused("rank7"), AllOf(HasSubstr("certs/rank7.crt"), HasSubstr("cert init")));
  const support::Authority authority;
  const ndp::LinkSecurity late =
      authority.issue("late", ndp::LinkRole::kMember, {authority.now - 3000, authority.now - 10});
  publish(real_fs(), at("others/late.crt"), late.certificate).or_throw();
  publish(real_fs(), at("others/late.key"), late.key).or_throw();
  publish(real_fs(), at("others/ca.crt"), late.authority).or_throw();
  EXPECT_THAT(refused("late", "others"), HasSubstr("others/late.crt: expired on"));
  const Outcome o = run(at_place(train("run", {"--ca", "certs/ca.crt"}), 1, 2, "127.0.0.1:1"));
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.err, HasSubstr("a certificate is missing"));
}

TEST_F(TlsRanks, WhereOtherMachinesReachThemTheyHaveCertificatesOrAreToldToDoWithout) {
  for (const std::string address : {"10.0.0.1:25300", "0.0.0.0:0", "rank0.example:25300"}) {
    for (const int rank : {0, 1}) {
      Outcome o = run(at_place(train("run", {}), rank, 2, address));
      EXPECT_EQ(o.code, 1);
      EXPECT_THAT(o.err, AllOf(HasSubstr(address + " can be reached by other machines"),
                               HasSubstr("`ndtrain cert init DIR --member NAME=HOST`"),
                               HasSubstr("--insecure")));
      EXPECT_FALSE(real_fs().exists(at("run")));
      o = run(at_place({"bench", "collectives"}, rank, 2, address));
      EXPECT_EQ(o.code, 1);
      EXPECT_THAT(o.err, HasSubstr(address + " can be reached by other machines"));
    }
  }
}

// Rank 0 listens at all addresses of the machine; the others find it by one.
TEST_F(TlsRanks, InTheClearEverywhereWhereThatIsAskedFor) {
  const std::string port = free_address().substr(std::string("127.0.0.1").size());
  const auto words = [&](int rank, const std::string& host) {
    Words all = at_place({"bench", "collectives", "--megabytes", "1", "--rounds", "1"}, rank, 2,
                         host + port);
    all.emplace_back("--insecure");
    return all;
  };
  const pid_t first = start_as("rank0", words(0, "0.0.0.0"));
  const Outcome second = end_of(start_as("rank1", words(1, "127.0.0.1")), "rank1");
  EXPECT_EQ(second.code, 0) << second.err;
  const Outcome o = end_of(first, "rank0");
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_THAT(o.err, ::testing::Not(HasSubstr("encrypted")));
}

TEST_F(TlsRanks, AUnixSocketNeedsNothing) {
  const std::string rendezvous = "unix:" + at("meeting");
  std::vector<pid_t> ranks;
  for (const int rank : {0, 1, 2}) {
    ranks.push_back(start_as("rank" + std::to_string(rank),
                             at_place({"bench", "collectives", "--megabytes", "1", "--rounds", "1"},
                                      rank, 3, rendezvous)));
  }
  for (const int rank : {0, 1, 2}) {
    const Outcome o = end_of(ranks[static_cast<size_t>(rank)], "rank" + std::to_string(rank));
    EXPECT_EQ(o.code, 0) << o.err;
  }
}

TEST_F(TlsRanks, ByMpiTheseFlagsMakeNoSense) {
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);  // as if mpirun had started it
  for (const std::string flag : {"--ca", "--cert", "--key", "--insecure"}) {
    Words words = train("run", {"--comm", "mpi", flag});
    if (flag != "--insecure") words.emplace_back("certs/ca.crt");
    const Outcome o = run(words);
    EXPECT_EQ(o.code, 2) << o.err;
    EXPECT_THAT(o.err, HasSubstr(flag + ": by MPI ranks talk as it has them talk"));
  }
  ::unsetenv("OMPI_COMM_WORLD_RANK");
}

}  // namespace
}  // namespace ndtrain
