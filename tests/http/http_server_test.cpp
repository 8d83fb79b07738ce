#include "ndp/http/http_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <list>
#include <thread>

#include "framework/core/limits.h"
#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"
#include "tests/support/temporary_directory.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::steady_clock;
using support::RawHttp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

HttpResponse echo(const HttpRequest& q) {
  std::string text = q.method + " " + q.path;
  for (const std::string& c : q.captures) text += " [" + c + "]";
  for (const auto& [name, value] : q.query) text += " " + name + "=" + value;
  return {.body = text + " " + q.body, .type = "text/plain"};
}

std::vector<HttpServer::Route> echoes() {
  return {{"GET", "/healthz", Role::kAnyone, echo},
          {"GET", "/jobs/([0-9]+)/(show|log)", Role::kAnyone, echo},
          {"GET", "/any/(.*)", Role::kAnyone, echo},
          {"POST", "/jobs", Role::kAnyone, echo},
          {"PUT", "/files/([^/]+)", Role::kAnyone, echo},
          {"DELETE", "/jobs/([0-9]+)", Role::kAnyone, echo}};
}

std::unique_ptr<HttpServer> serve(std::vector<HttpServer::Route> routes = echoes(),
                                  const std::string& address = "127.0.0.1:0") {
  return HttpServer::listen(address, std::move(routes), 1000).or_throw();
}

TEST(HttpServer, AnswersEachMethodByItsRoute) {
  const auto server = serve();
  EXPECT_THAT(server->address(), StartsWith("127.0.0.1:"));
  const HttpClient client(server->address());
  const HttpResponse got = client.get("/healthz").or_throw();
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.type, "text/plain");
  EXPECT_EQ(got.body, "GET /healthz ");
  EXPECT_EQ(client.post("/jobs", "{}").or_throw().body, "POST /jobs {}");
  EXPECT_EQ(client.put("/files/a b.jpg", "bytes").or_throw().body,
            "PUT /files/a b.jpg [a b.jpg] bytes");
  EXPECT_EQ(client.remove("/jobs/7").or_throw().body, "DELETE /jobs/7 [7] ");
}

TEST(HttpServer, HandsOnCapturesAndQuery) {
  const auto server = serve();
  const HttpClient client(server->address());
  EXPECT_EQ(client.get("/jobs/12/log?after=3&wait=a%20b").or_throw().body,
            "GET /jobs/12/log [12] [log] after=3 wait=a b ");
}

TEST(HttpServer, TakesAnyRegularExpressionForARoute) {
  const auto server = serve({{"GET", "/one|/two", Role::kAnyone, echo},
                             {"GET", "/boxe?s", Role::kAnyone, echo},
                             {"GET", "/no{0}x", Role::kAnyone, echo},
                             {"GET", "/b*", Role::kAnyone, echo},
                             {"GET", "[/]c", Role::kAnyone, echo},
                             {"GET", "/dots\\.js", Role::kAnyone, echo}});
  const HttpClient client(server->address());
  for (const char* there : {"/one", "/two", "/boxs", "/boxes", "/nx", "/", "/bb", "/c", "/dots.js"})
    EXPECT_EQ(client.get(there).or_throw().status, 200) << there;
  for (const char* not_there : {"/onetwo", "/box", "/nox", "/dotsxjs", "/d"})
    EXPECT_EQ(client.get(not_there).or_throw().status, 404) << not_there;
}

TEST(HttpServer, PassesOnTheHandlersStatusAndBytes) {
  const std::string bytes("\0\xff{\r\n\r\n", 7);
  const auto server = serve({{"GET", "/x", Role::kAnyone, [&](const HttpRequest&) {
                                return HttpResponse{503, bytes, "application/octet-stream"};
                              }}});
  const HttpResponse r = HttpClient(server->address()).get("/x").or_throw();
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.body, bytes);
  EXPECT_EQ(r.type, "application/octet-stream");
}

TEST(HttpServer, SaysThatItIsOutOfMemoryAndGoesOn) {
  std::vector<HttpServer::Route> routes = echoes();
  routes.push_back({"GET", "/much", Role::kAnyone,
                    [](const HttpRequest&) -> HttpResponse { throw std::bad_alloc(); }});
  const auto server = serve(std::move(routes));
  const HttpClient client(server->address());
  const HttpResponse r = client.get("/much").or_throw();
  EXPECT_EQ(r.status, 503);
  EXPECT_THAT(r.body, HasSubstr("out of memory"));
  EXPECT_EQ(client.get("/healthz").or_throw().status, 200);
}

TEST(HttpServer, AddsNothingToAnAnswerWithoutABody) {
  const auto server = serve({{"GET", "/readyz", Role::kAnyone,
                              [](const HttpRequest&) { return HttpResponse{.status = 503}; }}});
  const HttpResponse r = HttpClient(server->address()).get("/readyz").or_throw();
  EXPECT_EQ(r.status, 503);
  EXPECT_EQ(r.body, "");
}

TEST(HttpServer, ListensOnAUnixSocket) {
  const support::TemporaryDirectory directory;
  const auto server = serve(echoes(), "unix:" + directory.at("s"));
  EXPECT_EQ(HttpClient(server->address()).get("/healthz").or_throw().body, "GET /healthz ");
}

TEST(HttpServer, SaysWhatAddressItCannotHaveAndWhy) {
  const auto server = serve();
  const auto second = HttpServer::listen(server->address(), echoes(), 1000);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.status().message(), HasSubstr(server->address()));
  EXPECT_THAT(second.status().message(), HasSubstr("in use"));
}

// Or the address would be taken as long as such a program runs.
TEST(HttpServer, LeavesItsListenerToNoProgramThatIsStarted) {
  const auto server = serve();
  int listening = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    ++listening;
    EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
  }
  EXPECT_GE(listening, 1);
}

TEST(HttpServer, KeepsAConnectionForFurtherRequests) {
  const auto server = serve();
  RawHttp raw(server->address());
  for (int i = 0; i < 20; ++i) {
    raw.say("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(raw.hear("GET /healthz "), StartsWith("HTTP/1.1 200"));
  }
  raw.say(
      "POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbodyGET /healthz "
      "HTTP/1.1\r\n\r\n");
  EXPECT_THAT(raw.hear("POST /jobs body"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(raw.hear("GET /healthz "), StartsWith("HTTP/1.1 200"));
  raw.say("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(raw.hear_all(), HasSubstr("GET /healthz "));
}

TEST(HttpServer, TakesNoLengthForNoBody) {
  const auto server = serve();
  RawHttp raw(server->address());
  for (const std::string ask : {"POST /jobs", "DELETE /jobs/1 [1]"}) {
    raw.say(ask.substr(0, ask.find(" [")) + " HTTP/1.1\r\n\r\n");
    EXPECT_THAT(raw.hear(ask), StartsWith("HTTP/1.1 200"));
    raw.hear(" ");
  }
}

TEST(HttpServer, AnswersHeadWithoutTheBody) {
  const auto server = serve();
  RawHttp raw(server->address());
  raw.say("HEAD /healthz HTTP/1.1\r\nConnection: close\r\n\r\n");
  const std::string all = raw.hear_all();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(all.ends_with("\r\n\r\n")) << all;
}

TEST(HttpServer, TakesABodyInChunks) {
  const auto server = serve();
  RawHttp raw(server->address());
  raw.say(
      "POST /jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(raw.hear("POST /jobs abcde"), StartsWith("HTTP/1.1 200"));
}

TEST(HttpServer, AnswersOthersWhileAHandlerWaits) {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  auto routes = echoes();
  routes.push_back({"GET", "/wait", Role::kAnyone, [gone](const HttpRequest&) {
                      gone.wait();
                      return HttpResponse{.body = "waited"};
                    }});
  const auto server = serve(routes);
  const HttpClient client(server->address());
  auto waiting = std::async(std::launch::async, [&] { return client.get("/wait").or_throw(); });
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.get("/healthz").or_throw().status, 200);
  go.set_value();
  EXPECT_EQ(waiting.get().body, "waited");
}

TEST(HttpServer, EndsAtOnceWithIdleConnections) {
  auto server = serve();
  RawHttp silent(server->address()), used(server->address());
  used.say("GET /healthz HTTP/1.1\r\n\r\n");
  used.hear("GET /healthz ");
  const auto before = steady_clock::now();
  server.reset();
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(3));
  EXPECT_EQ(used.hear_all(), "");
}

TEST(HttpServer, EndsAfterTheAnswerUnderway) {
  std::promise<void> begun, go;
  auto server = serve({{"GET", "/wait", Role::kAnyone, [&](const HttpRequest&) {
                          begun.set_value();
                          go.get_future().wait();
                          return HttpResponse{.body = "waited"};
                        }}});
  RawHttp raw(server->address());
  raw.say("GET /wait HTTP/1.1\r\n\r\n");
  begun.get_future().wait();
  auto ended = std::async(std::launch::async, [&] { server.reset(); });
  EXPECT_EQ(ended.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  go.set_value();
  EXPECT_TRUE(raw.hear_all().ends_with("\r\n\r\nwaited"));
  ended.get();
}

TEST(HttpServer, EndsThoughAClientDoesNotTakeItsAnswer) {
  auto server = serve({{"GET", "/much", Role::kAnyone, [](const HttpRequest&) {
                          return HttpResponse{.body = std::string(size_t{64} << 20, 'x')};
                        }}});
  RawHttp raw(server->address());
  raw.say("GET /much HTTP/1.1\r\n\r\n");
  raw.hear("\r\n\r\n");
  const auto before = steady_clock::now();
  server.reset();
  EXPECT_LT(steady_clock::now() - before, std::chrono::seconds(20));
}

TEST(HttpServer, DropsIdleConnectionsWhenThereAreTooMany) {
  const auto server = serve();
  const auto answers = [](RawHttp& raw) {
    try {
      raw.say("GET /healthz HTTP/1.1\r\n\r\n");
      return raw.hear("GET /healthz ").starts_with("HTTP/1.1 200");
    } catch (const Error&) {  // reset
      return false;
    }
  };
  std::list<RawHttp> idle;
  for (int i = 0; i < limits::kHttpConnections - 1; ++i) {
    ASSERT_TRUE(answers(idle.emplace_back(server->address()))) << i;
  }
  for (RawHttp& raw : idle) EXPECT_TRUE(answers(raw));  // below the limit all stay
  RawHttp last(server->address());                      // at the limit
  idle.front().hear_all();
  EXPECT_FALSE(answers(idle.front()));
  EXPECT_EQ(HttpClient(server->address()).get("/healthz").or_throw().status, 200);
}

TEST(HttpServer, AnswersMoreClientsThanItHasConnectionsFor) {
  const auto server = serve();
  std::atomic<int> answered = 0;
  std::vector<std::jthread> clients;
  for (int c = 0; c < 2 * limits::kHttpConnections; ++c) {
    clients.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const auto r = HttpClient(server->address()).get("/healthz");
        answered += r.ok() && r->status == 200;
      }
    });
  }
  clients.clear();
  EXPECT_EQ(answered, 2 * limits::kHttpConnections * 10);
}

}  // namespace
}  // namespace ndtrain::ndp
