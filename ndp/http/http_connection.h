// One connection of an HttpServer, from its first byte to its end: a state machine on the event
// loop's thread, which hands the work of handlers to other threads.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ndp/http/event_loop.h"
#include "ndp/http/handler_threads.h"
#include "ndp/http/http_limits.h"
#include "ndp/http/http_message.h"
#include "ndp/http/http_routes.h"
#include "ndp/http/request_bounds.h"

namespace ndtrain::ndp {

// What the connections of a server share. All but `threads`, `routes` and `draining` is of the
// loop's thread.
struct HttpShared {
  EventLoop& loop;
  HandlerThreads& threads;
  const HttpRoutes& routes;
  const HttpLimits limits;
  RequestBounds bounds{limits.connections};
  std::atomic<bool> draining = false;  // each answer is the last of its connection
  bool stopping = false;
  std::function<void(class HttpConnection&)> over = {};  // called once for each
  // Drops the connection that is slowest with a body, if one has had its time.
  std::function<bool()> drop_slow_body = {};
};

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Time = std::chrono::steady_clock::time_point;

  HttpConnection(HttpShared& shared, EventLoop::Arrival arrival)
      : shared_(shared),
        socket_(std::move(arrival.socket)),
        ends_{std::move(arrival.peer), std::move(arrival.local), arrival.user} {}

  void start();
  void close();  // at once, but while a handler works for it
  // No request is taken after the one underway, whose answer is still sent.
  void stop();
  void end_pieces();    // of an answer that would go on without end
  void tick(Time now);  // ends it when its client has used up its time

  const std::string& peer() const { return ends_.peer; }
  // How long its client has held it up; nullopt while it is the server's turn.
  std::optional<std::chrono::nanoseconds> held_up(Time now) const;
  // It waits for nothing, or has had its time: it goes before others.
  bool spare(Time now) const;
  // A request is there, or may well be about to come.
  bool underway(Time now) const;
  bool brings_a_body() const { return phase_ == Phase::kBody; }

 private:
  enum class Phase { kHandshake, kIdle, kHead, kWork, kBody, kWrite, kPieces, kLast, kOver };

  void enter(Phase phase);
  std::chrono::nanoseconds allowed() const;  // of the phase, without what its bytes give
  void receive(void (HttpConnection::*then)());
  void read_head();
  void plan();
  void planned(HttpPlan plan);
  void ask_for_room();
  void take_body();
  void read_body();
  void work();
  void answered(HttpResponse response);
  void refuse(HttpResponse response);  // and end, since its next request cannot be found
  void write();
  void written();
  void ask_piece();
  void got_piece(std::optional<std::string> piece);
  void watch();  // for the end of a client that follows
  void say_goodbye();
  void read_rest();

  HttpShared& shared_;
  const std::unique_ptr<LoopSocket> socket_;
  const HttpEndpoints ends_;

  Phase phase_ = Phase::kHandshake;
  Time since_ = std::chrono::steady_clock::now();  // when the phase began
  int64_t moved_ = 0;                              // bytes in it
  bool unread_ = false, reading_ = false, counted_ = false, asked_ = false;

  std::array<char, 16384> input_;
  std::string bytes_;  // that came and are not understood yet
  HttpRequestReader reader_;
  HttpPlan plan_;
  std::string head_, body_;  // of the answer
  size_t sent_ = 0;          // of both
  bool close_ = false;       // after it
  std::function<std::optional<std::string>()> pieces_;
};

}  // namespace ndtrain::ndp
