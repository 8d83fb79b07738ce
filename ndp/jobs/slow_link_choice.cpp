#include "ndp/jobs/slow_link_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "framework/core/limits.h"
#include "framework/sparse/sync/drops.h"

namespace ndtrain::ndp {
namespace {

constexpr int64_t kMostSteps = std::numeric_limits<int32_t>::max();
constexpr const char *kDeep = "dgc", *kLargestOfSums = "gtopk";

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(", "), list.size());
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(std::min(comma + 2, list.size()));
  }
  return false;
}

// What was asked for, behind its name; of a profile, its first line.
std::string text_of(bool /*on*/) { return ""; }
std::string text_of(const std::vector<std::string>& field) {
  return fmt::format(" {}", fmt::join(field, ", "));
}
template <typename T>
std::string text_of(const std::optional<T>& field) {
  const std::string text = fmt::format("{}", *field);
  return fmt::format(" {:.60}", text.substr(0, text.find('\n')));
}

// What another method has instead of a setting, if anything.
std::string instead_of(std::string_view key, const std::string& sync, const SettingNames& names) {
  const bool late = key == "staleness" || key == "drain_every";
  if (late && sync == "powersgd") {
    return "; a step waits for what it sends, and nothing is under way";
  }
  if (key == "staleness" && is_slow_link(sync)) {
    return "; " + names("overlap") + " hides what travels";
  }
  return "";
}

// Makes options of what was asked for; each function throws Error where that cannot be.
class Choosing {
 public:
  Choosing(const SlowLinkSpec& spec, const SlowLinkTask& task, const SettingNames& names)
      : spec_(spec), trainer_(task.trainer), task_(task), name_(names) {}

  SparseSyncOptions sparse() const;
  LocalStepsOptions local() const;
  PowerSgdOptions power_sgd() const;
  int64_t integer(const char* key, const std::optional<int64_t>& asked, int64_t otherwise,
                  int64_t least, int64_t most) const;

 private:
  std::string sync() const { return name_("sync", task_.sync); }
  double below_1(const char* key, const std::optional<double>& asked, double otherwise) const;
  template <typename Parse>
  auto parsed(const char* key, const std::string& text, const Parse& parse) const;
  ValueCoding wire() const;
  bool rotates() const;
  GatherRoute route() const;
  void check_compressor(const std::string& name, const char* more) const;
  SparseSyncOptions deep() const;
  SparseOptimizerOptions momentum() const;
  SparseSyncOptions selection() const;
  void refuse_rates_of_layers() const;
  void refuse_parts_of_signs(const std::string& compressor) const;
  RateControlOptions control() const;
  void set_control(SparseSyncOptions& options) const;
  void choose_outer_elements(LocalStepsOptions& options) const;

  const SlowLinkSpec& spec_;
  const TrainerConfig& trainer_;
  const SlowLinkTask& task_;
  const SettingNames& name_;
};

int64_t Choosing::integer(const char* key, const std::optional<int64_t>& asked, int64_t otherwise,
                          int64_t least, int64_t most) const {
  const int64_t value = asked.value_or(otherwise);
  name_.require(value >= least && value <= most, name_(key), " ", value, ": ", least, " to ", most);
  return value;
}

double Choosing::below_1(const char* key, const std::optional<double>& asked,
                         double otherwise) const {
  const double value = asked.value_or(otherwise);
  name_.require(value >= 0 && value < 1, name_(key), " ", value, ": 0 to below 1");
  return value;
}

// What parse() makes of a setting's text; its Errors say whose text it was.
template <typename Parse>
auto Choosing::parsed(const char* key, const std::string& text, const Parse& parse) const {
  try {
    return parse(text);
  } catch (const Error& e) {
    name_.refuse(name_(key, text), ": ", e.what());
  }
}

ValueCoding Choosing::wire() const {
  return parsed("wire_dtype", spec_.wire_dtype.value_or("f32"), value_coding_named);
}

GatherRoute Choosing::route() const {
  return parsed("all_gather", spec_.all_gather.value_or("direct"), gather_route_named);
}

bool Choosing::rotates() const {
  const std::string how = spec_.scan.value_or("first");
  name_.require(how == "first" || how == "rotate", name_("scan", how),
                ": there are first and rotate");
  return how == "rotate";
}

void Choosing::check_compressor(const std::string& name, const char* more) const {
  const auto names = compressor_names();
  name_.require(std::ranges::count(names, name) > 0, name_("compressor", name), ": there are ",
                fmt::format("{}", fmt::join(names, ", ")), more);
}

SparseSyncOptions Choosing::deep() const {
  const OptimizerConfig& o = trainer_.optimizer;
  name_.require(o.kind == OptimizerConfig::Kind::kSgd && !o.nesterov && o.dampening == 0,
                name_("compressor", kDeep),
                ": momentum is of gradients before they are sent, as sgd has it; take ",
                name_("opt", "sgd"), " without ", name_("nesterov"), " and ", name_("dampening"));
  name_.require(o.momentum > 0 && o.momentum < 1, name_("compressor", kDeep), " with ",
                name_("momentum"), " ", o.momentum, ": above 0 and below 1; topk has none");
  name_.require(!spec_.sparse_momentum,
                name_("sparse_momentum", spec_.sparse_momentum.value_or("")), " with ",
                name_("compressor", kDeep), ", which has its own; leave it away");
  const SparseSyncOptions plain = deep_gradient_compression(o.momentum);
  return deep_gradient_compression(o.momentum, below_1("drop", spec_.drop, plain.drop));
}

SparseOptimizerOptions Choosing::momentum() const {
  const std::string how = spec_.sparse_momentum.value_or("touched");
  if (how == "touched") return {};
  const std::string asked = name_("sparse_momentum", how);
  name_.require(how == "lazy" || how == "catch-up", asked,
                ": there are touched, lazy and catch-up");
  const OptimizerConfig& o = trainer_.optimizer;
  name_.require(o.kind == OptimizerConfig::Kind::kSgd, asked, ": it is of ", name_("opt", "sgd"));
  if (how == "lazy") return {.lazy = true};
  name_.require(trainer_.schedule.kind == Schedule::Kind::kConstant && trainer_.warmup_epochs == 0,
                asked, ": the steps an element has missed are of one rate; take ",
                name_("sched", "constant"), ", without ", name_("warmup"));
  name_.require(!o.nesterov && o.momentum < 1, asked,
                ": what an element has missed is a sum without ", name_("nesterov"), ", of a ",
                name_("momentum"), " below 1");
  return {.lazy = true, .catch_up = true};
}

SparseSyncOptions Choosing::selection() const {
  const std::string name = spec_.compressor.value_or(SparseSyncOptions{}.compressor);
  if (name == kDeep) return deep();
  SparseSyncOptions options;
  options.largest_of_sums = name == kLargestOfSums;
  if (!options.largest_of_sums) check_compressor(name, ", gtopk and dgc");
  options.compressor = options.largest_of_sums ? "topk" : name;
  options.drop = below_1("drop", spec_.drop, options.drop);
  return options;
}

void Choosing::refuse_parts_of_signs(const std::string& compressor) const {
  if (!make_compressor(compressor, {})->takes_all()) return;
  const std::string with = " with " + name_("compressor", compressor);
  name_.require(!spec_.pieces, name_("pieces"), with,
                ": signs are of all elements of a tensor; leave one away");
  name_.require(!spec_.drop && spec_.drop_of.empty(), name_(spec_.drop ? "drop" : "drop_of"), with,
                ": it sends a bit of each element; leave one away");
}

RateControlOptions Choosing::control() const {
  name_.require(spec_.convergence.has_value(), name_("controller"), " without ",
                name_("convergence"),
                ": it goes by what batches and drops cost; give what ndtrain profile --convergence "
                "has written");
  RateControlOptions control{.batch = trainer_.batch,
                             .dry_run = task_.dry_run,
                             .passes_apart = task_.passes_apart,
                             .one_site_waits = task_.one_site_waits};
  try {
    control.profile = parse_convergence_profile(*spec_.convergence, name_("convergence"));
  } catch (const Error& e) {
    name_.refuse(e.what());
  }
  // Whoever has the model's name compares them.
  control.model = control.profile.model;
  const int64_t most = control.profile.largest_batch;
  name_.require(control.batch <= most, name_("batch"), " ", control.batch,
                ": the convergence profile knows of ", most,
                " rows at most; take fewer, or measure one with a larger --largest-batch");
  if (spec_.largest_batch) {
    control.largest_batch = integer("largest_batch", spec_.largest_batch, most, 1, most);
  }
  return control;
}

// Fills in what a controller goes by, where there is one.
void Choosing::set_control(SparseSyncOptions& options) const {
  const std::string controller = name_("controller");
  if (!spec_.controller) {
    name_.require(!spec_.convergence && !spec_.largest_batch,
                  name_(spec_.convergence ? "convergence" : "largest_batch"), " without ",
                  controller, ": it is of that; add it, or leave this away");
    return;
  }
  name_.require(
      options.first_drops.empty() && !make_compressor(options.compressor, {})->takes_all(),
      controller, " with ", name_("compressor", spec_.compressor.value_or("")),
      ": there is no drop that it could change; leave one away");
  name_.require(!options.optimizer.catch_up, controller, " with ",
                name_("sparse_momentum", "catch-up"), ": missed steps are of one size; take lazy");
  options.control = control();
}

void Choosing::refuse_rates_of_layers() const {
  const OptimizerConfig& o = trainer_.optimizer;
  name_.require(o.clip_norm == 0, name_("clip_norm"), " ", o.clip_norm, " with ", sync(),
                ": what is sent of a gradient at a step has no norm; leave it away");
  name_.require(o.layer_decay == 1, name_("layer_decay"), " ", o.layer_decay, " with ", sync(),
                ": its steps have one rate for all layers; leave one away");
  name_.require(o.lr_of.empty(), name_("lr_of"), " with ", sync(),
                ": its steps have one rate for all parameters; leave one away");
}

SparseSyncOptions Choosing::sparse() const {
  refuse_rates_of_layers();
  SparseSyncOptions options = selection();
  refuse_parts_of_signs(options.compressor);
  options.compressing.rotate = rotates();
  options.wire = wire();
  options.route = route();
  options.seed = trainer_.seed;
  options.pieces = spec_.pieces;
  options.optimizer = momentum();
  for (const std::string& text : spec_.drop_of) {
    const auto drop = named_drop(text);
    name_.require(drop.has_value(), name_("drop_of", text),
                  ": a parameter's name, in which * is anything, then = and 0 to below 1");
    options.drops.push_back(*drop);
  }
  options.staleness =
      static_cast<int>(integer("staleness", spec_.staleness, 0, 0, limits::kSparseStaleness));
  name_.require(!spec_.drain_every || options.staleness > 0, name_("drain_every"), " ",
                spec_.drain_every.value_or(0), " with ", sync(), ": without ", name_("staleness"),
                " nothing is under way; leave it away");
  set_control(options);
  return options;
}

void Choosing::choose_outer_elements(LocalStepsOptions& options) const {
  if (!spec_.compressor) {
    name_.require(!spec_.drop && !spec_.scan, name_(spec_.drop ? "drop" : "scan"), " with ", sync(),
                  ": without ", name_("compressor"), " all of what ", name_.ranks(),
                  " have learnt travels; add that");
    return;
  }
  check_compressor(*spec_.compressor, "");
  options.compressor = *spec_.compressor;
  options.compressing.rotate = rotates();
  options.drop = below_1("drop", spec_.drop, options.drop);
  refuse_parts_of_signs(options.compressor);
}

LocalStepsOptions Choosing::local() const {
  name_.require(trainer_.compute != DType::kF16, name_("compute", "f16"), " with ", sync(),
                ": each would scale its loss by itself; take bf16");
  LocalStepsOptions options;
  options.inner_steps =
      integer("inner_steps", spec_.inner_steps, options.inner_steps, 1, limits::kInnerSteps);
  if (task_.sync == "local") options = averaging(options.inner_steps);
  options.outer_lr = spec_.outer_lr.value_or(options.outer_lr);
  name_.require(options.outer_lr > 0 && options.outer_lr < std::numeric_limits<double>::infinity(),
                name_("outer_lr"), " ", options.outer_lr, ": above 0");
  options.outer_momentum = below_1("outer_momentum", spec_.outer_momentum, options.outer_momentum);
  options.fragments =
      static_cast<int>(integer("fragments", spec_.fragments, 1, 1, options.inner_steps));
  options.overlap = integer("overlap", spec_.overlap, 0, 0, options.inner_steps - 1);
  name_.require(!spec_.mixing || options.overlap > 0, name_("mixing"), " ",
                spec_.mixing.value_or(0), " without ", name_("overlap"),
                ": nothing is learnt meanwhile; add that");
  options.mixing = below_1("mixing", spec_.mixing, options.mixing);
  options.wire = wire();
  options.route = route();
  name_.require(!spec_.all_gather || spec_.compressor || !float_type_of(options.wire),
                name_("all_gather", spec_.all_gather.value_or("")), " with ", sync(), ": without ",
                name_("compressor"), " what ", name_.ranks(),
                " have learnt is added up as it travels; add that, or ",
                name_("wire_dtype", "int8"));
  options.seed = trainer_.seed;
  choose_outer_elements(options);
  return options;
}

PowerSgdOptions Choosing::power_sgd() const {
  PowerSgdOptions options{.seed = trainer_.seed};
  options.rank = static_cast<int>(
      integer("factor_rank", spec_.factor_rank, options.rank, 1, limits::kPowerSgdRank));
  const auto type = float_type_of(wire());
  name_.require(type.has_value(), name_("wire_dtype", spec_.wire_dtype.value_or("")), " with ",
                sync(), ": there are f32, f16 and bf16");
  options.wire = *type;
  return options;
}

}  // namespace

bool SlowLinkChoice::optimizer_without_momentum() const {
  const auto* const sparse = std::get_if<SparseSyncOptions>(&method.options);
  return sparse && sparse->momentum > 0;
}

SlowLinkChoice slow_link_of(const SlowLinkSpec& spec, const SlowLinkTask& task,
                            const SettingNames& names) {
  refuse_slow_link_settings(spec, task.sync, names);
  const Choosing choosing(spec, task, names);
  SlowLinkChoice choice{.method = {.sync = task.sync}};
  ExchangeMethod& method = choice.method;
  if (spec.verify) choice.verify_every = choosing.integer("verify", spec.verify, 0, 1, kMostSteps);
  if (task.sync == "powersgd") {
    method.options = choosing.power_sgd();
  } else if (task.sync == "sparse") {
    method.options = choosing.sparse();
  } else {
    const LocalStepsOptions options = choosing.local();
    method.drain_every = drained_every(options.inner_steps);
    method.options = options;
  }
  method.drain_every =
      choosing.integer("drain_every", spec.drain_every, method.drain_every, 1, kMostSteps);
  return choice;
}

void refuse_slow_link_settings(const SlowLinkSpec& spec, const std::string& sync,
                               const SettingNames& names) {
  for_each_setting(spec, [&](const char* key, const auto& field, std::string_view methods) {
    if (!is_asked(field) || has_word(methods, sync)) return;
    names.refuse(names(key), text_of(field), " with ", names("sync", sync), ": it is of ",
                 names("sync", methods), instead_of(key, sync, names),
                 "; take one of these, or leave it away");
  });
}

}  // namespace ndtrain::ndp
