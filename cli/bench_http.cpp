#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "cli/tuner_client.h"
#include "cli/upload_client.h"
#include "cli/verb.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kThreads = 4;          // that keep the slow clients
constexpr milliseconds kByte{1000};  // between two bytes of one of them
constexpr milliseconds kHealth{20};  // between two questions
constexpr milliseconds kAnswerPatience{5000};
constexpr std::string_view kHead = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";

// Clients that never end the head of their request, and come again when they are dropped.
class SlowClients {
 public:
  SlowClients(std::string address, HttpTrust trust)
      : secure_(address.starts_with("https://")),
        address_(std::move(address)),
        trust_(std::move(trust)) {
    address_.erase(0, address_.find("://") == address_.npos ? 0 : address_.find("://") + 3);
  }

  void hold(int64_t n, const std::atomic<bool>& over) {
    std::vector<std::unique_ptr<Stream>> streams(static_cast<size_t>(n));
    while (!over) {
      const auto next = Steady::now() + kByte;
      for (std::unique_ptr<Stream>& s : streams) {
        if (over) break;
        if (!s || !s->write(std::as_bytes(std::span("x", 1))).ok()) s = dial();
      }
      std::this_thread::sleep_until(next);
    }
  }

  std::atomic<int64_t> dialled = 0;

 private:
  std::unique_ptr<Stream> dial() {
    Result<std::unique_ptr<Stream>> s = real_net().dial(address_);
    if (s.ok() && secure_) {
      s = trust_.tls->wrap(std::move(*s), address_.substr(0, address_.rfind(':')), kAnswerPatience);
    }
    ++dialled;
    if (!s.ok() || !(*s)->write(std::as_bytes(std::span(kHead))).ok()) return nullptr;
    return std::move(*s);
  }

  const bool secure_;
  std::string address_;
  const HttpTrust trust_;
};

// Each client here, and its connection there when it is the same process's machine.
void allow_descriptors() {
  rlimit most = {};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0) return;
  most.rlim_cur = most.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &most);
}

std::string summary(const Json& j) {
  return fmt::format(
      "/healthz with {} slow clients, {:.0f} s: median {:.1f} ms, 99 % {:.1f} ms, slowest {:.1f} "
      "ms\n"
      "{} questions, {} without an answer; the slow clients dialled {} times\n",
      j["slow"].get<int64_t>(), j["seconds"].get<double>(), j["p50_ms"].get<double>(),
      j["p99_ms"].get<double>(), j["max_ms"].get<double>(), j["asked"].get<int64_t>(),
      j["unanswered"].get<int64_t>(), j["dialled"].get<int64_t>());
}

}  // namespace

void declare_bench_http(ArgsSpec& args) {
  args.positional("URL", "the HTTP address of a PipeStore or the Tuner");
  args.flag("slow", "clients that send a byte of a request every second, and never its end", "N",
            "2000");
  args.flag("seconds", "run for so long", "S", "30");
  declare_http_trust(args);
}

int run_bench_http(Context& context, const Args& args) {
  const std::string address = http_address(args.required("URL"));
  const int64_t slow = args.integer("slow");
  const double seconds = args.number("seconds");
  if (slow < 0 || slow > 100'000) throw UsageError("--slow: 0 to 100000");
  if (!(seconds > 0)) throw UsageError("--seconds: more than 0");
  allow_descriptors();
  HttpTrust trust = http_trust_of(args);
  if (address.starts_with("https://") && !trust.tls) trust.tls = TlsClient::make("").or_throw();

  SlowClients clients(address, trust);
  std::atomic<bool> over = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    const int64_t n = slow * (i + 1) / kThreads - slow * i / kThreads;
    threads.emplace_back([&clients, n, &over] { clients.hold(n, over); });
  }
  std::vector<double> times;
  int64_t unanswered = 0;
  const auto until = Steady::now() + std::chrono::duration<double>(seconds);
  while (Steady::now() < until) {
    const auto before = Steady::now();
    const Result<HttpResponse> r = HttpClient(address, kAnswerPatience, trust).get("/healthz");
    times.push_back(std::chrono::duration<double, std::milli>(Steady::now() - before).count());
    unanswered += !r.ok() || r->status != 200;
    std::this_thread::sleep_until(before + kHealth);
  }
  over = true;
  threads.clear();
  std::ranges::sort(times);
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1))];
  };
  const Json json = {{"slow", slow},          {"seconds", seconds},
                     {"asked", times.size()}, {"unanswered", unanswered},
                     {"p50_ms", at(.5)},      {"p99_ms", at(.99)},
                     {"max_ms", at(1)},       {"dialled", clients.dialled.load()}};
  context.print(json, summary(json));
  return unanswered == 0 ? kOk : kFailed;
}

}  // namespace ndtrain::cli
