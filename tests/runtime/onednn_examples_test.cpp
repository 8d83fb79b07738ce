// Every example of every operator on the onednn plugin, in the layouts it asks for, against the
// double reference.
#include <gtest/gtest.h>

#include <set>

#include "tests/runtime/onednn_cases.h"

namespace ndtrain {
namespace {

bool has_kernel(const OpDef& def, const Example&) { return needs_kernel(def); }

// Every way in which the plugin wants the ports, whatever lies where before; without wishes
// row-major, unless it refuses that.
std::vector<Ports> ways_of(const NodeRun& run) {
  std::vector<Ports> ways;
  for (const Start start : kStarts) {
    if (std::optional<Ports> ports = onednn()->prefer(run, ports_from(run, start))) {
      ways.push_back(std::move(*ports));
    }
  }
  if (ways.empty() && onednn()->refusal(run, plain_ports(run)).empty()) {
    ways.push_back(plain_ports(run));
  }
  return ways;
}

// Runs the example in every such way. How many there were.
int run_example(const ExampleCase& c) {
  const ExampleGraph e = build_example(*c.def, c.example());
  if (e.graph.nodes().empty()) return 0;
  NodeRun run = node_of(e);
  freeze(run);
  run.in_place = true;
  const auto want = run_reference(*c.def, run.attrs, run.in, run.out, e.values);
  const std::string what = describe(*c.def, c.index);
  int ran = 0;
  for (const Ports& ports : ways_of(run)) {
    SCOPED_TRACE("way " + std::to_string(ran));
    onednn()->set_threads(1);
    const std::vector<Bytes> got = onednn()->run(run, ports);
    if (::testing::Test::HasFailure()) return ran;
    // The reference divides by a scale, the library multiplies by its inverse.
    compare(*c.def, what, run, c.example().tolerance, want, got, 1);
    onednn()->set_threads(3);
    const std::vector<Bytes> threaded = onednn()->run(run, ports);
    for (size_t k = 0; k < got.size(); ++k) {
      EXPECT_TRUE(threaded.at(k) == got[k]) << what << ": threads matter";
    }
    ++ran;
  }
  return ran;
}

class OnednnExampleTest : public ::testing::TestWithParam<ExampleCase> {};

TEST_P(OnednnExampleTest, MatchesTheReferenceOrIsRefusedWithAReason) {
  const ExampleCase& c = GetParam();
  if (!onednn()) return;
  if (run_example(c) > 0 || ::testing::Test::HasFailure()) return;
  const ExampleGraph e = build_example(*c.def, c.example());
  if (e.graph.nodes().empty()) GTEST_SKIP() << "folded while the graph is built";
  NodeRun run = node_of(e);
  freeze(run);
  const std::string why = onednn()->refusal(run, plain_ports(run));
  ASSERT_NE(why.find(c.def->name), std::string::npos) << "does not name the op: " << why;
  GTEST_SKIP() << why;
}

INSTANTIATE_TEST_SUITE_P(Every, OnednnExampleTest, ::testing::ValuesIn(example_cases(has_kernel)),
                         [](const auto& c) { return name_of(c.param); });

TEST(Onednn, HasAKernelForTheOpsThatVisionModelsSpendTheirTimeIn) {
  if (!onednn()) return;
  std::set<std::string_view> taken;
  for (const ExampleCase& c : example_cases(has_kernel)) {
    if (taken.count(c.def->name) == 0 && run_example(c) > 0) taken.insert(c.def->name);
  }
  for (const char* op : {"Conv", "FusedConv", "MaxPool", "AveragePool", "GlobalAveragePool",
                         "QuantizeLinear", "DequantizeLinear"}) {
    EXPECT_EQ(taken.count(op), 1u) << op << " is refused in all its examples";
  }
}

}  // namespace
}  // namespace ndtrain
