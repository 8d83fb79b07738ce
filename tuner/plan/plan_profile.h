// What the planner knows, as a JSON file in which every number says where it is from:
//   {"format": 1, "name": "…", "store": {"cores": {"value": 2, "source": "measured here"}, …}, …}
// docs/planner.md lists the inputs.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "tuner/plan/plan_inputs.h"

namespace ndtrain::tuner {

struct Profile {
  std::string name;
  PlanInputs inputs;  // without store counts, numbers of runs and shares
  double claimed_faster = 0, claimed_cheaper = 0;  // to look for in a sweep; 0: nothing
  std::map<std::string, std::string> sources;      // of inputs, by path

  // For inputs that are told rather than read.
  void set(double& member, double value, const std::string& source);
};

// One number of a profile. `path` is "store/cores", "cuts/2/extract_s"; `label` names the cut.
struct NamedInput {
  std::string path, label;
  double* value;
  bool required;
};
std::vector<NamedInput> named_inputs(Profile& profile);  // points into `profile`

// "assumed", "assumed: as the others": a guess, which a sensitivity table varies.
bool is_assumed(std::string_view source);

// Throws Error naming the file and the input: not JSON, an unknown or missing input, a value that
// is no number or negative, no source.
Profile parse_profile(std::string_view json, const std::string& file);
Profile load_profile(Fs& fs, const std::string& file);

// Throws Error when an input that is not as by default has no source.
std::string to_json(const Profile& profile);

}  // namespace ndtrain::tuner
