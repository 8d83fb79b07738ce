#include "ndp/http/http_server.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>

#include "framework/core/log.h"
#include "ndp/http/event_loop.h"
#include "ndp/http/handler_threads.h"
#include "ndp/http/http_connection.h"
#include "ndp/http/http_origin.h"

namespace ndtrain::ndp {
namespace {

// What a client gets to take the answer that is being written when the server ends.
constexpr std::chrono::seconds kFarewell{2};
constexpr std::chrono::minutes kBetweenWords{1};

// A proxy, which speaks for many, may stand here.
bool speaks_for_many(const std::string& peer) {
  return peer == "127.0.0.1" || peer == "[::1]" || peer.starts_with("unix:");
}

HttpProtection with_own_names(HttpProtection protection, const std::string& address) {
  if (!protection.names) return protection;
  const std::string host = host_of_address(address);
  if (!address.starts_with("unix:")) protection.names->push_back(host);
  return protection;
}

}  // namespace

class HttpServer::Running {
 public:
  Running(std::unique_ptr<Listener> listener, HttpRoutes routes, const HttpLimits& limits)
      : address_(listener->address()),
        routes_(std::move(routes)),
        limits_(limits),
        threads_(HandlerThreads::bounds(limits.handlers,
                                        std::min(limits::kHttpReserved, limits.handlers / 2))) {
    shared_.over = [this](HttpConnection& c) { over(c); };
    shared_.drop_slow_body = [this] { return drop_slow_body(); };
    loop_.serve(std::move(listener), routes_.protection().tls,
                {.arrived = [this](EventLoop::Arrival a) { arrived(std::move(a)); },
                 .room = [this] { return room(); },
                 .tick = [this] { tick(); }});
  }

  ~Running() {
    loop_.post([this] {
      loop_.stop();
      shared_.stopping = true;
      for (const auto& c : copy()) c->stop();
      say_if_empty();
    });
    // Only writing can be cut short; handlers are waited for.
    std::future<void> empty = empty_.get_future();
    while (empty.wait_for(kFarewell) != std::future_status::ready) {
      loop_.post([this] {
        for (const auto& c : copy()) c->close();
      });
    }
  }

  void drain() {
    std::promise<void> begun;
    loop_.post([this, &begun] {
      loop_.close_door();
      shared_.draining = true;
      for (const auto& c : copy()) c->end_pieces();
      look_whether_drained();
      begun.set_value();
    });
    begun.get_future().wait();
  }
  bool drained() const { return drained_; }

  std::string address() const { return address_; }
  const HttpRoutes& routes() const { return routes_; }

 private:
  using Time = HttpConnection::Time;
  using Connection = std::shared_ptr<HttpConnection>;

  // All below on the loop's thread.
  std::vector<Connection> copy() const { return connections_; }

  void over(HttpConnection& c) {
    std::erase_if(connections_, [&](const Connection& o) { return o.get() == &c; });
    if (shared_.stopping) say_if_empty();
  }
  void say_if_empty() {
    if (connections_.empty() && !std::exchange(said_, true)) empty_.set_value();
  }

  bool room() {
    const auto most = static_cast<size_t>(4 * limits_.connections);
    if (connections_.size() < most) return true;
    const auto now = std::chrono::steady_clock::now();
    return drop(slowest([&](const Connection& c) { return c->spare(now); })) ||
           drop(slowest([](const Connection&) { return true; }));
  }

  void arrived(EventLoop::Arrival a) {
    const auto now = std::chrono::steady_clock::now();
    const std::string peer = a.peer;
    const auto same = [&](const Connection& c) { return c->peer() == peer; };
    if (!speaks_for_many(peer) &&
        std::ranges::count_if(connections_, same) >= limits_.per_address && !drop(slowest(same))) {
      ++dropped_;  // all it has are being answered
      return a.socket->close();
    }
    connections_.push_back(std::make_shared<HttpConnection>(shared_, std::move(a)));
    const Connection newest = connections_.back();
    newest->start();
    const auto spare = [&](const Connection& c) { return c != newest && c->spare(now); };
    while (connections_.size() >= static_cast<size_t>(limits_.connections) &&
           drop(slowest(spare))) {
    }
  }

  bool drop_slow_body() {
    const auto now = std::chrono::steady_clock::now();
    return drop(slowest([&](const Connection& c) { return c->brings_a_body() && c->spare(now); }));
  }

  // Of those that `may` go, who has held the server up for the longest.
  template <typename F>
  Connection slowest(F may) const {
    const auto now = std::chrono::steady_clock::now();
    Connection worst;
    std::chrono::nanoseconds most = std::chrono::nanoseconds::min();
    for (const Connection& c : connections_) {
      const auto held = c->held_up(now);
      if (!held || *held <= most || !may(c)) continue;
      most = *held;
      worst = c;
    }
    return worst;
  }
  bool drop(const Connection& c) {
    if (!c) return false;
    ++dropped_;
    c->close();
    return true;
  }

  void look_whether_drained() {
    const auto now = std::chrono::steady_clock::now();
    drained_ =
        std::ranges::none_of(connections_, [&](const Connection& c) { return c->underway(now); });
  }

  void tick() {
    const auto now = std::chrono::steady_clock::now();
    for (const Connection& c : copy()) c->tick(now);
    if (shared_.draining) look_whether_drained();
    if (dropped_ == 0 || now - spoke_ < kBetweenWords) return;
    log::warn("{}: {} connections made way to others: there are {} at a time, {} of one address",
              address_, std::exchange(dropped_, 0), limits_.connections, limits_.per_address);
    spoke_ = now;
  }

  const std::string address_;
  const HttpRoutes routes_;
  const HttpLimits limits_;
  HttpShared shared_{loop_, threads_, routes_, limits_};
  EventLoop loop_;
  HandlerThreads threads_;  // whose tasks use the loop
  std::vector<Connection> connections_;
  int64_t dropped_ = 0;
  Time spoke_ = {};
  std::atomic<bool> drained_ = false;
  bool said_ = false;
  std::promise<void> empty_;
};

HttpServer::HttpServer(std::unique_ptr<Running> running) : running_(std::move(running)) {}
HttpServer::~HttpServer() = default;

void HttpServer::drain() { running_->drain(); }
bool HttpServer::drained() const { return running_->drained(); }
std::string HttpServer::address() const { return running_->address(); }
std::vector<std::string> HttpServer::needs() const { return running_->routes().needs(); }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& address,
                                                       std::vector<Route> routes, int64_t max_body,
                                                       HttpProtection protection,
                                                       const HttpLimits& limits) {
  HttpRoutes compiled(std::move(routes), max_body, with_own_names(std::move(protection), address));
  Result<std::unique_ptr<Listener>> listener = real_net().listen(address);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::make_unique<Running>(std::move(*listener), std::move(compiled), limits)));
}

}  // namespace ndtrain::ndp
