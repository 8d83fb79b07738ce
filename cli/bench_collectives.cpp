#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "cli/bench.h"
#include "cli/computing_args.h"
#include "cli/number_args.h"
#include "cli/ranks.h"
#include "cli/verb.h"
#include "framework/comm/sum_tree.h"
#include "framework/core/limits.h"
#include "framework/parallel/between_ranks.h"
#include "framework/train/shards.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr double kMegabyte = 1e6;
constexpr int kMostMegabytes = 4096, kMostRounds = 10'000, kPeriod = 7;

// Sums of all shards' numbers, small ones, so that they are exact in any order.
class Sums {
 public:
  Sums(Communicator& communicator, std::vector<int> first_shards, size_t values)
      : communicator_(communicator), first_shards_(std::move(first_shards)) {
    const auto rank = static_cast<size_t>(communicator_.rank());
    nodes_ = subtrees_of(first_shards_[rank], first_shards_[rank + 1], first_shards_.back());
    for (size_t i = 0; i < nodes_.size(); ++i) partials_.emplace_back(values);
  }

  // Seconds of an all-reduce, which begins when all ranks are ready. Throws Error for a wrong sum.
  double reduce(bool native) {
    for (size_t i = 0; i < nodes_.size(); ++i) fill(partials_[i], nodes_[i]);
    RankGroup group(static_cast<size_t>(communicator_.ranks()));
    std::iota(group.begin(), group.end(), 0);
    CommOp op{.kind = CommOp::Kind::kAllReduce,
              .group = std::move(group),
              .name = native ? "native" : "ordered"};
    op.data = partials_[0];
    op.leaf_begin = first_shards_;
    for (size_t i = 1; i < partials_.size(); ++i) op.more_subtrees.push_back(partials_[i].data());
    op.native = native;
    barrier(communicator_);
    const auto start = std::chrono::steady_clock::now();
    const Communicator::Op id = communicator_.enqueue(std::move(op));
    communicator_.release(id);
    communicator_.wait(id);
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    check(native);
    return time.count();
  }

 private:
  static void fill(std::vector<float>& values, const Subtree& node) {
    for (size_t k = 0; k < values.size(); ++k) values[k] = sum_at(node, k);
  }

  // Shard s has s + k mod 7.
  static float sum_at(const Subtree& node, size_t k) {
    const int count = node.end - node.begin;
    const int of_shards = count * (node.begin + node.end - 1) / 2;
    return static_cast<float>(of_shards + count * static_cast<int>(k % kPeriod));
  }

  void check(bool native) const {
    const Subtree all{0, first_shards_.back()};
    for (size_t k = 0; k < partials_[0].size(); ++k) {
      if (partials_[0][k] == sum_at(all, k)) continue;
      throw Error("the ", native ? "library's" : "ordered", " sum of element ", k, " is ",
                  partials_[0][k], ", not ", sum_at(all, k));
    }
  }

  Communicator& communicator_;
  const std::vector<int> first_shards_;
  std::vector<Subtree> nodes_;
  std::vector<std::vector<float>> partials_;
};

Json times_of(std::vector<double> seconds) {
  std::ranges::sort(seconds);
  return {{"median_ms", median(seconds) * 1e3},
          {"least_ms", seconds.front() * 1e3},
          {"most_ms", seconds.back() * 1e3}};
}

// One after the other in turn, so that what else the machine does meets both alike.
Json time_size(Communicator& communicator, const std::vector<int>& first_shards, int megabytes,
               int rounds, bool has_native) {
  Sums sums(communicator, first_shards, static_cast<size_t>(megabytes * kMegabyte / sizeof(float)));
  std::vector<double> ordered, native;
  for (int i = 0; i <= rounds; ++i) {
    const double by_tree = sums.reduce(false), by_library = has_native ? sums.reduce(true) : 0;
    if (i == 0) continue;  // memory is touched for the first time
    ordered.push_back(by_tree);
    native.push_back(by_library);
  }
  Json json = {{"megabytes", megabytes}, {"ordered", times_of(ordered)}};
  if (has_native) {
    json["native"] = times_of(native);
    json["ratio"] =
        json["native"]["median_ms"].get<double>() / json["ordered"]["median_ms"].get<double>();
  }
  return json;
}

std::string table_of(const Json& json) {
  std::string text =
      fmt::format("all-reduce by {} ranks, {} shards, over {}; ms, medians of {} and their range\n",
                  json["ranks"].get<int>(), json["shards"].get<int>(),
                  json["over"].get<std::string>(), json["rounds"].get<int>());
  text += fmt::format("{:>5}{:>32}{:>32}{:>8}\n", "MB", "ordered", "the library's", "ratio");
  for (const Json& size : json["sizes"]) {
    const auto times = [&](const char* whose) {
      if (!size.contains(whose)) return std::string("-");
      const Json& t = size[whose];
      return fmt::format("{:.2f} ({:.2f} to {:.2f})", t["median_ms"].get<double>(),
                         t["least_ms"].get<double>(), t["most_ms"].get<double>());
    };
    const std::string ratio =
        size.contains("ratio") ? fmt::format("{:.2f}", size["ratio"].get<double>()) : "-";
    text += fmt::format("{:>5}{:>32}{:>32}{:>8}\n", size["megabytes"].get<int>(), times("ordered"),
                        times("native"), ratio);
  }
  return text;
}

}  // namespace

void declare_bench_collectives(ArgsSpec& args) {
  declare_meeting(args);
  args.flag("shards", "leaves of the tree of sums, at least one for each rank (default: the ranks)",
            "V");
  args.flag("megabytes", "what is summed: numbers from 1, as 1,10,100", "LIST", "1,4,16,64,100");
  args.flag("rounds", "of each size, after one that does not count", "N", "10");
  args.flag("ordered-only", "leave the library's own out, which would change what the caches have");
  declare_computing(args);
}

int run_bench_collectives(Context& context, const Args& args) {
  const int rounds = static_cast<int>(integer_in(args, "rounds", 1, kMostRounds));
  const std::vector<int> sizes = parse_counts("megabytes", args.text("megabytes"), kMostMegabytes);
  if (args.text("comm") == "nccl") {
    throw UsageError(
        "--comm nccl: what is compared here are sums in memory of the host; leave it away");
  }
  Ranks ranks(context, args);
  if (ranks.count() < 2) {
    throw UsageError("--ranks " + std::to_string(ranks.count()) +
                     ": a sum has 2 ranks at least; --ranks 2, or mpirun -n 2");
  }
  const int shards =
      args.has("shards")
          ? static_cast<int>(integer_in(args, "shards", ranks.count(), limits::kShards))
          : ranks.count();
  const std::string over = ranks.library().empty() ? "TCP" : ranks.library();
  ranks.meet(args, context);
  const auto communicator = ranks.take_communicator();
  check_same(*communicator, {{"shards", std::to_string(shards)},
                             {"megabytes", args.text("megabytes")},
                             {"ordered only", args.on("ordered-only") ? "yes" : "no"},
                             {"rounds", std::to_string(rounds)}});
  const std::vector<int> first_shards =
      shards_of_ranks(shards, std::vector<double>(static_cast<size_t>(ranks.count()), 1.0));
  Json json = {{"over", over}, {"ranks", ranks.count()}, {"shards", shards}, {"rounds", rounds}};
  const bool has_native = communicator->has_collectives() && !args.on("ordered-only");
  json["sizes"] = Json::array();
  for (const int megabytes : sizes) {
    json["sizes"].push_back(time_size(*communicator, first_shards, megabytes, rounds, has_native));
  }
  barrier(*communicator);
  if (ranks.is_first()) context.print(json, table_of(json));
  return kOk;
}

}  // namespace ndtrain::cli
