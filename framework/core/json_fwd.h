#pragma once

#include <nlohmann/json_fwd.hpp>

namespace ndtrain {

using Json = nlohmann::ordered_json;  // keys in the order they were put in

}  // namespace ndtrain
