#include "framework/pipeline/schedules/pipeline_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace ndtrain {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Drawn {
  PipelinePrediction prediction;
  std::string svg;
};

Drawn drawn(std::string_view schedule, const PipeShape& shape, PipelineCosts costs = {},
            std::string_view title = "a pipeline") {
  if (costs.stages.empty()) {
    costs.stages.resize(static_cast<size_t>(shape.stages),
                        {.forward_s = 1, .input_s = 1, .weight_s = 1});
  }
  Drawn d{simulate_pipeline(*pipeline_schedule(schedule), shape, costs)};
  d.svg = pipeline_svg(shape, d.prediction, title);
  return d;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// "" of XML whose tags are closed in the order in which they are opened, whose attributes are
// quoted and there once, and whose text has no stray sign; else where it goes wrong.
std::string ill_formed_at(const std::string& xml) {
  static const std::regex tag(R"re(<(/?)([a-z]+)((?: [a-zA-Z-]+="[^"<&]*")*)(/?)>)re");
  static const std::regex text("[^<>&]+|&(?:amp|lt|gt|quot);");
  constexpr auto kHere = std::regex_constants::match_continuous;
  std::vector<std::string> open;
  std::smatch m;
  auto at = xml.begin();
  for (; at != xml.end(); at = m.suffix().first) {
    if (std::regex_search(at, xml.end(), m, text, kHere)) {
      if (open.empty() && m.str() != "\n") break;
    } else if (!std::regex_search(at, xml.end(), m, tag, kHere)) {
      break;
    } else if (m[1].length() > 0) {
      if (open.empty() || open.back() != m[2]) break;
      open.pop_back();
    } else if (m[4].length() == 0) {
      open.push_back(m[2]);
    }
  }
  if (at == xml.end() && open.empty()) return "";
  return "…" + std::string(at, at + std::min<std::ptrdiff_t>(80, xml.end() - at));
}

// Of the box of an instruction, in the order of the picture.
struct Box {
  double x, width;
};
std::vector<Box> boxes(const std::string& svg, const std::string& title) {
  const std::regex box(title +
                       R"re([^<]*</title><rect x="([0-9.]+)" y="[0-9.]+" width="([0-9.]+)")re");
  std::vector<Box> found;
  for (std::sregex_iterator m(svg.begin(), svg.end(), box), end; m != end; ++m) {
    found.push_back({std::stod((*m)[1]), std::stod((*m)[2])});
  }
  return found;
}

TEST(PipelineSvg, IsWellFormed) {
  for (const std::string_view name : pipeline_schedules()) {
    PipeShape shape{.stages = 4, .micro_batches = 3, .mini_batches = 2, .recompute = {1, 0, 1, 0}};
    if (name == "interleaved") shape.chunks = 2;
    EXPECT_EQ(ill_formed_at(drawn(name, shape).svg), "") << name;
  }
  const std::string titled = drawn("1f1b", {}, {}, R"(<b> & "c")").svg;
  EXPECT_EQ(ill_formed_at(titled), "");
  EXPECT_THAT(titled, HasSubstr("&lt;b&gt; &amp; &quot;c&quot;"));
  EXPECT_NE(ill_formed_at("<a><b></a></b>"), "");
  EXPECT_NE(ill_formed_at("<a>&</a>"), "");
  EXPECT_NE(ill_formed_at("<a"), "");
}

TEST(PipelineSvg, HasABoxForWhateverEachRankComputes) {
  const std::string svg = drawn("zb", {.stages = 3, .micro_batches = 4}).svg;
  for (const char* letter : {"F", "B", "W"}) {
    for (const char* number : {"0", "1", "2", "3"}) {
      EXPECT_EQ(count(svg, std::string(">") + letter + number + "</text>"), 3) << letter << number;
    }
  }
  EXPECT_EQ(count(svg, "<g>"), 3 * 4 * 3) << "updates that take no time have none";
}

TEST(PipelineSvg, HasBoxesWhereTheSimulationHasThem) {
  const Drawn d = drawn("1f1b", {.stages = 2, .micro_batches = 3});
  double scale = 0, origin = 0;
  for (const PipelinePrediction::Row& row : d.prediction.rows) {
    for (const PipelinePrediction::Span& s : row.spans) {
      if (s.end_s == s.begin_s || symbol(s.instruction.op).empty()) continue;
      const std::vector<Box> found = boxes(d.svg, describe(s.instruction) + ", version 0");
      ASSERT_EQ(found.size(), 1U) << describe(s.instruction);
      if (scale == 0) {
        scale = found[0].width / (s.end_s - s.begin_s);
        origin = found[0].x;
      }
      EXPECT_NEAR(found[0].x, origin + s.begin_s * scale, 0.05) << describe(s.instruction);
      EXPECT_NEAR(found[0].width, (s.end_s - s.begin_s) * scale, 0.05);
    }
  }
  EXPECT_THAT(d.svg, HasSubstr("forward pass of micro-batch 1 of stage 0, version 0: 1 s to 2 s"));
  EXPECT_THAT(d.svg, HasSubstr("waits 25 %")) << "3 of 12 s";
}

TEST(PipelineSvg, ShowsVersionsWhereThereAreSeveral) {
  const PipeShape shape{.stages = 2, .mini_batches = 4};
  const std::string svg = drawn("async", shape).svg;
  EXPECT_EQ(count(svg, ">v2</text>"), 2 + 2) << "F3 and B3 of stage 0, F2 and B2 of stage 1";
  EXPECT_THAT(drawn("1f1b", {.stages = 2, .micro_batches = 4}).svg, Not(HasSubstr(">v0<")));
}

TEST(PipelineSvg, NamesRowsByStageAndReplica) {
  PipelineCosts costs{
      .rows = 4, .stages = {{.forward_s = 1}, {.forward_s = 1}}, .replicas = {1, 2}};
  const std::string replicas = drawn("1f1b", {.stages = 2}, costs).svg;
  for (const char* name : {">stage 0<", ">stage 1 · 0<", ">stage 1 · 1<"}) {
    EXPECT_THAT(replicas, HasSubstr(name));
  }
  const std::string chunks = drawn("interleaved", {.stages = 4, .chunks = 2}).svg;
  EXPECT_THAT(chunks, HasSubstr(">stages 0, 2<"));
  EXPECT_THAT(chunks, HasSubstr(">stages 1, 3<"));
}

TEST(PipelineSvg, WritesOnNothingThatIsTooNarrow) {
  PipelineCosts costs{.stages = {{.forward_s = 1, .input_s = 1, .weight_s = 1, .update_s = 0.001}}};
  const std::string svg = drawn("gpipe", {.stages = 1, .micro_batches = 2}, costs).svg;
  EXPECT_THAT(svg, HasSubstr("the update of version 0"));
  EXPECT_THAT(svg, Not(HasSubstr(">U0<")));
}

TEST(PipelineSvg, DrawsWhatTakesNoTimeAsEmptyRows) {
  const std::string svg = drawn("gpipe", {.stages = 2}, {.stages = {{}, {}}}).svg;
  EXPECT_EQ(ill_formed_at(svg), "");
  EXPECT_THAT(svg, Not(HasSubstr("<g>")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(PipelineSvg, UsesTheUnitThatTheTimesAreOf) {
  const PipelineCosts costs{.stages = {{.forward_s = 2e-3, .input_s = 1e-3, .weight_s = 1e-3}}};
  EXPECT_THAT(drawn("1f1b", {}, costs).svg, HasSubstr(">4 ms; ranks wait 0 % of it<"));
}

}  // namespace
}  // namespace ndtrain
