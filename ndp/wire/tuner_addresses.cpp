#include "ndp/wire/tuner_addresses.h"

#include <algorithm>

#include "framework/core/error.h"

namespace ndtrain::ndp {

std::vector<std::string> tuner_addresses(std::string_view list) {
  std::vector<std::string> addresses;
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    addresses.emplace_back(list.substr(at, end - at));
    if (addresses.back().empty()) {
      throw Error("the Tuner's address '", list, "': HOST:PORT, or several with commas between");
    }
    at = end + 1;
  }
  return addresses;
}

}  // namespace ndtrain::ndp
