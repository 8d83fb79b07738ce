#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>

#include "cli/bench.h"
#include "cli/bench_sparse_optimizers.h"
#include "cli/computing_args.h"
#include "cli/number_args.h"
#include "cli/sparse_args.h"
#include "cli/verb.h"
#include "framework/core/rng.h"
#include "framework/core/thread_pool.h"
#include "framework/sparse/selection/compressor.h"
#include "framework/train/optimizer_config.h"

namespace ndtrain::cli {
using namespace ndp;

namespace {

constexpr int kMostRounds = 100'000;
constexpr int64_t kMostElements = int64_t{1}
                                  << 30;  // an array takes 4 GiB; there are seven of Adam

std::vector<float> normal_values(int64_t n) {
  std::vector<float> values(n);
  const Rng rng(1, "gradient");
  shared_threads().parallel_for(n, 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) values[i] = static_cast<float>(rng.normal(i));
  });
  return values;
}

// Seconds of reading all values once, as integers, which any processor adds as fast as they come.
double reading(const std::vector<float>& values) {
  const auto start = std::chrono::steady_clock::now();
  std::array<uint32_t, 64> sums = {};
  for (size_t i = 0; i + sums.size() <= values.size(); i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) {
      sums[lane] += std::bit_cast<uint32_t>(values[i + lane]);
    }
  }
  volatile uint32_t kept = 0;
  for (const uint32_t sum : sums) kept = kept + sum;
  return seconds_since(start);
}

struct Rounds {
  std::vector<double> taking, reading;  // seconds
};

// As it is used: to what is left, a gradient is added, each round another one.
Rounds rounds_of(const Compressor& compressor, const std::vector<float>& gradient, int64_t k,
                 int64_t rounds) {
  const auto n = static_cast<int64_t>(gradient.size());
  std::vector<float> left(gradient.size(), 0);
  CompressorState state;
  CompressorScratch scratch;
  scratch.make_room(n);  // as an exchange has it
  Selection out;
  Rounds times;
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t turned = round * 7919 % n;
    for (int64_t i = 0; i < n; ++i)
      left[i] += gradient[i < n - turned ? i + turned : i + turned - n];
    times.reading.push_back(reading(left));
    const auto start = std::chrono::steady_clock::now();
    compressor.take(left, k, Rng(1, "bench"), state, scratch, out);
    times.taking.push_back(seconds_since(start));
  }
  return times;
}

Json result(std::string_view name, const Rounds& rounds, double gigabytes) {
  const auto rate = [gigabytes](double seconds) { return gigabytes / seconds; };
  std::vector<double> taking = rounds.taking, reading = rounds.reading;
  // Behind the first round, which has no threshold yet and is shown by itself.
  const double slowest =
      *std::max_element(taking.begin() + (taking.size() > 1 ? 1 : 0), taking.end());
  std::vector<double> parts;
  for (size_t i = 0; i < taking.size(); ++i) parts.push_back(reading[i] / taking[i]);
  for (std::vector<double>* sorted : {&taking, &reading, &parts})
    std::sort(sorted->begin(), sorted->end());
  return {{"compressor", name},
          {"median_gb_per_s", rate(median(taking))},
          {"slowest_gb_per_s", rate(slowest)},
          {"first_gb_per_s", rate(rounds.taking.front())},
          {"reading_gb_per_s", rate(median(reading))},
          {"of_reading", median(parts)}};
}

std::vector<std::string_view> compressors_of(const Args& args) {
  const std::string text = args.text("compressor");
  const std::span<const std::string_view> all = compressor_names();
  if (text == "all") return {all.begin(), all.end()};
  std::vector<std::string_view> chosen;
  for (const std::string& name : parts_of(text)) {
    const auto at = std::find(all.begin(), all.end(), name);
    if (at == all.end()) {
      std::string known = "all";
      for (const std::string_view one : all) known += ", " + std::string(one);
      throw UsageError("--compressor " + name + ": there is no such one; " + known);
    }
    chosen.push_back(*at);
  }
  return chosen;
}

std::vector<std::string> optimizers_of(const Args& args) {
  std::vector<std::string> names = parts_of(args.text("optimizer"));
  try {
    for (const std::string& name : names) optimizer_named(name);
  } catch (const Error& e) {
    throw UsageError(std::string("--optimizer: ") + e.what());
  }
  return names;
}

// Of blocks, as threshold-v16 chooses them: one for each round.
std::vector<Selection> selections_of(const std::vector<float>& gradient, int64_t k,
                                     int64_t rounds) {
  const auto compressor = make_compressor("threshold-v16", {.rotate = true});
  std::vector<float> left = gradient;
  CompressorState state;
  CompressorScratch scratch;
  std::vector<Selection> all(rounds);
  for (Selection& one : all) compressor->take(left, k, Rng(1, "bench"), state, scratch, one);
  return all;
}

Json time_optimizers(const std::vector<std::string>& names, const std::vector<float>& gradient,
                     int64_t k, int64_t rounds, std::string& text) {
  Json all = Json::array();
  if (names.empty()) return all;
  const std::vector<Selection> selections = selections_of(gradient, k, rounds);
  text += fmt::format("\n{:<16}{:>10}{:>14}{:>14}\n", "optimizer", "M/s", "made dense", "ratio");
  for (const std::string& name : names) {
    const Json one = optimizer_rates(name, static_cast<int64_t>(gradient.size()), selections);
    text += fmt::format(
        "{:<16}{:>10.0f}{:>14.1f}{:>14.1f}\n", name, one.at("elements_per_s").get<double>() / 1e6,
        one.at("dense_elements_per_s").get<double>() / 1e6, one.at("ratio_to_dense").get<double>());
    all.push_back(one);
  }
  return all;
}

}  // namespace

void declare_bench_sparse(ArgsSpec& args) {
  args.flag("elements", "of the gradient", "N", "25600000");
  args.flag("drop", "part of it that is not sent", "D", "0.99");
  args.flag("compressor", "which, a list or all", "NAMES", "all");
  declare_scan(args);
  args.flag("optimizer", "sgd, adam, adamw, rmsprop: a list of those to be timed", "NAMES",
            "sgd,adam");
  args.flag("rounds", "how many gradients", "N", "20");
  declare_threads(args);
  declare_seed(args);
}

int run_bench_sparse(Context& context, const Args& args) {
  const int64_t n = integer_in(args, "elements", 1, kMostElements);
  const int64_t rounds = integer_in(args, "rounds", 1, kMostRounds);
  const double drop = args.number("drop");
  if (!(drop >= 0 && drop < 1)) {
    throw UsageError("--drop " + args.text("drop") + ": 0 to below 1, the part that is not sent");
  }
  const std::vector<std::string_view> names = compressors_of(args);
  const std::vector<std::string> optimizers = optimizers_of(args);
  const int64_t k = elements_to_send(n, drop, 1);
  const std::vector<float> gradient = normal_values(n);
  const double gigabytes = static_cast<double>(n) * sizeof(float) / 1e9;
  Json json = {{"elements", n},
               {"taken", k},
               {"rounds", rounds},
               {"threads", 1},
               {"compressors", Json::array()}};
  std::string text = fmt::format(
      "{} elements, of which {} are taken; {} rounds, one thread, "
      "GB/s\n{:<16}{:>8}{:>9}{:>8}{:>9}{:>12}\n",
      n, k, rounds, "compressor", "median", "slowest", "first", "reading", "of reading");
  for (const std::string_view name : names) {
    const auto compressor = make_compressor(name, {.rotate = scan_rotates(args)});
    const Json one = result(name, rounds_of(*compressor, gradient, k, rounds), gigabytes);
    const auto at = [&one](const char* key) { return one.at(key).get<double>(); };
    text += fmt::format("{:<16}{:>8.2f}{:>9.2f}{:>8.2f}{:>9.2f}{:>12.2f}\n", name,
                        at("median_gb_per_s"), at("slowest_gb_per_s"), at("first_gb_per_s"),
                        at("reading_gb_per_s"), at("of_reading"));
    json["compressors"].push_back(one);
  }
  json["optimizers"] = time_optimizers(optimizers, gradient, k, rounds, text);
  context.print(json, text);
  return kOk;
}

}  // namespace ndtrain::cli
