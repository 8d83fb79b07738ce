#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "cli/role_args.h"
#include "cli/slow_clients.h"
#include "cli/tuner_client.h"
#include "cli/upload_client.h"
#include "cli/verb.h"
#include "framework/core/descriptor_limit.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kThreads = 4;          // that keep the slow clients
constexpr milliseconds kHealth{20};  // between two questions
constexpr milliseconds kAsked{100};  // of another path
constexpr milliseconds kAnswerPatience{5000};

// What one client asks over and over, each time by a connection of its own.
class Questions {
 public:
  Questions(const std::string& address, const HttpTrust& trust, std::string path)
      : client_(address, kAnswerPatience, trust), path_(std::move(path)) {}

  void ask(milliseconds every, Steady::time_point until) {
    while (Steady::now() < until) {
      const auto before = Steady::now();
      const Result<HttpResponse> r = client_.get(path_);
      times_.push_back(std::chrono::duration<double, std::milli>(Steady::now() - before).count());
      unanswered_ += !r.ok() || r->status != 200;
      std::this_thread::sleep_until(before + every);
    }
    std::ranges::sort(times_);
  }

  int64_t unanswered() const { return unanswered_; }
  Json json() const {
    const auto at = [&](double share) {
      return times_[static_cast<size_t>(share * static_cast<double>(times_.size() - 1))];
    };
    return {{"asked", times_.size()},
            {"unanswered", unanswered_},
            {"p50_ms", at(.5)},
            {"p99_ms", at(.99)},
            {"max_ms", at(1)}};
  }
  static std::string line(const std::string& path, const Json& j) {
    return fmt::format(
        "{}: median {:.1f} ms, 99 % {:.1f} ms, slowest {:.1f} ms; {} questions, {} without an "
        "answer\n",
        path, j["p50_ms"].get<double>(), j["p99_ms"].get<double>(), j["max_ms"].get<double>(),
        j["asked"].get<int64_t>(), j["unanswered"].get<int64_t>());
  }

 private:
  const HttpClient client_;
  const std::string path_;
  std::vector<double> times_;
  int64_t unanswered_ = 0;
};

SlowClients slow_clients(const Args& args, const std::string& address, const HttpTrust& trust) {
  const int64_t addresses = args.integer("addresses");
  if (addresses < 0 || addresses > 250) {
    throw UsageError("--addresses " + args.text("addresses") + ": 0 to 250");
  }
  return SlowClients({.address = address,
                      .trust = {.tls = trust.tls},
                      .kinds = SlowClients::kinds_of(parts_of(args.list("kinds"))),
                      .path = args.text("slow-path"),
                      .addresses = addresses});
}

}  // namespace

void declare_bench_http(ArgsSpec& args) {
  args.positional("URL", "the HTTP address of a PipeStore or the Tuner");
  args.flag("slow", "clients that keep the server waiting, without a token", "N", "2000");
  args.flag("kinds",
            "what they do, by turns: heads, a byte of a request's head every second and never its "
            "end; bodies, the same of a body; readers, a byte of an answer every second",
            "KIND[,KIND...]", "heads");
  args.flag("slow-path", "what bodies are posted to and readers ask for", "PATH", "/metrics");
  args.flag("addresses",
            "of this machine, 127.0.0.2 and on, that they come from; 0: 127.0.0.1, where a server "
            "takes them for a proxy's",
            "N", "0");
  args.flag("ask", "beside /healthz, ask for this ten times a second, with --token", "PATH");
  args.flag("seconds", "run for so long", "S", "30");
  declare_http_trust(args);
}

int run_bench_http(Context& context, const Args& args) {
  const std::string address = http_address(args.required("URL"));
  const int64_t slow = args.integer("slow");
  const double seconds = args.number("seconds");
  if (slow < 0 || slow > 100'000) throw UsageError("--slow: 0 to 100000");
  if (!(seconds > 0)) throw UsageError("--seconds: more than 0");
  raise_descriptor_limit();
  HttpTrust trust = http_trust_of(args);
  if (address.starts_with("https://") && !trust.tls) trust.tls = TlsClient::make("").or_throw();

  SlowClients clients = slow_clients(args, address, trust);
  std::atomic<bool> over = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    const int64_t first = slow * i / kThreads, n = slow * (i + 1) / kThreads - first;
    threads.emplace_back([&clients, first, n, &over] { clients.hold(first, n, over); });
  }
  const auto until = Steady::now() + std::chrono::duration_cast<Steady::duration>(
                                         std::chrono::duration<double>(seconds));
  Questions health(address, {.tls = trust.tls}, "/healthz");
  const bool asks = args.has("ask");
  Questions others(address, trust, args.text("ask"));
  if (asks) threads.emplace_back([&] { others.ask(kAsked, until); });
  health.ask(kHealth, until);
  over = true;
  threads.clear();
  Json json = health.json();
  std::string text = Questions::line("/healthz", json);
  if (asks) {
    json["ask"] = others.json();
    text += Questions::line(args.text("ask"), json["ask"]);
  }
  json.update({{"slow", slow}, {"seconds", seconds}, {"dialled", clients.dialled()}});
  context.print(json, text + fmt::format("{} slow clients dialled {} times in {:.0f} s\n", slow,
                                         clients.dialled(), seconds));
  return health.unanswered() + others.unanswered() == 0 ? kOk : kFailed;
}

}  // namespace ndtrain::cli
