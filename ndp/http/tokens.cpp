#include "ndp/http/tokens.h"

#include <algorithm>
#include <cctype>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/core/publish.h"
#include "ndp/http/random_secret.h"

namespace ndtrain::ndp {
namespace {

constexpr int kFormat = 1, kFormatWithTasks = 2;
// So that people and programs that look for secrets know one when they see it.
constexpr std::string_view kTokenPrefix = "ndt_";

Token token_from(const Json& j) {
  const auto role = role_of(j.at("role").get<std::string>());
  if (!role) throw Error("there is no role ", json_text(j.at("role")));
  return {.name = j.at("name"),
          .role = *role,
          .collection = j.at("collection"),
          .task = j.value("task", ""),
          .digest = digest_from_hex(j.at("digest").get<std::string>()),
          .created = j.at("created"),
          .expires = j.at("expires"),
          .revoked = j.at("revoked")};
}

}  // namespace

bool is_token_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == '@';
  });
}

Result<std::vector<Token>> parse_tokens(std::string_view text) {
  try {
    read_json(text, kTokensBytes).status().or_throw();  // not too much, nor too deep
    const Json json = verified(text);
    if (const int format = json.at("format"); format != kFormat && format != kFormatWithTasks) {
      return Status(Code::kCorrupt, "has format " + std::to_string(format) +
                                        "; this program knows up to " +
                                        std::to_string(kFormatWithTasks));
    }
    std::vector<Token> tokens;
    for (const Json& j : json.at("tokens")) tokens.push_back(token_from(j));
    return tokens;
  } catch (const std::exception& e) {
    return Status(Code::kCorrupt, std::string("is no list of tokens: ") + e.what());
  }
}

std::string tokens_text(const std::vector<Token>& tokens) {
  Json all = Json::array();
  int format = kFormat;
  for (const Token& t : tokens) {
    Json& json = all.emplace_back(Json{{"name", t.name},
                                       {"role", name_of(t.role)},
                                       {"collection", t.collection},
                                       {"digest", to_hex(t.digest)},
                                       {"created", t.created},
                                       {"expires", t.expires},
                                       {"revoked", t.revoked}});
    if (t.task.empty()) continue;
    json["task"] = t.task;
    format = kFormatWithTasks;
  }
  return checksummed({{"format", format}, {"tokens", std::move(all)}}, 1);
}

std::string without_tokens_of_tasks(const std::string& text) {
  Result<std::vector<Token>> tokens = parse_tokens(text);
  if (!tokens.ok() || std::ranges::all_of(*tokens, &std::string::empty, &Token::task)) return text;
  std::erase_if(*tokens, [](const Token& t) { return !t.task.empty(); });
  return tokens_text(*tokens);
}

Result<TokensFile> TokensFile::open(Fs& fs, const std::string& directory) {
  const Result<FileInfo> there = fs.info(directory);
  if (!there.ok() && there.status().code() != Code::kNotFound) return there.status();
  if (!there.ok() || !there->is_directory) {
    return Status(Code::kNotFound, "there is no state directory " + directory +
                                       "; tuner serve and pipestore serve make theirs");
  }
  Result<std::unique_ptr<FileLock>> lock = fs.lock(join(directory, "tokens.lock"));
  if (!lock.ok()) return lock.status();
  TokensFile file(fs, join(directory, kTokensFile), std::move(*lock));
  const Result<std::string> text = fs.read(file.path_, kTokensBytes);
  if (text.status().code() == Code::kNotFound) return file;
  if (!text.ok()) return text.status();
  Result<std::vector<Token>> tokens = parse_tokens(*text);
  if (!tokens.ok()) return Status(Code::kCorrupt, file.path_ + ": " + tokens.status().message());
  file.tokens_ = std::move(*tokens);
  return file;
}

Result<std::string> TokensFile::add(Token token) {
  std::vector<Token> tokens = tokens_;
  const auto same = [&](const Token& t) { return t.name == token.name && t.revoked == 0; };
  if (std::ranges::any_of(tokens, same)) {
    return Status(Code::kExists, "there is a token " + token.name + " already; ndtrain token " +
                                     "revoke " + token.name + " takes it back");
  }
  while (static_cast<int64_t>(tokens.size()) >= kMostTokens) {
    const auto old = std::ranges::find_if(tokens, [](const Token& t) { return t.revoked != 0; });
    if (old == tokens.end()) {
      return Status(Code::kTooLarge, "there are " + std::to_string(kMostTokens) +
                                         " tokens, the most there may be; revoke some");
    }
    tokens.erase(old);
  }
  std::string secret = std::string(kTokenPrefix) + to_hex(random_secret());
  token.digest = sha256(secret);
  tokens.push_back(std::move(token));
  if (Status s = write(std::move(tokens)); !s.ok()) return s;
  return secret;
}

Status TokensFile::revoke(std::string_view name, int64_t now) {
  std::vector<Token> tokens = tokens_;
  const auto it = std::ranges::find_if(
      tokens, [&](const Token& t) { return t.name == name && t.revoked == 0; });
  if (it == tokens.end()) {
    return {Code::kNotFound, "there is no token '" + std::string(name) + "'; see ndtrain token ls"};
  }
  it->revoked = now;
  return write(std::move(tokens));
}

Status TokensFile::write(std::vector<Token> tokens) {
  if (Status s = publish(*fs_, path_, tokens_text(tokens)); !s.ok()) return s;
  tokens_ = std::move(tokens);
  return {};
}

}  // namespace ndtrain::ndp
