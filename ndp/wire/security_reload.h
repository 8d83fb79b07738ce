// Certificates, keys and revocation lists of a role that serves are read again, so that who
// replaces the files need not restart it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/log.h"
#include "framework/core/status.h"

namespace ndtrain::ndp {

// Of LinkSecurity, or HttpSecurity. One thread, the role's.
template <typename Security>
class SecurityReload {
 public:
  using Time = std::chrono::nanoseconds;  // monotonic
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr std::chrono::hours kSayAgain{1};

  struct Setting {
    std::string what;                              // as the log calls it
    std::function<Security()> read;                // as at start; throws Error. Empty: never again
    std::function<Status(const Security&)> renew;  // not ok: what was in force stays so
  };
  SecurityReload(Setting setting, Security now)
      : setting_(std::move(setting)), now_(std::move(now)) {}

  const Security& now() const { return now_; }
  // Why what is in the files is not in force; "" where it is.
  const std::string& trouble() const { return trouble_; }

  void look(Time time) {
    if (!setting_.read || time < next_) return;
    next_ = time + kEvery;
    Status s;
    try {
      Security read = setting_.read();
      if (!(read == now_)) {
        s = setting_.renew(read);
        if (s.ok()) {
          now_ = std::move(read);
          log::info("{}: new certificates are in force", setting_.what);
        }
      }
    } catch (const Error& e) {
      s = Status(Code::kCorrupt, e.what());
    }
    tell(time, s.message());
  }

 private:
  // The text may differ each time: it can say what time it is.
  void tell(Time time, const std::string& trouble) {
    const bool first = trouble_.empty();
    trouble_ = trouble;
    if (trouble.empty() || (!first && time < say_next_)) return;
    say_next_ = time + kSayAgain;
    log::error("{}: the certificates that were in force stay so: {}", setting_.what, trouble);
  }

  const Setting setting_;
  Security now_;
  std::string trouble_;
  Time next_{0}, say_next_{0};
};

}  // namespace ndtrain::ndp
