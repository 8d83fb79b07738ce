// A server of S3 as if it were far away and busy, for measurements:
//   ndt_s3_relay LISTEN SERVER DELAY_MS BUSY
// Requests to LISTEN (HOST:PORT) are passed on to SERVER after DELAY_MS, as they are; of BUSY of
// them (0: none), one is answered 503 SlowDown instead. Requests must have no body.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "framework/core/clock.h"
#include "framework/core/error.h"
#include "framework/core/net.h"

namespace {

using namespace ndtrain;

constexpr std::chrono::milliseconds kLong = std::chrono::hours(24);
constexpr std::string_view kEnd = "\r\n\r\n";

struct Setting {
  std::string server;
  std::chrono::milliseconds delay;
  int busy;
};
std::atomic<int> requests = 0;

bool write(Stream& to, std::string_view text) {
  return to.write(std::as_bytes(std::span(text))).ok();
}

std::string busy_answer() {
  const std::string xml =
      "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>busy</Message></Error>";
  return fmt::format("HTTP/1.1 503 Slow Down\r\nContent-Length: {}\r\n\r\n{}", xml.size(), xml);
}

// Until either end closes.
void pass_answers(Stream& server, Stream& client) {
  std::string buffer(size_t{1} << 18, '\0');
  while (true) {
    const auto n = server.read(std::as_writable_bytes(std::span(buffer)), kLong);
    if (!n.ok() || *n == 0) return client.close();
    if (!client.write(std::as_bytes(std::span(buffer)).first(*n)).ok()) return server.close();
  }
}

// A client waits for each answer before it asks again, so 503s need no place among the others.
void serve(Stream& client, const Setting& setting) {
  const std::unique_ptr<Stream> server = real_net().dial(setting.server).or_throw();
  const std::jthread answers([&] { pass_answers(*server, client); });
  std::string waiting, buffer(size_t{1} << 16, '\0');
  while (true) {
    const auto n = client.read(std::as_writable_bytes(std::span(buffer)), kLong);
    if (!n.ok() || *n == 0) return server->close();
    waiting.append(buffer, 0, *n);
    for (size_t end; (end = waiting.find(kEnd)) != std::string::npos;) {
      const std::string request = waiting.substr(0, end + kEnd.size());
      waiting.erase(0, request.size());
      system_clock().sleep(setting.delay);
      const int number = ++requests;
      const bool busy = setting.busy > 0 && number % setting.busy == 0;
      if (!(busy ? write(client, busy_answer()) : write(*server, request))) return server->close();
    }
  }
}

int run(const std::string& listen, const Setting& setting) {
  const std::unique_ptr<Listener> listener = real_net().listen(listen).or_throw();
  while (true) {
    std::shared_ptr<Stream> client = listener->accept(kLong).or_throw();
    std::thread([client, setting] {
      try {
        serve(*client, setting);
      } catch (const std::exception& e) {
        fmt::print(stderr, "{}\n", e.what());
        client->close();
      }
    }).detach();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) throw Error("ndt_s3_relay LISTEN SERVER DELAY_MS BUSY");
    return run(argv[1], {.server = argv[2],
                         .delay = std::chrono::milliseconds(std::atoi(argv[3])),
                         .busy = std::atoi(argv[4])});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
