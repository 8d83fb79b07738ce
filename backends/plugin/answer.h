// How code inside a plugin answers its host: by exceptions, which become a status and a text at the
// boundary. Compiled into every plugin that uses it; nothing is shared between plugins at run time.
#pragma once

#include <new>
#include <sstream>
#include <stdexcept>
#include <string>

#include "framework/runtime/backend_abi.h"

namespace ndtrain::plugin {

// What a function of the ABI answers: this status, and the text in last_error().
struct Failure : std::runtime_error {
  Failure(ndt_status s, const std::string& text) : std::runtime_error(text), status(s) {}
  ndt_status status;
};

struct Unsupported : Failure {
  explicit Unsupported(const std::string& text) : Failure(NDT_UNSUPPORTED, text) {}
};

template <typename... Parts>
std::string text_of(const Parts&... parts) {
  std::ostringstream os;
  (os << ... << parts);
  return os.str();
}

template <typename... Parts>
[[noreturn]] void unsupported(const Parts&... parts) {
  throw Unsupported(text_of(parts...));
}

// NDT_INVALID with this text: the node contradicts itself.
template <typename... Parts>
[[noreturn]] void invalid(const Parts&... parts) {
  throw std::invalid_argument(text_of(parts...));
}

// Keeps the text for last_error() on this thread, in a fixed buffer: saying that memory ran out
// needs none.
ndt_status fail(ndt_status status, const char* who, const char* why) noexcept;
const char* last_error();

// The one place where exceptions become status codes.
template <typename F>
ndt_status guarded(const char* who, F body) noexcept {
  try {
    return body();
  } catch (const Failure& e) {
    return fail(e.status, who, e.what());
  } catch (const std::bad_alloc&) {
    return fail(NDT_OUT_OF_MEMORY, who, "out of memory");
  } catch (const std::exception& e) {
    return fail(NDT_INVALID, who, e.what());
  } catch (...) {
    return fail(NDT_INVALID, who, "unknown exception");
  }
}

}  // namespace ndtrain::plugin
