#include "ndp/http/http_server.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <thread>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/http/http_connection.h"
#include "ndp/http/tls.h"

namespace ndtrain {
namespace {

constexpr std::chrono::milliseconds kGlance{100};  // how long a shutdown may wait for accept
// What a client gets to take the answer that is being written when the server ends.
constexpr std::chrono::seconds kFarewell{2};

}  // namespace

class HttpServer::Running {
 public:
  Running(std::unique_ptr<Listener> listener, HttpRoutes routes)
      : listener_(std::move(listener)), routes_(std::move(routes)) {
    acceptor_ = std::jthread([this](const std::stop_token& stop) { accept(stop); });
  }

  ~Running() {
    {
      const std::lock_guard lock(mutex_);
      acceptor_.request_stop();
      changed_.notify_all();
    }
    acceptor_.join();
    std::unique_lock lock(mutex_);
    for (Session& s : sessions_) s.connection.stop();
    // Only writing can be cut short; handlers are waited for.
    if (!changed_.wait_for(lock, kFarewell, [&] { return open() == 0; })) {
      for (Session& s : sessions_) s.connection.abandon();
    }
    changed_.wait(lock, [&] { return open() == 0; });
    lock.unlock();
    sessions_.clear();
  }

  std::string address() const { return listener_->address(); }
  const HttpRoutes& routes() const { return routes_; }

 private:
  struct Session {
    Session(std::unique_ptr<Stream> stream, const HttpRoutes& routes)
        : connection(std::move(stream), routes) {}
    HttpConnection connection;
    bool over = false;
    std::jthread thread;
  };

  int64_t open() const { return std::ranges::count(sessions_, false, &Session::over); }

  void accept(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Result<std::unique_ptr<Stream>> stream = listener_->accept(kGlance);
      std::unique_lock lock(mutex_);
      sessions_.remove_if([](const Session& s) { return s.over; });
      if (stream.ok()) {
        const TlsServer* const tls = routes_.protection.tls.get();
        add(tls ? tls->wrap(std::move(*stream)) : std::move(*stream));
        make_room(lock, stop);
      } else if (stream.status().code() != Code::kCancelled) {
        log::warn("{}", stream.status().message());
        changed_.wait_for(lock, kGlance, [&] { return stop.stop_requested(); });
      }
    }
  }

  void add(std::unique_ptr<Stream> stream) {
    Session& session = sessions_.emplace_back(std::move(stream), routes_);
    session.thread = std::jthread([this, &session] {
      session.connection.run();
      const std::lock_guard lock(mutex_);
      session.over = true;
      changed_.notify_all();
    });
  }

  void make_room(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
    const auto room = [&] { return stop.stop_requested() || open() < limits::kHttpConnections; };
    while (!room()) {
      for (Session& s : sessions_) s.connection.make_way();
      changed_.wait_for(lock, kGlance, room);
    }
  }

  const std::unique_ptr<Listener> listener_;
  const HttpRoutes routes_;
  std::mutex mutex_;  // of the list and of `over`
  std::condition_variable changed_;
  std::list<Session> sessions_;
  std::jthread acceptor_;
};

HttpServer::HttpServer(std::unique_ptr<Running> running) : running_(std::move(running)) {}
HttpServer::~HttpServer() = default;

std::string HttpServer::address() const { return running_->address(); }

std::vector<std::string> HttpServer::needs() const {
  std::vector<std::string> all;
  for (const HttpRoutes::Entry& e : running_->routes().entries) {
    std::string line =
        e.route.method + " " + e.route.pattern + ": " + std::string(name_of(e.route.need.role));
    if (e.route.need.scope == HttpScope::kPhotos) line += ", of photos";
    if (e.route.need.scope == HttpScope::kCollection) line += ", of a collection";
    if (!e.route.audit.what.empty()) line += ", recorded as " + e.route.audit.what;
    all.push_back(std::move(line));
  }
  return all;
}

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& address,
                                                       std::vector<Route> routes, int64_t max_body,
                                                       HttpProtection protection) {
  HttpRoutes compiled{.max_body = max_body, .protection = std::move(protection)};
  for (Route& route : routes) {
    std::regex pattern(route.pattern);
    compiled.entries.push_back({std::move(route), std::move(pattern)});
  }
  Result<std::unique_ptr<Listener>> listener = real_net().listen(address);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::make_unique<Running>(std::move(*listener), std::move(compiled))));
}

}  // namespace ndtrain
