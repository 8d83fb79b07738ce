#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/number_args.h"
#include "cli/security_args.h"
#include "cli/started_ranks.h"
#include "cli/verb.h"
#include "framework/comm/link_model.h"
#include "framework/comm/rendezvous.h"
#include "framework/comm/stream_transport.h"
#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "framework/parallel/between_ranks.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/pipeline/planner/play_plan.h"
#include "framework/pipeline/run/pipeline_replay.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr int64_t kMostMiniBatches = 10'000;
constexpr double kMostBytesPerSecond = 50e6, kLeastSeconds = 0.5;  // of a link, of a mini-batch
constexpr std::chrono::seconds kStall{600};                        // an operation's

// A schedule of the plan's stages, as it is replayed.
struct Played {
  std::string schedule;
  PipeShape shape;
  PipelineCosts costs;
  double predicted_s = 0, measured_s = 0;
};

struct Scale {
  double bytes = 1, times = 1;  // divided by, multiplied by
};

void scale(const Scale& by, PipelineCosts& costs) {
  for (PipelineCosts::Stage& s : costs.stages) {
    for (double* t :
         {&s.forward_s, &s.input_s, &s.weight_s, &s.recompute_s, &s.exchange_s, &s.update_s}) {
      *t *= by.times;
    }
  }
  for (PipelineCosts::Edge& e : costs.edges) {
    e.activation_bytes /= by.bytes;
    e.gradient_bytes /= by.bytes;
    e.latency_s *= by.times;
    e.bytes_per_s /= by.bytes * by.times;
  }
}

class StagesBench {
 public:
  StagesBench(Context& context, const Args& args) : context_(context), args_(args) {
    check_rank_place(args);
    plan_ = load_pipeline_plan(context.fs(), args.required("plan"));
    const std::vector<int> units = {plan_.devices()};
    if (units[0] < 2) {
      throw UsageError("--plan " + args.text("plan") + " is for one device: nothing is sent");
    }
    topology_ = load_network(context.fs(), args.required("network"), units);
    for (const std::string& name : schedules()) all_.push_back(played(name));
    choose_scale();
    for (Played& p : all_) {
      scale(scale_, p.costs);
      p.predicted_s =
          simulate_pipeline(*pipeline_schedule(p.schedule), p.shape, p.costs).mini_batch_s;
    }
  }

  int run() {
    make_timers_exact();
    const std::unique_ptr<Communicator> communicator = meet();
    check_same(*communicator, fingerprint());
    for (Played& p : all_) {
      p.measured_s = PipelineReplay(*pipeline_schedule(p.schedule), p.shape, p.costs, *communicator,
                                    context_.clock())
                         .run();
    }
    barrier(*communicator);
    if (rank() == 0) print();
    return kOk;
  }

 private:
  int rank() const { return args_.has("rank") ? static_cast<int>(args_.integer("rank")) : 0; }

  std::vector<std::string> schedules() const {
    return args_.has("schedule") ? parts_of(args_.text("schedule"))
                                 : std::vector<std::string>{plan_.schedule};
  }

  int64_t whole(const std::string& flag, int64_t most) const {
    const int64_t n = args_.integer(flag);
    if (n < 1 || n > most) {
      throw UsageError("--" + flag + " " + args_.text(flag) + ": 1 to " + std::to_string(most));
    }
    return n;
  }

  Played played(const std::string& schedule) const {
    PipelinePlan plan = plan_;
    plan.schedule = schedule;
    if (args_.has("micro-batches")) {
      plan.micro_batches = whole("micro-batches", limits::kPlannedMicroBatches);
    }
    try {
      PlayedPlan p = play_plan(plan, load_model_profile(context_.fs(), args_.required("profile")),
                               topology_, {}, whole("mini-batches", kMostMiniBatches));
      return {schedule, p.shape, p.costs, p.prediction.mini_batch_s, 0};
    } catch (const Error& e) {
      throw UsageError("--plan " + args_.text("plan") + ", schedule " + schedule + ": " + e.what());
    }
  }

  void choose_scale() {
    double least_s = all_[0].predicted_s;
    for (const Played& p : all_) least_s = std::min(least_s, p.predicted_s);
    scale_.times = args_.has("stretch") ? parse_positive("stretch", args_.text("stretch"))
                                        : std::max(1.0, kLeastSeconds / least_s);
    const double link = topology_.levels[0].p2p_bytes_per_s / scale_.times;
    scale_.bytes = args_.has("scale") ? parse_positive("scale", args_.text("scale"))
                                      : std::max(1.0, link / kMostBytesPerSecond);
  }

  Fingerprint fingerprint() const {
    Fingerprint all = {{"program", NDT_VERSION}, {"plan", plan_.text()}};
    for (const Played& p : all_) {
      all.emplace_back("schedule", p.schedule);
      all.emplace_back("a mini-batch, predicted", fmt::format("{}", p.predicted_s));
    }
    return all;
  }

  // The same for another rank.
  std::vector<std::string> words() const {
    std::vector<std::string> words = {"bench", "stages", "--quiet"};
    for (const char* flag : {"plan", "profile", "network", "schedule", "micro-batches",
                             "mini-batches", "scale", "stretch"}) {
      if (args_.has(flag)) words.push_back(std::string("--") + flag + "=" + args_.text(flag));
    }
    return words;
  }

  std::unique_ptr<Communicator> meet() {
    const int ranks = plan_.devices();
    if (rank() < 0 || rank() >= ranks) {
      throw UsageError("--rank " + args_.text("rank") + ": 0 to " + std::to_string(ranks - 1));
    }
    const std::string rendezvous = args_.text("rendezvous");
    RankPlace here{.rank = rank(), .ranks = ranks, .rendezvous = rendezvous};
    here.fingerprint = {{"program", NDT_VERSION}};
    auto streams = [&] {
      if (args_.has("rank")) {
        const RankNet net = rank_net(context_, args_, rendezvous, rank());
        here.listen = net.listen;
        return meet_ranks(net.net(), here);
      }
      const auto listener = real_net().listen("127.0.0.1:0").or_throw();
      started_.start(words(), ranks, listener->address(), 1);
      return receive_ranks(*listener, here);
    }();
    streams.status().or_throw();
    const Topology::Level& level = topology_.levels[0];
    return std::make_unique<Communicator>(
        over_link(stream_transport(rank(), std::move(*streams), {.silence = kStall}),
                  {.latency_s = level.p2p_s * scale_.times,
                   .bytes_per_s = level.p2p_bytes_per_s / (scale_.bytes * scale_.times)}),
        Communicator::Options{.in_flight = 1, .stall = kStall});
  }

  void print() const {
    Json json = {{"ranks", plan_.devices()},
                 {"stages", plan_.stages.size()},
                 {"bytes_divided_by", scale_.bytes},
                 {"times_multiplied_by", scale_.times}};
    std::string text = fmt::format(
        "{} stages on {} ranks; bytes / {:.4g}, times x {:.4g}\n"
        "slept: passes, exchanges, updates; real: messages between stages\n"
        "{:<13}{:>14}{:>13}{:>12}{:>7}\n",
        plan_.stages.size(), plan_.devices(), scale_.bytes, scale_.times, "schedule",
        "micro-batches", "predicted s", "measured s", "off");
    for (const Played& p : all_) {
      const double off = p.measured_s / p.predicted_s - 1;
      json["schedules"].push_back({{"schedule", p.schedule},
                                   {"micro_batches", p.shape.micro_batches},
                                   {"predicted_s", p.predicted_s},
                                   {"measured_s", p.measured_s},
                                   {"off", off}});
      text += fmt::format("{:<13}{:>14}{:>13.4f}{:>12.4f}{:>6.1f}%\n", p.schedule,
                          p.shape.micro_batches, p.predicted_s, p.measured_s, 100 * off);
    }
    context_.print(json, text);
  }

  Context& context_;
  const Args& args_;
  PipelinePlan plan_;
  Topology topology_;
  Scale scale_;
  std::vector<Played> all_;
  StartedRanks started_;  // waited for at the end
};

}  // namespace

void declare_bench_stages(ArgsSpec& args) {
  args.flag("plan", "a plan of ndtrain plan train (required)", "FILE");
  args.flag("profile", "what its nodes cost: profile.json, or AshPipe's graph.txt (required)",
            "FILE");
  args.flag("network", "the link of each rank, of one level, as for ndtrain plan train (required)",
            "FILE");
  args.flag("schedule", "others than the plan's, as gpipe,1f1b,zb,2bw,async", "NAMES");
  args.flag("micro-batches", "of a mini-batch (default: the plan's)", "N");
  args.flag("mini-batches", "that follow each other", "N", "12");
  args.flag("scale", "divides bytes, and the link's (default: so that it carries 50 MB/s at most)",
            "X");
  args.flag("stretch",
            "multiplies times, latencies too (default: so that a mini-batch takes .5 s at least)",
            "X");
  args.flag("rank", "this process is rank R; rank 0 is started elsewhere", "R");
  args.flag("rendezvous", "with --rank: where rank 0 listens (see ndtrain train)", "HOST:PORT");
  declare_security(args);
  declare_computing(args);
  declare_seed(args);
}

int run_bench_stages(Context& context, const Args& args) {
  if (args.integer("threads") == 0) set_threads(1);  // a rank that sleeps needs no more
  return StagesBench(context, args).run();
}

}  // namespace ndtrain::cli
