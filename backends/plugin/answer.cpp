#include "backends/plugin/answer.h"

#include <cstdio>

namespace ndtrain::plugin {
namespace {

thread_local char error_text[1024] = "no error";

}  // namespace

ndt_status fail(ndt_status status, const char* who, const char* why) noexcept {
  std::snprintf(error_text, sizeof error_text, "%s: %s", who, why);
  return status;
}

const char* last_error() { return error_text; }

}  // namespace ndtrain::plugin
