#include "framework/pipeline/planner/graph_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "framework/core/error.h"
#include "framework/pipeline/planner/profile_tables.h"
#include "tests/pipeline/planner/profiles.h"
#include "tests/support/paths.h"
#include "tests/support/replaced.h"

namespace ndtrain {
namespace {

using ::testing::HasSubstr;

constexpr const char* kText =
    "node1 -- Input0 -- forward_compute_time=2.751, backward_compute_time=49.308, "
    "activation_size=154140672.0, parameter_size=0.000\n"
    "node2 -- Conv2d(3, 64, kernel_size=(11, 11)) -- forward_compute_time=1.676, "
    "backward_compute_time=0.003, activation_size=0.25, parameter_size=93184.000\n"
    "node3 -- ReLU(inplace=True) -- forward_compute_time=0.189, backward_compute_time=0.268, "
    "activation_size=1e+16, parameter_size=0.000\n"
    "node4 -- Add() -- forward_compute_time=0.010, backward_compute_time=0.020, "
    "activation_size=1e-05, parameter_size=0.500\n"
    "\tnode1 -- node2\n"
    "\tnode2 -- node3\n"
    "\tnode2 -- node4\n"
    "\tnode3 -- node4";

std::string refusal(const std::string& text) {
  try {
    parse_graph_text(text, "g.txt");
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

std::string with(const std::string& what, const std::string& by) {
  return support::replaced(kText, what, by);
}

TEST(GraphText, IsWrittenAsItWasRead) {
  EXPECT_EQ(graph_text(parse_graph_text(kText, "g.txt")), kText);
}

TEST(GraphText, StagesAreWrittenAsTheyWereRead) {
  std::string text = kText;
  int stage = 0;
  for (size_t at = text.find('\n'); text[at + 1] != '\t'; at = text.find('\n', at + 1)) {
    const std::string id = " -- stage_id=" + std::to_string(stage++);
    text.insert(at, id);
    at += id.size();
  }
  const ModelProfile profile = parse_graph_text(text, "g.txt");
  EXPECT_EQ(profile.nodes[2].stage, 2);
  EXPECT_EQ(graph_text(profile), text);
}

TEST(GraphText, NumbersAreOfTheNodeInSecondsAndBytes) {
  const ModelProfile p = parse_graph_text(kText, "g.txt");
  EXPECT_EQ(p.source, "g.txt");
  EXPECT_DOUBLE_EQ(p.copy_s(), 2.751e-3);
  EXPECT_DOUBLE_EQ(p.load_s(), 49.308e-3);
  const NodeProfile& conv = p.nodes[1];
  EXPECT_EQ(conv.id, "node2");
  EXPECT_EQ(conv.description, "Conv2d(3, 64, kernel_size=(11, 11))");
  EXPECT_DOUBLE_EQ(conv.forward.median_s, 1.676e-3);
  EXPECT_DOUBLE_EQ(conv.backward_s(), 3e-6);
  EXPECT_EQ(conv.parameter_bytes, 93184);
  EXPECT_EQ(conv.saved_bytes, 0.25);
  EXPECT_EQ(p.nodes[2].saved_bytes, 0);  // in place
  EXPECT_EQ(p.nodes[3].saved_bytes, 0);  // Add
  EXPECT_EQ(p.nodes[3].inputs, (std::vector<int>{1, 2}));
}

TEST(GraphText, SeveralTensorsOfANodeAreAddedUpAndWrittenAsTheyWere) {
  const std::string text = with("activation_size=0.25", "activation_size=[4.0; 8.5]");
  const ModelProfile p = parse_graph_text(text, "g.txt");
  EXPECT_EQ(p.nodes[1].activation_bytes, 12.5);
  EXPECT_EQ(graph_text(p), text);
}

TEST(GraphText, WhatIsMalformedIsNamedWithItsLine) {
  EXPECT_THAT(refusal(""), HasSubstr("graph g.txt line 1: '' is no node"));
  EXPECT_THAT(refusal(with("=1.676", "=1.6x6")), HasSubstr("line 2: '1.6x6' is no number"));
  EXPECT_THAT(refusal(with("=1.676", "=-1")), HasSubstr("line 2: '-1' is no number from 0 up"));
  EXPECT_THAT(refusal(with("=1.676", "=inf")), HasSubstr("line 2: 'inf' is no number"));
  EXPECT_THAT(refusal(with("=0.25", "=[1.0; x]")), HasSubstr("line 2: 'x' is no number"));
  EXPECT_THAT(refusal(with("activation_size=0.25, ", "")), HasSubstr("has 3 of 4 numbers"));
  EXPECT_THAT(refusal(with("activation_size=0.25", "size=0.25")),
              HasSubstr("line 2: 'size=0.25' is not activation_size=NUMBER"));
  EXPECT_THAT(refusal(with("93184.000", "93184.000 -- stage_id=x")),
              HasSubstr("line 2: 'stage_id=x' is not stage_id=N"));
  EXPECT_THAT(refusal(with("93184.000", "93184.000 -- stage=1")), HasSubstr("'stage=1'"));
  EXPECT_THAT(refusal(with("node3 -- ReLU", "node2 -- ReLU")),
              HasSubstr("line 3: 'node2' is there twice"));
  EXPECT_THAT(refusal(with("\tnode2 -- node3", "\tnode2 -> node3")),
              HasSubstr("line 6: 'node2 -> node3' is no edge"));
}

TEST(GraphText, AnEdgeOfANodeThatIsNotThereIsRefused) {
  EXPECT_THAT(refusal(with("\tnode2 -- node3", "\tnode2 -- node9")),
              HasSubstr("line 6: 'node9' is no node of a line above"));
  EXPECT_THAT(refusal(with("\tnode2 -- node3", "\tnode9 -- node3")), HasSubstr("'node9'"));
}

TEST(GraphText, ACircleIsRefusedByItsNodes) {
  EXPECT_THAT(refusal(std::string(kText) + "\n\tnode4 -- node3"),
              HasSubstr("nodes that wait for each other: node3, node4, node3"));
  EXPECT_THAT(refusal(std::string(kText) + "\n\tnode3 -- node3"), HasSubstr("node3, node3"));
  EXPECT_THAT(refusal(std::string(kText) + "\n\tnode4 -- node1"),
              HasSubstr("line 9: 'node4 -- node1' leads to an input"));
}

TEST(GraphText, NothingButInputsIsRefused) {
  const std::string text = kText;
  EXPECT_THAT(refusal(text.substr(0, text.find('\n'))), HasSubstr("has no node but inputs"));
}

TEST(GraphText, DotAndCsvHaveEveryNodeAndEdge) {
  ModelProfile p = parse_graph_text(kText, "g.txt");
  p.nodes[1].stage = 1;
  p.nodes[1].description = "Conv \"a\"";
  const std::string dot = dot_text(p), csv = csv_text(p);
  EXPECT_THAT(dot, HasSubstr("\"node2\" [label=\"Conv \\\"a\\\"\\n1.676 ms forward, 0.003 ms "
                             "backward\\n0.25 bytes made, 93184.0 of parameters\" style=filled "
                             "fillcolor=green]"));
  EXPECT_THAT(dot, HasSubstr("\"node3\" -> \"node4\"\n"));
  EXPECT_EQ(std::ranges::count(dot, '>'), 4);
  EXPECT_EQ(std::ranges::count(csv, '\n'), 5);
  EXPECT_THAT(csv, HasSubstr("node2,\"Conv \"\"a\"\"\",0.001676,0.001676,0,"));
  EXPECT_THAT(csv, HasSubstr(",node2 node3,\n"));
}

// The published file; a part of it is refused, wherever it ends.
TEST(GraphText, AshPipesOwnProfileIsWrittenByteForByteAndNoPartOfItIsTaken) {
  const std::string path = support::shared_path("/golden/ashpipe_alexnet_graph.txt");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is absent";
  const std::string text = testing::read_text(path);
  const ModelProfile profile = parse_graph_text(text, path);
  EXPECT_EQ(profile.nodes.size(), 23u);
  EXPECT_EQ(graph_text(profile), text);
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_THROW(parse_graph_text(text.substr(0, size), path), Error) << size << " bytes";
  }
}

}  // namespace
}  // namespace ndtrain
