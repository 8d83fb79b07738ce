// What the program says of itself: help, completion and manual pages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "framework/core/fs.h"
#include "framework/core/json.h"
#include "tests/cli/program_fixture.h"

namespace ndtrain {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using testing_cli::Outcome;

class Help : public testing_cli::ProgramTest {
 protected:
  void write(const std::string& file, const std::string& text) { std::ofstream(at(file)) << text; }
  // What a shell prints of a script in this directory; with its exit status where that is not 0.
  std::string shell(const std::string& command) {
    const int status =
        std::system(("cd " + at("") + " && " + command + " > said.txt 2>&1").c_str());
    return real_fs().read(at("said.txt")).or_throw() +
           (status == 0 ? "" : "exit status " + std::to_string(status));
  }
};

TEST_F(Help, ListsVerbsUnderHeadingsAndOptionsToo) {
  EXPECT_THAT(run({"help"}).out, AllOf(HasSubstr("\nLabels:\n  labels query "),
                                       HasSubstr("\nJobs of a Tuner:\n  job submit ")));
  const std::string train = run({"help", "train"}).out;
  EXPECT_EQ(train, run({"train", "--help"}).out);
  EXPECT_THAT(train, AllOf(HasSubstr("\nOptimizer:\n      --opt NAME "),
                           HasSubstr("\nComputing:\n      --device NAME "),
                           HasSubstr("\nOutput and help:\n      --json ")));
  for (const Outcome& family : {run({"help", "job"}), run({"job", "--help"})}) {
    EXPECT_EQ(family.code, 0) << family.err;
    EXPECT_THAT(family.out, AllOf(HasSubstr("  job pause "), Not(HasSubstr("labels"))));
  }
  EXPECT_THAT(run({"photos", "--help"}).out, HasSubstr("  photos rm "));
  EXPECT_THAT(run({"help", "plan"}).out, HasSubstr("See also:\n  ndtrain plan train\n"));
  const Outcome none = run({"help", "trian"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("did you mean 'ndtrain train'"));
}

TEST_F(Help, IsJsonToo) {
  const Json all = Json::parse(run({"help", "--json"}).out);
  EXPECT_THAT(all.at("verbs"), Contains(Json{{"verb", "job ls"},
                                             {"summary", "all jobs of a Tuner"},
                                             {"heading", "Jobs of a Tuner"}}));
  const Json train = Json::parse(run({"help", "train", "--json"}).out);
  EXPECT_THAT(train.at("options"), Contains(Json{{"name", "epochs"},
                                                 {"help", "passes over the training photos"},
                                                 {"heading", "Training"},
                                                 {"letter", "e"},
                                                 {"value", "N"},
                                                 {"default", "15"}}));
}

// A verb that neither draws nor computes takes no flag that would mean nothing to it.
TEST_F(Help, OffersWhatMeansSomething) {
  std::set<std::string> seeds, devices;
  const Json all = Json::parse(run({"help", "--json"}).out);
  for (const Json& v : all.at("verbs")) {
    const std::string verb = v.at("verb");
    std::vector<std::string> words = {"help", "--json"};
    words.insert(words.begin() + 1, verb.substr(0, verb.find(' ')));
    if (verb.find(' ') != std::string::npos) {
      words.insert(words.begin() + 2, verb.substr(verb.find(' ') + 1));
    }
    std::set<std::string> names;
    const Json described = Json::parse(run(words).out);
    for (const Json& o : described.at("options")) names.insert(o.at("name").get<std::string>());
    EXPECT_TRUE(names.contains("json") && names.contains("quiet")) << verb;
    EXPECT_EQ(names.contains("device"), names.contains("tuning")) << verb;
    if (names.contains("seed")) seeds.insert(verb);
    if (names.contains("device")) devices.insert(verb);
  }
  EXPECT_THAT(devices, AllOf(Contains("train"), Contains("tuner serve"), Contains("doctor"),
                             Not(Contains("labels query")), Not(Contains("job ls"))));
  EXPECT_THAT(seeds, AllOf(Contains("model build"), Not(Contains("model inspect"))));
  const Outcome o = run({"labels", "query", "--db", "sqlite:l.db", "--device", "cpu"});
  EXPECT_EQ(o.code, 2);
  EXPECT_THAT(o.err, HasSubstr("there is no --device"));
}

TEST_F(Help, KnowsWhatOthersCallAFlag) {
  for (const auto& [word, flag] :
       {std::pair("--learning-rate", "--lr"), std::pair("--batch-size", "--batch"),
        std::pair("--weight_decay", "--weight-decay"), std::pair("--optimizer", "--opt"),
        std::pair("--epoch", "--epochs"), std::pair("--workers", "--threads"),
        std::pair("--smoothing", "--label-smoothing"), std::pair("--centred", "--centered")}) {
    const Outcome o = run({"train", "x", word, "3"});
    EXPECT_EQ(o.code, 2);
    EXPECT_THAT(o.err, HasSubstr(std::string("there is no ") + word + "; did you mean " + flag))
        << word;
  }
  // What this verb has not it is not sent to.
  EXPECT_THAT(run({"labels", "stats", "--learning-rate", "3"}).err, Not(HasSubstr("did you mean")));
}

TEST_F(Help, CompletesInBash) {
  write("ndtrain.bash", run({"completion", "bash"}).out);
  write("model.onnx", "");
  write("complete", R"(source ./ndtrain.bash
type_in() {
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _ndtrain
  echo "${COMPREPLY[*]}"
}
type_in ndtrain tra
type_in ndtrain job s
type_in ndtrain train --label
type_in ndtrain train -m mod
type_in ndtrain train --model = mod
type_in ndtrain train --freeze ""
type_in ndtrain model import mod
type_in ndtrain help labels hi
type_in ndtrain plan --band
type_in ndtrain version ""
)");
  EXPECT_EQ(
      shell("bash complete"),
      "train\nsubmit show start-now\n--labels --label-smoothing --label\nmodel.onnx\nmodel.onnx\n\n"
      "model.onnx\nhistory\n--bandwidth\n\n");
  EXPECT_EQ(run({"completion", "fish"}).code, 2);
  EXPECT_EQ(run({"completion", "bash", "--json"}).code, 2);
}

// Keys are typed into a shell at a terminal of its own.
TEST_F(Help, CompletesInZsh) {
  write("_ndtrain", run({"completion", "zsh"}).out);
  write("complete", R"(zmodload zsh/zpty
zpty z 'zsh -f -i'
zpty -w z 'PS1=; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; bindkey "^I" complete-word'
zpty -w z 'typed() { print -r -- "<$BUFFER>"; BUFFER= }; zle -N typed; bindkey "^T" typed; print ready'
zpty -r -m z seen $'*\r\nready*' || zpty -r -m z seen $'*ready\r\n*'
for line in $'ndtrain trai\t' $'ndtrain job sub\t' $'ndtrain train --label-sm\t' $'ndtrain help labels hist\t'; do
  zpty -w -n z "$line"$'\x14'
  zpty -r -m z seen '*<ndtrain*>*'
  print -r -- "$seen"
done
zpty -d z
)");
  const std::string said = shell("timeout 60 zsh complete");
  for (const char* line :
       {"<ndtrain train >", "<ndtrain job submit >", "<ndtrain train --label-smoothing=>",
        "<ndtrain help labels history >"}) {
    EXPECT_THAT(said, HasSubstr(line));
  }
}

// The lines of a help text from each of these headings to the next.
std::string under(const std::string& help, const std::set<std::string>& headings) {
  std::istringstream lines(help);
  std::string line, text;
  bool in = false;
  while (std::getline(lines, line)) {
    if (!line.empty() && line[0] != ' ') in = headings.contains(line);
    if (in) text += line + "\n";
  }
  return text;
}

TEST_F(Help, AJobHasTheFlagsByWhichTrainTrains) {
  const std::set<std::string> headings = {
      "Model:", "Training:", "Optimizer:", "What is trained on:"};
  const auto flags = [&](const std::string& text) {
    std::set<std::string> names;
    for (size_t at = text.find("--"); at != std::string::npos; at = text.find("--", at + 2)) {
      const size_t line = text.rfind('\n', at) + 1;
      if (at - line > 6) continue;  // spoken of
      names.insert(text.substr(at, text.find_first_of(" \n", at) - at));
    }
    return names;
  };
  const std::set<std::string> train = flags(under(run({"help", "train"}).out, headings));
  ASSERT_GT(train.size(), 20u);
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"help", "finetune"}, {"help", "job", "submit"}}) {
    const std::set<std::string> job = flags(run(verb).out);
    for (const std::string& flag : train) {
      EXPECT_TRUE(job.contains(flag)) << verb.back() << ' ' << flag;
    }
  }
}

TEST_F(Help, HasManualPagesThatTroffTakes) {
  const Outcome o = run({"manual", "man"});
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(shell("for page in man/*.1; do groff -k -man -ww -z $page; done"), "");
  EXPECT_THAT(shell("groff -k -man -Tutf8 -P -cbou man/ndtrain-train.1"),
              AllOf(HasSubstr("ndtrain-train - fine-tune or train a model on photos"),
                    HasSubstr("-e, --epochs N"), HasSubstr("(default: 15)"),
                    HasSubstr("ndtrain train --config runs/flowers -o runs/again")));
  EXPECT_THAT(shell("groff -k -man -Tutf8 -P -cbou man/ndtrain.1"),
              AllOf(HasSubstr("ndtrain-labels-query(1)"), HasSubstr("NDTRAIN_EPOCHS=30")));
  write("file", "");
  EXPECT_EQ(run({"manual", "file/man"}).code, 1);
}

}  // namespace
}  // namespace ndtrain
