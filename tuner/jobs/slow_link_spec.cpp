#include "tuner/jobs/slow_link_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tuner/jobs/job_reader.h"

namespace ndtrain::tuner {
namespace {

using Methods = std::vector<std::string_view>;

// Which methods have a key.
const std::vector<std::pair<std::string_view, Methods>>& methods_of_keys() {
  static const std::vector<std::pair<std::string_view, Methods>> all = {
      {"compressor", {"sparse", "local", "diloco"}},
      {"drop", {"sparse", "local", "diloco"}},
      {"scan", {"sparse", "local", "diloco"}},
      {"all_gather", {"sparse", "local", "diloco"}},
      {"drop_of", {"sparse"}},
      {"pieces", {"sparse"}},
      {"sparse_momentum", {"sparse"}},
      {"staleness", {"sparse"}},
      {"controller", {"sparse"}},
      {"convergence", {"sparse"}},
      {"largest_batch", {"sparse"}},
      {"drain_every", {"sparse", "local", "diloco"}},
      {"inner_steps", {"local", "diloco"}},
      {"fragments", {"local", "diloco"}},
      {"overlap", {"local", "diloco"}},
      {"mixing", {"local", "diloco"}},
      {"outer_lr", {"diloco"}},
      {"outer_momentum", {"diloco"}},
      {"factor_rank", {"powersgd"}},
      {"wire_dtype", {"sparse", "local", "diloco", "powersgd"}},
      {"verify", {"sparse", "local", "diloco", "powersgd"}}};
  return all;
}

}  // namespace

bool is_slow_link(std::string_view sync) {
  constexpr std::array<std::string_view, 4> kNames = {"sparse", "local", "diloco", "powersgd"};
  return std::ranges::count(kNames, sync) > 0;
}

void SlowLinkSpec::take(JobReader& r) {
  r.take("compressor", compressor);
  r.take("scan", scan);
  r.take("all_gather", all_gather);
  r.take("sparse_momentum", sparse_momentum);
  r.take("wire_dtype", wire_dtype);
  r.take("drop", drop);
  r.take("outer_lr", outer_lr);
  r.take("outer_momentum", outer_momentum);
  r.take("mixing", mixing);
  r.take("staleness", staleness);
  r.take("drain_every", drain_every);
  r.take("inner_steps", inner_steps);
  r.take("fragments", fragments);
  r.take("overlap", overlap);
  r.take("factor_rank", factor_rank);
  r.take("verify", verify);
  r.take("drop_of", drop_of);
  r.take("pieces", pieces);
  r.take("controller", controller);
  r.take("convergence", convergence);
  r.take("largest_batch", largest_batch);
}

void SlowLinkSpec::add_to(Json& j) const {
  const auto add = [&j](const char* key, const auto& value) {
    if (value) j[key] = *value;
  };
  add("compressor", compressor);
  add("scan", scan);
  add("all_gather", all_gather);
  add("sparse_momentum", sparse_momentum);
  add("wire_dtype", wire_dtype);
  add("drop", drop);
  add("outer_lr", outer_lr);
  add("outer_momentum", outer_momentum);
  add("mixing", mixing);
  add("staleness", staleness);
  add("drain_every", drain_every);
  add("inner_steps", inner_steps);
  add("fragments", fragments);
  add("overlap", overlap);
  add("factor_rank", factor_rank);
  add("verify", verify);
  if (!drop_of.empty()) j["drop_of"] = drop_of;
  if (pieces) j["pieces"] = true;
  if (controller) j["controller"] = true;
  add("convergence", convergence);
  add("largest_batch", largest_batch);
}

void refuse_slow_link_keys(const std::string& sync, const SlowLinkSpec& spec) {
  Json given = Json::object();
  spec.add_to(given);
  for (const auto& [key, methods] : methods_of_keys()) {
    if (!given.contains(key) || std::ranges::count(methods, sync) > 0) continue;
    // Of a profile, its first words.
    throw Error("job: ", key, " ", fmt::format("{:.60}", json_text(given.at(std::string(key)))),
                " with sync ", sync, ": it is of sync ",
                fmt::format("{}", fmt::join(methods, ", ")),
                "; take one of these, or leave it away");
  }
}

}  // namespace ndtrain::tuner
