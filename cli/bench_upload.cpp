#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "cli/tuner_client.h"
#include "cli/upload_client.h"
#include "cli/verb.h"
#include "framework/core/rng.h"
#include "ndp/photos/photo_source.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// The same picture as another file: with a comment behind its first two bytes. Only JPEG files.
std::string with_comment(const std::string& file, const std::string& text) {
  if (!file.starts_with("\xff\xd8")) return file;
  const size_t n = text.size() + 2;
  const char head[] = {'\xff', '\xfe', static_cast<char>(n >> 8), static_cast<char>(n & 0xff)};
  return file.substr(0, 2) + std::string(head, sizeof head) + text + file.substr(2);
}

class Load {
 public:
  Load(std::vector<std::string> files, std::string address, HttpTrust trust, double rate,
       std::string mark)
      : files_(std::move(files)),
        address_(std::move(address)),
        trust_(std::move(trust)),
        rate_(rate),
        mark_(std::move(mark)) {}

  void run(int64_t clients, double for_seconds) {
    start_ = Clock::now();
    std::vector<std::jthread> threads;
    for (int64_t c = 0; c < clients; ++c) {
      threads.emplace_back([this, for_seconds] {
        while (seconds(Clock::now() - start_) < for_seconds) upload(next_++);
      });
    }
    threads.clear();
    wall_s_ = seconds(Clock::now() - start_);
  }

  Json json() {
    std::ranges::sort(times_);
    const auto at = [&](double share) {
      if (times_.empty()) return 0.0;
      return 1e3 * times_[static_cast<size_t>(share * static_cast<double>(times_.size() - 1))];
    };
    Json statuses = Json::object();
    for (const auto& [status, n] : statuses_) statuses[status] = n;
    return {{"uploads_per_s", static_cast<double>(times_.size()) / wall_s_},
            {"p50_ms", at(.5)},
            {"p99_ms", at(.99)},
            {"max_ms", at(1)},
            {"seconds", wall_s_},
            {"answers", statuses}};
  }

 private:
  void upload(int64_t i) {
    auto due = Clock::now();
    if (rate_ > 0) {  // when it should have begun counts, whatever the server kept this client with
      due = start_ + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(static_cast<double>(i) / rate_));
      std::this_thread::sleep_until(due);
    }
    const auto n = static_cast<int64_t>(files_.size());
    const std::string& file = files_[static_cast<size_t>(i % n)];
    const std::string bytes = with_comment(file, mark_ + std::to_string(i));
    const Result<UploadAnswer> r = upload_photo(address_, bytes, trust_);
    const double took = seconds(Clock::now() - due);
    const std::lock_guard lock(mutex_);
    ++statuses_[r.ok() ? std::to_string(r->response.status) : "none"];
    if (r.ok() && r->response.status < 300) times_.push_back(took);
  }

  const std::vector<std::string> files_;
  const std::string address_;
  const HttpTrust trust_;
  const double rate_;
  const std::string mark_;
  Clock::time_point start_;
  double wall_s_ = 0;
  std::atomic<int64_t> next_ = 0;
  std::mutex mutex_;  // of those below
  std::vector<double> times_;
  std::map<std::string, int64_t> statuses_;
};

}  // namespace

void declare_bench_upload(ArgsSpec& args) {
  args.positional("URL", "the upload address of a PipeStore or the Tuner");
  args.flag("photos", "what is uploaded, over and over, each time as a new photo (required)",
            "DIR");
  args.flag("c,clients", "uploads at a time", "N", "16");
  args.flag("rate", "uploads per second; 0: each client goes on as soon as it is answered", "X",
            "0");
  args.flag("seconds", "run for so long", "S", "10");
  declare_http_trust(args);
}

int run_bench_upload(Context& context, const Args& args) {
  const std::string address = http_address(args.required("URL"));
  DirectorySource source(context.fs(), args.required("photos"));
  std::vector<std::string> files;
  for (const PhotoRef& p : source.list("", 1024).or_throw().photos) {
    files.push_back(source.open(p.path).or_throw());
  }
  if (files.empty()) throw Error(args.text("photos"), ": there are no photos");
  if (args.integer("clients") < 1) throw UsageError("--clients: at least 1");
  const int64_t now =
      context.clock().unix_seconds() * 1000 + Clock::now().time_since_epoch().count() % 1000;
  Load load(std::move(files), address, http_trust_of(args), args.number("rate"),
            fmt::format("bench {} ", now));
  load.run(args.integer("clients"), args.number("seconds"));
  const Json json = load.json();
  context.print(json, table(json));
  return json.at("answers").contains("none") ? kFailed : kOk;
}

}  // namespace ndtrain::cli
