// Tokens: who may ask for what over HTTP. A role keeps them in a file of its state directory,
//
//   tokens.json   {"format": 1, "tokens": [{"name", "role", "collection", "task", "digest",
//                  "created", "expires", "revoked"}]}
//
// which holds their SHA-256 only: the token itself is told once, to whom it is made for. Where one
// has a task, the format is 2: a program that would let its owner do everything refuses the list.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/fs.h"
#include "framework/core/hash.h"
#include "ndp/http/role.h"

namespace ndtrain::ndp {

struct Token {
  std::string name;  // whom it was made for; unique among those that are not revoked
  Role role = Role::kViewer;
  std::string collection = {};  // "": all of them, and the whole site
  std::string task = {};        // "": all of them, and what is of none
  Digest digest = {};
  int64_t created = 0;  // Unix seconds
  int64_t expires = 0;  // 0: never
  int64_t revoked = 0;  // 0: not
};

inline constexpr std::string_view kTokensFile = "tokens.json";
inline constexpr int64_t kTokensBytes = int64_t{1} << 20;  // of that file, at most
inline constexpr int64_t kMostTokens = 1000;               // revoked ones included

// kCorrupt: it is not what tokens_text() wrote.
Result<std::vector<Token>> parse_tokens(std::string_view text);
std::string tokens_text(const std::vector<Token>& tokens);
// The list for programs that know no tokens of a task: without these. What is no list stays so.
std::string without_tokens_of_tasks(const std::string& text);

// The tokens of a state directory, changed by one process at a time.
class TokensFile {
 public:
  // kExists: another process changes them; kNotFound: there is no such directory; kCorrupt.
  static Result<TokensFile> open(Fs& fs, const std::string& directory);

  const std::vector<Token>& all() const { return tokens_; }
  // Makes one, durably, and returns what its owner must say. kExists: the name is taken; kTooLarge
  // beyond kMostTokens, of which revoked ones make way.
  Result<std::string> add(Token token);
  // kNotFound: there is none of this name that is not revoked.
  Status revoke(std::string_view name, int64_t now);

 private:
  TokensFile(Fs& fs, std::string path, std::unique_ptr<FileLock> lock)
      : fs_(&fs), path_(std::move(path)), lock_(std::move(lock)) {}
  Status write(std::vector<Token> tokens);

  Fs* fs_;
  std::string path_;
  std::unique_ptr<FileLock> lock_;
  std::vector<Token> tokens_;
};

// Letters, digits, '.', '_', '-' and '@', at most 64.
bool is_token_name(std::string_view name);

}  // namespace ndtrain::ndp
