// The entries of a JSON file that others wrote: those that may be there, each of its type. All
// throw Error naming the file and the entry's path, as "layers/3/forward_s".
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/json_fwd.h"

namespace ndtrain {

class JsonEntries {
 public:
  // What the file is, and its name: "cost profile", "c.json".
  JsonEntries(std::string_view what, std::string_view file)
      : name_(std::string(what) + " " + std::string(file) + " ") {}

  template <typename... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(name_, parts...);
  }

  // The whole, at most `most` bytes. An entry "format" comes first, since another one may have
  // other entries: where it is there it has to be `format`.
  Json whole(std::string_view text, int64_t most, int format) const;

  // That all of `names` are in the object, and besides them none but `more`. `path` ends in '/', or
  // is empty for the whole.
  void check_keys(const std::string& path, const Json& object, const std::set<std::string>& names,
                  const std::set<std::string>& more = {}) const;
  double number(const std::string& path, const Json& value) const;
  double not_negative(const std::string& path, const Json& value) const;  // and finite
  int64_t integer(const std::string& path, const Json& value, int64_t least, int64_t most) const;
  std::string text(const std::string& path, const Json& value) const;
  bool truth(const std::string& path, const Json& value) const;
  void check_list(const std::string& path, const Json& value) const;

 private:
  const std::string name_;
};

}  // namespace ndtrain
