// Whether somebody may ask for something: what a server knows of tokens. Follows the file as it is
// changed, from one request to the next.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/http/browser_sessions.h"
#include "ndp/http/http_server.h"
#include "ndp/http/tokens.h"

namespace ndtrain::ndp {

// Thread-safe.
class Access {
 public:
  struct Setting {
    std::string directory;  // of tokens.json, which may be absent
    // Whose photos are served where no other is asked for; "": of several, one is always asked for.
    std::string collection;
    // A token is needed though there is none yet. Otherwise anybody may do anything until there is
    // one; from then on, tokens are needed as long as this lives.
    bool demanded = false;
    // Until then, by loopback: only this process's user and root; others need a token.
    bool own_user = false;
    // HttpRequest::user is what the kernel says, and holds of codes and browsers' sessions.
    bool users_known = false;
  };
  struct Verdict {
    std::string who;                     // the token's name; "" for nobody in particular
    Role role = Role::kAnyone;           // that they have
    std::string collection;              // that their token is for; "": all
    bool by_session = false;             // a browser's, and no token, let them in
    std::optional<HttpResponse> refuse;  // 401: no token that does; 403: it may not do this
  };

  // Throws Error when there is a file that cannot be read.
  Access(Fs& fs, const Clock& clock, Setting setting);

  // Of `request`, method, path and query count. `authorization`: the header's value, "Bearer
  // TOKEN"; without one, `ticket` in the query stands for it, and without that `session`, the value
  // of a browser's cookie. `need`: null for what there is not, which only those may know who have a
  // token.
  Verdict check(const HttpRequest& request, const std::string& authorization,
                const HttpPermission* need, const std::string& session = "");

  // For `who`, the owner of a token, whose request this is: a code for a browser, "" where there is
  // no such token any more.
  std::string make_login_code(const HttpRequest& request);
  // A browser's session for such a code, as its cookie's value; absent: it does not do.
  std::optional<std::string> redeem(const std::string& code, const HttpRequest& request);
  void end_session(const std::string& session);

  bool on();           // whether tokens are needed
  uint64_t number();   // of the list; rises when it changes; 0: there is none yet
  std::string text();  // the list, to be known elsewhere too; "" without one
  // What the tickets (tickets.h) of a Tuner are known by from now on; where there are several
  // collections, those for photos of this one.
  void set_ticket_key(const std::string& key, const std::string& collection = "");

 private:
  // All under mutex_.
  void refresh();
  // Null: why it does not do.
  const Token* find(const std::string& secret, std::string* why) const;
  const Token* find_session(const std::string& session, const HttpRequest& request,
                            std::string* why) const;
  const Token* valid(const Token* token, std::string* why) const;
  const Token* token_of(const Digest& digest) const;
  std::optional<uid_t> user_of(const HttpRequest& request) const;
  std::string objection(const Token& token, const HttpPermission& need,
                        const HttpRequest& request) const;
  std::string ticket_key_for(const HttpRequest& request) const;
  bool may_do_without(const HttpRequest& request) const;  // a token
  static std::string task_objection(const Token& token, const HttpPermission& need,
                                    const HttpRequest& request);

  Fs& fs_;
  const Clock& clock_;
  const Setting setting_;
  const std::string path_;
  std::mutex mutex_;  // of all below
  bool on_;
  std::optional<FileInfo> seen_;
  std::string text_;
  uint64_t number_ = 0;
  std::vector<Token> tokens_;
  std::map<std::string, std::string> ticket_keys_;  // by collection; absent: there are no tickets
  BrowserSessions sessions_;
};

}  // namespace ndtrain::ndp
