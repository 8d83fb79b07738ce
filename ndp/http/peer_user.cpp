#include "ndp/http/peer_user.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "framework/core/descriptor.h"

namespace ndtrain::ndp {
namespace {

void put_end(const sockaddr_storage& end, __be32 (&address)[4], __be16& port) {
  if (end.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(end);
    std::memcpy(address, &v6.sin6_addr, sizeof v6.sin6_addr);
    port = v6.sin6_port;
  } else {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(end);
    address[0] = v4.sin_addr.s_addr;
    port = v4.sin_port;
  }
}

struct Question {
  nlmsghdr head = {};
  inet_diag_req_v2 of = {};
};

// Of the socket whose own end is `peer`.
Question question(const sockaddr_storage& peer, const sockaddr_storage& local) {
  Question q;
  q.head.nlmsg_len = sizeof q;
  q.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  q.head.nlmsg_flags = NLM_F_REQUEST;
  q.of.sdiag_family = static_cast<__u8>(peer.ss_family);
  q.of.sdiag_protocol = IPPROTO_TCP;
  q.of.idiag_states = ~0U;
  q.of.id.idiag_cookie[0] = q.of.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  put_end(peer, q.of.id.idiag_src, q.of.id.idiag_sport);
  put_end(local, q.of.id.idiag_dst, q.of.id.idiag_dport);
  return q;
}

}  // namespace

std::optional<uid_t> user_of_peer(const sockaddr_storage& peer, const sockaddr_storage& local) {
  if (peer.ss_family != local.ss_family) return {};
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return {};
  const Descriptor kernel(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!kernel) return {};
  const timeval patience{.tv_sec = 1, .tv_usec = 0};  // it answers at once
  ::setsockopt(kernel.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const Question q = question(peer, local);
  if (::send(kernel.get(), &q, sizeof q, 0) != static_cast<ssize_t>(sizeof q)) return {};
  alignas(nlmsghdr) char answer[1024];
  const ssize_t n = ::recv(kernel.get(), answer, sizeof answer, 0);
  if (n < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg)))) return {};
  const auto& head = *reinterpret_cast<const nlmsghdr*>(answer);
  if (head.nlmsg_type != SOCK_DIAG_BY_FAMILY) return {};
  inet_diag_msg said;
  std::memcpy(&said, NLMSG_DATA(&head), sizeof said);
  // A socket that its process has closed is said to be root's.
  if (said.idiag_inode == 0) return {};
  return said.idiag_uid;
}

bool tells_users_apart() {
  static const bool tells = [] {
    sockaddr_in any = {};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage local = {}, peer = {};
    socklen_t local_size = sizeof local, peer_size = sizeof peer;
    const auto of = [](sockaddr_storage& s) { return reinterpret_cast<sockaddr*>(&s); };
    if (!listener || !client ||
        ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0 ||
        ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), of(local), &local_size) != 0 ||
        ::connect(client.get(), of(local), local_size) != 0 ||
        ::getsockname(client.get(), of(peer), &peer_size) != 0) {
      return false;
    }
    return user_of_peer(peer, local) == ::geteuid();
  }();
  return tells;
}

}  // namespace ndtrain::ndp
