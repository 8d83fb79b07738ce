// A cost profile as a file:
//   {"format": 1, "source": "measured here", "ranks": 4, "optimizer_s_per_element": 1e-10,
//    "collectives": {"all_reduce": {"alpha_s": 1e-4, "beta_s_per_byte": 2e-8}, …},
//    "layers": [{"elements": 9408, "forward_s": 1e-3, "backward_s": 2e-3}, …]}
// All five collectives are there, the layers are in forward order, and no number is left out.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/fs.h"
#include "framework/parallel/cost_profile.h"

namespace ndtrain {

// Throws Error naming the file and the entry: not JSON, longer than limits::kProfileFile, an
// unknown or missing entry, a value of another type, what validate() refuses.
CostProfile parse_cost_profile(std::string_view json, const std::string& file);
CostProfile load_cost_profile(Fs& fs, const std::string& file);

// Throws Error where validate() does. Read again, it gives the same profile.
std::string to_json(const CostProfile& costs);

}  // namespace ndtrain
