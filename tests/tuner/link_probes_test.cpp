// What the links to stores carry, as the Tuner measures it.
#include "tuner/service/link_probes.h"

#include <gmock/gmock.h>

#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LinkProbesTest : public testing::ServiceTest {
 protected:
  void greet_probed(LinkId link, const std::string& store) {
    service_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store(store);
    hello.mutable_hello()->set_takes_probes(true);
    service_.handle({link, hello});
    service_.tick();
  }
  // The last of the probes that were sent there since this was asked.
  std::optional<wire::Probe> asked(LinkId link) {
    std::optional<wire::Probe> probe;
    std::erase_if(links_.sent, [&](const auto& sent) {
      if (sent.first != link) return false;
      if (sent.second.has_probe()) probe = sent.second.probe();
      return true;
    });
    return probe;
  }
  void answer(LinkId link, const wire::Probe& probe) {
    wire::FromStore m;
    m.mutable_probe()->set_number(probe.number());
    m.mutable_probe()->set_payload(std::string(probe.answer_bytes(), '\0'));
    say(link, m);
  }
  // Answers all probes as a link does that takes 2 ms there and back and carries so many bytes/s;
  // how many there were.
  int answer_all(LinkId link, double up, double down) {
    int n = 0;
    for (auto probe = asked(link); probe; probe = asked(link), ++n) {
      EXPECT_LE(probe->payload().size(), LinkProbes::kMost);
      EXPECT_LE(probe->answer_bytes(), LinkProbes::kMost);
      const double s =
          2e-3 + probe->answer_bytes() / up + static_cast<double>(probe->payload().size()) / down;
      clock_.advance(std::chrono::nanoseconds(static_cast<int64_t>(s * 1e9)));
      answer(link, *probe);
    }
    return n;
  }
  LinkSpeed speed(const std::string& store) const {
    for (const StoreRecord& s : service_.stores()) {
      if (s.name == store) return s.link;
    }
    return {};
  }
};

TEST_F(LinkProbesTest, MeasureBothDirectionsAndKeepThemWithTheTime) {
  greet_probed(1, "attic");
  EXPECT_GT(answer_all(1, 1e8, 2e6), 4);
  const LinkSpeed link = speed("attic");
  EXPECT_NEAR(link.up, 1e8, 1e6);
  EXPECT_NEAR(link.down, 2e6, 2e4);
  EXPECT_NEAR(link.round_trip_s, 2e-3, 1e-5);
  EXPECT_EQ(link.measured, clock_.unix_seconds());
  clock_.advance(seconds(1));
  service_.tick();
  EXPECT_EQ(KnownStores(fs_, "state").all().at("attic").link, link);
}

TEST_F(LinkProbesTest, ASlowLinkIsNotFilledForLong) {
  greet_probed(1, "attic");
  const auto before = clock_.monotonic();
  answer_all(1, 1e6, 1e6);
  EXPECT_LT(clock_.monotonic() - before, seconds(2));
  EXPECT_NEAR(speed("attic").up, 1e6, 1e4);
}

TEST_F(LinkProbesTest, OneStoreAfterTheOtherAndEachOnceADay) {
  greet_probed(1, "attic");
  greet_probed(2, "barn");
  EXPECT_FALSE(asked(2)) << "the other one first";
  answer_all(1, 1e7, 1e7);
  answer_all(2, 1e6, 1e6);
  EXPECT_GT(speed("attic").up, 2 * speed("barn").up);
  clock_.advance(LinkProbes::kGood - seconds(60));
  service_.tick();
  greet_probed(3, "attic");
  EXPECT_FALSE(asked(3));
  clock_.advance(seconds(61));
  service_.tick();
  greet_probed(4, "attic");
  EXPECT_TRUE(asked(4));
}

TEST_F(LinkProbesTest, NotWhileAJobIsInProgressAndNotOfAStoreThatTakesNone) {
  greet(1, "old");
  service_.tick();
  EXPECT_FALSE(asked(1));
  submit();
  service_.tick();
  links_.sent.clear();
  greet_probed(2, "attic");
  EXPECT_FALSE(asked(2));
}

TEST_F(LinkProbesTest, WhoIsSilentOrAnswersSomethingElseIsNotMeasured) {
  greet_probed(1, "attic");
  wire::Probe probe = asked(1).value();
  probe.set_number(probe.number() + 1);
  answer(1, probe);
  EXPECT_FALSE(asked(1));
  greet_probed(2, "barn");
  clock_.advance(LinkProbes::kPatience + milliseconds(1));
  wire::FromStore ping;
  ping.mutable_ping();
  say(2, ping);
  service_.tick();
  EXPECT_EQ(speed("attic").measured, 0);
}

}  // namespace
}  // namespace ndtrain::tuner
