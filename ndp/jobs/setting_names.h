// What settings are called where they are given, for who has to be told about them.
#pragma once

#include <string>
#include <string_view>

#include "framework/core/error.h"

namespace ndtrain::ndp {

class SettingNames {
 public:
  // Of ndtrain train: "--drop-of", between ranks.
  static SettingNames flags() { return SettingNames(true); }
  // Of a job's JSON: "drop_of", between Tuners; errors begin with "job: ".
  static SettingNames keys() { return SettingNames(false); }

  // Of a key: what it is called here.
  std::string operator()(std::string_view key) const;
  std::string operator()(std::string_view key, std::string_view value) const;  // with its value

  const char* ranks() const { return flags_ ? "ranks" : "Tuners"; }

  template <typename... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    throw Error(flags_ ? "" : "job: ", parts...);
  }
  template <typename... Parts>
  void require(bool ok, const Parts&... parts) const {
    if (!ok) refuse(parts...);
  }

 private:
  explicit SettingNames(bool flags) : flags_(flags) {}
  const bool flags_;
};

}  // namespace ndtrain::ndp
