// An authority of a test, and what it issues for 127.0.0.1 and localhost.
#pragma once

#include <string>

#include "framework/core/clock.h"
#include "ndp/wire/certificates.h"

namespace ndtrain::support {
using namespace ndp;

// An hour before and after.
inline Validity around(int64_t now) { return {now - 3600, now + 3600}; }

struct Authority {
  int64_t now = system_clock().unix_seconds();
  Credentials own = make_authority("authority", around(now));

  Credentials credentials(const std::string& name, LinkRole role, Validity validity) const {
    return ndtrain::ndp::issue(
               own, {.role = role, .name = name, .hosts = {"127.0.0.1", "localhost", "::1"}},
               validity)
        .or_throw();
  }
  LinkSecurity issue(const std::string& name, LinkRole role, Validity validity) const {
    const Credentials c = credentials(name, role, validity);
    return {.authority = own.certificate, .certificate = c.certificate, .key = c.key};
  }
  LinkSecurity tuner() const { return issue("tuner", LinkRole::kTuner, around(now)); }
  LinkSecurity store(const std::string& name) const {
    return issue(name, LinkRole::kStore, around(now));
  }
  LinkSecurity member(const std::string& name) const {
    return issue(name, LinkRole::kMember, around(now));
  }
};

}  // namespace ndtrain::support
