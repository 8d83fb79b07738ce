#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/core/json.h"
#include "framework/runtime/backend.h"
#include "ndp/jobs/progress.h"

namespace ndtrain::cli {
using namespace ndp;

class Args;
class ArgsSpec;

// What verbs share: the flags --json and -q, those of computing_args.h where a verb has them, the
// device they choose, and where results and progress go.
class Context {
 public:
  explicit Context(const Args& args);
  ~Context();

  const Device& device();  // opened when first asked for; throws Error
  void be_deterministic() { device_options_.deterministic = true; }  // before device()
  void take_device(int index) { device_options_.index = index; }     // before device()
  std::string device_name() const { return device_name_.empty() ? "auto" : device_name_; }
  const DeviceOptions& device_options() const { return device_options_; }
  Fs& fs() { return real_fs(); }
  Clock& clock() { return system_clock(); }
  Progress& progress() { return *progress_; }
  void be_quiet();  // as --quiet, where another process tells how it goes
  uint64_t seed() const { return seed_; }
  bool json() const { return json_; }

  // The result of the verb, on stdout: the JSON with --json, else the text.
  void print(const Json& json, const std::string& text) const;
  void print(const std::string& text) const;  // a part of a result that has a form of its own (CSV)

 private:
  bool json_, quiet_;
  uint64_t seed_;
  std::string device_name_;
  DeviceOptions device_options_;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<Device> device_;
};

// The flag --deterministic of a verb that infers or trains, on cached `features` or not; device()
// follows it.
void declare_deterministic(ArgsSpec& args, bool features);

// A scalar as people read it: no quotes, six digits, and "-" for what is not known.
std::string plain(const Json& value);

// "top-1 0.8986" lines from JSON's scalars: "  key  value", aligned.
std::string table(const Json& json);

}  // namespace ndtrain::cli
