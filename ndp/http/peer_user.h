// Whose process is at the other end of a TCP connection within this machine, as the kernel knows it
// (sock_diag(7)). Thread-safe.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <optional>

namespace ndtrain::ndp {

// `peer` and `local`: the ends of an accepted connection. Absent: the other end is of no process
// any more, or of none of this machine, or the kernel does not say.
std::optional<uid_t> user_of_peer(const sockaddr_storage& peer, const sockaddr_storage& local);

// Whether it says of a connection of this process that it is ours: tried once, over 127.0.0.1.
bool tells_users_apart();

}  // namespace ndtrain::ndp
