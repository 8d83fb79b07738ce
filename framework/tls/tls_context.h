// What contexts of TLS have in common. Internal to framework/tls.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "framework/core/status.h"

namespace ndtrain::tls {

// Of this version of TLS or newer, without renegotiation. Throws Error.
std::shared_ptr<SSL_CTX> new_context(const SSL_METHOD* method, int least_version);
// Shows a chain of certificates, by the key of the first; in PEM. kCorrupt: they are none, or do
// not belong together.
Status show(SSL_CTX& context, const std::string& certificate, const std::string& key);
// Believes these authorities, in PEM. kCorrupt: there are none.
Status believe(SSL_CTX& context, const std::string& authorities);
// Refuses what lists of the authorities name, in PEM; "": nothing. The context's verify callback
// has to ask is_revoked() then. kCorrupt: there are none.
Status refuse(SSL_CTX& context, const std::string& revoked);

// In a verify callback: whether a list that the context refuses by names the certificate that it is
// at, which is then the error.
bool is_revoked(X509_STORE_CTX& verified);
// A verify callback that asks nothing else.
int refuse_revoked(int ok, X509_STORE_CTX* verified);

// OpenSSL's last word in this thread, which is then forgotten.
std::string last_reason();

}  // namespace ndtrain::tls
