// Certificates for a test: authorities, and what they issue.
#pragma once

#include <memory>
#include <string>

#include "ndp/wire/grpc_link.h"

namespace ndtrain::support {

class Authority {
 public:
  Authority();
  ~Authority();
  Authority(const Authority&) = delete;
  Authority& operator=(const Authority&) = delete;

  // For the common name; good for 127.0.0.1 and localhost, for a day.
  LinkSecurity issue(const std::string& name) const;

 private:
  struct Pair;
  std::unique_ptr<Pair> own_;
};

}  // namespace ndtrain::support
