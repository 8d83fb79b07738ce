// Tokens of a role: made, listed and taken back in its state directory, while it runs or not.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/number_args.h"
#include "cli/state_place.h"
#include "cli/text_table.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "ndp/http/audit.h"
#include "ndp/http/tokens.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/state_directory.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::string day(int64_t seconds) {
  return seconds == 0 ? "-" : fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(seconds));
}

Role role_in(const std::string& text) {
  const std::optional<Role> role = role_of(text);
  if (role) return *role;
  throw UsageError("--role '" + text +
                   "': there are viewer, uploader, labeller, operator and admin, of which each "
                   "may do all that those before it may");
}

std::string state_of(int64_t now, const Token& t) {
  if (t.revoked != 0) return "revoked " + day(t.revoked);
  return t.expires != 0 && now >= t.expires ? "expired" : "valid";
}

// In the name of who is at the keyboard, before it is done.
void record(Context& context, StatePlace& state, const std::string& request) {
  const passwd* const user = getpwuid(getuid());
  std::string who = user ? user->pw_name : std::to_string(getuid());
  if (const char* const asked = std::getenv("SUDO_USER")) who = std::string(asked) + " as " + who;
  AuditLog(state.fs(), context.clock(), state.directory)
      .add({.who = "user " + who, .what = "token", .request = request})
      .or_throw();
}

// Nobody moves the directory while these are open.
TokensFile tokens_of(StatePlace& state) {
  TokensFile tokens = TokensFile::open(state.fs(), state.directory).or_throw();
  if (!state.database) demand_not_moved(state.fs(), state.directory).or_throw();
  return tokens;
}

void declare_state(ArgsSpec& args) {
  args.flag("state",
            "the state directory of the Tuner, or its database, postgresql://…, or that of one "
            "PipeStore alone (required)",
            "DIR");
}

void declare_name(ArgsSpec& args) {
  args.positional("NAME", "whom or what it is for");
  declare_state(args);
}

}  // namespace

void declare_token_new(ArgsSpec& args) {
  declare_name(args);
  args.flag("role", "viewer, uploader, labeller, operator or admin: what it lets its owner do",
            "ROLE", "viewer");
  args.flag("collection", "only for the photos and labels of this collection", "NAME");
  args.flag("task",
            "only for photos and their labels in this task: to look at them and, as a labeller, to "
            "say what they show",
            "NAME");
  args.flag("expires", "how long it is good for, as 12h, 90d or 4w (default: for ever)", "TIME");
}

int run_token_new(Context& context, const Args& args) {
  const std::string name = args.required("NAME");
  StatePlace state = state_place(args.required("state"));
  if (!is_token_name(name)) {
    throw UsageError("NAME '" + name + "': letters, digits, '.', '_', '-' and '@', at most 64");
  }
  for (const char* flag : {"collection", "task"}) {
    if (!args.has(flag) || wire::is_set_name(args.text(flag))) continue;
    throw UsageError(fmt::format("--{} {}: from 1 to {} bytes of UTF-8 without control characters",
                                 flag, args.text(flag), wire::kSetNameBytes));
  }
  const Role role = role_in(args.text("role"));
  if (args.has("task") && role != Role::kViewer && role != Role::kLabeller) {
    throw UsageError(fmt::format(
        "--role {} --task {}: who may see and say labels of one task is a viewer or a labeller",
        name_of(role), args.text("task")));
  }
  Token token{.name = name,
              .role = role,
              .collection = args.text("collection"),
              .task = args.text("task"),
              .created = context.clock().unix_seconds()};
  if (args.has("expires"))
    token.expires = token.created + parse_duration("expires", args.text("expires"));
  TokensFile tokens = tokens_of(state);
  const bool first = tokens.all().empty();
  record(context, state,
         fmt::format("token new {} --role {}{}{}", name, name_of(token.role),
                     token.collection.empty() ? "" : " --collection " + token.collection,
                     token.task.empty() ? "" : " --task " + token.task));
  const std::string secret = tokens.add(token).or_throw();
  if (first) {
    context.progress().say("from now on, HTTP of this role answers nobody without a token");
  }
  context.progress().say("this is the only time that it is shown; keep it where nobody else reads");
  context.print({{"name", name},
                 {"role", name_of(token.role)},
                 {"collection", token.collection},
                 {"task", token.task},
                 {"expires", token.expires},
                 {"token", secret}},
                secret + "\n");
  return kOk;
}

void declare_token_ls(ArgsSpec& args) { declare_state(args); }
int run_token_ls(Context& context, const Args& args) {
  StatePlace state = state_place(args.required("state"));
  const TokensFile tokens = TokensFile::open(state.fs(), state.directory).or_throw();
  const int64_t now = context.clock().unix_seconds();
  Json json = Json::array();
  std::vector<std::vector<std::string>> rows = {
      {"name", "role", "collection", "task", "made", "expires", "state"}};
  for (const Token& t : tokens.all()) {
    json.push_back({{"name", t.name},
                    {"role", name_of(t.role)},
                    {"collection", t.collection},
                    {"task", t.task},
                    {"created", t.created},
                    {"expires", t.expires},
                    {"revoked", t.revoked}});
    rows.push_back({t.name, std::string(name_of(t.role)),
                    t.collection.empty() ? "all" : t.collection, t.task.empty() ? "all" : t.task,
                    day(t.created), day(t.expires), state_of(now, t)});
  }
  context.print(json, text_table(std::move(rows)));
  return kOk;
}

void declare_token_revoke(ArgsSpec& args) { declare_name(args); }
int run_token_revoke(Context& context, const Args& args) {
  const std::string name = args.required("NAME");
  StatePlace state = state_place(args.required("state"));
  TokensFile tokens = tokens_of(state);
  record(context, state, "token revoke " + name.substr(0, 64));
  tokens.revoke(name, context.clock().unix_seconds()).or_throw();
  context.print({{"name", name}, {"revoked", true}},
                "the token of " + name + " is good for nothing any more\n");
  return kOk;
}

}  // namespace ndtrain::cli
