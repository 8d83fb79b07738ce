// Every rule of tools/lint is shown a sample that breaks it, and the nearest one that does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/lint/rules.h"

namespace ndtrain::lint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

File including(const std::string& path, const std::string& include) {
  return {path, "#include <vector>\n#include \"" + include + "\"\n"};
}

bool allows(const std::string& path, const std::string& include) {
  return check_includes(including(path, include)).empty();
}

TEST(Includes, AreThoseOfTheTable) {
  EXPECT_TRUE(allows("framework/core/shape.cpp", "framework/core/shape.h"));
  EXPECT_FALSE(allows("framework/core/shape.cpp", "framework/graph/graph.h"));
  EXPECT_FALSE(allows("framework/graph/graph.cpp", "framework/ops/common.h"));
  EXPECT_TRUE(allows("framework/ops/conv.cpp", "framework/graph/op.h"));
  EXPECT_FALSE(allows("framework/ops/conv.cpp", "framework/onnx/import.h"));
  EXPECT_FALSE(allows("framework/onnx/import.cpp", "framework/ops/common.h"));
  EXPECT_FALSE(allows("framework/runtime/plan.cpp", "framework/train/trainer.h"));
  EXPECT_FALSE(allows("framework/train/trainer.cpp", "models/zoo.h"));
  EXPECT_TRUE(allows("models/zoo.cpp", "framework/onnx/export.h"));
  EXPECT_FALSE(allows("models/zoo.cpp", "framework/runtime/plan.h"));
  EXPECT_FALSE(allows("ndp/photos/decode.cpp", "ndp/store/segment_store.h"));
  EXPECT_TRUE(allows("ndp/photos/catalogue.cpp", "ndp/sqlite/sqlite.h"));
  EXPECT_TRUE(allows("ndp/labels/label_db.cpp", "ndp/sqlite/sqlite.h"));
  EXPECT_FALSE(allows("ndp/sqlite/sqlite.cpp", "ndp/photos/catalogue.h"));
  EXPECT_FALSE(allows("ndp/engine/engine.cpp", "framework/train/trainer.h"));
  EXPECT_FALSE(allows("ndp/engine/engine.cpp", "ndp/jobs/finetune.h"));
  EXPECT_FALSE(allows("ndp/pipestore/serve.cpp", "tuner/serve.h"));
  EXPECT_FALSE(allows("tuner/serve.cpp", "ndp/pipestore/serve.h"));
  EXPECT_TRUE(allows("ndp/wire/grpc_link.h", "ndp/wire/wire.pb.h"));  // generated
  EXPECT_TRUE(allows("tuner/serve.cpp", "ndp/wire/wire.pb.h"));
  EXPECT_FALSE(allows("ndp/jobs/finetune.cpp", "ndp/wire/wire.pb.h"));
}

TEST(Includes, ReachWhatStandsBelow) {
  EXPECT_TRUE(allows("framework/train/trainer.cpp", "framework/core/rng.h"));
  EXPECT_TRUE(allows("ndp/jobs/finetune.cpp", "framework/onnx/export.h"));
  EXPECT_TRUE(allows("ndp/jobs/finetune.cpp", "ndp/photos/decode.h"));
  EXPECT_TRUE(allows("cli/train.cpp", "ndp/jobs/finetune.h"));
  EXPECT_TRUE(allows("tests/runtime/plan_test.cpp", "tests/runtime/cpu_device.h"));
}

TEST(Includes, OfAFolderWithinAnotherAreItsOwn) {
  EXPECT_TRUE(allows("tuner/daemon.cpp", "tuner/http/http_api.h"));
  EXPECT_FALSE(allows("tuner/http/http_api.cpp", "tuner/daemon.h"));
  EXPECT_TRUE(allows("tuner/http/http_api.h", "tuner/service/service.h"));
  EXPECT_TRUE(allows("tuner/http/http_labels.h", "tuner/models/versions.h"));
  EXPECT_FALSE(allows("tuner/service/service.cpp", "tuner/http/http_api.h"));
  EXPECT_FALSE(allows("tuner/service/service.cpp", "tuner/work/default_job_factory.h"));
  EXPECT_FALSE(allows("tuner/ingest/row_ingest.cpp", "tuner/jobs/job_spec.h"));
  EXPECT_FALSE(allows("tuner/plan/planner.cpp", "tuner/service/service.h"));
  EXPECT_FALSE(allows("tuner/models/versions.cpp", "ndp/http/http_server.h"));
}

TEST(Includes, OfPluginsAreTheirOwnFilesAndTheInterface) {
  EXPECT_TRUE(allows("backends/cpu/plugin.cpp", "framework/runtime/backend_abi.h"));
  EXPECT_TRUE(allows("backends/mpi/plugin.cpp", "framework/comm/comm_abi.h"));
  EXPECT_FALSE(allows("backends/mpi/plugin.cpp", "framework/comm/transport.h"));
  EXPECT_FALSE(allows("backends/plugin/node.h", "framework/comm/comm_abi.h"));
  EXPECT_TRUE(allows("backends/cpu/kernels/conv.cpp", "backends/cpu/kernels/kernel.h"));
  EXPECT_FALSE(allows("backends/cpu/plugin.cpp", "framework/runtime/backend.h"));
  EXPECT_FALSE(allows("backends/cpu/plugin.cpp", "framework/core/error.h"));
  EXPECT_FALSE(allows("backends/cuda/plugin.cpp", "backends/cpu/kernels/kernel.h"));
  EXPECT_TRUE(allows("backends/cuda/plugin.cpp", "backends/plugin/node.h"));
  EXPECT_FALSE(allows("backends/plugin/node.h", "backends/cuda/device.h"));
  EXPECT_FALSE(allows("framework/runtime/backend.cpp", "backends/cpu/kernels/kernel.h"));
}

TEST(Includes, OfFakesAreForTestsAlone) {
  EXPECT_TRUE(allows("framework/testing/memory_fs.cpp", "framework/testing/memory_fs.h"));
  EXPECT_TRUE(allows("framework/testing/memory_fs.h", "framework/core/fs.h"));
  EXPECT_TRUE(allows("tests/store/store_fixture.h", "framework/testing/memory_fs.h"));
  EXPECT_FALSE(allows("framework/testing/memory_fs.h", "framework/graph/graph.h"));
  for (const char* path : {"cli/serve.cpp", "bench/store.cpp", "framework/train/trainer.cpp",
                           "ndp/store/segment_store.cpp", "examples/train.cpp"}) {
    EXPECT_FALSE(allows(path, "framework/testing/memory_fs.h")) << path;
  }
}

TEST(Includes, StartAtTheRootOfTheTree) {
  EXPECT_FALSE(allows("framework/core/shape.cpp", "shape.h"));
  EXPECT_FALSE(allows("framework/core/shape.cpp", "../core/shape.h"));
  EXPECT_FALSE(allows("framework/core/shape.cpp", "core/shape.h"));
  EXPECT_FALSE(allows("newfolder/x.cpp", "framework/core/shape.h"));
}

TEST(Includes, ProblemsNameTheLine) {
  const auto problems =
      check_includes(including("framework/core/a.cpp", "framework/graph/graph.h"));
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].line, 2u);
  EXPECT_THAT(problems[0].what, HasSubstr("framework/core may not include framework/graph"));
}

TEST(Length, EndsAtSixHundredLines) {
  auto with_lines = [](size_t n) {
    File f{"framework/core/a.cpp", ""};
    for (size_t i = 0; i < n; ++i) f.text += "int x;\n";
    return f;
  };
  File page{"docs/architecture.md", std::string(100, '\n')};
  EXPECT_THAT(check_length(page), IsEmpty());
  page.text += "\n";
  EXPECT_THAT(check_length(page), SizeIs(1));
  EXPECT_THAT(check_length(with_lines(600)), IsEmpty());
  EXPECT_THAT(check_length(with_lines(601)), SizeIs(1));
  EXPECT_THAT(long_files(std::vector{with_lines(400)}), IsEmpty());
  EXPECT_THAT(long_files(std::vector{with_lines(401)}), ElementsAre("401 framework/core/a.cpp"));
}

// A definition of `lines` lines that begins with `head`, `indent` spaces in.
std::string function_of(size_t lines, const std::string& head, size_t indent) {
  const std::string space(indent, ' ');
  std::string text = space + head + " {\n";
  for (size_t i = 2; i < lines; ++i) text += space + "  step();\n";
  return text + space + "}\n";
}

TEST(Functions, HaveAtMostSixtyLines) {
  for (const auto& [head, indent] :
       std::vector<std::pair<std::string, size_t>>{{"int f(int a)", 0},
                                                   {"Plan::Plan(int a)\n    : a_(a)", 0},
                                                   {"void member(\n      int a) const", 2},
                                                   {"TEST_P(Suite, Case)", 0}}) {
    const size_t more = static_cast<size_t>(std::ranges::count(head, '\n'));
    const auto found = [&](size_t lines) {
      return check_functions(
          {"framework/core/a.cpp", "\n" + function_of(lines - more, head, indent)});
    };
    EXPECT_THAT(found(60), IsEmpty()) << head;
    ASSERT_THAT(found(61), SizeIs(1)) << head;
    EXPECT_EQ(found(61)[0].line, 2U) << head;
  }
}

TEST(Functions, AreNoTablesTypesOrNamespacesAndTestsMayBeLong) {
  for (const std::string& head : std::vector<std::string>{
           "namespace ndtrain", "class A",
           "const std::map<int, int> t =", "constexpr Verb kVerbs[] =", "struct B : public A"}) {
    EXPECT_THAT(check_functions({"framework/core/a.cpp", function_of(90, head, 0)}), IsEmpty())
        << head;
  }
  EXPECT_THAT(check_functions({"tests/core/a.cpp", function_of(90, "void f()", 0)}), IsEmpty());
  // Each of many short ones is counted for itself.
  std::string many;
  for (int i = 0; i < 40; ++i) many += function_of(5, "void f(int a)", 0) + "\n";
  EXPECT_THAT(check_functions({"framework/core/a.cpp", many}), IsEmpty());
}

TEST(IncludeTable, StandsInTheArchitecture) {
  EXPECT_THAT(include_table(), HasSubstr("framework/graph: framework/core;"));
  EXPECT_THAT(check_table({"docs/architecture.md", "# A\n" + include_table()}), IsEmpty());
  EXPECT_THAT(check_table({"docs/architecture.md", "# A\nframework/core: nothing\n"}), SizeIs(1));
  EXPECT_THAT(check_table({"docs/other.md", ""}), IsEmpty());
}

TEST(TypeNames, SayWhatTheTypeIs) {
  using Strings = std::vector<std::string>;
  for (const std::string& name :
       Strings{"PhotoManager", "Helper", "StringUtils", "PlanImpl", "KernelBase"}) {
    for (const std::string& text :
         Strings{"class " + name + " {};", "struct " + name + ";", "using " + name + " = int;",
                 "enum class " + name + " { kA };", "concept " + name + " = true;"}) {
      EXPECT_THAT(check_type_names({"framework/core/a.h", text + "\n"}), SizeIs(1)) << text;
    }
  }
  for (const std::string& text :
       Strings{"class Baseline {};", "struct Plan {};", "using Foo::Base;", "class Implied {};",
               "int base = 0;  // the cl"
               "ass Base of old"}) {
    EXPECT_THAT(check_type_names({"framework/core/a.h", text + "\n"}), IsEmpty()) << text;
  }
}

TEST(Words, LeaveNoNotesToOneself) {
  for (const std::string& word : std::vector<std::string>{"TO"
                                                          "DO",
                                                          "FIX"
                                                          "ME",
                                                          "XX"
                                                          "X",
                                                          "HA"
                                                          "CK"}) {
    EXPECT_THAT(check_words({"docs/a.md", "x\n// " + word + ": later\n"}), SizeIs(1)) << word;
    EXPECT_THAT(check_words({"docs/a.md", "MY_" + word + "_FLAG " + word + "S\n"}), IsEmpty());
  }
}

TEST(Words, NameNoPathOfOneMachine) {
  for (const std::string& path : std::vector<std::string>{"/ho"
                                                          "me/me/x",
                                                          "/ro"
                                                          "ot/x",
                                                          "/wo"
                                                          "rk/x",
                                                          "/Us"
                                                          "ers/me/x"}) {
    EXPECT_THAT(check_words({"scripts/a", "cd " + path + "\n"}), SizeIs(1)) << path;
    EXPECT_THAT(check_words({"scripts/a", "open(\"" + path + "\")\n"}), SizeIs(1)) << path;
    EXPECT_THAT(check_words({"scripts/a", "data" + path + "\n"}), IsEmpty()) << path;
  }
}

TEST(JsonCalls, AreOfOneParserAndOneWriter) {
  const auto problems = [](const std::string& path, const std::string& line) {
    return check_json_calls({path, "int x;\n" + line + "\n"});
  };
  for (const std::string call :
       {"const Json j = Json::parse(text);", "nlohmann::json::parse(text, nullptr, false);",
        "if (!nlohmann::ordered_json::accept(text)) return;", "Json::sax_parse(text, &sax);",
        "send(json.dump());", "send(json->dump(2));"}) {
    EXPECT_THAT(problems("tuner/a.cpp", call), SizeIs(1)) << call;
    for (const char* path : {"framework/core/json.cpp", "framework/core/json_input.cpp",
                             "framework/train/safetensors.cpp", "tests/cli/a_test.cpp"}) {
      EXPECT_THAT(problems(path, call), IsEmpty()) << path << ": " << call;
    }
  }
  for (const std::string other :
       {"const Json j = parse_json(text);", "const Rule r = Rule::parse(text);",
        "toml::parse(text);", "// as Json::parse(text) does", "send(json_text(json));"}) {
    EXPECT_THAT(problems("tuner/a.cpp", other), IsEmpty()) << other;
  }
  EXPECT_EQ(problems("cli/a.h", "Json::parse(text)")[0].line, 2U);
}

TEST(Guard, StandsInEveryHeader) {
  EXPECT_THAT(check_guard({"a/b.h", "// A header.\n#pragma once\n"}), IsEmpty());
  EXPECT_THAT(check_guard({"a/b.h", "#ifndef NDT_B_H_\n#define NDT_B_H_\n#endif\n"}), IsEmpty());
  EXPECT_THAT(check_guard({"a/b.h", "#include <vector>\n"}), SizeIs(1));
  EXPECT_THAT(check_guard({"a/b.h", "#include <vector>\n#pragma once\n"}), SizeIs(1));
}

std::vector<Problem> types_of(const std::string& first, const std::string& second) {
  return check_types_once(std::vector<File>{{"framework/core/a.h", first}, {"tuner/b.h", second}});
}

TEST(Types, AreDefinedOnceInAProgram) {
  const std::string window = "namespace ndtrain {\n\nstruct Window {\n  int width;\n};\n}\n";
  const auto problems = types_of(window, window);
  ASSERT_THAT(problems, SizeIs(1));
  EXPECT_EQ(problems[0].path, "tuner/b.h");
  EXPECT_EQ(problems[0].line, 3u);
  EXPECT_THAT(problems[0].what, HasSubstr("ndtrain::Window is defined at framework/core/a.h:3"));
  for (const std::string same :
       {"namespace ndtrain { class Window final : public Pane { enum { kA }; }; }",
        "namespace ndtrain {\ntemplate <typename T = int>\nclass Window {};\n}",
        "namespace ndtrain { enum class Window : uint8_t { kA }; }",
        "namespace ndtrain { struct alignas(64) [[nodiscard]] Window { char c = '{'; }; }",
        "namespace ndtrain { void f() { int x = 1'000; }\nunion Window {}; }"}) {
    EXPECT_THAT(types_of(window, same), SizeIs(1)) << same;
  }
}

TEST(Types, OfOtherNamespacesScopesAndProgramsAreOthers) {
  const std::string window = "namespace ndtrain { struct Window {}; }";
  for (const std::string other :
       {"namespace ndtrain::cuda { struct Window {}; }",
        "namespace ndtrain { namespace { struct Window {}; } }",
        "namespace ndtrain { struct Window; }",
        "namespace ndtrain { struct House { struct Window {}; }; }",
        "namespace ndtrain { template <> struct Window<int> {}; }",
        "namespace ndtrain { void f(struct Window w) {} }",
        "namespace ndtrain { struct House::Window {}; }",
        "namespace ndtrain {\n// struct Window {};\n/* struct Window {}; */\n}",
        "namespace ndtrain { const char* s = \"struct Window {\"; }",
        "#define W struct Window {\\\n }\nnamespace ndtrain { using Pane = Window; }"}) {
    EXPECT_THAT(types_of(window, other), IsEmpty()) << other;
  }
  const auto in = [&](const std::string& a, const std::string& b) {
    return check_types_once(std::vector<File>{{a, window}, {b, window}});
  };
  EXPECT_THAT(in("backends/cpu/a.h", "backends/cuda/a.h"), IsEmpty());
  EXPECT_THAT(in("backends/cuda/a.h", "backends/cuda/dnn/b.h"), SizeIs(1));
  EXPECT_THAT(in("examples/a.cpp", "examples/b.cpp"), IsEmpty());
}

TEST(Tests, AreNeverSilenced) {
  const File list{"tests/core/CMakeLists.txt", "ndt_tests(core SOURCES a_test.cpp)\n"};
  auto problems = [&](const std::string& text) {
    return check_tests(std::vector<File>{list, {"tests/core/a_test.cpp", text}});
  };
  EXPECT_THAT(problems("TEST(A, B) {}\n// TEST of A.\n"), IsEmpty());
  EXPECT_THAT(problems("// TEST"
                       "(A, B) {}\n"),
              SizeIs(1));
  EXPECT_THAT(problems("//TEST_F"
                       "(A, B) {\n"),
              SizeIs(1));
  EXPECT_THAT(problems("/* TEST_P"
                       "(A, B) {} */\n"),
              SizeIs(1));
  EXPECT_THAT(problems("#if "
                       "0\n"),
              SizeIs(1));
  EXPECT_THAT(problems("TEST(A, DIS"
                       "ABLED_B) {}\n"),
              SizeIs(1));
}

TEST(Tests, AreAllRegistered) {
  const File test{"tests/core/a_test.cpp", "TEST(A, B) {}\n"};
  auto problems = [&](const std::string& list) {
    return check_tests(std::vector<File>{{"tests/core/CMakeLists.txt", list}, test});
  };
  EXPECT_THAT(problems("ndt_tests(core SOURCES\n  a_test.cpp)\n"), IsEmpty());
  EXPECT_THAT(problems("ndt_tests(core SOURCES aa_test.cpp)\n"), SizeIs(1));
  EXPECT_THAT(problems("ndt_tests(core SOURCES\n  # a_test.cpp\n)\n"), SizeIs(1));
  EXPECT_THAT(check_tests(std::vector<File>{test}), SizeIs(1));
}

TEST(Headers, AreProvenByTheSourceThatIncludesThemFirst) {
  const std::vector<File> tree = {
      {"framework/core/a.h", ""},
      {"framework/core/a.cpp", "// A.\n#include \"framework/core/a.h\"\n#include <vector>\n"},
      {"framework/core/b.h", ""},
      {"framework/core/b.cpp", "#include <vector>\n#include \"framework/core/b.h\"\n"}};
  EXPECT_THAT(unproven_headers(tree), ElementsAre("framework/core/b.h"));
}

TEST(Tree, IsHeldToEveryRule) {
  const std::vector<File> tree = {{"framework/core/a.h",
                                   "#include \"framework/graph/graph.h\"\nclass "
                                   "FooManager;\n// TO"
                                   "DO\n"},
                                  {"tests/core/a_test.cpp", std::string(601, '\n')}};
  EXPECT_THAT(check_tree(tree), SizeIs(6));
}

}  // namespace
}  // namespace ndtrain::lint
