#include "ndp/wire/grpc_certificates.h"

#include <grpc/grpc.h>

#include <utility>

#include "framework/core/error.h"

namespace ndtrain::wire {
using namespace ndp;

ServerCertificates::ServerCertificates(const LinkSecurity& security) : security_(security) {
  const auto ask = [](void* self, grpc_ssl_server_certificate_config** to) {
    return static_cast<ServerCertificates*>(self)->fetch(to);
  };
  credentials_ = grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(
          GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, ask, this));
}

ServerCertificates::~ServerCertificates() { grpc_server_credentials_release(credentials_); }

void ServerCertificates::renew(const LinkSecurity& security) {
  const std::lock_guard lock(mutex_);
  security_ = security;
  is_new_ = true;
}

grpc_ssl_certificate_config_reload_status ServerCertificates::fetch(
    grpc_ssl_server_certificate_config** to) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_new_, false)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  const grpc_ssl_pem_key_cert_pair own = {security_.key.c_str(), security_.certificate.c_str()};
  *to = grpc_ssl_server_certificate_config_create(security_.authority.c_str(), &own, 1);
  return *to != nullptr ? GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW
                        : GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
}

int ServerCertificates::AddPortToServer(const std::string& address, grpc_server* server) {
  return grpc_server_add_http2_port(server, address.c_str(), credentials_);
}

void ServerCertificates::SetAuthMetadataProcessor(
    const std::shared_ptr<grpc::AuthMetadataProcessor>&) {
  throw Error("links have no metadata of calls to check");
}

}  // namespace ndtrain::wire
