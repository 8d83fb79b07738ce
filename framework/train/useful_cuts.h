#pragma once

#include <string>
#include <vector>

#include "framework/graph/model.h"

namespace ndtrain {

// Where a model may be cut so that `trainable` lies behind it, front to back: the names of the
// values that cross. The last entry is where training begins, and may be several values; the others
// are single ones. Left out is a cut that is followed by another which is no larger, with no
// weights in between: the one behind is better on both sides. Empty when nothing is frozen.
std::vector<std::vector<std::string>> useful_cuts(const Model& whole,
                                                  const std::vector<std::string>& trainable);

// "a", or "a+b" of a cut where several values cross.
std::string cut_name(const std::vector<std::string>& cut);

}  // namespace ndtrain
