// A profile for people and other programs.
#pragma once

#include <string>

#include "framework/pipeline/planner/model_profile.h"

namespace ndtrain {

// For Graphviz; nodes of a stage have its colour.
std::string dot_text(const ModelProfile& profile);

// A line for each node, below a line of names; times in seconds.
std::string csv_text(const ModelProfile& profile);

}  // namespace ndtrain
