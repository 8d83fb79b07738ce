// The tuning file that plugins share, and what a device takes from it.
#include "backends/plugin/tuning.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "framework/runtime/backend.h"
#include "tests/support/changed_tuning.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain {
namespace {

using plugin::add_to_tuning_file;
using plugin::read_tuning_file;
using plugin::TunedChoice;
using plugin::TunedChoices;
using plugin::Tuning;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A plugin's own exceptions are no Errors.
std::string refusal_by(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "no error";
}

std::string logged;

void log(int32_t, const char* message) { logged += message; }

const TunedChoices kChoices = {{"fake Chip_A lib_1 layer 1", {"fast", "slow"}},
                               {"fake Chip_A lib_1 layer 2", {"slow", "slow"}},
                               {"other Chip_A lib_1 layer 1", {"x", "y"}}};
const Tuning::Owner kOwner = {"fake", "Chip A", "lib 1", log};

class TuningTest : public ::testing::Test {
 protected:
  void SetUp() override { logged.clear(); }

  std::string text() const {
    std::ostringstream s;
    s << std::ifstream(path_).rdbuf();
    return s.str();
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  std::string refusal() const {
    return refusal_by([&] { read_tuning_file(path_); });
  }
  ndt_options options() const {
    return {.deterministic = 0,
            .allow_tf32 = 0,
            .tuning_file = path_.c_str(),
            .less_memory = 0,
            .on_choice = nullptr,
            .on_choice_arg = nullptr};
  }
  std::shared_ptr<Tuning> open(const Tuning::Owner& owner = kOwner) const {
    return Tuning::open(options(), owner);
  }
  // A device for tuning; `told` gets "layer choice rule" lines.
  std::shared_ptr<Tuning> open_to_measure(std::string& told) const {
    ndt_options o = options();
    o.on_choice = [](void* arg, const ndt_choice* c) {
      *static_cast<std::string*>(arg) +=
          std::string(c->layer) + " " + c->chosen + " " + c->rule + "\n";
    };
    o.on_choice_arg = &told;
    return Tuning::open(o, kOwner);
  }
  static std::string choose(Tuning& t, const std::string& layer, const std::string& rule,
                            const std::string& measured) {
    return t.choose(layer, rule, [&]() -> std::optional<Tuning::Measured> {
      if (measured.empty()) return {};
      return Tuning::Measured{measured, 1, 2};
    });
  }

  const support::TemporaryDirectory directory_;
  const std::string path_ = directory_.at("tuning.txt");
};

TEST_F(TuningTest, WhatIsAddedIsReadAgain) {
  add_to_tuning_file(path_, kChoices);
  EXPECT_EQ(read_tuning_file(path_), kChoices);
  add_to_tuning_file(path_, {{"fake Chip_A lib_1 layer 1", {"faster", "slow"}}});
  EXPECT_EQ(read_tuning_file(path_).at("fake Chip_A lib_1 layer 1").choice, "faster");
  EXPECT_EQ(read_tuning_file(path_).size(), kChoices.size());
}

TEST_F(TuningTest, AFileThatIsNotThereOrNoneIsRefusedWithWhatToDo) {
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path_), HasSubstr("No such file"),
                               HasSubstr("ndtrain tune -m MODEL --tuning " + path_)));
  write("something else\n");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path_ + " is not a tuning file"),
                               HasSubstr("ndtrain tune -m MODEL")));
  EXPECT_THAT(refusal_by([&] { add_to_tuning_file(path_, kChoices); }), HasSubstr("not a tuning"));
  EXPECT_EQ(text(), "something else\n") << "somebody's file was overwritten";
}

TEST_F(TuningTest, AFileIsRefusedWhateverByteOfItIsLostOrChanged) {
  add_to_tuning_file(path_, kChoices);
  const std::string whole = text();
  for (size_t n = 0; n < whole.size(); ++n) {
    write(whole.substr(0, n));
    EXPECT_THAT(refusal(), HasSubstr("ndtrain tune")) << "cut to " << n << " bytes";
    std::string changed = whole;
    changed[n] ^= 1;
    write(changed);
    EXPECT_THAT(refusal(), HasSubstr("ndtrain tune")) << "byte " << n;
  }
  write(whole + "fake Chip_A lib_1 layer 3 choice=a rule=b\n");
  EXPECT_THAT(refusal(), HasSubstr("was changed or cut"));
}

TEST_F(TuningTest, ProcessesThatTuneAtOnceLoseNothing) {
  constexpr int kProcesses = 4, kLayers = 25;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    for (int i = 0; i < kLayers; ++i) {
      add_to_tuning_file(path_,
                         {{"p" + std::to_string(p) + " layer " + std::to_string(i), {"a", "b"}}});
    }
    _exit(0);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_tuning_file(path_).size(), size_t{kProcesses * kLayers});
  for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
    EXPECT_THAT(entry.path().filename().string(),
                ::testing::AnyOf("tuning.txt", "tuning.txt.lock"));
  }
}

TEST_F(TuningTest, ADeviceTakesItsOwnLinesAndElsewhereTheRuleAndMeasuresNothing) {
  add_to_tuning_file(path_, kChoices);
  const std::string before = text();
  const auto t = open();
  EXPECT_EQ(choose(*t, "layer 1", "slow", "measured"), "fast");
  EXPECT_EQ(choose(*t, "layer 9", "slow", "measured"), "slow");
  EXPECT_EQ(text(), before);
  EXPECT_EQ(t->description(), "2 layers tuned, 1 of them against the rule");
  EXPECT_EQ(logged, "");
}

TEST_F(TuningTest, AChoiceMadeAgainstAnotherRuleIsNotTaken) {
  add_to_tuning_file(path_, kChoices);
  EXPECT_EQ(choose(*open(), "layer 1", "slower", "measured"), "slower");
}

TEST_F(TuningTest, TheDigestIsOfChoicesAgainstTheRuleForThisChipAndLibraryOnly) {
  add_to_tuning_file(path_, kChoices);
  const std::string digest = open()->digest();
  EXPECT_THAT(digest, ::testing::MatchesRegex(" tuned-[0-9a-f]+"));
  add_to_tuning_file(path_, {{"fake Chip_B lib_1 layer 1", {"fast", "slow"}},
                             {"fake Chip_A lib_1 layer 3", {"slow", "slow"}}});
  EXPECT_EQ(open()->digest(), digest);
  add_to_tuning_file(path_, {{"fake Chip_A lib_1 layer 3", {"fast", "slow"}}});
  EXPECT_NE(open()->digest(), digest);
  support::change_tuning(path_, [](const std::string&, TunedChoice& c) { c.choice = c.rule; });
  EXPECT_EQ(open()->digest(), "");
}

TEST_F(TuningTest, AFileWithNothingForThisChipOrLibraryIsWarnedOf) {
  add_to_tuning_file(path_, kChoices);
  const auto t = open({"fake", "Chip C", "lib 1", log});
  EXPECT_THAT(logged, AllOf(HasSubstr(path_), HasSubstr("fake on Chip C with lib 1"),
                            HasSubstr("ndtrain tune -m MODEL --tuning " + path_)));
  EXPECT_EQ(choose(*t, "layer 1", "slow", ""), "slow");
}

TEST_F(TuningTest, OnADeviceForTuningWhatIsMissingIsMeasuredOnceAndAdded) {
  std::string told;
  const auto t = open_to_measure(told);
  EXPECT_EQ(choose(*t, "layer 1", "slow", "fast"), "fast");
  EXPECT_EQ(choose(*t, "layer 1", "slow", "measured again"), "fast");
  EXPECT_EQ(choose(*t, "layer 2", "slow", ""), "slow") << "it could not be measured";
  EXPECT_EQ(told, "layer 1 fast slow\nlayer 1 fast slow\n");
  EXPECT_EQ(read_tuning_file(path_),
            (TunedChoices{{"fake Chip_A lib_1 layer 1", {"fast", "slow"}}}));
  EXPECT_EQ(choose(*t, "layer 1", "other", "new"), "new") << "against the rule of a newer program";
  EXPECT_EQ(read_tuning_file(path_),
            (TunedChoices{{"fake Chip_A lib_1 layer 1", {"new", "other"}}}));
}

TEST_F(TuningTest, AFileThatCannotBeWrittenIsRefusedBeforeAnythingIsMeasured) {
  ndt_options o = options();
  const std::string nowhere = directory_.at("no/such/folder/tuning.txt");
  o.tuning_file = nowhere.c_str();
  o.on_choice = [](void*, const ndt_choice*) {};
  EXPECT_THAT(refusal_by([&] { Tuning::open(o, kOwner); }),
              AllOf(HasSubstr("cannot write"), HasSubstr(nowhere)));
}

TEST_F(TuningTest, ADeterministicDeviceDoesNotEvenLookForTheFile) {
  ndt_options o = options();
  o.deterministic = 1;
  EXPECT_EQ(Tuning::open(o, kOwner), nullptr);
}

TEST_F(TuningTest, ABackendThatFollowsAFixedRuleIsNotTuned) {
  const Backend& cpu = Backend::find("cpu");
  EXPECT_FALSE(cpu.reads_tuning());
  EXPECT_THAT(refusal_by([&] {
                Device device(cpu, {.tuning_file = path_, .on_choice = [](const TunedLayer&) {}});
              }),
              HasSubstr("the cpu backend follows a fixed rule"));
  EXPECT_EQ(Device(cpu, {.tuning_file = path_}).numerics(), Device(cpu).numerics());
}

}  // namespace
}  // namespace ndtrain
