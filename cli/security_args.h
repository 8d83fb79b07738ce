// What protects the links between processes: roles, and ranks.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "cli/args.h"
#include "cli/context.h"
#include "framework/core/net.h"
#include "ndp/wire/link_security.h"

namespace ndtrain::cli {
using namespace ndp;

// The flags --ca, --cert, --key, --crl and --insecure.
void declare_security(ArgsSpec& args);
inline constexpr const char* kSecurityFlags[] = {"ca", "cert", "key", "crl", "insecure"};
// The certificates they name; `address` is where this process listens or dials. Throws Error.
LinkSecurity security_of(Context& context, const Args& args, LinkRole role,
                         const std::string& address);

// Of who dials a Tuner and its standbys: see tuner_addresses().
LinkSecurity security_of_tuners(Context& context, const Args& args, LinkRole role,
                                const std::string& tuners);

// How a rank reaches the others that meet at a rendezvous: with TLS where it has certificates.
// Their files are read again every second, as roles do (SecurityReload): who connects later goes by
// what is new, and streams of who is revoked end.
struct RankNet {
  std::unique_ptr<Net> secured;  // null: in the clear
  std::string listen;            // where a rank other than 0 does
  std::jthread reloads = {};     // ends before what it renews

  Net& net() const { return secured ? *secured : real_net(); }
};

// Of --rank and --rendezvous, which belong together: without them ranks are started here. Throws
// UsageError, of security flags, too, where there is nothing to secure.
void check_rank_place(const Args& args);

// By the flags; at a rendezvous that this machine alone reaches its ranks listen there, too. Throws
// Error for an address that has to be protected and is not. `context` and `args` must outlive it.
RankNet rank_net(Context& context, const Args& args, const std::string& rendezvous, int rank);

}  // namespace ndtrain::cli
