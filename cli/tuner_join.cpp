#include <fmt/format.h>

#include <memory>

#include "cli/computing_args.h"
#include "cli/group_args.h"
#include "cli/role_args.h"
#include "cli/slow_link_args.h"
#include "cli/state_place.h"
#include "cli/tuner_client.h"
#include "cli/verb.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "ndp/sandbox/model_sandbox.h"
#include "tuner/group/member_daemon.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

void declare_tuner_join(ArgsSpec& args) {
  args.flag("tuner",
            "the Tuner to dial, at the port that PipeStores dial; with commas between them, it and "
            "its standbys, one after the other",
            "HOST:PORT", "127.0.0.1:25258");
  args.flag("state",
            "heads of models, rows of photos and gradients that were not sent yet are kept here "
            "(required)",
            "DIR");
  args.flag("name",
            "unique among the members of a Tuner; where there are certificates, the name that its "
            "own is for (default: the host's name)",
            "NAME");
  args.flag("listen",
            "where other members meet this one (default: any port; of this machine alone where the "
            "Tuner is on it)",
            "HOST:PORT");
  args.flag(
      "relay",
      "nobody can dial this machine, as behind a router: the Tuner passes on what it and other "
      "members say to each other, but for those of its --site, which dial --listen");
  args.flag("disk", "rows may take this much (default: a tenth of the volume)", "BYTES");
  declare_site(args, "this member");
  declare_rank_timeout(args);
  declare_sandbox(args, "uploads and all, heads of models from the Tuner");
  declare_security(args);
  declare_computing(args);
}

int run_tuner_join(Context& context, const Args& args) {
  MemberConfig config;
  config.tuner = args.required("tuner");
  config.state = args.required("state");
  demand_directory_of_state(config.state, "only a Tuner that serves keeps its state in one");
  config.name = name_of_role(args, "member");
  config.listen = args.text("listen");
  config.disk = static_cast<int64_t>(args.bytes("disk"));
  config.silence = rank_timeout_of(args);
  config.site = site_of(args);
  config.version = NDT_VERSION;
  config.read_security = [&] {
    return security_of_tuners(context, args, LinkRole::kMember, config.tuner);
  };
  config.security = config.read_security();
  std::unique_ptr<ModelSandbox> sandbox;
  if (sandbox_of(args) != SandboxMode::kOff) {
    sandbox = std::make_unique<ModelSandbox>(ModelSandbox::Config());
    config.check = sandbox.get();
  }
  config.relay = args.on("relay");
  if (config.relay && config.site.empty() && !config.listen.empty()) {
    throw UsageError("--relay with --listen " + config.listen +
                     ": nobody dials it; leave one away, or give the --site whose members do");
  }
  if (config.relay && !config.site.empty() && config.listen.empty()) {
    throw UsageError("--relay with --site " + config.site +
                     ": members there dial it; give --listen, its address in their network");
  }
  if (!config.listen.empty()) {
    check_exposure(config.listen, config.security.on(), args.on("insecure")).or_throw();
  }
  Devices devices(context.device_name(), context.device_options());
  MemberDaemon member(config, devices, context.fs(), context.clock());
  log::info("member {} dials {}", config.name, config.tuner);
  member.run(told_to_stop);
  log::info("stopped");
  return kOk;
}

void declare_tuner_members(ArgsSpec& args) { declare_http(args); }

int run_tuner_members(Context& context, const Args& args) {
  const Json members = TunerClient(args).get("/members");
  std::string text = fmt::format("{:<20} {:<10} {:<24} {:<12} {}\n", "member", "job", "from",
                                 "site", "last failure");
  for (const Json& m : members) {
    const auto job = m["job"].get<uint64_t>();
    const std::string site = m.value("site", "");  // an older Tuner does not say it
    text += fmt::format("{:<20} {:<10} {:<24} {:<12} {}\n", m["member"].get<std::string>(),
                        job == 0 ? "-" : std::to_string(job), m["peer"].get<std::string>(),
                        site.empty() ? "-" : site, m["failure"].get<std::string>());
  }
  context.print(members, text);
  return kOk;
}

}  // namespace ndtrain::cli
