#include "ndp/jobs/setting_names.h"

#include <algorithm>

namespace ndtrain::ndp {

std::string SettingNames::operator()(std::string_view key) const {
  if (!flags_) return std::string(key);
  std::string flag = "--" + std::string(key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string SettingNames::operator()(std::string_view key, std::string_view value) const {
  return (*this)(key) + " " + std::string(value);
}

}  // namespace ndtrain::ndp
