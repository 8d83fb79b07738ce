#include "ndp/http/role.h"

#include <array>
#include <utility>

namespace ndtrain::ndp {
namespace {

constexpr std::array<std::pair<Role, std::string_view>, 6> kNames = {{{Role::kAnyone, "anyone"},
                                                                      {Role::kViewer, "viewer"},
                                                                      {Role::kUploader, "uploader"},
                                                                      {Role::kLabeller, "labeller"},
                                                                      {Role::kOperator, "operator"},
                                                                      {Role::kAdmin, "admin"}}};

}  // namespace

std::string_view name_of(Role role) { return kNames[static_cast<size_t>(role)].second; }

std::optional<Role> role_of(std::string_view name) {
  for (const auto& [role, text] : kNames) {
    if (text == name && role != Role::kAnyone) return role;
  }
  return std::nullopt;
}

}  // namespace ndtrain::ndp
