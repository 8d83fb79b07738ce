#include "ndp/jobs/slow_link_spec.h"

#include <algorithm>
#include <array>

namespace ndtrain::ndp {

bool is_slow_link(std::string_view sync) {
  constexpr std::array<std::string_view, 4> kNames = {"sparse", "local", "diloco", "powersgd"};
  return std::ranges::count(kNames, sync) > 0;
}

}  // namespace ndtrain::ndp
