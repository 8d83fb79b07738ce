#include "framework/core/chrome_trace.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "framework/core/json.h"

namespace ndtrain {
namespace {

TEST(ChromeTrace, HasSpansInMicrosecondsInRowsThatAreNamed) {
  ChromeTrace trace;
  trace.row("rank 0", "link");
  trace.span("rank 0", "computing", "forward \"a\"", 1, 0.5);
  trace.span("rank 1", "computing", "backward", 2, 0.25);
  trace.span("rank 1", "computing", "forward", 2.5, 0.25);
  const Json json = parse_json(trace.json());
  std::map<std::string, Json> named;
  std::vector<Json> spans;
  for (const Json& e : json.at("traceEvents")) {
    if (e["ph"] == "X") spans.push_back(e);
    if (e["ph"] == "M") {
      named[e["name"].get<std::string>() + " " + std::to_string(e["pid"].get<int>()) + " " +
            std::to_string(e["tid"].get<int>())] = e["args"]["name"];
    }
  }
  EXPECT_EQ(named, (std::map<std::string, Json>{{"process_name 1 0", "rank 0"},
                                                {"process_name 2 0", "rank 1"},
                                                {"thread_name 1 1", "link"},
                                                {"thread_name 1 2", "computing"},
                                                {"thread_name 2 3", "computing"}}));
  ASSERT_EQ(spans.size(), 3U);
  EXPECT_EQ(spans[0]["name"], "forward \"a\"");
  EXPECT_EQ(spans[0]["tid"], 2);
  EXPECT_EQ(spans[0]["ts"], 1e6);
  EXPECT_EQ(spans[0]["dur"], 5e5);
  EXPECT_EQ(spans[2]["pid"], 2);
}

TEST(ChromeTrace, OfNothingIsAListOfNothing) {
  EXPECT_EQ(parse_json(ChromeTrace().json()).at("traceEvents"), Json::array());
}

}  // namespace
}  // namespace ndtrain
