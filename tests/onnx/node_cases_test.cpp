// Every model of ../shared/onnx-node-tests and ../shared/onnx-new-format on the interpreter, as it
// is and after a round trip through our own export, and on the plugins that need no hardware of
// their own.
#include <gmock/gmock.h>

#include <cstdlib>
#include <iostream>
#include <map>

#include "framework/core/fs.h"
#include "framework/onnx/export.h"
#include "tests/onnx/node_case.h"
#include "tests/runtime/cpu_device.h"
#include "tests/support/paths.h"

namespace ndtrain {
namespace {

using NodeCase = NodeCaseTest;

TEST_P(NodeCase, GivesOnnxsOutputs) {
  EXPECT_EQ(run_on_interpreter(directory(), import_case(directory())), "");
}

TEST_P(NodeCase, StaysTheSameThroughExport) {
  const Model model = import_case(directory());
  const Model again = import_model(export_model(model));
  EXPECT_EQ(content_id(again), content_id(model));
  EXPECT_EQ(run_on_interpreter(directory(), again), "");
}

TEST_P(NodeCase, GivesOnnxsOutputsOnEveryCpuPlugin) {
  const Model model = import_case(directory());
  for (const Device* device : ndtrain::testing::host_devices()) {
    SCOPED_TRACE(device->backend().name());
    EXPECT_EQ(run_on_device(directory(), model, *device), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Onnx, NodeCase, each_listed_case(), case_name);

TEST(NodeCases, AreAllListed) {
  std::vector<std::string> there;
  for (const char* group : {"onnx-new-format", "onnx-node-tests"}) {
    for (const std::string& directory : case_directories(join(support::shared_path(), group))) {
      there.push_back(join(group, std::string(name_of_path(directory))));
    }
  }
  if (there.empty()) GTEST_SKIP() << support::shared_path() << " is absent";
  EXPECT_EQ(there, std::vector<std::string>(listed_cases().begin(), listed_cases().end()));
}

// What became of the cases of a directory.
struct Tally {
  int passed = 0;
  std::vector<std::string> wrong;
  std::map<std::string, std::vector<std::string>> refused;  // by reason

  void refuse(const std::string& name, std::string why) {
    const size_t at = why.find("is not supported");
    const size_t op = why.find("operator ");
    if (at != std::string::npos && op != std::string::npos && op < at) why = why.substr(op);
    refused[why].push_back(name);
  }

  friend std::ostream& operator<<(std::ostream& os, const Tally& t) {
    size_t all = 0;
    for (const auto& [why, names] : t.refused) all += names.size();
    os << t.passed << " pass, " << all << " are refused, " << t.wrong.size() << " are wrong\n";
    for (const auto& [why, names] : t.refused) {
      os << names.size() << ' ' << names.front() << ": " << why << '\n';
    }
    return os;
  }
};

// On the interpreter, then on the plugins where the interpreter can.
void run_into(Tally& tally, const std::string& directory) {
  const std::string name(name_of_path(directory));
  std::string d;
  try {
    const Model model = import_case(directory);
    d = run_on_interpreter(directory, model);
    for (const Device* device : ndtrain::testing::host_devices()) {
      if (!d.empty()) break;
      d = run_on_device(directory, model, *device);
      if (!d.empty()) d = device->backend().name() + ": " + d;
    }
  } catch (const Error& e) {
    return tally.refuse(name, e.what());
  }
  if (d.empty()) {
    ++tally.passed;
  } else {
    tally.wrong.push_back(name + ": " + d);
  }
}

// A case may be refused, with a reason, but none may be wrong.
TEST(NodeCases, OfADirectoryThatTheEnvironmentNames) {
  const char* more = std::getenv("NDT_NODE_TESTS");
  if (!more) GTEST_SKIP() << "$NDT_NODE_TESTS names none";
  Tally tally;
  for (const std::string& directory : case_directories(more)) run_into(tally, directory);
  std::cout << tally;
  EXPECT_GT(tally.passed, 0) << "there are no cases in " << more;
  EXPECT_THAT(tally.wrong, ::testing::IsEmpty());
}

}  // namespace
}  // namespace ndtrain
