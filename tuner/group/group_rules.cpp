#include "tuner/group/group_rules.h"

#include <fmt/format.h>

#include <utility>

#include "framework/comm/stream_transport.h"
#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/json_input.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/plan_by_sizes.h"
#include "ndp/engine/numerics.h"
#include "ndp/jobs/slow_link_method.h"
#include "ndp/jobs/stage_training.h"
#include "tuner/jobs/slow_link_job.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int64_t kRulesBytes = int64_t{64} << 20;  // parameters of a model have names

}  // namespace

std::string group_numerics(Devices& devices) { return feature_numerics(devices.get(true)); }

void check_group_device(Devices& devices, const JobSpec& spec) {
  const Device& device = devices.get(true);
  if (device.shares_host_memory() || is_slow_link(spec.sync)) return;
  throw Error("--sync ", spec.sync, ": several Tuners exchange so in memory of the host, and this ",
              "program's device is ", device.backend().name(),
              ": start it with --device cpu or onednn, or give --sync sparse, local, diloco or "
              "powersgd");
}

std::string rules_text(const GroupRules& rules) {
  return json_text({{"spec", rules.spec.text()},
                    {"trainable", rules.trainable},
                    {"compute", name_of(rules.compute)},
                    {"rows", to_hex(rules.rows)}});
}

GroupRules parse_rules(std::string_view text) try {
  const Json said = read_json(text, kRulesBytes).or_throw();
  return {.spec = parse_job_spec(said.at("spec").get<std::string>()),
          .trainable = said.at("trainable").get<std::vector<std::string>>(),
          .compute = dtype_named(said.at("compute").get<std::string>()),
          .rows = digest_from_hex(said.at("rows").get<std::string>())};
} catch (const std::exception& e) {
  throw Error("what the Tuner says of the training is damaged: ", e.what());
}

GroupRules share_rules(Communicator& ranks, const GroupRules& rules) {
  check_same(ranks, {{"program, processor and plugin", rules.numerics}});
  const bool leads = ranks.rank() == 0;
  const std::string text = broadcast(ranks, 0, leads ? rules_text(rules) : "");
  std::string head = broadcast(ranks, 0, leads ? rules.head : "");
  if (leads) return rules;
  GroupRules all = parse_rules(text);
  all.head = std::move(head);
  all.numerics = rules.numerics;
  return all;
}

std::unique_ptr<DataParallel> training_by_rows(
    const GroupRules& rules, Model head, const Device& device, std::unique_ptr<Communicator> ranks,
    Clock& clock, std::function<void(const std::string& line)> say,
    std::function<void(const ExchangeReport& report)> timed) {
  const std::string& sync = rules.spec.sync;
  const int count = ranks->ranks();
  const auto plan = [sync, count](const ParameterSpace& parameters) {
    return first_plan(sync, parameters, count);
  };
  return std::make_unique<DataParallel>(
      std::move(head), rules.trainable, device, trainer_alone(rules, {}), std::move(ranks),
      DataParallel::Options{
          .plan = plan,
          .tuning = {.schedule = sync, .say = std::move(say), .timed = std::move(timed)},
          .clock = &clock,
          .regroup = true});
}

std::unique_ptr<RegroupedTraining> training_over_slow_links(const GroupRules& rules, Model head,
                                                            const Device& device,
                                                            std::unique_ptr<Communicator> ranks,
                                                            SlowLinkPlace place) {
  const SlowLinkChoice choice = slow_link_of(rules.spec);
  std::vector<int> sites = sites_of_ranks(*ranks, place.site);
  return std::make_unique<RegroupedTraining>(
      std::move(head), rules.trainable, device, trainer_alone(rules, {}), std::move(ranks),
      SlowLinkTraining::Options{.drain_every = choice.method.drain_every,
                                .verify_every = choice.verify_every,
                                .sites = std::move(sites),
                                .log = std::move(place.log),
                                .files = std::move(place.files),
                                .warn = std::move(place.warn)},
      method_of(choice.method).make, std::move(place.on_loss));
}

// A job of another Tuner may have its number.
StateFiles files_of(const GroupRules& rules, uint64_t job, Fs& fs, const std::string& directory) {
  Json exchange = {{"sync", rules.spec.sync}, {"seed", rules.spec.seed}};
  add_slow_link(exchange, rules.spec.slow_link);
  Sha256 hash;
  hash.field(rules.head).field(to_hex(rules.rows)).field(json_text(exchange));
  return {fs, directory, fmt::format("job{}-{}-", job, to_hex(hash.finish()).substr(0, 16))};
}

std::unique_ptr<PipelineTraining> training_by_stages(
    const GroupRules& rules, const PipelinePlan& plan, Model head, const Device& device,
    std::unique_ptr<Communicator> ranks, Clock& clock,
    std::function<void(const std::string& line)> say) {
  return std::make_unique<PipelineTraining>(
      std::move(head), rules.trainable, device, trainer_alone(rules, plan), std::move(ranks),
      options_of(stages_of_plan(plan), clock, std::move(say)));
}

TrainerConfig trainer_alone(const GroupRules& rules, const std::optional<PipelinePlan>& plan) {
  TrainerConfig config = rules.spec.trainer;
  config.compute = rules.compute;
  if (rules.spec.augmentation.mixes()) config.labels_of_row = 2;
  if (is_slow_link(rules.spec.sync)) {
    const SlowLinkChoice choice = slow_link_of(rules.spec);
    if (choice.optimizer_without_momentum()) config.optimizer.momentum = 0;
  }
  if (!plan) return config;
  config.shards = 1;
  config.accumulate = plan->micro_batches;
  return config;
}

std::unique_ptr<Communicator> nobody_else() {
  std::vector<std::unique_ptr<Stream>> none(1);
  return group_communicator(0, std::move(none), {});
}

std::unique_ptr<Communicator> group_communicator(int rank,
                                                 std::vector<std::unique_ptr<Stream>> streams,
                                                 std::chrono::milliseconds silence,
                                                 const std::stop_token& stop) {
  return std::make_unique<Communicator>(
      stream_transport(rank, std::move(streams), {.silence = silence}),
      Communicator::Options{
          .in_flight = 1, .stall = kTrainingStall, .regroups = true, .stop = stop});
}

}  // namespace ndtrain::tuner
