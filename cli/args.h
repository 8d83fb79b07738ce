// The flags of one verb. Each has a value from, in rising order: its default, ndtrain.toml in the
// working directory ([verb] table or top level), the environment (NDTRAIN_<FLAG>), the run that
// --config names, the command line.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cxxopts {
class Options;
}

namespace ndtrain::cli {

// The command line does not make sense: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Flag {
  std::string name, letter;  // "epochs", "e" or ""
  std::string value;         // what stands for it, "N"; "": a switch
  std::string fallback;      // its default, or ""
  std::string help, heading;
};

struct Positional {
  std::string name, help;
  bool more = false;  // all that follow
};

// All verbs take --json, --quiet and --help; what else of Context they look at they declare.
class ArgsSpec {
 public:
  explicit ArgsSpec(std::string_view verb);
  ~ArgsSpec();

  // Flags are declared under this heading as long as it lives.
  class [[nodiscard]] Heading {
   public:
    Heading(ArgsSpec& args, std::string text)
        : args_(args), before_(std::exchange(args.heading_, std::move(text))) {}
    Heading(const Heading&) = delete;
    Heading& operator=(const Heading&) = delete;
    ~Heading() { args_.heading_ = before_; }

   private:
    ArgsSpec& args_;
    const std::string before_;
  };

  // `flags` as in cxxopts: "e,epochs". An empty `value` makes a switch; `fallback` may be "".
  void flag(const std::string& flags, const std::string& help, const std::string& value = "",
            const std::string& fallback = "");
  // Arguments without a flag, in order.
  void positional(const std::string& name, const std::string& help);
  void positionals(const std::string& name, const std::string& help);  // all that follow: list()
  // Words that begin with one "-" are arguments, behind all others: flags have their long names
  // only.
  void minus_words() { minus_words_ = true; }

  // A flag of other verbs that this one does not have, and why: whoever gives it is told so.
  void lacks(std::string_view flag, std::string_view why) { lacked_.emplace(flag, why); }

  const std::vector<Flag>& flags() const { return flags_; }  // in the order of their declaration
  const std::vector<Positional>& arguments() const { return arguments_; }
  std::vector<std::string> names() const;  // of the flags, the long ones

 private:
  friend class Args;
  std::unique_ptr<cxxopts::Options> options_;
  std::string verb_, heading_;
  bool minus_words_ = false;
  std::vector<Flag> flags_;
  std::map<std::string, std::string> lacked_;
  std::vector<Positional> arguments_;
};

class Args {
 public:
  // Throws UsageError, with the nearest flag when one is mistyped.
  Args(ArgsSpec& spec, const std::vector<std::string>& words);

  bool has(const std::string& name) const;  // given, with a value that is not empty
  bool on(const std::string& name) const;   // a switch
  std::string text(const std::string& name) const;
  std::string required(const std::string& name) const;  // throws UsageError when it is missing
  int64_t integer(const std::string& name) const;
  double number(const std::string& name) const;
  uint64_t bytes(const std::string& name) const;  // 500M, 2G, 1024
  std::vector<std::string> list(const std::string& name) const;

  // Every argument and flag that has a value, its default too, in the order of their names.
  std::vector<std::pair<std::string, std::string>> settings() const;

  // Whether anybody said it (here, in the environment or in ndtrain.toml), or it is the default.
  bool given(const std::string& name) const;
  bool said_here(const std::string& name) const;  // on the command line

 private:
  void take_repeated(const ArgsSpec& spec,
                     const std::vector<std::pair<std::string, std::string>>& run,
                     const std::map<std::string, std::string>& said);

  std::map<std::string, std::vector<std::string>> values_;
  std::set<std::string> given_;      // what has no default value
  std::set<std::string> said_here_;  // of these
};

}  // namespace ndtrain::cli
