#include <fmt/format.h>

#include <algorithm>

#include "cli/computing_args.h"
#include "cli/number_args.h"
#include "cli/ranks.h"
#include "cli/verb.h"
#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "framework/core/publish.h"
#include "framework/parallel/between_ranks.h"
#include "framework/pipeline/profiler/measure_network.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

std::vector<int> levels_of(const Args& args, int ranks) {
  if (!args.has("levels")) return {ranks};
  std::vector<int> units = parse_counts("levels", args.text("levels"), limits::kRanks);
  int64_t devices = 1;
  for (const int n : units) devices *= n;
  if (devices != ranks || std::ranges::count(units, 1) > 0) {
    throw UsageError("--levels " + args.text("levels") + ": " + std::to_string(devices) +
                     " ranks in all, of levels of 2 at least; there are " + std::to_string(ranks));
  }
  return units;
}

std::string table_of(const Topology& t) {
  std::string text =
      fmt::format("{:<8}{:>6}{:>16}{:>14}{:>18}{:>14}  {}\n", "level", "units", "message MB/s",
                  "latency us", "all-reduce MB/s", "latency us", "links");
  for (size_t l = 0; l < t.levels.size(); ++l) {
    const Topology::Level& level = t.levels[l];
    text += fmt::format("{:<8}{:>6}{:>16.1f}{:>14.1f}{:>18.1f}{:>14.1f}  {}\n", l, level.units,
                        level.p2p_bytes_per_s / 1e6, level.p2p_s * 1e6,
                        level.all_reduce_bytes_per_s / 1e6, level.all_reduce_s * 1e6,
                        level.fully_connected ? "one to each" : "one to all others");
  }
  return text;
}

}  // namespace

void declare_plan_network(ArgsSpec& args) {
  declare_meeting(args);
  args.flag("levels",
            "ranks of a machine, machines, and so on outwards, as 4,2; they follow one another "
            "(default: all of one level)",
            "N,N");
  args.flag("seconds", "for each kind of each level, about", "S", "2");
  args.flag("o,out", "write them for ndtrain plan train --network, as JSON", "FILE");
  declare_computing(args);
}

int run_plan_network(Context& context, const Args& args) {
  const double seconds = parse_positive("seconds", args.text("seconds"));
  Ranks ranks(context, args);
  if (ranks.count() < 2) {
    throw UsageError("--ranks " + std::to_string(ranks.count()) +
                     ": a link is between 2 ranks at least; --ranks 2, or mpirun -n 2");
  }
  const std::vector<int> units = levels_of(args, ranks.count());
  ranks.meet(args, context);
  const auto communicator = ranks.take_communicator();
  check_same(*communicator,
             {{"--levels", args.text("levels")}, {"--seconds", args.text("seconds")}});
  const Topology t = measure_network(*communicator, units, {.budget_s = seconds}, context.clock());
  barrier(*communicator);
  if (!ranks.is_first()) return kOk;
  const std::string text = network_text(t);
  if (args.has("out")) publish(context.fs(), args.text("out"), text).or_throw();
  context.print(parse_json(text), table_of(t));
  return kOk;
}

}  // namespace ndtrain::cli
