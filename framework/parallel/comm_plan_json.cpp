#include "framework/parallel/comm_plan_json.h"

#include <charconv>

#include "framework/core/error.h"
#include "framework/core/json.h"

namespace ndtrain {
namespace {

using Kind = PlannedOp::Kind;

// The longer symbols first: "R" begins "Re".
constexpr Kind kKinds[] = {Kind::kAllReduce, Kind::kReduce, Kind::kReduceScatter, Kind::kAllGather,
                           Kind::kBroadcast};

PlannedOp parse_op(std::string_view text) {
  const std::string whole(text);
  PlannedOp op{.kind = Kind::kAllReduce, .bucket = 0, .with_previous = text.starts_with('+')};
  if (op.with_previous) text.remove_prefix(1);
  for (const Kind kind : kKinds) {
    if (!text.starts_with(symbol(kind))) continue;
    op.kind = kind;
    text.remove_prefix(std::string_view(symbol(kind)).size());
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), op.bucket);
    if (error == std::errc() && end == text.data() + text.size()) return op;
    break;
  }
  throw Error("plan: '", whole, "' is no operation");
}

}  // namespace

std::string to_json(const CommPlan& plan) {
  Json json = {{"buckets", Json::array()},
               {"ops", Json::array()},
               {"shard_optimizer", plan.shard_optimizer},
               {"update_late", plan.update_late},
               {"prefetch", plan.prefetch}};
  for (const ParameterRange& b : plan.buckets) {
    json["buckets"].push_back(b.begin);
    json["buckets"].push_back(b.end);
  }
  for (const PlannedOp& op : plan.ops) {
    const std::string with = op.with_previous ? "+" : "";
    json["ops"].push_back(with + symbol(op.kind) + std::to_string(op.bucket));
  }
  return json_text(json);
}

CommPlan parse_comm_plan(std::string_view text) {
  const Json json = try_parse_json(text);
  if (json.is_discarded()) throw Error("plan: is no JSON");
  try {
    CommPlan plan{.shard_optimizer = json.at("shard_optimizer").get<bool>(),
                  .update_late = json.at("update_late").get<bool>(),
                  .prefetch = json.at("prefetch").get<int>()};
    const auto ends = json.at("buckets").get<std::vector<int64_t>>();
    if (ends.size() % 2 != 0) throw Error("plan: a bucket without an end");
    for (size_t i = 0; i < ends.size(); i += 2) plan.buckets.push_back({ends[i], ends[i + 1]});
    for (const Json& op : json.at("ops")) plan.ops.push_back(parse_op(op.get<std::string>()));
    return plan;
  } catch (const Json::exception& e) {
    throw Error("plan: ", e.what());
  }
}

}  // namespace ndtrain
