#include <functional>

#include "framework/core/byte_reader.h"
#include "ndp/http/form_data.h"
#include "ndp/http/http_message.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/numbers.h"
#include "ndp/wire/protocol.h"
#include "ndp/wire/store_session.h"
#include "ndp/wire/tuner_sessions.h"
#include "tests/fuzz/fuzz_target.h"

namespace ndtrain::fuzz {
namespace {

using namespace ndp;
using std::chrono::seconds;

constexpr uint64_t kMostBody = 1 << 20;

// Messages one behind the other, each behind its length; those that are none are left out, as by
// gRPC, and what no peer may send is refused as the roles do it.
template <typename Message>
void each_message(std::string_view input, const std::function<void(const Message&, Status)>& f) {
  for (ByteReader reader(input); !reader.empty();) {
    Message message;
    const std::string_view bytes = reader.bytes(reader.varint());
    if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) continue;
    const Status admitted = wire::admit(message);
    f(message, admitted);
  }
}

std::string in_a_row(const std::vector<std::string>& messages) {
  std::string all;
  for (const std::string& m : messages) {
    put_varint(all, m.size());
    all += m;
  }
  return all;
}

wire::Hello hello() {
  wire::Hello h;
  h.set_store("attic");
  h.set_incarnation(1);
  h.set_version("0.1.0");
  return h;
}

// Whether a store, or a member, has got a session by it.
bool read_by_sessions(LinkRole of, std::string_view input) {
  constexpr LinkId kLink = 1;
  TunerSessions sessions({.id = "tuner", .term = 7}, kHeartbeat, kWindow, of);
  sessions.opened(seconds(0), kLink, {.peer = "somewhere"});
  Liveness::Time now = seconds(0);
  bool greeted = false;
  each_message<wire::FromStore>(input, [&](const wire::FromStore& m, const Status& admitted) {
    now += seconds(1);
    if (admitted.ok()) {
      sessions.message(now, kLink, m);
    } else {
      sessions.refuse(now, kLink, admitted.message());
    }
    greeted |= !sessions.stores().empty();
    sessions.tick(now);
  });
  return greeted;
}

bool read_as_tuner(std::string_view input) { return read_by_sessions(LinkRole::kStore, input); }
bool read_as_leader(std::string_view input) { return read_by_sessions(LinkRole::kMember, input); }

std::vector<std::string> from_members() {
  wire::FromStore greeting, left;
  *greeting.mutable_hello() = hello();
  for (const uint32_t p : kProtocols) greeting.mutable_hello()->add_protocols(p);
  greeting.mutable_hello()->set_site("cellar");
  left.set_term(7);
  left.mutable_left_training()->set_training(1);
  left.mutable_left_training()->set_failure("its disk is full");
  return {in_a_row({greeting.SerializeAsString(), left.SerializeAsString()})};
}

std::vector<std::string> from_stores() {
  wire::FromStore greeting, ping, done;
  *greeting.mutable_hello() = hello();
  for (const uint32_t p : kProtocols) greeting.mutable_hello()->add_protocols(p);
  ping.set_term(7);
  ping.mutable_ping();
  done.set_term(7);
  done.mutable_run_done();
  return {
      in_a_row({greeting.SerializeAsString(), ping.SerializeAsString(), done.SerializeAsString()})};
}

bool read_as_store(std::string_view input) {
  StoreSession session(hello(), {}, 1);
  Liveness::Time now = seconds(0);
  session.tick(now);
  session.opened(now);
  bool welcome = false;
  each_message<wire::ToStore>(input, [&](const wire::ToStore& m, const Status& admitted) {
    now += seconds(1);
    if (admitted.ok()) {
      session.message(now, m);
    } else {
      session.refuse(now, admitted.message());
    }
    welcome |= session.open();
    if (session.tick(now).dial) session.opened(now);
  });
  return welcome;
}

std::vector<std::string> to_stores() {
  TunerSessions sessions({.id = "tuner", .term = 7}, kHeartbeat, kWindow);
  sessions.opened(seconds(0), 1, {.peer = "somewhere"});
  wire::FromStore greeting;
  *greeting.mutable_hello() = hello();
  for (const uint32_t p : kProtocols) greeting.mutable_hello()->add_protocols(p);
  const wire::ToStore welcome = sessions.message(seconds(0), 1, greeting).send.at(0).second;
  wire::ToStore job, publish, join;
  job.set_term(7);
  job.mutable_job();
  publish.set_term(7);
  publish.mutable_publish();
  join.set_term(7);
  join.mutable_join_training()->set_training(1);
  join.mutable_join_training()->set_job(1);
  join.mutable_join_training()->set_rank(1);
  join.mutable_join_training()->set_ranks(2);
  join.mutable_join_training()->set_address("10.0.0.7:4000");
  return {in_a_row({welcome.SerializeAsString(), job.SerializeAsString(),
                    publish.SerializeAsString(), join.SerializeAsString()})};
}

bool read_request(std::string_view input) {
  HttpRequestReader reader;
  std::string bytes(input);
  bool any = false;
  while (!bytes.empty()) {
    if (reader.head(bytes) != HttpRequestReader::Got::kWhole) break;
    if (reader.last().has_body() &&
        reader.body(bytes, kMostBody) != HttpRequestReader::Got::kWhole) {
      break;
    }
    reader.take_body();
    any = true;
  }
  return any;
}

std::vector<std::string> requests() {
  return {"GET /jobs?limit=3 HTTP/1.1\r\nHost: tuner\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
          "POST /jobs HTTP/1.1\r\nHost: tuner\r\nContent-Length: 2\r\n\r\n{}",
          "PUT /photos/a HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n"
          "\r\n"};
}

bool read_answer(std::string_view input) {
  HttpAnswerReader reader(kMostBody);
  std::string bytes(input);
  const bool whole = reader.feed(bytes) == HttpAnswerReader::Got::kWhole ||
                     reader.end() == HttpAnswerReader::Got::kWhole;
  if (whole) reader.take();
  return whole;
}

std::vector<std::string> answers() {
  return {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
          "HTTP/1.0 404 Not Found\r\n\r\nnothing"};
}

// A line of the content type, then the body.
bool read_form(std::string_view input) {
  const size_t line = std::min(input.find('\n'), input.size());
  const std::string_view type = input.substr(0, line);
  std::string body(input.substr(std::min(line + 1, input.size())));
  return is_form(type) && leave_the_file(type, body).ok();
}

std::vector<std::string> forms() {
  return {
      "multipart/form-data; boundary=b\n--b\r\nContent-Disposition: form-data; name=\"f\"; "
      "filename=\"a.jpg\"\r\n\r\nbytes\r\n--b--\r\n"};
}

constexpr uint64_t kEnd = 1000;  // of numbers
constexpr size_t kMostNumbers = 100;

bool read_numbers(std::string_view input) { return unpack_numbers(input, kEnd, kMostNumbers).ok(); }
std::vector<std::string> numbers() { return {pack_numbers(std::vector<uint64_t>{0, 1, 7, 500})}; }

}  // namespace

std::vector<FuzzTarget> wire_targets() {
  return {{"tuner_sessions", read_as_tuner, from_stores},
          {"member_sessions", read_as_leader, from_members},
          {"numbers", read_numbers, numbers},
          {"store_session", read_as_store, to_stores},
          {"http_request", read_request, requests},
          {"http_answer", read_answer, answers},
          {"form_data", read_form, forms}};
}

}  // namespace ndtrain::fuzz
