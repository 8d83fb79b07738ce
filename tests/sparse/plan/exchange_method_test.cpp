#include "framework/sparse/plan/exchange_method.h"

#include <gmock/gmock.h>

#include <set>

#include "framework/core/error.h"
#include "tests/graph/model_builder.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

TEST(ExchangeMethod, AWordReadsBackAsItself) {
  for (const char* word :
       {"ddp", "blocking", "auto", "dear", "sparse:0:0.99", "sparse:2:0.999", "sparse:0:0",
        "sparse:1:0.99:topk", "powersgd:1", "powersgd:8", "local:20", "diloco:50", "diloco:50:4",
        "diloco:50:4:5", "diloco:50:1:5"}) {
    EXPECT_EQ(parse_exchange_method(word).text(), word);
  }
}

TEST(ExchangeMethod, SaysWhatTravels) {
  const auto sparse = std::get<SparseSyncOptions>(parse_exchange_method("sparse:1:0.97").options);
  EXPECT_EQ(sparse.staleness, 1);
  EXPECT_EQ(sparse.drop, 0.97);
  EXPECT_EQ(sparse.compressor, "threshold-v16");
  EXPECT_EQ(std::get<PowerSgdOptions>(parse_exchange_method("powersgd:2").options).rank, 2);
  const ExchangeMethod diloco = parse_exchange_method("diloco:30:3:2");
  const auto outer = std::get<LocalStepsOptions>(diloco.options);
  EXPECT_EQ(outer.inner_steps, 30);
  EXPECT_EQ(outer.fragments, 3);
  EXPECT_EQ(outer.overlap, 2);
  EXPECT_EQ(outer.outer_momentum, 0.9);
  EXPECT_EQ(diloco.drain_every, 120) << "a multiple of the inner steps";
  const auto mean = std::get<LocalStepsOptions>(parse_exchange_method("local:30").options);
  EXPECT_EQ(mean.outer_momentum, 0);
  EXPECT_EQ(mean.outer_lr, 1);
  EXPECT_TRUE(parse_exchange_method("wfbp").is_exact());
  EXPECT_FALSE(parse_exchange_method("local:1").is_exact());
}

TEST(ExchangeMethod, IsAskedForByFlags) {
  for (const auto& [word, flags] :
       {std::pair("ddp", "--sync ddp"), std::pair("sparse:0:0.9", "--sync sparse --drop 0.9"),
        std::pair("sparse:2:0.99", "--sync sparse --staleness 2 --drop 0.99"),
        std::pair("sparse:0:0.9:topk", "--sync sparse --compressor topk --drop 0.9"),
        std::pair("powersgd:4", "--sync powersgd --factor-rank 4"),
        std::pair("local:20", "--sync local --inner-steps 20"),
        std::pair("diloco:50:4:5", "--sync diloco --inner-steps 50 --fragments 4 --overlap 5")}) {
    EXPECT_EQ(parse_exchange_method(word).flags(), flags);
  }
}

TEST(ExchangeMethod, AllAgreeBehindAMultipleOfTheInnerSteps) {
  EXPECT_EQ(drained_every(1), 100);
  EXPECT_EQ(drained_every(50), 100);
  EXPECT_EQ(drained_every(99), 198);
  EXPECT_EQ(drained_every(500), 500);
}

TEST(ExchangeMethod, TheUsualOnesAreDifferentAndSomeAreExact) {
  std::set<std::string> words;
  for (const ExchangeMethod& method : usual_methods()) {
    EXPECT_TRUE(words.insert(method.text()).second) << method.text();
  }
  EXPECT_TRUE(words.contains("auto"));
  for (const ExchangeMethod& method : slow_link_methods()) {
    EXPECT_FALSE(method.is_exact());
    EXPECT_TRUE(words.contains(method.text()));
  }
}

TEST(ExchangeMethod, WhatIsNoneIsRefusedWithWhatItSays) {
  const auto refused = [](const char* word, const std::string& what) {
    EXPECT_THAT(testing::error_of([&] { (void)parse_exchange_method(word); }),
                ::testing::AllOf(::testing::StartsWith(std::string(word) + ": "), HasSubstr(what)));
  };
  refused("fastest", "there is no such schedule; there are blocking");
  refused("fastest", "diloco:H");
  refused("ddp:1", "there is no such schedule");
  refused("sparse", "as sparse:1:0.99");
  refused("sparse:1", "as sparse:1:0.99");
  refused("sparse:1:0.99:best", "there is no compressor best; there are topk");
  refused("sparse:1:0.99:topk:2", "as sparse:1:0.99");
  refused("sparse:x:0.99", "as sparse:1:0.99");
  refused("sparse:17:0.99", "the staleness: 0 to 16");
  refused("sparse:-1:0.99", "the staleness: 0 to 16");
  refused("sparse:1:1", "the drop: 0 to below 1");
  refused("sparse:1:nan", "the drop: 0 to below 1");
  refused("powersgd:0", "the columns: 1 to 64");
  refused("powersgd:4:4", "as powersgd:4");
  refused("local:0", "the inner steps: 1 to");
  refused("diloco", "as diloco:50");
  refused("diloco:8:9", "the fragments: 1 to 8");
  refused("diloco:8:4:8", "the overlap: 0 to 7");
}

}  // namespace
}  // namespace ndtrain
