// Which stores hear who may ask for what.
#include <gmock/gmock.h>

#include "ndp/http/tokens.h"
#include "tests/tuner/service_fixture.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ServiceTokens : public testing::ServiceTest {
 protected:
  void greet_taking(LinkId link, const std::string& store, bool of_tasks = true) {
    service_.handle({link, LinkOpened{"a host", ""}});
    wire::FromStore hello;
    hello.mutable_hello()->add_protocols(kProtocols[0]);
    hello.mutable_hello()->set_store(store);
    hello.mutable_hello()->set_takes_tokens(true);
    hello.mutable_hello()->set_takes_task_tokens(of_tasks);
    service_.handle({link, hello});
  }
  // To whom they were sent since the last time.
  std::vector<LinkId> told(const std::string& json) {
    std::vector<LinkId> links;
    for (const auto& [link, m] : links_.sent) {
      if (!m.has_tokens()) continue;
      links.push_back(link);
      EXPECT_EQ(m.tokens().json(), json);
      EXPECT_EQ(m.tokens().checksum(), xxh3(json.data(), json.size()));
      EXPECT_EQ(m.term(), me_.term);
    }
    links_.sent.clear();
    return links;
  }
};

TEST_F(ServiceTokens, AreSentToStoresThatTakeThemAtTheBeginningAndWhenTheyChange) {
  greet_taking(1, "a");
  greet(2, "old");  // of a program that knows nothing of them
  EXPECT_THAT(told(""), IsEmpty());
  service_.set_tokens("list 1");
  EXPECT_THAT(told("list 1"), ElementsAre(1));
  greet_taking(3, "b");
  EXPECT_THAT(told("list 1"), ElementsAre(3));
  service_.set_tokens("list 2");
  EXPECT_THAT(told("list 2"), ElementsAre(1, 3));
  service_.handle({1, LinkClosed{"gone"}});
  service_.set_tokens("list 3");
  EXPECT_THAT(told("list 3"), ElementsAre(3));
  greet_taking(4, "a");
  EXPECT_THAT(told("list 3"), ElementsAre(4));
}

TEST_F(ServiceTokens, OfATaskAreNotSentToAStoreThatWouldLetTheirOwnersDoEverything) {
  const std::vector<Token> tokens = {{.name = "ann"}, {.name = "bob", .task = "mood"}};
  const std::string all = tokens_text(tokens), for_older = tokens_text({tokens[0]});
  service_.set_tokens(all);
  greet_taking(1, "a");
  EXPECT_THAT(told(all), ElementsAre(1));
  greet_taking(2, "old", false);
  EXPECT_THAT(told(for_older), ElementsAre(2));
}

}  // namespace
}  // namespace ndtrain::tuner
