// How Tuners that train together reach each other: as their links to one another are protected.
#pragma once

#include <memory>

#include "framework/tls/tls_net.h"
#include "ndp/wire/link_security.h"

namespace ndtrain::tuner {
using namespace ndp;

class GroupNet {
 public:
  // Without certificates in the clear. Throws Error where they do not belong together.
  explicit GroupNet(const LinkSecurity& security) {
    if (!security.on()) return;
    secured_ = TlsNet::make(real_net(), security.authority, security.certificate, security.key,
                            {.revoked = security.revoked})
                   .or_throw();
  }
  // Of streams from now on (TlsNet::renew()).
  Status renew(const LinkSecurity& s) {
    return secured_ ? secured_->renew(s.authority, s.certificate, s.key, s.revoked) : Status();
  }
  Net& net() const { return secured_ ? static_cast<Net&>(*secured_) : real_net(); }

 private:
  std::unique_ptr<TlsNet> secured_;
};

}  // namespace ndtrain::tuner
