#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/number_args.h"
#include "cli/ranks.h"
#include "cli/replay_group.h"
#include "cli/replay_results.h"
#include "cli/verb.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/parallel/schedules/schedules.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr int kLeastRanks = 2, kMostSteps = 100'000;

// One network, one number of ranks, one link.
struct Cell {
  ReplaySettings settings;
  std::vector<Json> results;  // of schedules
};

double not_negative(const Args& args, const std::string& flag) {
  const double x = args.number(flag);
  if (!(x >= 0)) throw UsageError("--" + flag + " " + args.text(flag) + ": not below 0");
  return x;
}

// Of "FILE", "FILE#NAME" or "FILE#NAME,NAME".
std::vector<ReplayNetwork> networks_of(Context& context, const std::string& text) {
  const size_t hash = text.rfind('#');
  std::vector<ReplayNetwork> all = load_replay_networks(context.fs(), text.substr(0, hash));
  if (hash == std::string::npos) return all;
  std::vector<ReplayNetwork> chosen;
  for (const std::string& name : parts_of(text.substr(hash + 1))) {
    const auto it = std::ranges::find(all, name, &ReplayNetwork::name);
    if (it == all.end()) {
      std::string names;
      for (const ReplayNetwork& n : all) names += (names.empty() ? "" : ", ") + n.name;
      throw UsageError("--replay " + text + ": there is no network '" + name + "'; there are " +
                       names);
    }
    chosen.push_back(*it);
  }
  return chosen;
}

std::vector<std::string> schedules_of(const Args& args) {
  std::vector<std::string> all, chosen;
  for (const NamedSchedule& s : schedules()) all.emplace_back(s.name);
  if (args.text("sync") == "all") return all;
  for (const std::string& name : parts_of(args.text("sync"))) {
    if (is_sparse_exchange(name)) {
      check_sparse_exchange(name);
      chosen.push_back(name);
      continue;
    }
    if (std::ranges::find(all, name) == all.end()) {
      throw UsageError("--sync " + args.text("sync") + ": there is no schedule '" + name +
                       "'; there are all, " + fmt::format("{}", fmt::join(all, ", ")));
    }
    chosen.push_back(name);
  }
  return chosen;
}

// One of `rhos`; none: of the link that is given, or of the network's own.
ReplayLink link_of(const Args& args, const ReplaySettings& s, std::optional<double> rho) {
  const CostProfile& network = s.network.costs;
  const CostProfile::Collective& own = network.all_reduce;
  const double latency_s = args.has("latency") ? not_negative(args, "latency") : own.alpha_s / 2;
  if (args.text("link") == "0") return {latency_s, 0};
  if (args.has("link")) return {latency_s, parse_bandwidth("link", args.text("link"))};
  // Measured where bytes cost nothing beside the latency.
  if (!rho && own.beta_s_per_byte == 0) return {latency_s, 0};
  const double own_rho = own.seconds(network.parameter_count()) / network.computing_s();
  return link_of_rho(rho.value_or(own_rho), latency_s, s.first_shards(), network);
}

ReplayScale scale_of(const Args& args, const ReplaySettings& s) {
  CostProfile network = s.network.costs;
  set_collectives(s.link, s.first_shards(), network);
  ReplayScale scale = ReplayScale::for_this_machine(network, s.first_shards());
  if (args.has("scale")) scale.bytes = parse_positive("scale", args.text("scale"));
  if (args.has("stretch")) scale.times = parse_positive("stretch", args.text("stretch"));
  return scale;
}

ReplaySettings settings_of(const Args& args, const ReplayNetwork& network, int ranks,
                           std::optional<double> rho) {
  ReplaySettings s{.network = network, .ranks = ranks, .shards = ranks};
  s.file = args.text("replay").substr(0, args.text("replay").rfind('#'));
  if (args.has("shards")) s.shards = static_cast<int>(args.integer("shards"));
  if (s.shards < ranks || s.shards > limits::kShards) {
    throw UsageError("--shards " + std::to_string(s.shards) + ": " + std::to_string(ranks) +
                     " (the ranks) to " + std::to_string(limits::kShards));
  }
  s.steps = static_cast<int>(args.integer("steps"));
  s.seed = static_cast<uint64_t>(args.integer("seed"));
  s.link = link_of(args, s, rho);
  s.scale = scale_of(args, s);
  return s;
}

void check(const Args& args) {
  const int64_t steps = args.integer("steps");
  if (steps < 1 || steps > kMostSteps) {
    throw UsageError("--steps " + args.text("steps") + ": 1 to " + std::to_string(kMostSteps));
  }
  if (args.has("link") && args.has("rho")) {
    throw UsageError("--link and --rho: each says how fast the link is; give one");
  }
  check_rank_place(args);
  if (args.on("matrix") != args.has("out")) {
    throw UsageError("--matrix and -o DIR, where its results are kept, belong together");
  }
  if (args.on("matrix") && args.has("rank")) {
    throw UsageError("--matrix starts all ranks itself, without --rank");
  }
}

std::vector<Cell> cells_of(Context& context, const Args& args) {
  check(args);
  std::vector<std::optional<double>> rhos = {std::nullopt};
  if (args.has("rho")) {
    rhos.clear();
    for (const std::string& r : parts_of(args.text("rho"))) {
      rhos.emplace_back(parse_positive("rho", r));
    }
  }
  const std::vector<int> counts = parse_counts("ranks", args.text("ranks"), limits::kRanks);
  if (std::ranges::min(counts) < kLeastRanks) {
    throw UsageError("--ranks " + args.text("ranks") + ": an exchange has 2 ranks at least");
  }
  std::vector<Cell> cells;
  for (const ReplayNetwork& network : networks_of(context, args.required("replay"))) {
    for (const int ranks : counts) {
      for (const auto& rho : rhos) {
        cells.push_back({settings_of(args, network, ranks, rho), {}});
      }
    }
  }
  if (cells.size() > 1 && !args.on("matrix")) {
    throw UsageError(
        "--replay, --ranks and --rho are one each, as --replay FILE#NAME; --matrix "
        "replays " +
        std::to_string(cells.size()));
  }
  return cells;
}

double of(const Json& result, const char* what) { return result.at(what).get<double>(); }

std::string title(const Cell& cell) {
  const ReplaySettings& s = cell.settings;
  const ReplayLink link = scaled(s.link, s.scale);
  const double rho =
      s.network.costs.computing_s() > 0
          ? (2 * s.link.latency_s +
             sent_bytes(s.first_shards(), s.network.costs.parameter_count()) / s.link.bytes_per_s) /
                s.network.costs.computing_s()
          : 0;
  return fmt::format(
      "replay of {}: {} ranks, {} shards, rho {:.3g}; bytes / {:.4g}, times x {:.4g}\n"
      "slept: forward and backward passes; real: messages over a link of {:.4g} MB/s and {:.3g} ms "
      "a rank,\nsums, updates; {} steps, +- is 1.96 sigma of a step\n",
      s.network.name, s.ranks, s.shards, rho, s.scale.bytes, s.scale.times, link.bytes_per_s / 1e6,
      link.latency_s * 1e3, s.steps);
}

std::string table_of(const Cell& cell) {
  double best = of(cell.results[0], "measured_s");
  for (const Json& r : cell.results) best = std::min(best, of(r, "measured_s"));
  std::string text = title(cell) + fmt::format("{:<15}{:>13}{:>12}{:>9}{:>7}{:>11}{:>9}{:>8}\n",
                                               "schedule", "predicted s", "measured s", "+-", "off",
                                               "exposed s", "bound s", "x best");
  for (const Json& r : cell.results) {
    const double mean = of(r, "measured_s");
    text += fmt::format("{:<15}{:>13.4f}{:>12.4f}{:>9.4f}{:>6.1f}%{:>11.4f}{:>9.4f}{:>8.3f}\n",
                        r.at("schedule").get<std::string>(), of(r, "predicted_s"), mean,
                        of(r, "plus_minus_s"), (mean / of(r, "predicted_s") - 1) * 100,
                        of(r, "exposed_s"), of(r, "bound_s"), mean / best);
  }
  for (const Json& r : cell.results) {
    if (is_sparse_exchange(r.at("schedule").get<std::string>())) continue;
    return text +
           "parameters are equal by all schedules: " + r.at("parameters").get<std::string>() + "\n";
  }
  return text;
}

// Over all results of schedules: how far predictions are off, and auto from the best beside it.
Json summary_of(const std::vector<Cell>& cells) {
  std::vector<double> errors, over_best;
  for (const Cell& cell : cells) {
    double best = std::numeric_limits<double>::infinity();
    std::optional<double> by_auto;
    for (const Json& r : cell.results) {
      if (is_sparse_exchange(r.at("schedule").get<std::string>())) continue;  // not predicted
      const double mean = of(r, "measured_s");
      errors.push_back(std::abs(of(r, "predicted_s") / mean - 1));
      best = std::min(best, mean);
      if (r.at("schedule") == "auto") by_auto = mean;
    }
    if (by_auto) over_best.push_back(*by_auto / best);
  }
  std::ranges::sort(errors);
  std::ranges::sort(over_best);
  Json json = {{"replays", errors.size()}};
  if (!errors.empty()) json["median_error"] = median(errors);
  if (!over_best.empty()) {
    json["auto_over_best_median"] = median(over_best);
    json["auto_over_best_most"] = over_best.back();
  }
  return json;
}

void check_same_parameters(const Cell& cell) {
  const Json* first = nullptr;
  for (const Json& r : cell.results) {
    if (is_sparse_exchange(r.at("schedule").get<std::string>())) continue;
    if (first == nullptr) first = &r;
    if (r.at("parameters") == first->at("parameters")) continue;
    throw Error("replay of ", cell.settings.network.name, ": parameters by ",
                r.at("schedule").get<std::string>(), " are ", r.at("parameters"), ", by ",
                first->at("schedule").get<std::string>(), " ", first->at("parameters"));
  }
}

ReplayPlace place_of(Context& context, const Args& args, int ranks) {
  if (!args.has("rank")) return {};
  const int64_t rank = args.integer("rank");
  if (rank < 0 || rank >= ranks) {
    throw UsageError("--rank " + args.text("rank") + ": 0 to " + std::to_string(ranks - 1));
  }
  const std::string rendezvous = args.text("rendezvous");
  return {static_cast<int>(rank), rendezvous,
          rank_net(context, args, rendezvous, static_cast<int>(rank))};
}

// False: interrupted. What `finished` has is not replayed again.
bool replay(Context& context, Cell& cell, const std::vector<std::string>& schedules,
            const ReplayPlace& place, ReplayResults* finished) {
  const Json settings = cell.settings.to_json();
  std::unique_ptr<ReplayGroup> group;
  for (const std::string& schedule : schedules) {
    if (context.progress().interrupted()) return false;
    std::optional<Json> result;
    if (finished != nullptr) result = finished->find(settings, schedule);
    if (!result) {
      if (!group) group = std::make_unique<ReplayGroup>(cell.settings, place, context);
      result = group->replay(schedule).to_json();
      if (finished != nullptr) finished->add(settings, *result);
      context.progress().say(fmt::format("{} by {} ranks, {}: {:.4f} s", cell.settings.network.name,
                                         cell.settings.ranks, schedule, of(*result, "measured_s")));
    }
    cell.results.push_back(*result);
  }
  check_same_parameters(cell);
  return true;
}

}  // namespace

void declare_bench_parallel(ArgsSpec& args) {
  args.flag("replay",
            "a cost profile, or published networks and one of them (required); --matrix takes all "
            "of a file, or FILE#NAME,NAME",
            "FILE[#NAME]");
  args.flag("ranks", "processes; with --matrix a list, as 2,4", "N", "2");
  args.flag(
      "sync",
      "schedules, one after the other: all, or names as wfbp,dear,auto; sparse:1:0.99: sparse "
      "gradients of that staleness and drop",
      "NAMES", "all");
  args.flag("rho",
            "the link is so fast that an all-reduce takes so much of a step's computing; with "
            "--matrix a list, as .3,.75,1.5 (default: the profile's)",
            "X");
  args.flag(
      "link",
      "bits per second from a rank to all the others together, 0 for no limit; instead of --rho",
      "RATE");
  args.flag("latency", "of a message, in seconds (default: half of the profile's all-reduce)", "S");
  args.flag("scale",
            "divides bytes, and the link's (default: so that a rank sends at most 50 MB/s)", "X");
  args.flag("stretch", "multiplies times, latencies too (default: so that a step takes .5 to 3 s)",
            "X");
  args.flag("steps", "that are timed, after 3 that are not", "N", "20");
  args.flag("shards",
            "parts of a step; with as many, any number of ranks gives the same bytes "
            "(default: the ranks)",
            "V");
  args.flag("matrix",
            "replay all networks, schedules, ranks and rhos; what DIR has already is not replayed "
            "again");
  args.flag("o,out", "with --matrix: where the results are kept", "DIR");
  args.flag("rank", "this process is rank R; rank 0 is started elsewhere", "R");
  args.flag("rendezvous", "with --rank: where rank 0 listens (see ndtrain train)", "HOST:PORT");
  declare_security(args);
  declare_computing(args);
  declare_seed(args);
}

int run_bench_parallel(Context& context, const Args& args) {
  if (args.integer("threads") == 0) set_threads(1);  // a rank that sleeps needs no more
  std::vector<Cell> cells = cells_of(context, args);
  const std::vector<std::string> schedules = schedules_of(args);
  const ReplayPlace place = place_of(context, args, cells[0].settings.ranks);
  if (place.rank > 0) {
    log::set_level(log::Level::kError);  // what it would warn of rank 0 warns of
    ReplayGroup(cells[0].settings, place, context).follow();
    return kOk;
  }
  std::unique_ptr<ReplayResults> finished;
  if (args.on("matrix")) {
    finished = std::make_unique<ReplayResults>(context.fs(), args.required("out"));
  }
  Json json = {{"kind", "replay"}, {"cells", Json::array()}};
  std::string text;
  for (Cell& cell : cells) {
    if (!replay(context, cell, schedules, place, finished.get())) {
      log::warn("stopped{}", finished ? "; the same command goes on" : "");
      return kInterrupted;
    }
    json["cells"].push_back({{"settings", cell.settings.to_json()}, {"schedules", cell.results}});
    text += table_of(cell) + "\n";
  }
  json["summary"] = summary_of(cells);
  context.print(json, text + table(json["summary"]));
  return kOk;
}

}  // namespace ndtrain::cli
