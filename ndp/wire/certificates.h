// Making certificates for the links between Tuner, PipeStores and the members of a training: one
// authority of ours, which issues a certificate for each process. X.509, keys on P-256, all in PEM.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/status.h"
#include "ndp/wire/link_security.h"

namespace ndtrain::ndp {

struct Validity {
  int64_t from = 0, until = 0;  // Unix seconds
};

struct Credentials {
  std::string certificate, key;  // PEM
};

// What a certificate says of its owner.
struct Subject {
  LinkRole role = LinkRole::kStore;
  std::string name;                // of a PipeStore or a member: its identity
  std::vector<std::string> hosts;  // DNS names and IP addresses by which others dial it
};

Credentials make_authority(const std::string& name, Validity validity);

// A certificate with a new key, which ends with the authority's own at the latest. The Status says
// why the authority can issue none.
Result<Credentials> issue(const Credentials& authority, const Subject& subject, Validity validity);

// The authority's revocation list, in PEM: what `list` has ("": there is none yet), and the first
// certificate of `certificate` ("": no other). It is good for as long as the authority; `now` in
// Unix seconds. The Status says why there can be none.
Result<std::string> revoke(const Credentials& authority, const std::string& list,
                           const std::string& certificate, int64_t now);

// Of the first certificate in a text.
Result<Validity> validity_of(const std::string& certificate);

// Whether it can stand in a certificate as a DNS name or an IP address.
bool is_host(const std::string& host);

}  // namespace ndtrain::ndp
