#include "ndp/jobs/toml.h"

#include "framework/core/error.h"

namespace ndtrain::ndp {

void refuse_toml() { throw Error("no TOML: a key or a value is not where it should be"); }

toml::table parse_toml(std::string_view text) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    throw Error("line ", e.source().begin.line, ": ", e.description());
  }
}

}  // namespace ndtrain::ndp
