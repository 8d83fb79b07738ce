#include "ndp/sandbox/model_sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>

#include "models/zoo.h"
#include "ndp/deltas/delta.h"
#include "ndp/wire/digests.h"
#include "tests/deltas/some_model.h"
#include "tests/sandbox/hostile_pool.h"

namespace ndtrain::ndp {
namespace {

using ::testing::AnyOf;
using testing::checked_by;
using testing::ended;
using ::testing::HasSubstr;
using testing::hostile_models;
using ::testing::StartsWith;

std::string good_model() { return export_model(testing::some_model(3)); }

// A scalar that is spread over 32 MiB, again and again, each of which is a constant: a few
// kilobytes of a file, 2 GiB of memory.
std::string bomb() {
  constexpr int kTimes = 64;
  Model m;
  m.inputs = {{"x", DType::kF32, {kBatch, 3}}};
  m.outputs = {"y"};
  m.initialisers["one"] = Tensor::of<int64_t>(DType::kI64, Shape{1, 1}, {1});
  m.initialisers["sides"] = Tensor::i64({7, 5});  // until it is written: that would take as long
  m.initialisers["axes"] = Tensor::i64({0, 1});
  std::string sum = "one";
  for (int i = 0; i < kTimes; ++i) {
    const std::string n = std::to_string(i);
    m.nodes.push_back({"Expand", {"one", "sides"}, {"wide" + n}, {}});
    m.nodes.push_back({"ReduceSum", {"wide" + n, "axes"}, {"all" + n}, {{"keepdims", int64_t{1}}}});
    m.nodes.push_back({"Add", {sum, "all" + n}, {"sum" + n}, {}});
    sum = "sum" + n;
  }
  m.nodes.push_back({"Cast", {sum}, {"number"}, {{"to", int64_t{1}}}});
  m.nodes.push_back({"Add", {"x", "number"}, {"y"}, {}});
  std::string file = export_model(m);
  const auto sides = [](std::array<int64_t, 2> of) {
    return std::string(reinterpret_cast<const char*>(of.data()), sizeof of);
  };
  const size_t at = file.find(sides({7, 5}));
  EXPECT_NE(at, file.npos);
  return file.replace(at, sizeof(int64_t) * 2, sides({1 << 11, 1 << 11}));
}

TEST(ModelSandbox, LetsThroughWhatRolesImport) {
  ModelSandbox sandbox(hostile_models());
  for (const char* name : {"tinynet", "squeezenet1_1", "mobilenet_v2"}) {
    const Status s = checked_by(sandbox, export_model(build_model(name)));
    EXPECT_TRUE(s.ok()) << name << ": " << s.message();
  }
  EXPECT_EQ(sandbox.counts().models, 3);
  EXPECT_EQ(sandbox.counts().ended, ModelSandbox::Counts().ended);
}

TEST(ModelSandbox, LargeModelsComeInParts) {
  ModelSandbox sandbox(hostile_models());
  const std::string file = export_model(build_model("resnet18"));
  ASSERT_GT(file.size(), 2 * kWindowBytes);
  const Status whole = checked_by(sandbox, file);
  EXPECT_TRUE(whole.ok()) << whole.message();
  EXPECT_EQ(checked_by(sandbox, file.substr(0, file.size() - 7)).code(), Code::kCorrupt);
}

// The list of what is wrong, each in a line of its own.
TEST(ModelSandbox, SaysWhatTheImporterSays) {
  ModelSandbox sandbox(hostile_models());
  std::string unknown = good_model();
  for (const char* op : {"Relu", "Conv"}) {
    const size_t at = unknown.find(op);
    ASSERT_NE(at, unknown.npos);
    unknown[at] = 'X';
  }
  for (const std::string& file : {std::string("not a model"), std::string(), unknown}) {
    std::string here;
    try {
      try_model(file);
    } catch (const Error& e) {
      here = e.what();
    }
    ASSERT_NE(here, "");
    const Status s = checked_by(sandbox, file);
    EXPECT_EQ(s.code(), Code::kCorrupt);
    EXPECT_EQ(s.message(), here);
  }
  EXPECT_THAT(checked_by(sandbox, unknown).message(), HasSubstr("\n"));
}

TEST(ModelSandbox, AModelThatEndsItsImporterIsRefusedOnceAndForAll) {
  ModelSandbox sandbox(hostile_models());
  for (const auto& [act, how] : {std::pair{"!crash", "it crashed (SIGSEGV)"},
                                 {"!abort", "it crashed (SIGABRT)"},
                                 {"!leave", "it ended by itself, with status 0"}}) {
    for (int i = 0; i < 2; ++i) {
      const Status s = checked_by(sandbox, act);
      EXPECT_EQ(s.code(), Code::kCorrupt);
      EXPECT_EQ(s.message(),
                std::string("it is not imported: a process that tried was stopped: ") + how);
    }
  }
  EXPECT_EQ(ended(sandbox, WorkerEnd::kCrashed), 3);
  EXPECT_EQ(sandbox.counts().models, 3) << "what is known is not tried again";
  EXPECT_TRUE(checked_by(sandbox, good_model()).ok());
}

// A machine that is busy may be why.
TEST(ModelSandbox, AHangIsEndedAtTheDeadlineAndTriedAgainAnotherTime) {
  ModelSandbox::Config config = hostile_models();
  config.deadline = std::chrono::seconds(2);
  ModelSandbox sandbox(config);
  for (int i = 1; i <= 2; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const Status s = checked_by(sandbox, "!hang");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    EXPECT_THAT(s.message(), HasSubstr("it took longer than 2 s and was ended"));
    EXPECT_GE(took.count(), 2);
    EXPECT_LT(took.count(), 30);
    EXPECT_EQ(ended(sandbox, WorkerEnd::kHung), i);
  }
}

TEST(ModelSandbox, AnAnswerThatNoImporterGivesIsNone) {
  ModelSandbox sandbox(hostile_models());
  int64_t lied = 0;
  for (const char* act : {"!answer 0 pixels", "!answer a success without pixels",
                          "!answer a long refusal", "!answer nonsense", "!answer a piece"}) {
    SCOPED_TRACE(act);
    const Status s = checked_by(sandbox, act);
    EXPECT_EQ(s.code(), Code::kCorrupt);
    EXPECT_THAT(s.message(), HasSubstr("it answered what no importer answers, and was ended"));
    EXPECT_EQ(ended(sandbox, WorkerEnd::kLied), ++lied);
  }
}

// Whose constants take more than it may have: they do so in the worker, not here.
TEST(ModelSandbox, AFileThatGrowsWithoutEndIsRefused) {
  ModelSandbox::Config config = hostile_models();
  config.memory = int64_t{128} << 20;  // few of them
  ModelSandbox sandbox(config);
  if (sandbox.missing().find("the limit of memory") != std::string::npos) {
    GTEST_SKIP() << "the sandbox lacks here: " << sandbox.missing();
  }
  const std::string file = bomb();
  EXPECT_LT(file.size(), 20'000U);
  const Status s = checked_by(sandbox, file);
  EXPECT_FALSE(s.ok());
  EXPECT_THAT(s.message(), AnyOf(HasSubstr("no memory for the 33554432 bytes"),
                                 HasSubstr("more memory than a model worker may have")));
}

// A delta from `base` to `result`, neither of which need be a model.
std::string delta_between(const std::string& base, const std::string& result) {
  std::string delta =
      make_delta(good_model(), export_model(testing::some_model(4))).or_throw().bytes;
  const DeltaEnds ends = delta_ends(delta).or_throw();
  const auto put = [&](const Digest& was, const Digest& is) {
    const size_t at = delta.find(bytes_of(was));
    if (at == std::string::npos) throw Error("a delta names both of its files");
    delta.replace(at, was.size(), bytes_of(is));
  };
  put(ends.base, sha256(base));
  put(ends.result, sha256(result));
  return delta;
}

TEST(ModelSandbox, AppliesDeltasAsTheProcessDoes) {
  ModelSandbox sandbox(hostile_models());
  const std::string base = good_model(), result = export_model(testing::some_model(4));
  const std::string delta = make_delta(base, result).or_throw().bytes;
  EXPECT_EQ(sandbox.apply(base, delta).or_throw(), result);
  EXPECT_EQ(sandbox.apply(result, delta).status().code(), Code::kNotFound);
  std::string damaged = delta;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_EQ(sandbox.apply(base, damaged).status().code(),
            apply_delta(base, damaged).status().code());
  EXPECT_EQ(sandbox.apply(base, "").status().code(), Code::kCorrupt);
  EXPECT_EQ(sandbox.counts().deltas, 2);
  EXPECT_EQ(sandbox.counts().ended, ModelSandbox::Counts().ended);
}

// More than the window holds, both ways.
TEST(ModelSandbox, LargeFilesOfDeltasComeInParts) {
  ModelSandbox sandbox(hostile_models());
  const std::string base = export_model(build_model("resnet18"));
  const std::string result = export_model(build_model("resnet18", {.classes = 7}));
  ASSERT_GT(base.size(), kWindowBytes);
  EXPECT_EQ(sandbox.apply(base, make_delta(base, result).or_throw().bytes).or_throw(), result);
}

TEST(ModelSandbox, ADeltaThatEndsTheProcessOrMakesAnotherFileIsNotTaken) {
  ModelSandbox::Config config = hostile_models();
  config.deadline = std::chrono::seconds(2);
  ModelSandbox sandbox(config);
  const auto applied = [&](const std::string& act) {
    return sandbox.apply(act, delta_between(act, "a model")).status();
  };
  EXPECT_EQ(applied("!crash").message(),
            "it is not applied: a process that tried was stopped: it crashed (SIGSEGV)");
  EXPECT_EQ(applied("!hang").code(), Code::kCorrupt);
  EXPECT_EQ(applied("!answer nonsense").code(), Code::kCorrupt);
  EXPECT_EQ(applied("!answer too many pixels").code(), Code::kCorrupt);
  EXPECT_THAT(applied("!make another file").message(), HasSubstr("is not model"));
  EXPECT_EQ(ended(sandbox, WorkerEnd::kCrashed), 1);
  EXPECT_EQ(ended(sandbox, WorkerEnd::kHung), 1);
  EXPECT_EQ(ended(sandbox, WorkerEnd::kLied), 2);
  if (sandbox.missing().find("the filter of system calls") == std::string::npos) {
    EXPECT_THAT(applied("!read a file").message(), HasSubstr("SIGSYS"));
  }
}

TEST(ModelSandbox, SaysWhyAWorkerDoesNotBegin) {
  ModelSandbox::Config config = hostile_models();
  config.program = "/bin/false";
  EXPECT_THAT([&] { ModelSandbox sandbox(config); },
              ::testing::ThrowsMessage<Error>(
                  StartsWith("a model worker (/bin/false) does not begin: it ended by itself, with "
                             "status 1; --sandbox off")));
}

}  // namespace
}  // namespace ndtrain::ndp
