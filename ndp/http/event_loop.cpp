#include "ndp/http/event_loop.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <thread>

#include "framework/core/log.h"
#include "ndp/http/http_origin.h"
#include "ndp/http/peer_user.h"

namespace ndtrain::ndp {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using Socket = Protocol::socket;

constexpr int kWaiting = 128 << 10;  // bytes of an answer that the system may keep unsent
constexpr int kArrivals = 16;        // that are taken before others have their turn

auto answered(LoopSocket::Done done) {
  return [done = std::move(done)](const error_code& error, size_t n = 0) {
    const bool end = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
    done(!error || end, end ? 0 : n);
  };
}

class PlainSocket final : public LoopSocket {
 public:
  explicit PlainSocket(Socket socket) : socket_(std::move(socket)) {}

  void handshake(Done done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done(true, 0); });
  }
  void read_some(std::span<char> to, Done done) override {
    socket_.async_read_some(asio::buffer(to.data(), to.size()), answered(std::move(done)));
  }
  void write_some(std::span<const char> from, Done done) override {
    socket_.async_write_some(asio::buffer(from.data(), from.size()), answered(std::move(done)));
  }
  void end_writing(Done done) override {
    error_code error;
    socket_.shutdown(Socket::shutdown_send, error);
    asio::post(socket_.get_executor(), [done = std::move(done), error] { done(!error, 0); });
  }
  void close() override {
    error_code ignored;  // there is nobody to tell
    socket_.close(ignored);
  }
  bool secure() const override { return false; }

 private:
  Socket socket_;
};

class SecureSocket final : public LoopSocket {
 public:
  // By what the server shows now, for as long as the connection lives.
  SecureSocket(Socket socket, const TlsServer& tls)
      : context_(shared(tls)), stream_(std::move(socket), context_) {}

  void handshake(Done done) override {
    stream_.async_handshake(asio::ssl::stream_base::server, answered(std::move(done)));
  }
  void read_some(std::span<char> to, Done done) override {
    stream_.async_read_some(asio::buffer(to.data(), to.size()), answered(std::move(done)));
  }
  void write_some(std::span<const char> from, Done done) override {
    stream_.async_write_some(asio::buffer(from.data(), from.size()), answered(std::move(done)));
  }
  void end_writing(Done done) override { stream_.async_shutdown(answered(std::move(done))); }
  void close() override {
    error_code ignored;
    stream_.next_layer().close(ignored);
  }
  bool secure() const override { return true; }

 private:
  static SSL_CTX* shared(const TlsServer& tls) {
    const std::shared_ptr<SSL_CTX> context = tls.native();
    SSL_CTX_up_ref(context.get());
    return context.get();
  }

  asio::ssl::context context_;
  asio::ssl::stream<Socket> stream_;
};

// In brackets where it is IPv6; "" for a unix socket.
std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  }
  if (address.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  // A client of IPv4 that came to [::].
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    return ::inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text.data(), text.size());
  }
  return "[" + std::string(::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size())) + "]";
}

}  // namespace

class EventLoop::Running {
 public:
  Running() : work_(asio::make_work_guard(io_)), thread_([this] { io_.run(); }) {}
  ~Running() {
    work_.reset();
    thread_.join();
  }

  void post(std::function<void()> f) { asio::post(io_, std::move(f)); }

  void serve(std::unique_ptr<Listener> listener, std::shared_ptr<const TlsServer> tls,
             Calls calls) {
    listener_ = std::move(listener);
    calls_ = std::move(calls);
    tls_ = std::move(tls);
    // The listener keeps its own, and what belongs to it.
    const int fd = ::fcntl(listener_->descriptor(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) throw Error(listener_->address(), ": cannot be waited for, errno ", errno);
    arrivals_.assign(fd);
    post([this] {
      accept();
      tick();
    });
  }

  void close_door() {
    while (!closed_ && calls_.room() && accept_one() >= 0) {
    }
    close_listener();
  }

  void stop() {
    calls_ = {};
    stopped_ = true;
    close_listener();
    timer_.cancel();
  }

 private:
  void close_listener() {
    closed_ = true;
    error_code ignored;
    arrivals_.close(ignored);
    listener_.reset();
  }

  void accept() {
    waits_ = false;
    for (int i = 0; i < kArrivals; ++i) {
      if (closed_ || !calls_.room()) return;  // the tick goes on
      if (accept_one() < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return wait();
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (!said_) log::warn("{}: cannot accept: errno {}", listener_->address(), errno);
        said_ = true;
        return;
      }
      said_ = false;
    }
    waits_ = true;
    asio::post(io_, [this] { accept(); });
  }

  // -1: there was none, and errno says why.
  int accept_one() {
    sockaddr_storage peer = {}, local = {};
    socklen_t size = sizeof peer, local_size = sizeof local;
    const int fd = ::accept4(arrivals_.native_handle(), reinterpret_cast<sockaddr*>(&peer), &size,
                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return fd;
    // A unix socket has no such options, and needs none. What the system would take beyond what
    // the client does looked as if the client had taken it.
    const int on = 1, waiting = kWaiting;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &waiting, sizeof waiting);
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size);
    arrived(fd, peer, local);
    return fd;
  }

  void wait() {
    waits_ = true;
    arrivals_.async_wait(asio::posix::descriptor_base::wait_read, [this](const error_code& error) {
      if (!error) accept();
    });
  }

  void arrived(int fd, const sockaddr_storage& peer, const sockaddr_storage& local) {
    Socket socket(io_, Protocol(local.ss_family, 0), fd);
    Arrival a{.socket = nullptr, .peer = text_of(peer), .local = text_of(local)};
    if (a.local.empty()) a.peer = a.local = listener_->address();
    if (is_loopback_host(a.peer)) a.user = user_of_peer(peer, local);
    if (tls_) {
      a.socket = std::make_unique<SecureSocket>(std::move(socket), *tls_);
    } else {
      a.socket = std::make_unique<PlainSocket>(std::move(socket));
    }
    calls_.arrived(std::move(a));
  }

  void tick() {
    timer_.expires_after(calls_.every);
    timer_.async_wait([this](const error_code& error) {
      if (error || stopped_) return;
      calls_.tick();
      if (!waits_) accept();
      if (!stopped_) tick();
    });
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::shared_ptr<const TlsServer> tls_;  // null: in the clear
  std::unique_ptr<Listener> listener_;
  Calls calls_;
  asio::posix::stream_descriptor arrivals_{io_};
  asio::steady_timer timer_{io_};
  bool waits_ = false, closed_ = false, stopped_ = false, said_ = false;
  std::thread thread_;
};

EventLoop::EventLoop() : running_(std::make_unique<Running>()) {}
EventLoop::~EventLoop() = default;

void EventLoop::post(std::function<void()> f) { running_->post(std::move(f)); }
void EventLoop::serve(std::unique_ptr<Listener> listener, std::shared_ptr<const TlsServer> tls,
                      Calls calls) {
  running_->serve(std::move(listener), std::move(tls), std::move(calls));
}
void EventLoop::close_door() { running_->close_door(); }
void EventLoop::stop() { running_->stop(); }

}  // namespace ndtrain::ndp
