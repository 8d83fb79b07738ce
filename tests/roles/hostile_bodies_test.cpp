// Bodies that are made to cost, at every route of a Tuner and of a PipeStore.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <zlib.h>

#include <fstream>
#include <regex>

#include "tests/http/raw_http.h"
#include "tests/roles/access_fixture.h"
#include "tests/support/sanitizers.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

using testing::RoleAccess;
using testing::RunningStore;
using testing::RunningTuner;

using HostileBodies = RoleAccess;

struct Body {
  const char* name;
  std::string fields;  // of the head, besides Content-Length
  std::string bytes;
  size_t times = 1;  // that they come
};

std::string repeated(std::string_view text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

// `bytes` zeros in a thousandth of that.
std::string gzip_of_zeros(size_t bytes) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&z, bytes), '\0');
  std::string zeros(bytes, '\0');
  z.next_in = reinterpret_cast<Bytef*>(zeros.data());
  z.avail_in = static_cast<uInt>(zeros.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

std::string object_of_keys(int keys) {
  std::string json = "{";
  for (int i = 0; i < keys; ++i) json += "\"key" + std::to_string(i) + "\":0,";
  json.back() = '}';
  return json;
}

std::vector<Body> hostile_bodies() {
  const std::string json = "Content-Type: application/json\r\n";
  const std::string digits(30000, '9');
  return {
      {"60 MB of [", json, std::string(60'000, '['), 1000},
      {"30 MB of [", json, std::string(30'000, '['), 1000},
      {"60 MB of [, of no type", "", std::string(60'000, '['), 1000},
      {"10,000 objects in each other", json, repeated("{\"a\":", 10'000)},
      {"60 MB of zeros by gzip", json + "Content-Encoding: gzip\r\n", gzip_of_zeros(60'000'000)},
      {"the same, unsaid", json, gzip_of_zeros(60'000'000)},
      {"100,000 keys", json, object_of_keys(100'000)},
      {"5,000 keys", json, object_of_keys(5000)},
      {"huge numbers", json,
       R"({"kind":"finetune","stores":1e999999,"epochs":)" + digits + R"(,"seed":-)" + digits +
           R"(,"label":1e-999999})"}};
}

// A path that fits the pattern: each group is what first fits it of what groups are made for.
std::string path_for(std::string pattern) {
  const std::vector<std::string> candidates = {"1", std::string(64, '0'), "main.js", "nobody"};
  static const std::regex group(R"(\((?:[^()]|\(\?:[^()]*\)\??)*\))");
  std::smatch found;
  while (std::regex_search(pattern, found, group)) {
    std::string text = found.str();
    const auto fits = std::ranges::find_if(
        candidates, [&](const std::string& c) { return std::regex_match(c, std::regex(text)); });
    const std::string first = text.substr(1, text.find_first_of("|)") - 1);
    pattern.replace(static_cast<size_t>(found.position()), text.size(),
                    fits != candidates.end() ? *fits : first);
  }
  return pattern;
}

struct Route {
  std::string method, path;
};

std::vector<Route> routes_of(const std::vector<std::string>& needs) {
  std::vector<Route> routes;
  for (const std::string& need : needs) {
    const size_t space = need.find(' ');
    const std::string pattern = need.substr(space + 1, need.rfind(": ") - space - 1);
    routes.push_back({need.substr(0, space), path_for(pattern)});
    EXPECT_TRUE(std::regex_match(routes.back().path, std::regex(pattern))) << need;
  }
  return routes;
}

// The most memory this process had since it was forgotten, in bytes.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) << 10;
  }
  return 0;
}
void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

struct Answer {
  int status = 0;
  std::chrono::duration<double, std::milli> took{};
};

// What a client is answered that sends all of the body, or what it can.
Answer ask(const std::string& address, const Route& route, const Body* body) {
  support::RawHttp raw(address);
  const size_t length = body ? body->bytes.size() * body->times : 0;
  const std::string fields = body ? body->fields : "";
  const auto begun = std::chrono::steady_clock::now();
  raw.say(route.method + " " + route.path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
          "Content-Length: " + std::to_string(length) + "\r\n\r\n");
  std::thread sender([&] {  // until the server closes the connection
    for (size_t i = 0; body && i < body->times; ++i) {
      if (!raw.try_say(body->bytes).ok()) return;
    }
  });
  const std::string head = raw.hear("\r\n");
  const auto took = std::chrono::steady_clock::now() - begun;
  EXPECT_TRUE(head.starts_with("HTTP/1.1 ")) << route.method << ' ' << route.path << ": " << head;
  sender.join();
  return {head.size() > 12 ? std::stoi(head.substr(9, 3)) : 0, took};
}

// Routes that take no body answer as without one, and the others refuse it.
void expect_refused(const std::string& address, const std::vector<std::string>& needs) {
  const std::vector<Body> bodies = hostile_bodies();
  Answer slowest;
  int asked = 0;
  for (const Route& route : routes_of(needs)) {
    const int plain = ask(address, route, nullptr).status;
    for (const Body& body : bodies) {
      SCOPED_TRACE(route.method + " " + route.path + ", " + body.name);
      forget_peak();
      const int64_t before = peak_memory();
      const Answer answer = ask(address, route, &body);
      const bool refused = answer.status >= 400 && answer.status < 500;
      EXPECT_TRUE(refused || answer.status == plain) << answer.status << ", without: " << plain;
      const int64_t more = support::under_sanitizer() ? 0 : peak_memory() - before;
      EXPECT_LE(more, int64_t{16} << 20);
      if (answer.took > slowest.took) slowest = answer;
      ++asked;
    }
  }
  // Where others have the cores, this says nothing of the server.
  fmt::print("{} bodies, the slowest refused in {:.1f} ms\n", asked, slowest.took.count());
}

TEST_F(HostileBodies, AreRefusedByEveryRouteOfATuner) {
  RunningTuner t(tuner_config(), devices_);
  const RunningStore a(store_config(), devices_);  // which photos are handed on to
  const auto places = [&] { return client(t.http(), "").post("/photos", "").or_throw().status; };
  await([&] { return places() == 307; });
  expect_refused(t.http(), t.http_needs());
}

TEST_F(HostileBodies, AreRefusedByEveryRouteOfAPipeStore) {
  RunningStore a(store_config(), devices_);
  expect_refused(a.http(), a.http_needs());
}

}  // namespace
}  // namespace ndtrain::tuner
