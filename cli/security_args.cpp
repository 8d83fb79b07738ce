#include "cli/security_args.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "framework/core/clock.h"
#include "framework/tls/tls_net.h"
#include "ndp/wire/security_reload.h"
#include "ndp/wire/tuner_addresses.h"

namespace ndtrain::cli {
using namespace ndp;

void declare_security(ArgsSpec& args) {
  const ArgsSpec::Heading heading(args, "Access");
  args.flag("ca", "the authority that the other side's certificate is from (ndtrain cert init)",
            "FILE");
  args.flag("cert", "this side's certificate", "FILE");
  args.flag("key", "its key", "FILE");
  args.flag("crl", "the authority's revocation list: who is in it is refused (ndtrain cert revoke)",
            "FILE");
  args.flag("insecure", "in the clear, on an address that other machines reach");
}

LinkSecurity security_of(Context& context, const Args& args, LinkRole role,
                         const std::string& address) {
  LinkSecurity s = load_security(context.fs(), context.clock(), role, args.text("ca"),
                                 args.text("cert"), args.text("key"), args.text("crl"))
                       .or_throw();
  check_exposure(address, s.on(), args.on("insecure"), role).or_throw();
  return s;
}

LinkSecurity security_of_tuners(Context& context, const Args& args, LinkRole role,
                                const std::string& tuners) {
  LinkSecurity security;
  for (const std::string& address : tuner_addresses(tuners)) {
    security = security_of(context, args, role, address);
  }
  return security;
}

namespace {

std::string listens_beside(const std::string& rendezvous, int rank) {
  if (rendezvous.starts_with("unix:")) return rendezvous + "." + std::to_string(rank);
  const size_t colon = rendezvous.rfind(':');
  return (is_local(rendezvous) ? rendezvous.substr(0, colon) : "") + ":0";
}

void reload(std::stop_token stop, SecurityReload<LinkSecurity> certificates) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    certificates.look(system_clock().monotonic());
    wake.wait_for(lock, stop, SecurityReload<LinkSecurity>::kEvery, [] { return false; });
  }
}

}  // namespace

void check_rank_place(const Args& args) {
  if (args.has("rank") != args.has("rendezvous")) {
    throw UsageError("--rank and --rendezvous HOST:PORT belong together");
  }
  for (const std::string flag : kSecurityFlags) {
    if (!args.given(flag) || args.has("rank")) continue;
    throw UsageError("--" + flag +
                     ": the ranks that are started here talk by loopback; give --rank and "
                     "--rendezvous, or leave it away");
  }
}

RankNet rank_net(Context& context, const Args& args, const std::string& rendezvous, int rank) {
  const auto read = [&context, &args, rendezvous] {
    return security_of(context, args, LinkRole::kMember, rendezvous);
  };
  const LinkSecurity s = read();
  RankNet net{.secured = nullptr, .listen = listens_beside(rendezvous, rank)};
  if (!s.on()) return net;
  auto tls = TlsNet::make(real_net(), s.authority, s.certificate, s.key, {.revoked = s.revoked})
                 .or_throw();
  const auto renew = [&tls = *tls](const LinkSecurity& now) {
    return tls.renew(now.authority, now.certificate, now.key, now.revoked);
  };
  SecurityReload<LinkSecurity> certificates({"ranks", read, renew}, s);
  net.secured = std::move(tls);
  net.reloads = std::jthread(reload, std::move(certificates));
  return net;
}

}  // namespace ndtrain::cli
