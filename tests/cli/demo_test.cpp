// The demo, as a newcomer sees it.
#include <nlohmann/json.hpp>

#include "tests/cli/program_fixture.h"

namespace ndtrain {
namespace {

class DemoTest : public testing_cli::ProgramTest {};

TEST_F(DemoTest, ShowsDriftAndHowItIsMendedWithoutForgetting) {
  const auto r = run({"demo", "demo", "--json", "-q"});
  ASSERT_EQ(r.code, 0) << r.err;
  const nlohmann::json j = nlohmann::json::parse(r.out);
  EXPECT_GT(j.at("day_before"), 0.8) << j;
  EXPECT_LT(j.at("dusk_before"), 0.5) << j;
  EXPECT_GT(j.at("dusk_after"), 0.6) << j;
  EXPECT_GE(j.at("day_after"), j.at("day_before").get<double>() - 0.02) << j;
  EXPECT_GT(j.at("relabelled"), 0) << j;
  EXPECT_GT(j.at("changed"), 0) << j;
  EXPECT_LT(j.at("model_bytes_sent").get<int64_t>() / 2, j.at("head_bytes")) << j;
  EXPECT_TRUE(real_fs().exists(at(j.at("report")))) << j;
  const auto up = real_fs().info(at("demo/site/up.json"));
  EXPECT_EQ(up.status().code(), Code::kNotFound) << "something still runs";

  const auto again = run({"demo", "demo"});
  EXPECT_EQ(again.code, 1);
  EXPECT_NE(again.err.find("holds a demo already"), std::string::npos) << again.err;
}

}  // namespace
}  // namespace ndtrain
