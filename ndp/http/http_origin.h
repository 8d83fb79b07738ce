// Where a request says that it comes from and goes to, which a browser does not let a page lie
// about: so that a page of another site, also one whose name was made to mean this machine, asks in
// vain.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ndp/http/http_message.h"

namespace ndtrain::ndp {

// Without the port; an IPv6 address in its brackets.
std::string host_of_address(const std::string& address);
bool is_loopback_host(const std::string& host);  // 127.x.x.x, [::1] and localhost

// Why `head` is not for a server that has been told `names`, and that this connection reached at
// `local`, an address as text: 421, or 400 without a Host.
std::optional<HttpResponse> wrong_host(const HttpHead& head, const std::vector<std::string>& names,
                                       const std::string& local);

// What the answer to a page of another site hangs on.
struct HttpAsked {
  bool by_session = false;  // a browser's cookie came with it and let it in
  bool of_anyone = false;   // anybody may ask it
  bool tls = false;
};

// Whether `head` comes from a page of another site, or another port; absent: it does not say,
// because no browser sent it, or an old one.
std::optional<bool> is_foreign(const HttpHead& head);

// Why a page of another site asks for this change, or for what not anyone may read: 403. A change
// by a browser's session must say that it comes from our own.
std::optional<HttpResponse> wrong_origin(const HttpHead& head, const HttpAsked& asked);

}  // namespace ndtrain::ndp
