#include "cli/profile_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cli/bench.h"
#include "framework/runtime/product_rate.h"

namespace ndtrain::cli {
namespace {

struct OpTime {
  std::string op;
  int nodes = 0;
  double seconds = 0, operations = 0;
};

std::vector<OpTime> by_op(const NodeTimes& nodes) {
  std::map<std::string, OpTime> ops;
  for (const auto& n : nodes) {
    OpTime& o = ops[n.op];
    o.op = n.op;
    ++o.nodes;
    o.seconds += n.seconds;
    o.operations += n.operations;
  }
  std::vector<OpTime> rows;
  for (const auto& [name, o] : ops) rows.push_back(o);
  std::ranges::sort(rows, std::greater(), &OpTime::seconds);
  return rows;
}

// In which most of the sums are made.
DType precision_of(const NodeTimes& nodes) {
  std::map<DType, double> operations = {{DType::kF32, 0}};
  for (const auto& n : nodes) {
    if (n.operations > 0) operations[n.dtype] += n.operations;
  }
  return std::ranges::max_element(operations, {}, [](const auto& o) { return o.second; })->first;
}

Json json_of(const NodeTimes& nodes) {
  Json json = Json::array();
  for (const auto& n : nodes) {
    json.push_back({{"op", n.op}, {"name", n.name}, {"ms", n.seconds * 1e3}});
    if (n.operations > 0) json.back()["gops_per_s"] = n.operations / n.seconds / 1e9;
  }
  return json;
}

}  // namespace

NodeTimes median_profile(double seconds, const std::function<NodeTimes()>& run) {
  NodeTimes nodes;
  std::vector<std::vector<double>> times;  // of each node, of each run
  timed(seconds, [&] {
    nodes = run();
    times.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) times[i].push_back(nodes[i].seconds);
  });
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::ranges::sort(times[i]);
    nodes[i].seconds = median(times[i]);
  }
  return nodes;
}

std::string profile_table(const NodeTimes& nodes, const Device& device, Json& json) {
  json["profile"] = json_of(nodes);
  const std::vector<OpTime> rows = by_op(nodes);
  const double peak = product_rate(device, precision_of(nodes));
  double total = 0;
  for (const OpTime& o : rows) total += o.seconds;
  std::string out = fmt::format("{:<24}{:>8}{:>12}{:>8}{:>9}{:>9}\n", "op", "nodes", "ms", "share",
                                "GOP/s", "of peak");
  for (const OpTime& o : rows) {
    out += fmt::format("{:<24}{:>8}{:>12.3f}{:>7.1f}%", o.op, o.nodes, o.seconds * 1e3,
                       100 * o.seconds / total);
    const double rate = o.operations / o.seconds;
    if (rate > 0) out += fmt::format("{:>9.0f}", rate / 1e9);
    if (rate > 0 && peak > 0) out += fmt::format("{:>8.0f}%", 100 * rate / peak);
    out += "\n";
  }
  return out + fmt::format("of peak: of {:.0f} GOP/s, a pointwise convolution of 512 channels\n",
                           peak / 1e9);
}

}  // namespace ndtrain::cli
