// Debian's Chromium without a window, driven over its debugging pipe (the DevTools protocol).
#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace ndtrain::support {

class Browser {
 public:
  // Why there is none on this machine; "": there is one.
  static std::string lacking();

  // `switches` of its command line, besides those it always has. Throws Error.
  explicit Browser(const std::vector<std::string>& switches = {});
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void size(int width, int height);
  void dark(bool on);
  void open(const std::string& url);
  // The value of a JavaScript expression, awaited if it is a promise. Throws Error with what the
  // page throws.
  nlohmann::json value(const std::string& expression);
  // Until the expression is true, on whatever page is open by then; false after half a minute.
  bool await(const std::string& expression);
  void press(const std::string& key);  // "a", "Enter", …
  void type(const std::string& text);
  std::string screenshot();  // PNG
  // Exceptions, errors on the console and what a policy forbade.
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  nlohmann::json call(const std::string& method, const nlohmann::json& params = {});
  nlohmann::json hear();
  void note(const nlohmann::json& event);

  TemporaryDirectory profile_;
  pid_t process_ = -1;
  int to_ = -1, from_ = -1;
  int64_t calls_ = 0;
  std::string session_, heard_;
  std::vector<std::string> complaints_;
};

}  // namespace ndtrain::support
