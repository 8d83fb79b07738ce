// What protects a link, and when it must be protected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/fs.h"

namespace ndtrain::ndp {

enum class LinkRole { kTuner, kStore, kMember };  // kMember: of a training group, a rank

// Certificates in PEM; all empty: none, which only loopback and unix sockets should do.
struct LinkSecurity {
  std::string authority, certificate, key;
  std::string revoked = {};  // lists of the authority: who is in them is refused; "": none
  bool on() const { return !authority.empty(); }
  bool operator==(const LinkSecurity&) const = default;
};

// What the first certificate of a PEM text is for: servers, the Tuner's; clients, a PipeStore's;
// both, a member's. None where it does not say, or is no certificate.
std::optional<LinkRole> link_role_of(const std::string& certificate);

// From the files of an authority, a certificate and its key, and of revocation lists where there
// are any; none for empty paths. The Status names the file that does not do, and what to do about
// it: absent, not in PEM, not for this role, expired or not valid yet, not made by this authority,
// a key of another certificate, a certificate that is revoked.
Result<LinkSecurity> load_security(Fs& fs, const Clock& clock, LinkRole role,
                                   const std::string& authority, const std::string& certificate,
                                   const std::string& key, const std::string& revoked = {});

// Whether the first certificate of a PEM text is in a list of `security`.
bool is_revoked(const LinkSecurity& security, const std::string& certificate);

// An address that other machines do not reach: a unix socket or loopback ("unix:/path",
// "localhost:1", "127.x.x.x:1", "[::1]:1").
bool is_local(const std::string& address);
// Another one must be `secured`, or `insecure` on request. The Status says how, for this role.
Status check_exposure(const std::string& address, bool secured, bool insecure,
                      LinkRole role = LinkRole::kTuner);

}  // namespace ndtrain::ndp
