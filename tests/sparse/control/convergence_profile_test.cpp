#include "framework/sparse/control/convergence_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "framework/core/error.h"
#include "framework/sparse/control/loss_penalty.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;
using Over = ConvergenceProfile::Over;

ConvergenceProfile example(Over over = Over::kBandwidth) {
  return {.model = "resnet18 of a friend",
          .over = over,
          .reference_batch = 256,
          .reference_drop = 0.9,
          .largest_batch = 1024,
          .points = {{0.25, 0.1, 0.2}, {1, 1.0 / 3, -1e-17}, {0.5, 0.99, 1e300}}};
}

constexpr const char* kText =
    "ndtrain-convergence-1\n"
    "model resnet18\n"
    "over bandwidth\n"
    "reference_batch 256\n"
    "reference_drop 0.9\n"
    "largest_batch 1024\n"
    "point 0.25 0.5 0.0125\n"
    "point 1 1.5 0.5\n";

// What parsing kText says with `from` in it made `to`.
std::string message_of(const std::string& from, const std::string& to) {
  std::string text = kText;
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
  try {
    parse_convergence_profile(text, "a.profile");
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(ConvergenceProfile, IsReadBackAsItWasWritten) {
  for (const Over over : {Over::kBandwidth, Over::kDrop}) {
    const ConvergenceProfile profile = example(over);
    EXPECT_EQ(parse_convergence_profile(convergence_profile_text(profile), "x"), profile);
  }
}

TEST(ConvergenceProfile, IsTextThatPeopleCanWrite) {
  const std::string text =
      "# what we measured\r\n\r\n  ndtrain-convergence-1  \r\npoint\t.5 \t 0.99 1e-3\r\n"
      "over drop\nlargest_batch 64\nmodel a b\nreference_drop 0\nreference_batch 64";
  const ConvergenceProfile expected{.model = "a b",
                                    .over = Over::kDrop,
                                    .reference_batch = 64,
                                    .reference_drop = 0,
                                    .largest_batch = 64,
                                    .points = {{0.5, 0.99, 0.001}}};
  EXPECT_EQ(parse_convergence_profile(text, "x"), expected);
  EXPECT_EQ(parse_convergence_profile(kText, "x").points.size(), 2u);
}

TEST(ConvergenceProfile, SaysWhichLineAndFieldIsWrong) {
  const struct {
    const char *from, *to, *message;
  } cases[] = {
      {"ndtrain-convergence-1", "ndtrain-convergence-2",
       "a.profile, line 1: begins with \"ndtrain-convergence-2\", not with "
       "\"ndtrain-convergence-1\""},
      {"over bandwidth", "over speed",
       "a.profile, line 3: over is \"speed\", not bandwidth or drop"},
      {"over bandwidth", "over", "a.profile, line 3: over is \"\", not bandwidth or drop"},
      {"over bandwidth", "over drop drop", "a.profile, line 3: over is followed by \"drop\""},
      {"model resnet18", "model", "a.profile, line 2: model is missing"},
      {"model resnet18", "# model", "a.profile: model is missing"},
      {"model resnet18", "over drop", "a.profile, line 3: another \"over\""},
      {"batch 256", "batch", "a.profile, line 4: reference_batch is missing"},
      {"batch 256", "batch 25.6",
       "a.profile, line 4: reference_batch is \"25.6\", not a whole number"},
      {"batch 256", "batch 0", "a.profile: reference_batch is 0, not from 1 to 1024"},
      {"batch 256", "batch 1025", "a.profile: reference_batch is 1025, not from 1 to 1024"},
      {"drop 0.9", "drop 0,9", "a.profile, line 5: reference_drop is \"0,9\", not a number"},
      {"drop 0.9", "drop 1", "a.profile: reference_drop is 1, not from 0 to 0.9999"},
      {"drop 0.9", "drop nan", "a.profile: reference_drop is nan, not from 0 to 0.9999"},
      {"largest_batch 1024", "largest_batch -1", "a.profile: largest_batch is -1"},
      {"largest_batch 1024", "greatest_batch 1024",
       "a.profile, line 6: there is no field \"greatest_batch\""},
      {"largest_batch 1024", "largest_batch 99999999999999999999",
       "a.profile, line 6: largest_batch is \"99999999999999999999\", not a whole number"},
      {"0.25 0.5 0.0125", "0.25 0.5", "a.profile, line 7: the penalty of a point is missing"},
      {"0.25 0.5 0.0125", "0.25 x 1",
       "a.profile, line 7: the bandwidth or drop of a point is \"x\", not a number"},
      {"0.25 0.5 0.0125", "0.25 1 1 1", "a.profile, line 7: point is followed by \"1\""},
      {"0.25 0.5 0.0125", "0 0.5 1",
       "a.profile: the batch of point 1 is 0, not above 0 and at most 1, the largest"},
      {"1 1.5 0.5", "1.01 1.5 0.5",
       "a.profile: the batch of point 2 is 1.01, not above 0 and at most 1, the largest"},
      {"1 1.5 0.5", "1 0 0.5",
       "a.profile: the bandwidth of point 2 is 0, not above 0 and at most 1000 of what the "
       "reference needs"},
      {"1 1.5 0.5", "1 1.5 inf", "a.profile: the penalty of point 2 is inf"},
      {"over bandwidth", "over drop",
       "a.profile: the drop of point 2 is 1.5, not from 0 to 0.9999"},
      {"point 0.25 0.5 0.0125\npoint 1 1.5 0.5\n", "", "a.profile: point is missing"},
      {kText, "\n# \n", "a.profile: is empty, it begins with \"ndtrain-convergence-1\""},
  };
  for (const auto& c : cases) EXPECT_EQ(message_of(c.from, c.to), c.message) << c.to;
}

TEST(ConvergenceProfile, HasALimitOfPointsAndBytes) {
  ConvergenceProfile profile = example();
  profile.points.resize(limits::kConvergencePoints, profile.points[0]);
  EXPECT_EQ(parse_convergence_profile(convergence_profile_text(profile), "x"), profile);
  profile.points.push_back(profile.points[0]);
  EXPECT_THROW(convergence_profile_text(profile), Error);
  profile.points.pop_back();
  profile.points.pop_back();
  validate(profile);

  std::string text = kText;
  text += '#' + std::string(static_cast<size_t>(limits::kConvergenceText) - text.size() - 2, '-');
  EXPECT_NO_THROW(parse_convergence_profile(text, "x"));
  text += '-';
  EXPECT_NO_THROW(parse_convergence_profile(text, "x"));
  text += '-';
  EXPECT_THROW(parse_convergence_profile(text, "x"), Error);
}

TEST(ConvergenceProfile, HasAModelsNameThatIsOneLineOfText) {
  for (const char* const name : {"", " a", "a ", "a\nover drop", "\x1b[2J"}) {
    ConvergenceProfile profile = example();
    profile.model = name;
    EXPECT_THROW(convergence_profile_text(profile), Error) << name;
  }
  EXPECT_THAT(message_of("resnet18", "\x1b[2J"),
              HasSubstr("model is \"\\x1b[2J\", not plain text"));
}

// A loss that grows with the batch and shrinks with bandwidth.
double true_penalty(double batch, double second) {
  return 0.02 * batch * batch + 0.03 * std::exp(-2 * second);
}

TEST(LossPenalty, IsSmoothBetweenPointsAndAtItsEdgesBeyond) {
  ConvergenceProfile profile = example();
  profile.points.clear();
  for (const double batch : {0.1, 0.25, 0.5, 0.75, 1.0}) {
    for (const double bandwidth : {0.1, 0.4, 0.8, 1.3}) {
      profile.points.push_back({batch, bandwidth, true_penalty(batch, bandwidth)});
    }
  }
  const LossPenalty h(profile);
  for (const double batch : {0.1, 0.2, 0.6, 0.9, 1.0}) {
    for (const double bandwidth : {0.1, 0.2, 0.6, 1.0, 1.3}) {
      EXPECT_NEAR(h.at(1024 * batch, bandwidth), true_penalty(batch, bandwidth), 5e-4)
          << batch << " " << bandwidth;
    }
  }
  EXPECT_EQ(h.at(1, 0.01), h.at(102.4, 0.1));
  EXPECT_EQ(h.at(5000, 100), h.at(1024, 1.3));
}

TEST(LossPenalty, IsNeverBelowNothing) {
  ConvergenceProfile profile = example();
  profile.points = {{0.2, 0.5, -0.1}, {0.4, 0.5, -0.2}, {1, 0.5, 0.5}};
  const LossPenalty h(profile);
  EXPECT_EQ(h.at(300, 0.5), 0);
  EXPECT_GT(h.at(1024, 0.5), 0.3);
}

TEST(LossPenalty, KnowsDropsByWhatIsSent) {
  ConvergenceProfile profile = example(Over::kDrop);
  profile.points.clear();
  // A loss that is linear in log10(1 - drop).
  for (const double drop : {0.0, 0.5, 0.9, 0.99, 0.999}) {
    for (const double batch : {0.25, 1.0}) {
      profile.points.push_back({batch, drop, -0.01 * std::log10(1 - drop)});
    }
  }
  const LossPenalty h(profile);
  EXPECT_NEAR(h.at(600, 0.97), -0.01 * std::log10(0.03), 5e-4);
  EXPECT_NEAR(h.at(600, 0.997), -0.01 * std::log10(0.003), 5e-4);
  EXPECT_EQ(h.at(600, 0.9999), h.at(600, 0.999));
}

TEST(LossPenalty, OfOnePointIsThat) {
  ConvergenceProfile profile = example();
  profile.points = {{0.2, 0.5, 0.3}};
  EXPECT_DOUBLE_EQ(LossPenalty(profile).at(7, 7), 0.3);
  profile.points.clear();
  EXPECT_THROW(LossPenalty{profile}, Error);
}

}  // namespace
}  // namespace ndtrain
