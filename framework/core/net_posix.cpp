#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/net.h"

namespace ndtrain {
namespace {

using std::chrono::milliseconds;
using Deadline = std::chrono::steady_clock::time_point;

constexpr std::string_view kUnix = "unix:";
constexpr milliseconds kDialTimeout{10'000};

Code code_of(int error) {
  switch (error) {
    case ENOENT:
      return Code::kNotFound;
    case EADDRINUSE:
      return Code::kExists;
    case ETIMEDOUT:
      return Code::kCancelled;
    default:
      return Code::kIo;
  }
}

Status failed(const char* what, const std::string& address, int error) {
  return {code_of(error),
          address + ": cannot " + what + ": " + std::generic_category().message(error)};
}

class Socket {
 public:
  explicit Socket(int fd = -1) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// A socket address of any family.
struct Endpoint {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

std::string text_of(const Endpoint& e) {
  if (e.family() == AF_UNIX) {
    const auto* u = reinterpret_cast<const sockaddr_un*>(&e.storage);
    const size_t length = e.size - std::min<size_t>(e.size, offsetof(sockaddr_un, sun_path));
    return std::string(kUnix) + std::string(u->sun_path, strnlen(u->sun_path, length));
  }
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  if (::getnameinfo(e.get(), e.size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "?";
  }
  return (e.family() == AF_INET6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + port;
}

Result<std::vector<Endpoint>> unix_endpoint(const std::string& address) {
  Endpoint e;
  auto* u = reinterpret_cast<sockaddr_un*>(&e.storage);
  const std::string path = address.substr(kUnix.size());
  if (path.empty() || path.size() >= sizeof u->sun_path) {
    return Status(Code::kUnsupported, address + ": a unix socket path has 1 to " +
                                          std::to_string(sizeof u->sun_path - 1) + " bytes");
  }
  u->sun_family = AF_UNIX;
  std::memcpy(u->sun_path, path.c_str(), path.size() + 1);
  e.size = sizeof(sockaddr_un);
  return std::vector<Endpoint>{e};
}

Result<std::vector<Endpoint>> resolve(const std::string& address, bool passive) {
  if (address.starts_with(kUnix)) return unix_endpoint(address);
  const size_t colon = address.rfind(':');
  std::string host = colon == std::string::npos ? "" : address.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (colon == std::string::npos || colon + 1 == address.size() ||
      (!bracketed && host.find(':') != std::string::npos)) {
    return Status(Code::kUnsupported,
                  address + ": an address is host:port, [v6-host]:port or unix:/path");
  }
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = passive ? AI_PASSIVE : 0;
  addrinfo* found = nullptr;
  const int r = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), address.c_str() + colon + 1,
                              &hints, &found);
  if (r != 0) return Status(Code::kNotFound, address + ": cannot resolve: " + ::gai_strerror(r));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  std::vector<Endpoint> endpoints;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Endpoint e;
    std::memcpy(&e.storage, a->ai_addr, a->ai_addrlen);
    e.size = a->ai_addrlen;
    endpoints.push_back(e);
  }
  return endpoints;
}

Deadline after(milliseconds timeout) {
  // Bounded, so that milliseconds::max() for "for ever" does not overflow.
  return std::chrono::steady_clock::now() +
         std::clamp(timeout, milliseconds(0), milliseconds(std::chrono::hours(24 * 365)));
}

// 0 when `events` came, else an errno; ETIMEDOUT at the deadline.
int wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto rest = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd p = {.fd = fd, .events = events, .revents = 0};
    const int r = ::poll(&p, 1, static_cast<int>(std::clamp<int64_t>(rest.count(), 0, INT_MAX)));
    if (r > 0) return 0;
    if (r < 0 && errno != EINTR) return errno;
    if (r == 0 && std::chrono::steady_clock::now() >= deadline) return ETIMEDOUT;
  }
}

class SocketStream final : public Stream {
 public:
  SocketStream(Socket socket, std::string peer)
      : socket_(std::move(socket)), peer_(std::move(peer)) {
    const int on = 1;  // a unix socket has no such option, and needs none
    ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // What the system has taken nothing overtakes: no more than the line needs to stay busy.
    const int unsent = 128 << 10;
    ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  }

  Result<size_t> read(std::span<std::byte> to, milliseconds timeout) override {
    if (to.empty()) throw Error("Stream: read into an empty buffer");
    const Deadline deadline = after(timeout);
    for (;;) {
      const ssize_t n = ::recv(socket_.fd(), to.data(), to.size(), MSG_DONTWAIT);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return failed("read", peer_, errno);
      if (const int e = wait_for(socket_.fd(), POLLIN, deadline); e != 0) {
        return failed("read", peer_, e);
      }
    }
  }

  Status write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed("write", peer_, errno);
      bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
  }

  // The descriptor lives until the destructor: another thread may be using it.
  void close() override { ::shutdown(socket_.fd(), SHUT_RDWR); }
  std::string peer() const override { return peer_; }

 private:
  const Socket socket_;
  const std::string peer_;
};

class SocketListener final : public Listener {
 public:
  SocketListener(Socket socket, Endpoint local) : socket_(std::move(socket)), local_(local) {}
  ~SocketListener() override {
    if (local_.family() == AF_UNIX) ::unlink(address().c_str() + kUnix.size());
  }

  Result<std::unique_ptr<Stream>> accept(milliseconds timeout) override {
    const Deadline deadline = after(timeout);
    for (;;) {
      Endpoint peer;
      peer.size = sizeof peer.storage;
      Socket s(::accept4(socket_.fd(), reinterpret_cast<sockaddr*>(&peer.storage), &peer.size,
                         SOCK_CLOEXEC));
      if (s.fd() >= 0) {
        const bool named = peer.family() != AF_UNIX;  // the dialing end of a unix socket is not
        return std::unique_ptr<Stream>(
            std::make_unique<SocketStream>(std::move(s), named ? text_of(peer) : address()));
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) return failed("accept", address(), errno);
      if (const int e = wait_for(socket_.fd(), POLLIN, deadline); e != 0) {
        return failed("accept", address(), e);
      }
    }
  }

  std::string address() const override { return text_of(local_); }
  int descriptor() const override { return socket_.fd(); }

 private:
  const Socket socket_;
  const Endpoint local_;
};

// 0, or an errno. Blocking again afterwards.
int connect_to(const Endpoint& e, Socket& socket) {
  socket = Socket(::socket(e.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return errno;
  int error = ::connect(socket.fd(), e.get(), e.size) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    error = wait_for(socket.fd(), POLLOUT, after(kDialTimeout));
    socklen_t size = sizeof error;
    if (error == 0 && ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  if (error == 0) {
    const int flags = ::fcntl(socket.fd(), F_GETFL);
    if (flags < 0 || ::fcntl(socket.fd(), F_SETFL, flags & ~O_NONBLOCK) != 0) error = errno;
  }
  return error;
}

// 0, or an errno.
int bind_to(const Endpoint& e, Socket& socket) {
  socket = Socket(::socket(e.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return errno;
  const int on = 1;
  if (e.family() != AF_UNIX) ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.fd(), e.get(), e.size) != 0) return errno;
  return ::listen(socket.fd(), SOMAXCONN) == 0 ? 0 : errno;
}

// A socket file that nobody answers on was left behind by a process that died.
bool remove_stale(const Endpoint& e) {
  if (e.family() != AF_UNIX) return false;
  const char* path = reinterpret_cast<const sockaddr_un*>(&e.storage)->sun_path;
  struct stat s;
  if (::lstat(path, &s) != 0 || !S_ISSOCK(s.st_mode)) return false;  // other files refuse as well
  Socket probe;
  if (connect_to(e, probe) != ECONNREFUSED) return false;
  return ::unlink(path) == 0;
}

class SocketNet final : public Net {
 public:
  Result<std::unique_ptr<Stream>> dial(const std::string& address) override {
    Result<std::vector<Endpoint>> endpoints = resolve(address, false);
    if (!endpoints.ok()) return endpoints.status();
    int error = EADDRNOTAVAIL;
    for (const Endpoint& e : *endpoints) {
      Socket socket;
      error = connect_to(e, socket);
      if (error == 0) {
        return std::unique_ptr<Stream>(std::make_unique<SocketStream>(std::move(socket), address));
      }
    }
    return failed("connect", address, error);
  }

  Result<std::unique_ptr<Listener>> listen(const std::string& address) override {
    Result<std::vector<Endpoint>> endpoints = resolve(address, true);
    if (!endpoints.ok()) return endpoints.status();
    int error = EADDRNOTAVAIL;
    for (const Endpoint& e : *endpoints) {
      Socket socket;
      error = bind_to(e, socket);
      if (error == EADDRINUSE && remove_stale(e)) error = bind_to(e, socket);
      if (error != 0) continue;
      Endpoint local;
      local.size = sizeof local.storage;
      if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&local.storage), &local.size) !=
          0) {
        return failed("listen", address, errno);
      }
      return std::unique_ptr<Listener>(std::make_unique<SocketListener>(std::move(socket), local));
    }
    return failed("listen", address, error);
  }
};

}  // namespace

std::string host_of(const std::string& address) {
  if (address.starts_with(kUnix)) return "localhost";
  const std::string host = address.substr(0, address.rfind(':'));
  return host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
}

Net& real_net() {
  static SocketNet net;
  return net;
}

}  // namespace ndtrain
