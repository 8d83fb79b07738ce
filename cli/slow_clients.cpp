#include "cli/slow_clients.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "cli/verb.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kByte{1000};  // between two bytes of one of them
constexpr milliseconds kHandshake{5000};
constexpr int kRequests = 4;       // that a reader has under way
constexpr int kUntaken = 4 << 10;  // bytes that the system may take for it

// A connection from an address of the caller's choice, within this machine.
class LocalStream final : public Stream {
 public:
  // `server` is 127.0.0.1:PORT; `from` the last byte of the own address.
  static Result<std::unique_ptr<Stream>> dial(const std::string& server, int64_t from) {
    const size_t colon = server.rfind(':');
    sockaddr_in to = {.sin_family = AF_INET};
    to.sin_port = htons(static_cast<uint16_t>(std::atoi(server.c_str() + colon + 1)));
    if (::inet_pton(AF_INET, host_of(server).c_str(), &to.sin_addr) != 1) {
      return Status(Code::kUnsupported, server + ": --addresses needs one like 127.0.0.1:8420");
    }
    auto stream = std::make_unique<LocalStream>(server);
    const int bytes = kUntaken;
    ::setsockopt(stream->fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    sockaddr_in own = {.sin_family = AF_INET};
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + static_cast<uint32_t>(from));
    if (::bind(stream->fd_, reinterpret_cast<sockaddr*>(&own), sizeof own) != 0 ||
        ::connect(stream->fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) {
      return stream->failed("connect");
    }
    return std::unique_ptr<Stream>(std::move(stream));
  }

  explicit LocalStream(std::string server)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), server_(std::move(server)) {}
  ~LocalStream() override { ::close(fd_); }

  Result<size_t> read(std::span<std::byte> to, milliseconds timeout) override {
    pollfd p = {.fd = fd_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&p, 1, static_cast<int>(timeout.count()));
    if (ready == 0) return Status(Code::kCancelled, server_ + ": nothing came");
    const ssize_t n = ready < 0 ? -1 : ::recv(fd_, to.data(), to.size(), 0);
    if (n < 0) return failed("read");
    return static_cast<size_t>(n);
  }
  Status write(std::span<const std::byte> bytes) override {
    const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return n == static_cast<ssize_t>(bytes.size()) ? Status() : failed("write");
  }
  void close() override { ::shutdown(fd_, SHUT_RDWR); }
  std::string peer() const override { return server_; }

 private:
  Status failed(const std::string& what) const {
    return {Code::kIo, fmt::format("{}: cannot {}: errno {}", server_, what, errno)};
  }

  const int fd_;
  const std::string server_;
};

std::string without_scheme(const std::string& address) {
  const size_t scheme = address.find("://");
  return scheme == std::string::npos ? address : address.substr(scheme + 3);
}

}  // namespace

std::vector<SlowClients::Kind> SlowClients::kinds_of(const std::vector<std::string>& names) {
  std::vector<Kind> kinds;
  for (const std::string& name : names) {
    if (name == "heads") {
      kinds.push_back(Kind::kHeads);
    } else if (name == "bodies") {
      kinds.push_back(Kind::kBodies);
    } else if (name == "readers") {
      kinds.push_back(Kind::kReaders);
    } else {
      throw UsageError("--kinds " + name + ": there are heads, bodies and readers");
    }
  }
  return kinds;
}

SlowClients::SlowClients(Setting setting)
    : setting_(std::move(setting)), secure_(setting_.address.starts_with("https://")) {
  setting_.address = without_scheme(setting_.address);
}

std::string SlowClients::opening(Kind kind) const {
  const std::string host = "Host: " + setting_.address + "\r\n";
  if (kind == Kind::kHeads) return "GET /healthz HTTP/1.1\r\n" + host + "X-Slow: ";
  if (kind == Kind::kBodies) {
    return "POST " + setting_.path + " HTTP/1.1\r\n" + host + "Content-Length: 1000000\r\n\r\n";
  }
  std::string all;
  for (int i = 0; i < kRequests; ++i) {
    all += "GET " + setting_.path + " HTTP/1.1\r\n" + host + "\r\n";
  }
  return all;
}

std::unique_ptr<Stream> SlowClients::dial(int64_t number) {
  ++dialled_;
  Result<std::unique_ptr<Stream>> s =
      setting_.addresses == 0
          ? real_net().dial(setting_.address)
          : LocalStream::dial(setting_.address, 2 + number % setting_.addresses);
  if (s.ok() && secure_) {
    s = setting_.trust.tls->wrap(std::move(*s), host_of(setting_.address), kHandshake);
  }
  const std::string first = opening(kind(number));
  if (!s.ok() || !(*s)->write(std::as_bytes(std::span(first))).ok()) return nullptr;
  return std::move(*s);
}

void SlowClients::hold(int64_t first, int64_t n, const std::atomic<bool>& over) {
  std::vector<std::unique_ptr<Stream>> streams(static_cast<size_t>(n));
  const auto goes_on = [&](Stream& s, Kind kind) {
    if (kind != Kind::kReaders) return s.write(std::as_bytes(std::span("x", 1))).ok();
    std::array<std::byte, 1> byte;
    const Result<size_t> got = s.read(byte, milliseconds(0));
    return got.ok() ? *got > 0 : got.status().code() == Code::kCancelled;
  };
  auto begun = Steady::now();
  for (; n > 0 && !over; begun = std::max(begun + kByte, Steady::now())) {
    // They know nothing of each other, so they do not speak at one moment.
    for (int64_t i = 0; i < n && !over; ++i) {
      std::unique_ptr<Stream>& s = streams[static_cast<size_t>(i)];
      if (!s || !goes_on(*s, kind(first + i))) s = dial(first + i);
      std::this_thread::sleep_until(begun + kByte * (i + 1) / n);
    }
  }
}

}  // namespace ndtrain::cli
