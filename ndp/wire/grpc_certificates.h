// What the server of links shows, and whom it lets in; renewed while it serves. For
// grpc_server.cpp.
#pragma once

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <mutex>
#include <string>

#include "ndp/wire/link_security.h"

namespace ndtrain::wire {
using namespace ndp;

// gRPC asks for certificates as each connection begins. Thread-safe.
class ServerCertificates final : public grpc::ServerCredentials {
 public:
  explicit ServerCertificates(const LinkSecurity& security);
  ~ServerCertificates() override;

  // Of connections from now on. gRPC goes on with what it had where these do not belong together.
  void renew(const LinkSecurity& security);

  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& processor) override;

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;
  grpc_ssl_certificate_config_reload_status fetch(grpc_ssl_server_certificate_config** to);

  std::mutex mutex_;  // of both below
  LinkSecurity security_;
  bool is_new_ = true;  // gRPC has not asked since
  grpc_server_credentials* credentials_;
};

}  // namespace ndtrain::wire
