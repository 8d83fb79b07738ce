#pragma once

#include <concepts>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ndtrain {

// A bug in the caller or a model we cannot accept. The message says who, what and the offending
// values, each as an output stream writes it. Not for what goes wrong in a correct program (I/O,
// peers): see Status.
class Error : public std::runtime_error {
 public:
  template <typename... Parts>
  explicit Error(const Parts&... parts) : std::runtime_error(cat(parts...)) {}

 private:
  using Write = void (*)(std::ostream& to, const void* part);

  template <typename... Parts>
  static std::string cat(const Parts&... parts) {
    std::string text;
    (append(text, parts), ...);
    return text;
  }
  // Without <sstream>, which every file of the program would read.
  template <typename Part>
  static void append(std::string& text, const Part& part) {
    if constexpr (std::convertible_to<const Part&, const char*>) {
      if (const char* const s = part) text += s;  // C libraries may have nothing to say
    } else if constexpr (std::convertible_to<const Part&, std::string_view>) {
      text += std::string_view(part);
    } else if constexpr (std::same_as<Part, char>) {
      text += part;
    } else if constexpr (std::integral<Part> && sizeof(Part) > 1) {
      text += std::to_string(part);
    } else {
      append_streamed(
          text, [](std::ostream& to, const void* p) { to << *static_cast<const Part*>(p); }, &part);
    }
  }
  static void append_streamed(std::string& text, Write write, const void* part);
};

}  // namespace ndtrain
