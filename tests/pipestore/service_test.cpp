#include "ndp/pipestore/service.h"

#include <gtest/gtest.h>

#include "tests/pipestore/service_fixture.h"

namespace ndtrain::ndp {
namespace {

using PipeStoreServiceTest = testing::StoreServiceTest;

TEST_F(PipeStoreServiceTest, TheTunersTokensAreTakenWholeOrNotAtAll) {
  connect();
  wire::ToStore m;
  m.set_term(1);
  m.mutable_tokens()->set_json("list");
  m.mutable_tokens()->set_checksum(xxh3("list", 4));
  service_.handle({link_, m});
  EXPECT_EQ(tokens_, std::vector<std::string>{"list"});
  m.mutable_tokens()->set_json("lost");
  service_.handle({link_, m});
  EXPECT_EQ(tokens_.size(), 1U);
  EXPECT_FALSE(service_.connected());
}

}  // namespace
}  // namespace ndtrain::ndp
