#include "ndp/http/access.h"

#include <fmt/chrono.h>
#include <openssl/crypto.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/http/http_origin.h"
#include "ndp/http/tickets.h"

namespace ndtrain::ndp {
namespace {

// "" where there is none.
std::string token_in(const std::string& authorization) {
  constexpr std::string_view kBearer = "bearer ";
  const bool bearer = authorization.size() > kBearer.size() &&
                      std::equal(kBearer.begin(), kBearer.end(), authorization.begin(),
                                 [](char a, unsigned char b) { return a == std::tolower(b); });
  return bearer ? authorization.substr(kBearer.size()) : "";
}

std::string utc(int64_t seconds) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(seconds));
}

Access::Verdict unknown(const std::string& why) {
  HttpResponse r = http_error(401, why);
  r.headers["WWW-Authenticate"] = "Bearer realm=\"ndtrain\"";
  return {.refuse = std::move(r)};
}

std::string another_user(std::optional<uid_t> user) {
  return fmt::format(
      "this server is user {}'s, and {} asks: by loopback others need a token (`ndtrain token new` "
      "makes "
      "one), or --loopback open lets all users of the machine in",
      geteuid(), user ? fmt::format("user {}", *user) : "a user who is not known");
}

}  // namespace

Access::Access(Fs& fs, const Clock& clock, Setting setting)
    : fs_(fs),
      clock_(clock),
      setting_(std::move(setting)),
      path_(join(setting_.directory, kTokensFile)),
      on_(setting_.demanded) {
  const std::lock_guard lock(mutex_);
  refresh();
  // Also where nobody can tell whether there is a list: without one, anybody may come in.
  const Status there = fs_.info(path_).status();
  if (number_ == 0 && there.code() != Code::kNotFound) {
    throw Error(path_, ": cannot be read as a list of tokens, and who may come in is not known",
                there.ok() ? "" : ": " + there.message());
  }
}

// What cannot be read changes nothing: who had a token has it still, and nobody else has one.
void Access::refresh() {
  const Result<FileInfo> info = fs_.info(path_);
  if (!info.ok()) return;
  if (seen_ && seen_->mtime_ns == info->mtime_ns && seen_->inode == info->inode &&
      seen_->size == info->size) {
    return;
  }
  on_ = true;
  const Result<std::string> text = fs_.read(path_, kTokensBytes);
  const Result<std::vector<Token>> tokens = text.ok() ? parse_tokens(*text) : text.status();
  if (!tokens.ok()) {
    log::error("{}: {}", path_, tokens.status().message());
    return;
  }
  seen_ = *info;
  tokens_ = *tokens;
  text_ = *text;
  ++number_;
}

bool Access::on() {
  const std::lock_guard lock(mutex_);
  refresh();
  return on_;
}

uint64_t Access::number() {
  const std::lock_guard lock(mutex_);
  refresh();
  return number_;
}

std::string Access::text() {
  const std::lock_guard lock(mutex_);
  return text_;
}

void Access::set_ticket_key(const std::string& key, const std::string& collection) {
  const std::lock_guard lock(mutex_);
  ticket_keys_[collection] = key;
}

std::string Access::ticket_key_for(const HttpRequest& request) const {
  const auto asked = request.query.find("collection");
  const bool several = setting_.collection.empty();
  const auto key = ticket_keys_.find(several && asked != request.query.end() ? asked->second : "");
  return key == ticket_keys_.end() ? "" : key->second;
}

Access::Verdict Access::check(const HttpRequest& request, const std::string& authorization,
                              const HttpPermission* need, const std::string& session) {
  const std::lock_guard lock(mutex_);
  refresh();
  if (need && need->role == Role::kAnyone) return {};
  if (!on_ && may_do_without(request)) return {};
  std::string secret = token_in(authorization), why;
  if (const auto it = request.query.find("ticket"); secret.empty() && it != request.query.end()) {
    secret = it->second;
  }
  if (is_ticket(secret) && need) {
    const Result<std::string> who = who_shows(secret, ticket_key_for(request), request.method,
                                              request.path, clock_.unix_seconds());
    if (who.ok()) return {.who = *who};
    return unknown(who.status().message());
  }
  const bool by_session = secret.empty() && !session.empty();
  const Token* const token = by_session ? find_session(session, request, &why) : find(secret, &why);
  if (!token && !on_) why = another_user(request.user);
  if (!token) return unknown(why);
  if (need) why = objection(*token, *need, request);
  if (!why.empty()) return {.refuse = http_error(403, why)};
  return {.who = token->name,
          .role = token->role,
          .collection = token->collection,
          .by_session = by_session};
}

std::string Access::make_login_code(const HttpRequest& request) {
  const std::lock_guard lock(mutex_);
  const auto token = std::ranges::find_if(
      tokens_, [&](const Token& t) { return t.name == request.who && t.revoked == 0; });
  if (token == tokens_.end()) return "";
  return sessions_.make_code(token->digest, user_of(request), clock_.monotonic());
}

std::optional<std::string> Access::redeem(const std::string& code, const HttpRequest& request) {
  const std::lock_guard lock(mutex_);
  return sessions_.redeem(code, user_of(request), clock_.monotonic());
}

void Access::end_session(const std::string& session) {
  const std::lock_guard lock(mutex_);
  sessions_.end(session);
}

std::optional<uid_t> Access::user_of(const HttpRequest& request) const {
  return setting_.users_known ? request.user : std::nullopt;
}

bool Access::may_do_without(const HttpRequest& request) const {
  if (!setting_.own_user || !is_loopback_host(request.peer)) return true;
  return request.user && (*request.user == geteuid() || *request.user == 0);
}

const Token* Access::find(const std::string& secret, std::string* why) const {
  if (secret.empty()) {
    *why = "a token is needed: Authorization: Bearer TOKEN; `ndtrain token new` makes one";
    if (tokens_.empty()) *why += ", and nobody has made any yet";
    return nullptr;
  }
  return valid(token_of(sha256(secret)), why);
}

const Token* Access::find_session(const std::string& session, const HttpRequest& request,
                                  std::string* why) const {
  const auto token = sessions_.token_of(session, user_of(request), clock_.monotonic());
  if (token) return valid(token_of(*token), why);
  *why = "this browser's session has ended; `ndtrain dashboard` makes another";
  return nullptr;
}

const Token* Access::token_of(const Digest& digest) const {
  const Token* token = nullptr;
  for (const Token& t : tokens_) {
    if (CRYPTO_memcmp(t.digest.data(), digest.data(), digest.size()) == 0) token = &t;
  }
  return token;
}

const Token* Access::valid(const Token* token, std::string* why) const {
  if (!token) {
    *why = "this token is not known here";
  } else if (token->revoked != 0) {
    *why = "the token of " + token->name + " was revoked";
  } else if (token->expires != 0 && clock_.unix_seconds() >= token->expires) {
    *why = "the token of " + token->name + " expired on " + utc(token->expires);
  }
  return why->empty() ? token : nullptr;
}

std::string Access::objection(const Token& token, const HttpPermission& need,
                              const HttpRequest& request) const {
  const std::string what = request.method + " " + request.path;
  if (token.role < need.role) {
    return fmt::format("{} needs the role {}; the token of {} has {}", what, name_of(need.role),
                       token.name, name_of(token.role));
  }
  if (std::string of_task = task_objection(token, need, request); !of_task.empty()) return of_task;
  if (token.collection.empty() || need.scope == HttpScope::kNone) return "";
  if (need.scope == HttpScope::kSite) {
    return fmt::format(
        "the token of {} is for photos of the collection {}; {} is of the whole site", token.name,
        token.collection, what);
  }
  const auto asked = request.query.find("collection");
  const bool several = setting_.collection.empty();
  const bool named =
      (several || need.scope == HttpScope::kCollection) && asked != request.query.end();
  if (several && !named) {
    return fmt::format(
        "the token of {} is for the collection {}, which {} must name: "
        "?collection=NAME",
        token.name, token.collection, what);
  }
  const std::string& collection = named ? asked->second : setting_.collection;
  if (token.collection == collection) return "";
  return fmt::format("the token of {} is for the collection {}; {} is of {}", token.name,
                     token.collection, what, collection);
}

// Its task must be named, also where another would be meant without: no handler guesses it.
std::string Access::task_objection(const Token& token, const HttpPermission& need,
                                   const HttpRequest& request) {
  if (token.task.empty() || need.task == HttpTask::kPhoto || need.task == HttpTask::kNone) {
    return "";
  }
  const std::string what = request.method + " " + request.path;
  if (need.task == HttpTask::kAll) {
    return fmt::format("the token of {} is for photos and their labels in the task {}; {} is not",
                       token.name, token.task, what);
  }
  const auto asked = request.query.find("task");
  if (asked == request.query.end()) {
    return fmt::format("the token of {} is for the task {}, which {} must name: ?task=NAME",
                       token.name, token.task, what);
  }
  if (asked->second == token.task) return "";
  return fmt::format("the token of {} is for the task {}; {} is of {}", token.name, token.task,
                     what, printable(asked->second, 256));
}

}  // namespace ndtrain::ndp
