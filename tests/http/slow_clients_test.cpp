// Clients that are slow, or many, and what others see of it. Deadlines are short here, and nothing
// depends on how short.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <list>
#include <thread>

#include "framework/testing/memory_fs.h"
#include "ndp/http/access.h"
#include "ndp/http/http_client.h"
#include "tests/http/raw_http.h"
#include "tests/wire/authority.h"

namespace ndtrain::ndp {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using support::RawHttp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr HttpLimits kPatient{.connections = 8,
                              .per_address = 4,
                              .handlers = 4,
                              .head = hours(1),
                              .body = hours(1),
                              .idle = hours(1),
                              .write = hours(1),
                              .patience = milliseconds(0)};

// A client at an address of this machine's own choice, which is not where proxies stand.
class ClientAt {
 public:
  ClientAt(const std::string& from, const std::string& server)
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in a = {.sin_family = AF_INET};
    ::inet_pton(AF_INET, from.c_str(), &a.sin_addr);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
    ::inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    a.sin_port = htons(static_cast<uint16_t>(std::stoi(server.substr(server.rfind(':') + 1))));
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  }
  ~ClientAt() { ::close(fd_); }
  void say(const std::string& text) const {
    EXPECT_EQ(::send(fd_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  // Up to so many bytes, or the end.
  std::string hear(size_t n) const {
    std::string all(n, '\0');
    size_t got = 0;
    for (ssize_t r = 1; r > 0 && got < n; got += static_cast<size_t>(std::max<ssize_t>(r, 0))) {
      r = ::recv(fd_, all.data() + got, n - got, 0);
    }
    return all.substr(0, got);
  }

 private:
  const int fd_;
};

class SlowClients : public ::testing::Test {
 protected:
  void serve(const HttpLimits& limits, bool secure = false) {
    HttpProtection protection{.access = access_.get()};
    if (secure) {
      const Credentials c =
          authority_.credentials("tuner", LinkRole::kTuner, support::around(authority_.now));
      protection.tls = TlsServer::make(c.certificate, c.key).or_throw();
    }
    const auto say = [](const HttpRequest& q) { return HttpResponse{.body = "ok " + q.body}; };
    server_ = HttpServer::listen(
                  "127.0.0.1:0",
                  {{"GET", "/healthz", Role::kAnyone, say},
                   {"GET", "/jobs", Role::kViewer, say},
                   {"POST", "/jobs", Role::kViewer, say},
                   {"GET", "/metrics", Role::kViewer, say},
                   {"POST", "/cancel", Role::kOperator, say},
                   {"GET", "/wait", Role::kViewer,
                    [this](const HttpRequest&) {
                      ++waiting_;
                      go_.wait();
                      return HttpResponse{};
                    }},
                   {"POST", "/photos", Role::kUploader,
                    [this](const HttpRequest&) {
                      ++uploading_;
                      go_.wait();
                      return HttpResponse{};
                    }},
                   {"POST",
                    "/places",
                    Role::kUploader,
                    say,
                    {.admit = [this](const HttpRequest&, int64_t) { return place(); }}},
                   {"GET", "/much", Role::kViewer,
                    [](const HttpRequest&) {
                      return HttpResponse{.body = std::string(size_t{64} << 20, 'x')};
                    }},
                   {"GET", "/pieces", Role::kViewer,
                    [this](const HttpRequest&) {
                      ++open_;
                      const std::shared_ptr<void> held(nullptr, [this](void*) { --open_; });
                      return HttpResponse{.type = "text/event-stream", .pieces = [held] {
                                            return std::optional(std::string(1 << 20, 'x'));
                                          }};
                    }}},
                  1 << 20, std::move(protection), limits)
                  .or_throw();
  }
  // Of two that there are for bodies.
  HttpAdmission place() {
    if (++places_ > 2) {
      --places_;
      return {.held = nullptr, .refuse = http_error(429, "two bodies at a time"), .full = true};
    }
    return {.held = std::shared_ptr<void>(this, [this](void*) { --places_; }), .refuse = {}};
  }
  // Begins a body, and the server waits for the rest.
  static void begin_body(RawHttp& raw) {
    raw.say("POST /places HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n");
    raw.hear("100 Continue\r\n\r\n");
  }
  HttpResponse ask(const std::string& path) const {
    return HttpClient(server_->address()).get(path).or_throw();
  }
  HttpClient client_of(const std::string& token) const {
    return HttpClient(server_->address(), std::chrono::minutes(2), {.token = token});
  }
  // As many handlers as are of no urgency wait, and one more does not begin.
  std::vector<std::future<int>> take_ordinary_threads(const HttpLimits& limits,
                                                      const std::string& token = "") {
    std::vector<std::future<int>> clients;
    for (int64_t i = 0; i <= limits.handlers / 2; ++i) {
      clients.push_back(std::async(std::launch::async, [this, token] {
        return client_of(token).get("/wait").or_throw().status;
      }));
    }
    EXPECT_TRUE(comes([&] { return waiting_ == limits.handlers / 2; }));
    return clients;
  }
  static bool comes(const std::function<bool()>& true_soon) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!true_soon() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return true_soon();
  }
  // Waits for it; a reset does, too.
  static bool is_ended(RawHttp& raw) {
    try {
      return raw.hear_all().empty();
    } catch (const Error&) {
      return true;
    }
  }
  // Ends when the server ends it.
  void ends(const std::string& said) const {
    RawHttp raw(server_->address());
    raw.say(said);
    raw.hear_all();
  }

  const support::Authority authority_;
  MemoryFs fs_;
  const ManualClock clock_;
  std::unique_ptr<Access> access_;  // null: anybody may do anything
  std::promise<void> let_go_;
  const std::shared_future<void> go_ = let_go_.get_future().share();
  std::atomic<int> waiting_ = 0, open_ = 0, uploading_ = 0, places_ = 0;
  std::unique_ptr<HttpServer> server_;
};

constexpr char kHalf[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nA: ";

TEST_F(SlowClients, HealthIsAnsweredThoughSlowOnesHaveAllConnections) {
  for (const bool secure : {false, true}) {
    serve(kPatient, secure);
    const auto tls = TlsClient::make(authority_.own.certificate).or_throw();
    const HttpClient client((secure ? "https://" : "") + server_->address(),
                            std::chrono::seconds(30), {.tls = tls});
    std::list<RawHttp> slow;
    for (int i = 0; i < 200; ++i) {
      slow.emplace_back(server_->address());
      // Half a request, or half a hello of TLS.
      if (i % 2 == 0) slow.back().say(secure ? "\x16\x03\x01\x02" : kHalf);
      if (i % 20 == 0) {
        EXPECT_EQ(client.get("/healthz").or_throw().body, "ok ") << i;
      }
    }
    EXPECT_EQ(client.get("/healthz").or_throw().body, "ok ");
  }
}

TEST_F(SlowClients, TheSlowestMakesWayFirst) {
  serve(kPatient);
  std::list<RawHttp> slow;
  for (int64_t i = 0; i < kPatient.connections - 1; ++i) {
    slow.emplace_back(server_->address()).say(kHalf);
  }
  RawHttp last(server_->address());
  last.say("GET /healthz HTTP/1.1\r\n\r\n");
  last.hear("ok ");
  EXPECT_TRUE(is_ended(slow.front()));
  slow.pop_front();
  for (RawHttp& raw : slow) {
    raw.say("x\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(raw.hear_all(), StartsWith("HTTP/1.1 200"));
  }
}

TEST_F(SlowClients, OneAddressHasABoundOfItsOwn) {
  serve(kPatient);
  std::list<ClientAt> many;
  for (int64_t i = 0; i < kPatient.per_address; ++i) {
    many.emplace_back("127.0.0.9", server_->address()).say(kHalf);
    ask("/healthz");
  }
  const ClientAt other("127.0.0.8", server_->address());
  other.say(kHalf);
  const ClientAt one_more("127.0.0.9", server_->address());
  EXPECT_EQ(many.front().hear(1), "") << "its own slowest goes";
  other.say("x\r\n\r\n");
  EXPECT_EQ(other.hear(12), "HTTP/1.1 200");
  one_more.say(std::string(kHalf) + "x\r\n\r\n");
  EXPECT_EQ(one_more.hear(12), "HTTP/1.1 200");
  many.back().say("x\r\n\r\n");
  EXPECT_EQ(many.back().hear(12), "HTTP/1.1 200");
}

TEST_F(SlowClients, AHeadHasADeadlineHoweverOftenAByteComes) {
  HttpLimits limits = kPatient;
  limits.head = milliseconds(200);
  serve(limits);
  RawHttp raw(server_->address());
  raw.say(kHalf);
  const auto drip = [&] {
    try {
      raw.say("x");
      return false;
    } catch (const Error&) {
      return true;  // it was ended
    }
  };
  EXPECT_TRUE(comes(drip));
  ends("");  // nor does one who says nothing have more
}

TEST_F(SlowClients, ABodyHasADeadlineHoweverOftenAByteComes) {
  HttpLimits limits = kPatient;
  limits.body = milliseconds(200);
  serve(limits);
  RawHttp raw(server_->address());
  raw.say("POST /jobs HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n");
  const auto drip = [&] {
    try {
      raw.say("x");
      return false;
    } catch (const Error&) {
      return true;
    }
  };
  EXPECT_TRUE(comes(drip));
  ends("POST /jobs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n");
}

TEST_F(SlowClients, AConnectionWithoutRequestsEnds) {
  HttpLimits limits = kPatient;
  limits.idle = milliseconds(200);
  serve(limits);
  ends("GET /healthz HTTP/1.1\r\n\r\n");
}

TEST_F(SlowClients, WhoDoesNotTakeAnAnswerIsLeft) {
  HttpLimits limits = kPatient;
  limits.write = milliseconds(200);
  serve(limits);
  // What is under way when the server has left still comes; how long that takes is not its promise.
  const size_t whole = size_t{64} << 20;
  size_t got = whole;
  for (milliseconds pause(500); got >= whole && pause < std::chrono::minutes(2); pause *= 2) {
    const ClientAt client("127.0.0.9", server_->address());
    client.say("GET /much HTTP/1.1\r\n\r\n");
    EXPECT_EQ(client.hear(12), "HTTP/1.1 200");
    std::this_thread::sleep_for(pause);
    got = client.hear(whole).size();
  }
  EXPECT_LT(got, whole);
}

TEST_F(SlowClients, WhoDoesNotTakeAStreamOfEventsIsLeft) {
  HttpLimits limits = kPatient;
  limits.write = milliseconds(200);
  serve(limits);
  RawHttp raw(server_->address());
  raw.say("GET /pieces HTTP/1.1\r\n\r\n");
  raw.hear("\r\n\r\n");
  EXPECT_TRUE(comes([&] { return open_ == 0; }));
}

TEST_F(SlowClients, AFastUploadIsNotTakenForASlowOne) {
  serve(kPatient);
  RawHttp upload(server_->address());
  constexpr size_t kBytes = 1 << 20;
  upload.say("POST /jobs HTTP/1.1\r\nContent-Length: " + std::to_string(kBytes) + "\r\n\r\n");
  std::list<RawHttp> slow;
  const std::string part(kBytes / 16, 'x');
  for (int i = 0; i < 16; ++i) {
    upload.say(part);
    ask("/healthz");  // it is read
    slow.emplace_back(server_->address()).say(kHalf);
  }
  EXPECT_THAT(upload.hear("ok "), StartsWith("HTTP/1.1 200"));
}

TEST_F(SlowClients, HealthIsAnsweredThoughHandlersTakeAllOtherThreads) {
  HttpLimits limits = kPatient;
  limits.patience = hours(1);
  serve(limits);
  std::atomic<int> answered = 0, refused = 0;
  std::vector<std::jthread> clients;
  for (int64_t i = 0; i < limits.connections + limits.handlers; ++i) {
    clients.emplace_back([&] {
      const HttpResponse r =
          HttpClient(server_->address(), std::chrono::seconds(120)).get("/wait").or_throw();
      answered += r.status == 200;
      refused += r.status == 503 && r.headers.contains("Retry-After");
    });
  }
  // As many as there are connections may be under way, and some threads are for others.
  EXPECT_TRUE(comes([&] { return waiting_ == limits.handlers / 2; }));
  EXPECT_TRUE(comes([&] { return refused == limits.handlers; }));
  EXPECT_EQ(ask("/healthz").status, 200);
  EXPECT_EQ(waiting_, limits.handlers / 2);
  let_go_.set_value();
  clients.clear();
  EXPECT_EQ(answered, limits.connections);
  EXPECT_EQ(ask("/jobs").status, 200);
}

TEST_F(SlowClients, MetricsAndOperatorsRoutesAreAnsweredThoughHandlersTakeAllOtherThreads) {
  serve(kPatient);
  std::vector<std::future<int>> clients = take_ordinary_threads(kPatient);
  const HttpClient client(server_->address());
  EXPECT_EQ(client.get("/metrics").or_throw().body, "ok ");
  EXPECT_EQ(client.post("/cancel", "job").or_throw().body, "ok job");
  EXPECT_EQ(waiting_, kPatient.handlers / 2);
  let_go_.set_value();
  for (auto& c : clients) EXPECT_EQ(c.get(), 200);
}

TEST_F(SlowClients, AnOperatorsTokenIsUrgentOnEveryRoute) {
  fs_.make_directories("state").or_throw();
  const auto token = [&](const std::string& name, Role role) {
    return TokensFile::open(fs_, "state").or_throw().add({.name = name, .role = role}).or_throw();
  };
  const std::string viewer = token("vic", Role::kViewer), worker = token("op", Role::kOperator);
  access_ = std::make_unique<Access>(fs_, clock_, Access::Setting{"state", "here"});
  serve(kPatient);
  std::vector<std::future<int>> clients = take_ordinary_threads(kPatient, viewer);
  clients.push_back(std::async(std::launch::async,
                               [&] { return client_of(viewer).get("/jobs").or_throw().status; }));
  EXPECT_EQ(client_of(worker).get("/jobs").or_throw().status, 200);
  EXPECT_EQ(client_of(worker).post("/jobs", "spec").or_throw().body, "ok spec");
  EXPECT_EQ(clients.back().wait_for(milliseconds(0)), std::future_status::timeout);
  let_go_.set_value();
  for (auto& c : clients) EXPECT_EQ(c.get(), 200);
}

TEST_F(SlowClients, APersonIsAnsweredThoughUploadsHaveAllTheirThreads) {
  serve(kPatient);
  std::vector<std::future<int>> clients;
  for (int64_t i = 0; i < 4; ++i) {
    clients.push_back(std::async(std::launch::async, [this] {
      return HttpClient(server_->address(), std::chrono::minutes(2))
          .post("/photos", "x")
          .or_throw()
          .status;
    }));
  }
  EXPECT_TRUE(comes([&] { return uploading_ == 1; }));
  EXPECT_EQ(ask("/jobs").status, 200);
  EXPECT_EQ(uploading_, 1) << "one thread of the two that are of no urgency is for no uploads";
  let_go_.set_value();
  for (auto& c : clients) EXPECT_EQ(c.get(), 200);
}

TEST_F(SlowClients, AnOperatorsUploadsAreUploads) {
  fs_.make_directories("state").or_throw();
  const std::string worker = TokensFile::open(fs_, "state")
                                 .or_throw()
                                 .add({.name = "op", .role = Role::kOperator})
                                 .or_throw();
  access_ = std::make_unique<Access>(fs_, clock_, Access::Setting{"state", "here"});
  serve(kPatient);
  std::vector<std::future<int>> clients;
  for (int64_t i = 0; i < 4; ++i) {
    clients.push_back(std::async(std::launch::async, [&] {
      return client_of(worker).post("/photos", "x").or_throw().status;
    }));
  }
  EXPECT_TRUE(comes([&] { return uploading_ == 1; }));
  EXPECT_EQ(client_of(worker).post("/cancel", "job").or_throw().body, "ok job");
  EXPECT_EQ(uploading_, 1);
  let_go_.set_value();
  for (auto& c : clients) EXPECT_EQ(c.get(), 200);
}

TEST_F(SlowClients, OneTokenLeavesRoomForOthers) {
  fs_.make_directories("state").or_throw();
  const auto token = [&](const std::string& name) {
    return TokensFile::open(fs_, "state")
        .or_throw()
        .add({.name = name, .role = Role::kViewer})
        .or_throw();
  };
  const std::string vic = token("vic"), ann = token("ann");
  access_ = std::make_unique<Access>(fs_, clock_, Access::Setting{"state", "here"});
  HttpLimits limits = kPatient;
  limits.patience = hours(1);
  limits.handlers = 16;
  serve(limits);
  std::vector<std::future<int>> clients;
  const int64_t most = limits.connections * 3 / 4;
  for (int64_t i = 0; i < most; ++i) {
    clients.push_back(std::async(std::launch::async,
                                 [&] { return client_of(vic).get("/wait").or_throw().status; }));
  }
  EXPECT_TRUE(comes([&] { return waiting_ == most; }));
  const HttpResponse refused = client_of(vic).get("/jobs").or_throw();
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("the token of vic has 6 requests under way"));
  EXPECT_EQ(client_of(ann).get("/jobs").or_throw().status, 200);
  let_go_.set_value();
  for (auto& c : clients) EXPECT_EQ(c.get(), 200);
}

TEST_F(SlowClients, ABodyThatDoesNotComeMakesWayToAnother) {
  serve(kPatient);
  RawHttp first(server_->address()), second(server_->address());
  begin_body(first);
  begin_body(second);
  EXPECT_EQ(HttpClient(server_->address()).post("/places", "photo").or_throw().body, "ok photo");
  EXPECT_TRUE(is_ended(first)) << "the slowest goes";
  second.say("the other");
  EXPECT_THAT(second.hear("the other"), HasSubstr("HTTP/1.1 200"));
}

TEST_F(SlowClients, ABodyThatHasItsTimeKeepsItsPlace) {
  HttpLimits limits = kPatient;
  limits.patience = hours(1);
  serve(limits);
  RawHttp first(server_->address()), second(server_->address());
  begin_body(first);
  begin_body(second);
  const HttpResponse refused = HttpClient(server_->address()).post("/places", "photo").or_throw();
  EXPECT_EQ(refused.status, 429);
  EXPECT_THAT(refused.body, HasSubstr("two bodies at a time"));
  for (RawHttp* raw : {&first, &second}) {
    raw->say("slow ones");
    EXPECT_THAT(raw->hear("slow ones"), HasSubstr("HTTP/1.1 200"));
  }
}

TEST_F(SlowClients, WhoAsksWhetherToSendABodyIsToldAndRefusedWithoutIt) {
  serve(kPatient);
  RawHttp raw(server_->address());
  raw.say("POST /jobs HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(raw.hear("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  raw.say("body");
  EXPECT_THAT(raw.hear("ok body"), StartsWith("HTTP/1.1 200"));
  RawHttp large(server_->address());
  large.say("POST /jobs HTTP/1.1\r\nContent-Length: 9999999\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(large.hear("}\n"), StartsWith("HTTP/1.1 413"));
}

}  // namespace
}  // namespace ndtrain::ndp
