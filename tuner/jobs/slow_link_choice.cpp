#include "tuner/jobs/slow_link_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "framework/core/limits.h"
#include "framework/sparse/sync/drops.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr int64_t kMostSteps = std::numeric_limits<int32_t>::max();
constexpr const char *kDeep = "dgc", *kLargestOfSums = "gtopk";

template <typename... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) throw Error("job: ", parts...);
}

int64_t integer_in(const char* key, const std::optional<int64_t>& asked, int64_t otherwise,
                   int64_t least, int64_t most) {
  const int64_t value = asked.value_or(otherwise);
  require(value >= least && value <= most, key, " ", value, ": from ", least, " to ", most);
  return value;
}

double below_1(const char* key, const std::optional<double>& asked, double otherwise) {
  const double value = asked.value_or(otherwise);
  require(value >= 0 && value < 1, key, " ", value, ": 0 to below 1");
  return value;
}

ValueCoding wire_of(const SlowLinkSpec& spec) {
  const std::string name = spec.wire_dtype.value_or("f32");
  try {
    return value_coding_named(name);
  } catch (const Error& e) {
    throw Error("job: wire_dtype ", name, ": ", e.what());
  }
}

bool rotates(const SlowLinkSpec& spec) {
  const std::string how = spec.scan.value_or("first");
  require(how == "first" || how == "rotate", "scan ", how, ": there are first and rotate");
  return how == "rotate";
}

GatherRoute route_of(const SlowLinkSpec& spec) {
  const std::string name = spec.all_gather.value_or("direct");
  try {
    return gather_route_named(name);
  } catch (const Error& e) {
    throw Error("job: all_gather ", name, ": ", e.what());
  }
}

void check_compressor(const std::string& name, const char* more) {
  const auto names = compressor_names();
  require(std::ranges::count(names, name) > 0, "compressor ", name, ": there are ",
          fmt::format("{}", fmt::join(names, ", ")), more);
}

SparseSyncOptions deep(const SlowLinkSpec& spec, const TrainerConfig& trainer) {
  const OptimizerConfig& o = trainer.optimizer;
  require(o.kind == OptimizerConfig::Kind::kSgd && !o.nesterov && o.dampening == 0,
          "compressor dgc: momentum is of gradients before they are sent, as sgd has it; take opt "
          "sgd without nesterov and dampening");
  require(o.momentum > 0 && o.momentum < 1, "compressor dgc with momentum ", o.momentum,
          ": above 0 and below 1; topk has none");
  require(!spec.sparse_momentum, "sparse_momentum ", spec.sparse_momentum.value_or(""),
          " with compressor dgc, which has its own; leave it away");
  const SparseSyncOptions plain = deep_gradient_compression(o.momentum);
  return deep_gradient_compression(o.momentum, below_1("drop", spec.drop, plain.drop));
}

SparseOptimizerOptions momentum_of(const SlowLinkSpec& spec, const TrainerConfig& trainer) {
  const std::string how = spec.sparse_momentum.value_or("touched");
  if (how == "touched") return {};
  require(how == "lazy" || how == "catch-up", "sparse_momentum ", how,
          ": there are touched, lazy and catch-up");
  const OptimizerConfig& o = trainer.optimizer;
  require(o.kind == OptimizerConfig::Kind::kSgd, "sparse_momentum ", how, ": it is of opt sgd");
  if (how == "lazy") return {.lazy = true};
  require(trainer.schedule.kind == Schedule::Kind::kConstant && trainer.warmup_epochs == 0,
          "sparse_momentum catch-up: the steps an element has missed are of one rate; take sched "
          "constant, without warmup");
  require(!o.nesterov && o.momentum < 1,
          "sparse_momentum catch-up: what an element has missed is a sum without nesterov, of a "
          "momentum below 1");
  return {.lazy = true, .catch_up = true};
}

SparseSyncOptions selection_of(const SlowLinkSpec& spec, const TrainerConfig& trainer) {
  const std::string name = spec.compressor.value_or(SparseSyncOptions{}.compressor);
  if (name == kDeep) return deep(spec, trainer);
  SparseSyncOptions options;
  options.largest_of_sums = name == kLargestOfSums;
  if (!options.largest_of_sums) check_compressor(name, ", gtopk and dgc");
  options.compressor = options.largest_of_sums ? "topk" : name;
  options.drop = below_1("drop", spec.drop, options.drop);
  return options;
}

void refuse_parts_of_signs(const SlowLinkSpec& spec, const std::string& compressor) {
  if (!make_compressor(compressor, {})->takes_all()) return;
  require(!spec.pieces, "pieces with compressor ", compressor,
          ": signs are of all elements of a tensor; leave one away");
  require(!spec.drop && spec.drop_of.empty(), spec.drop ? "drop" : "drop_of", " with compressor ",
          compressor, ": it sends a bit of each element; leave one away");
}

RateControlOptions control_of(const JobSpec& job) {
  const SlowLinkSpec& spec = job.slow_link;
  require(spec.convergence.has_value(),
          "controller without convergence: it goes by what batches and drops cost; give the text "
          "that ndtrain profile --convergence has written");
  RateControlOptions control{.batch = job.trainer.batch,
                             .dry_run = job.dry_run,
                             .passes_apart = job.trainer.accumulate == 1,
                             .one_site_waits = true};
  try {
    control.profile = parse_convergence_profile(*spec.convergence, "convergence");
  } catch (const Error& e) {
    throw Error("job: ", e.what());
  }
  // A job's model has no name: who submits it compares them.
  control.model = control.profile.model;
  const int64_t most = control.profile.largest_batch;
  require(control.batch <= most, "batch ", control.batch, ": the convergence profile knows of ",
          most, " rows at most; take fewer, or measure one with a larger --largest-batch");
  if (spec.largest_batch) {
    control.largest_batch = integer_in("largest_batch", spec.largest_batch, most, 1, most);
  }
  return control;
}

// Fills in what a controller goes by, where there is one.
void set_control(const JobSpec& job, SparseSyncOptions& options) {
  const SlowLinkSpec& spec = job.slow_link;
  if (!spec.controller) {
    require(!spec.convergence && !spec.largest_batch,
            spec.convergence ? "convergence" : "largest_batch",
            " without controller: it is of that; add it, or leave this away");
    return;
  }
  require(options.first_drops.empty() && !make_compressor(options.compressor, {})->takes_all(),
          "controller with compressor ", spec.compressor.value_or(""),
          ": there is no drop that it could change; leave one away");
  require(spec.sparse_momentum.value_or("") != "catch-up",
          "controller with sparse_momentum catch-up: missed steps are of one size; take lazy");
  options.control = control_of(job);
}

SparseSyncOptions sparse_of(const SlowLinkSpec& spec, const TrainerConfig& trainer) {
  require(trainer.optimizer.clip_norm == 0, "clip_norm ", trainer.optimizer.clip_norm,
          " with sync sparse: what is sent of a gradient at a step has no norm; leave it away");
  require(trainer.optimizer.layer_decay == 1, "layer_decay ", trainer.optimizer.layer_decay,
          " with sync sparse: its steps have one rate for all layers; leave it away");
  require(trainer.optimizer.lr_of.empty(),
          "lr_of with sync sparse: its steps have one rate for all parameters; leave it away");
  SparseSyncOptions options = selection_of(spec, trainer);
  refuse_parts_of_signs(spec, options.compressor);
  options.compressing.rotate = rotates(spec);
  options.wire = wire_of(spec);
  options.route = route_of(spec);
  options.seed = trainer.seed;
  options.pieces = spec.pieces;
  options.optimizer = momentum_of(spec, trainer);
  for (const std::string& text : spec.drop_of) {
    const auto drop = named_drop(text);
    require(drop.has_value(), "drop_of ", text,
            ": a parameter's name, in which * is anything, then = and 0 to below 1");
    options.drops.push_back(*drop);
  }
  options.staleness =
      static_cast<int>(integer_in("staleness", spec.staleness, 0, 0, limits::kSparseStaleness));
  require(!spec.drain_every || options.staleness > 0, "drain_every ", spec.drain_every.value_or(0),
          " with sync sparse: without staleness nothing is under way; leave it away");
  return options;
}

void choose_outer_elements(const SlowLinkSpec& spec, LocalStepsOptions& options) {
  if (!spec.compressor) {
    require(!spec.drop && !spec.scan, spec.drop ? "drop" : "scan",
            ": without compressor all of what Tuners have learnt travels; add that");
    return;
  }
  check_compressor(*spec.compressor, "");
  options.compressor = *spec.compressor;
  options.compressing.rotate = rotates(spec);
  options.drop = below_1("drop", spec.drop, options.drop);
  refuse_parts_of_signs(spec, options.compressor);
}

LocalStepsOptions local_of(const std::string& sync, const SlowLinkSpec& spec,
                           const TrainerConfig& trainer) {
  require(trainer.compute != DType::kF16, "compute f16 with sync ", sync,
          ": each Tuner would scale its loss by itself; take bf16");
  LocalStepsOptions options;
  options.inner_steps =
      integer_in("inner_steps", spec.inner_steps, options.inner_steps, 1, limits::kInnerSteps);
  if (sync == "local") options = averaging(options.inner_steps);
  options.outer_lr = spec.outer_lr.value_or(options.outer_lr);
  require(options.outer_lr > 0, "outer_lr ", options.outer_lr, ": above 0");
  options.outer_momentum = below_1("outer_momentum", spec.outer_momentum, options.outer_momentum);
  options.fragments =
      static_cast<int>(integer_in("fragments", spec.fragments, 1, 1, options.inner_steps));
  options.overlap = integer_in("overlap", spec.overlap, 0, 0, options.inner_steps - 1);
  require(!spec.mixing || options.overlap > 0, "mixing ", spec.mixing.value_or(0),
          " without overlap: nothing is learnt meanwhile; add that");
  options.mixing = below_1("mixing", spec.mixing, options.mixing);
  options.wire = wire_of(spec);
  options.route = route_of(spec);
  require(!spec.all_gather || spec.compressor || !float_type_of(options.wire), "all_gather ",
          spec.all_gather.value_or(""), " with sync ", sync,
          ": without compressor what Tuners have learnt is added up as it travels; add that, or "
          "wire_dtype int8");
  options.seed = trainer.seed;
  choose_outer_elements(spec, options);
  return options;
}

PowerSgdOptions power_sgd_of(const SlowLinkSpec& spec, const TrainerConfig& trainer) {
  PowerSgdOptions options{.seed = trainer.seed};
  options.rank = static_cast<int>(
      integer_in("factor_rank", spec.factor_rank, options.rank, 1, limits::kPowerSgdRank));
  const auto wire = float_type_of(wire_of(spec));
  require(wire.has_value(), "wire_dtype ", spec.wire_dtype.value_or(""),
          " with sync powersgd: there are f32, f16 and bf16");
  options.wire = *wire;
  return options;
}

}  // namespace

SlowLinkChoice slow_link_of(const JobSpec& job) {
  const std::string& sync = job.sync;
  const SlowLinkSpec& spec = job.slow_link;
  const TrainerConfig& trainer = job.trainer;
  refuse_slow_link_keys(sync, spec);
  SlowLinkChoice choice;
  if (spec.verify) choice.verify_every = integer_in("verify", spec.verify, 0, 1, kMostSteps);
  int64_t drain_every = SlowLinkTraining::Options{}.drain_every;
  if (sync == "powersgd") {
    choice.method = power_sgd_method(power_sgd_of(spec, trainer));
  } else if (sync == "sparse") {
    SparseSyncOptions options = sparse_of(spec, trainer);
    set_control(job, options);
    drain_every = integer_in("drain_every", spec.drain_every, drain_every, 1, kMostSteps);
    choice.method = sparse_method(options, drain_every);
    choice.optimizer_without_momentum = options.momentum > 0;
  } else {
    const LocalStepsOptions options = local_of(sync, spec, trainer);
    const int64_t steps = options.inner_steps;  // where a fragment agrees all the same
    drain_every = integer_in("drain_every", spec.drain_every,
                             (drain_every + steps - 1) / steps * steps, 1, kMostSteps);
    choice.method = local_method(sync, options, drain_every);
  }
  return choice;
}

}  // namespace ndtrain::tuner
