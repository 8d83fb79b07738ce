#include <array>

#include "framework/parallel/cost_profile_json.h"
#include "framework/pipeline/planner/graph_text.h"
#include "framework/pipeline/planner/model_profile_json.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "framework/pipeline/planner/topology.h"
#include "framework/testing/memory_fs.h"
#include "ndp/jobs/run_settings.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/parallel/random_costs.h"
#include "tests/pipeline/planner/profiles.h"
#include "tests/support/files.h"
#include "tuner/plan/plan_profile.h"

namespace ndtrain::fuzz {
namespace {

constexpr const char* kFile = "file";

bool read_costs(std::string_view input) {
  parse_cost_profile(input, kFile);
  return true;
}

std::vector<std::string> costs() { return {to_json(testing::random_costs(1, 4))}; }

bool read_profile(std::string_view input) {
  parse_model_profile(input, kFile);
  return true;
}

ModelProfile some_profile() {
  Rng rng(1, "profile");
  return testing::random_profile(rng, 4, true);
}

std::vector<std::string> profiles() { return {to_json(some_profile())}; }

bool read_graph(std::string_view input) {
  parse_graph_text(input, kFile);
  return true;
}

std::vector<std::string> graphs() { return {graph_text(some_profile())}; }

bool read_plan(std::string_view input) {
  parse_pipeline_plan(input, kFile);
  return true;
}

std::vector<std::string> plans() {
  PipelinePlan plan{
      .model = "m.onnx", .costs = "measured", .schedule = "async", .sync = "auto", .seconds = 0.3};
  plan.stages = {{.nodes = {"a", "b"}, .replicas = 3, .seconds = 0.1, .memory_bytes = 1e9},
                 {.nodes = {"c"}, .seconds = 0.3}};
  plan.one_device_s = plan.data_parallel_s = 2;
  plan.states = 5;
  return {plan.text()};
}

bool read_network(std::string_view input) {
  parse_network(input, kFile, std::array{4, 2});
  return true;
}

std::vector<std::string> networks() {
  return {R"({"allreduce_bandwidths": [300000000000, 25000000000], "p2p_bandwidths": )"
          R"([200000000000, 12500000000], "fully_connect": [true, false]})"};
}

bool read_site(std::string_view input) {
  tuner::parse_profile(input, kFile);
  return true;
}

std::vector<std::string> sites() {
  tuner::Profile profile{.name = "all"};
  profile.inputs.costs.cuts = {{.name = "a"}, {.name = "b"}};
  for (const tuner::NamedInput& input : tuner::named_inputs(profile)) {
    profile.set(*input.value, 0.5, "measured");
  }
  return {tuner::to_json(profile)};
}

bool read_settings(std::string_view input) {
  MemoryFs fs;
  support::write_file(fs, "run/args.toml", input);
  return ndp::read_run_settings(fs, "run").ok();
}

std::vector<std::string> settings() {
  return {ndp::to_toml({.asked = {{"--lr", "0.1"}, {"DATA", "photos"}},
                        .version = "0.1.0",
                        .directory = "/",
                        .numerics = "n",
                        .model = "m",
                        .photos = "2 photos",
                        .digest = "d"})};
}

}  // namespace

std::vector<FuzzTarget> plan_targets() {
  return {{"cost_profile", read_costs, costs},      {"model_profile", read_profile, profiles},
          {"graph_text", read_graph, graphs},       {"pipeline_plan", read_plan, plans},
          {"network", read_network, networks},      {"plan_profile", read_site, sites},
          {"run_settings", read_settings, settings}};
}

}  // namespace ndtrain::fuzz
