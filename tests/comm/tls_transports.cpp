#include "framework/tls/tls_net.h"
#include "tests/comm/transports.h"
#include "tests/wire/authority.h"

namespace ndtrain::comm_tests {

Ranks tls_transports(int ranks) {
  static const ndp::LinkSecurity kMember = support::Authority().member("rank");
  const auto net =
      TlsNet::make(real_net(), kMember.authority, kMember.certificate, kMember.key).or_throw();
  return stream_transports(*net, "127.0.0.1", ranks);  // streams outlive it
}

}  // namespace ndtrain::comm_tests
