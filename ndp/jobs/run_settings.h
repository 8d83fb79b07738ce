// args.toml of a run directory: what a training was asked for, every setting as it held, and what
// it was begun with. Enough to repeat it, and to say why it cannot be gone on with.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "framework/core/fs.h"

namespace ndtrain::ndp {

inline constexpr const char* kRunArgs = "args.toml";

using Settings = std::vector<std::pair<std::string, std::string>>;  // flags in order; plain text

struct RunSettings {
  Settings asked;         // what decides the result, and where it comes from
  std::string version;    // of the program
  std::string directory;  // that relative paths are below
  std::string numerics;   // see feature_numerics()
  std::string model;      // its id
  std::string photos;     // how many, for people
  std::string digest;     // which photos, what each is for, labelled as what

  std::string text(const std::string& flag) const;  // "" when it is not there
};

std::string to_toml(const RunSettings& run);
// Of a run directory, or of its args.toml. kCorrupt: it is none, or of a version that did not write
// all of it.
Result<RunSettings> read_run_settings(Fs& fs, const std::string& path);

// As a person types it: "--lr", "DATA".
std::string flag_of(const std::string& name);
// Whether it says where model, photos and labels come from, and nothing else.
bool is_source(const std::string& flag);
// Not given, or a switch that is off: a version that did not know it wrote nothing down.
bool is_off(const std::string& value);

// Each setting that is another one now, for people: "--lr is 0.01 and was 0.001". Not where model,
// photos and labels come from: what they are is compared on its own.
std::vector<std::string> changed_settings(const RunSettings& before, const RunSettings& now);
// The same of the model and the photos with their labels.
std::vector<std::string> changed_inputs(const RunSettings& before, const RunSettings& now);
// The same of what computes.
std::vector<std::string> changed_numerics(const RunSettings& before, const RunSettings& now);

}  // namespace ndtrain::ndp
