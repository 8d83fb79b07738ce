// `bench relabel`, of few photos; its model is a whole ResNet-50.
#include <nlohmann/json.hpp>

#include "tests/cli/program_fixture.h"

namespace ndtrain {
namespace {

class BenchRelabel : public testing_cli::ProgramTest {};

TEST_F(BenchRelabel, LabelsEveryPhotoByEachOfTwoHeads) {
  const testing_cli::Outcome o = run({"bench", "relabel", "--photos", "100", "--classes", "3",
                                      "--state", "state", "--json", "-j", "1"});
  ASSERT_EQ(o.code, 0) << o.err;
  const auto json = nlohmann::json::parse(o.out);
  for (const char* round : {"first", "again"}) {
    EXPECT_EQ(json.at(round).at("labelled"), 100) << round;
    EXPECT_GT(json.at(round).at("seconds"), 0) << round;
  }
}

}  // namespace
}  // namespace ndtrain
