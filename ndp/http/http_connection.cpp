#include "ndp/http/http_connection.h"

#include <algorithm>
#include <exception>
#include <new>

#include "framework/core/log.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::nanoseconds;

// A client that is still sending what nobody wants would not see why when we just hung up.
constexpr int64_t kUnwanted = int64_t{64} << 20;
constexpr std::chrono::seconds kLast{1};
constexpr size_t kOnePacket = 4096;  // up to which a body goes with its head
constexpr size_t kWrite = size_t{256} << 10;

HttpResponse guarded(const std::function<HttpResponse()>& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    return http_error(503, "out of memory; ask again later, or for less");
  } catch (const std::exception& e) {
    return http_error(500, e.what());
  }
}

HttpResponse busy(const std::string& why) {
  HttpResponse r = http_error(503, why);
  r.headers["Retry-After"] = "1";
  return r;
}

}  // namespace

void HttpConnection::start() {
  enter(Phase::kHandshake);
  socket_->handshake([self = shared_from_this()](bool done, size_t) {
    if (self->phase_ == Phase::kOver) return;
    if (!done) return self->close();
    self->enter(Phase::kHead);
    self->read_head();
  });
}

void HttpConnection::close() {
  if (phase_ == Phase::kOver || phase_ == Phase::kWork) return;
  enter(Phase::kOver);
  socket_->close();
  pieces_ = nullptr;
  plan_ = {};
  shared_.over(*this);
}

void HttpConnection::stop() {
  const bool underway = phase_ == Phase::kWork || phase_ == Phase::kBody ||
                        phase_ == Phase::kWrite || phase_ == Phase::kLast;
  if (!underway || pieces_) close();
}

void HttpConnection::end_pieces() {
  if (phase_ == Phase::kPieces || pieces_) close();
}

void HttpConnection::enter(Phase phase) {
  phase_ = phase;
  since_ = std::chrono::steady_clock::now();
  moved_ = 0;
}

nanoseconds HttpConnection::allowed() const {
  switch (phase_) {
    case Phase::kHandshake:
    case Phase::kHead:
      return shared_.limits.head;
    case Phase::kIdle:
      return shared_.limits.idle;
    case Phase::kBody:
      return shared_.limits.body;
    case Phase::kWrite:
      return shared_.limits.write;
    case Phase::kLast:
      return kLast;
    default:  // it is the server's turn
      return nanoseconds::max();
  }
}

std::optional<nanoseconds> HttpConnection::held_up(Time now) const {
  // Between pieces nobody waits for anybody, but there is one to make way.
  if (phase_ == Phase::kWork || phase_ == Phase::kOver) return std::nullopt;
  return now - since_ - nanoseconds(std::chrono::seconds(1)) / limits::kHttpSlowest * moved_;
}

bool HttpConnection::spare(Time now) const {
  if (phase_ == Phase::kIdle || phase_ == Phase::kPieces || phase_ == Phase::kLast) return true;
  const std::optional<nanoseconds> held = held_up(now);
  return held && *held > shared_.limits.patience;
}

bool HttpConnection::underway(Time now) const {
  const bool comes = phase_ == Phase::kHandshake || phase_ == Phase::kHead;
  return comes ? !spare(now) : phase_ != Phase::kIdle && phase_ != Phase::kOver;
}

void HttpConnection::tick(Time now) {
  if (phase_ == Phase::kPieces && !asked_) return ask_piece();
  const std::optional<nanoseconds> held = held_up(now);
  if (held && *held > allowed()) close();
}

void HttpConnection::receive(void (HttpConnection::*then)()) {
  reading_ = true;
  socket_->read_some(input_, [self = shared_from_this(), then](bool done, size_t n) {
    HttpConnection& c = *self;
    c.reading_ = false;
    if (c.phase_ == Phase::kOver) return;
    if (!done || n == 0) return c.close();
    c.bytes_.append(c.input_.data(), n);
    if (c.phase_ == Phase::kIdle) c.enter(Phase::kHead);
    // A head has no more time for coming in small pieces.
    if (c.phase_ != Phase::kHead) c.moved_ += static_cast<int64_t>(n);
    (c.*then)();
  });
}

void HttpConnection::read_head() {
  switch (reader_.head(bytes_)) {
    case HttpRequestReader::Got::kPart:
      return receive(&HttpConnection::read_head);
    case HttpRequestReader::Got::kRefused:
      return refuse(reader_.refusal());
    case HttpRequestReader::Got::kWhole:
      return plan();
  }
}

void HttpConnection::plan() {
  enter(Phase::kWork);
  unread_ = reader_.last().has_body();
  shared_.threads.run(RequestClass::kHealth, ends_.peer, [self = shared_from_this()] {
    HttpConnection& c = *self;  // nobody else touches what is used here meanwhile
    auto plan = std::make_shared<HttpPlan>();
    const HttpHead& head = c.reader_.last();
    // Unless it must wait for a body or for its turn, this is the thread to answer on.
    HttpResponse answer = guarded([&] {
      *plan = c.shared_.routes.plan(head, c.ends_);
      c.shared_.routes.admit(*plan);
      if (plan->route && plan->ready && c.shared_.draining) return busy("the process stops");
      const bool now = plan->route && plan->of == RequestClass::kHealth && !plan->reads;
      return now ? c.shared_.routes.answer(*plan) : HttpResponse{.status = 0};
    });
    if (answer.status != 0) *plan = {.answer = std::move(answer)};
    c.shared_.loop.post([self, plan] { self->planned(std::move(*plan)); });
  });
}

void HttpConnection::planned(HttpPlan plan) {
  plan_ = std::move(plan);
  if (plan_.crowded && shared_.drop_slow_body()) return ask_for_room();
  if (!plan_.route || plan_.crowded) return answered(std::move(plan_.answer));
  if (const auto why = shared_.bounds.objection(plan_.of, plan_.client)) {
    return answered(busy(*why));
  }
  return plan_.reads ? take_body() : work();
}

// Places for bodies are held while these come, so one that does not come makes way.
void HttpConnection::ask_for_room() {
  shared_.threads.run(RequestClass::kHealth, ends_.peer, [self = shared_from_this()] {
    auto plan = std::make_shared<HttpPlan>(std::move(self->plan_));
    HttpResponse failure = guarded([&] {
      self->shared_.routes.admit(*plan);
      return HttpResponse{.status = 0};
    });
    if (failure.status != 0) *plan = {.answer = std::move(failure)};
    self->shared_.loop.post([self, plan] { self->planned(std::move(*plan)); });
  });
}

void HttpConnection::take_body() {
  if (reader_.last().field("Expect") != "100-continue") {
    enter(Phase::kBody);
    return read_body();
  }
  enter(Phase::kBody);
  head_ = "HTTP/1.1 100 Continue\r\n\r\n";
  socket_->write_some(head_, [self = shared_from_this()](bool done, size_t n) {
    if (self->phase_ == Phase::kOver) return;
    if (!done || n < self->head_.size()) return self->close();
    self->read_body();
  });
}

void HttpConnection::read_body() {
  switch (reader_.body(bytes_, plan_.most_bytes)) {
    case HttpRequestReader::Got::kPart:
      if (auto no = HttpRoutes::objection(plan_, reader_.body_so_far())) {
        return refuse(*std::move(no));
      }
      return receive(&HttpConnection::read_body);
    case HttpRequestReader::Got::kRefused: {
      const bool large = reader_.refusal().status == 413;
      return refuse(large ? HttpRoutes::too_large(plan_) : reader_.refusal());
    }
    case HttpRequestReader::Got::kWhole:
      unread_ = false;
      plan_.request.body = reader_.take_body();
      enter(Phase::kWork);
      return work();
  }
}

void HttpConnection::work() {
  counted_ = true;
  shared_.bounds.take(plan_.of, plan_.client);
  shared_.threads.run(plan_.of, plan_.client, [self = shared_from_this()] {
    HttpConnection& c = *self;
    auto response =
        std::make_shared<HttpResponse>(guarded([&] { return c.shared_.routes.answer(c.plan_); }));
    c.shared_.loop.post([self, response] { self->answered(std::move(*response)); });
  });
}

void HttpConnection::refuse(HttpResponse response) {
  unread_ = true;
  answered(std::move(response));
}

void HttpConnection::answered(HttpResponse response) {
  if (std::exchange(counted_, false)) shared_.bounds.give_back(plan_.of, plan_.client);
  plan_ = {};
  if (phase_ == Phase::kOver) return;
  const HttpHead& head = reader_.last();
  close_ = unread_ || !head.keep_alive || response.pieces || shared_.stopping || shared_.draining;
  const auto length = response.pieces ? std::nullopt : std::optional(response.body.size());
  head_ = answer_head(response, length, close_, head.old);
  const bool without = head.method == "HEAD" || response.pieces;
  body_ = without ? "" : std::move(response.body);
  if (head.method != "HEAD") pieces_ = std::move(response.pieces);
  if (body_.size() <= kOnePacket) head_ += std::exchange(body_, {});
  sent_ = 0;
  enter(Phase::kWrite);
  write();
}

void HttpConnection::write() {
  std::span<const char> rest = std::span(head_).subspan(std::min(sent_, head_.size()));
  if (rest.empty()) rest = std::span(body_).subspan(sent_ - head_.size());
  if (rest.empty()) return written();
  rest = rest.first(std::min(rest.size(), kWrite));
  socket_->write_some(rest, [self = shared_from_this()](bool done, size_t n) {
    HttpConnection& c = *self;
    if (c.phase_ == Phase::kOver) return;
    if (!done || n == 0) return c.close();
    c.sent_ += n;
    c.moved_ += static_cast<int64_t>(n);
    c.write();
  });
}

void HttpConnection::written() {
  head_.clear();
  body_ = {};
  if (pieces_) {
    enter(Phase::kPieces);
    if (!reading_) watch();
    return ask_piece();
  }
  if (close_) return say_goodbye();
  enter(bytes_.empty() ? Phase::kIdle : Phase::kHead);
  if (shared_.stopping) return close();
  read_head();
}

void HttpConnection::ask_piece() {
  if (phase_ == Phase::kOver || asked_) return;
  if (shared_.stopping || shared_.draining) return close();
  asked_ = true;
  // Nothing of it waits, so it is as urgent as anything.
  auto ask = std::make_shared<std::function<std::optional<std::string>()>>(std::move(pieces_));
  shared_.threads.run(RequestClass::kHealth, ends_.peer, [self = shared_from_this(), ask] {
    auto piece = std::make_shared<std::optional<std::string>>();
    const HttpResponse failure = guarded([&] {
      *piece = (*ask)();
      return HttpResponse();
    });
    if (failure.status != 200) log::warn("an answer ends early: {}", failure.body);
    self->shared_.loop.post([self, ask, piece] {
      self->asked_ = false;
      if (self->phase_ == Phase::kOver) return;
      self->pieces_ = std::move(*ask);
      self->got_piece(std::move(*piece));
    });
  });
}

void HttpConnection::got_piece(std::optional<std::string> piece) {
  if (!piece) {
    pieces_ = nullptr;
    return say_goodbye();
  }
  if (piece->empty()) return;  // until the next tick
  head_ = *std::move(piece);
  sent_ = 0;
  enter(Phase::kWrite);
  write();
}

void HttpConnection::watch() {
  bytes_.clear();
  receive(&HttpConnection::watch);
}

void HttpConnection::say_goodbye() {
  enter(Phase::kLast);
  // Who still sends over TLS hears the end of it when it has sent all.
  if (socket_->secure() && unread_) return read_rest();
  socket_->end_writing([self = shared_from_this()](bool done, size_t) {
    if (self->phase_ == Phase::kOver) return;
    const bool enough = self->shared_.stopping && !self->unread_;
    if (!done || self->socket_->secure() || enough) return self->close();
    self->read_rest();
  });
}

void HttpConnection::read_rest() {
  bytes_.clear();
  if (moved_ > kUnwanted) return close();
  if (!reading_) receive(&HttpConnection::read_rest);
}

}  // namespace ndtrain::ndp
