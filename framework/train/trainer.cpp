#include "framework/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "framework/core/finite.h"
#include "framework/passes/inference.h"
#include "framework/runtime/device_fusion.h"
#include "framework/train/checkpoint_1.h"
#include "framework/train/learning_rates.h"
#include "framework/train/local_sync.h"

namespace ndtrain {
namespace {

// What leaves the Trainer, or comes back.
Tensor finite(const std::string& name, Tensor t) {
  if (all_finite(t)) return t;
  throw Error("'", name, "' has NaN or Inf", kDiverged);
}

}  // namespace

Trainer::Trainer(Model model, std::vector<std::string> trainable, const Device& device,
                 TrainerConfig config, const MakeSync& make_sync)
    : model_(std::move(model)),
      trainable_(std::move(trainable)),
      device_(device),
      config_(std::move(config)) {
  config_.check();
  const StepGraph s = step_of(1);
  for (ValueId v : s.features) row_types_.push_back(s.graph.type(v));
  parameters_ = std::make_unique<ParameterSpace>(s.graph, by_readiness(s), device_);
  own_ = config_.own_shards.value_or(ShardRange{0, config_.shards});
  reports_.resize(static_cast<size_t>(config_.shards));
  optimizer_ = std::make_unique<Optimizer>(
      config_.optimizer, *parameters_, config_.update_device ? *config_.update_device : device_);
  set_learning_rates(*optimizer_, model_, trainable_);
  std::map<std::string, Tensor> statistics;
  for (const TrainingGraph::State& state : s.states) {
    const Value& v = s.graph.value(state.param);
    statistics[v.name] = v.data;
  }
  make_own(statistics);
  if (make_sync) {
    sync_ = make_sync(shared());
  } else {
    sync_ = std::make_unique<LocalSync>(*parameters_, *optimizer_);
  }
}

Trainer::~Trainer() = default;

// What depends on which shards this process does.
void Trainer::make_own(const std::map<std::string, Tensor>& statistics) {
  gradients_ = std::make_unique<ShardSums>(parameters_->size(), own_, config_.shards, device_,
                                           parameters_->gradients());
  if (statistics.empty()) return;
  statistics_ = std::make_unique<RunningStatistics>(statistics, own_, config_.shards, device_);
}

Trainer::Position Trainer::position() const {
  return {.counts = counts_,
          .optimizer_steps = optimizer_->steps(),
          .loss_scale = loss_scale_,
          .statistics = statistics_ ? statistics_->copy() : std::map<std::string, Tensor>()};
}

void Trainer::set_sums(const EpochCounts& all) {
  counts_.loss_sum = all.loss_sum;
  counts_.correct = all.correct;
  counts_.correct_top5 = all.correct_top5;
}

Trainer::Shared Trainer::shared() {
  return {*parameters_, *optimizer_, *gradients_, statistics_.get(), device_};
}

void Trainer::go_on(const Position& from, ShardRange own, const MakeSync& make_sync) {
  clip_exposed_before_s_ += sync_->clip_exposed_s();
  own_ = own;
  make_own(from.statistics);
  sync_ = make_sync(shared());
  counts_ = from.counts;
  optimizer_->set_steps(from.optimizer_steps);
  loss_scale_ = from.loss_scale;
}

void Trainer::go_on(const Checkpoint& from, ShardRange own, const MakeSync& make_sync) {
  const ParameterRange all{0, parameters_->size()};
  optimizer_->keep_only({&all, 1}, {});
  optimizer_->set_steps(0);
  go_on(position(), own, make_sync);
  restore(from);
}

Checkpoint Trainer::beginning(const Model& model) const {
  Checkpoint c;
  for (const ParameterSlot& s : parameters_->slots()) {
    c.parameters[s.name] = model.initialisers.at(s.name);
  }
  if (!statistics_) return c;
  for (const auto& [name, now] : statistics_->copy()) c.states[name] = model.initialisers.at(name);
  return c;
}

StepGraph Trainer::step_of(int64_t rows) const {
  return make_step_graph(bind(model_, rows), trainable_, config_.label_smoothing, config_.compute,
                         config_.labels_of_row, accepts_of(device_));
}

PreparedStep& Trainer::step_for(int64_t rows) {
  // A partial batch is padded and masked, except where padding would enter batch statistics. Of
  // sizes that vary, few are kept: each has memory of its own.
  constexpr int64_t kRoundTo = 8;
  constexpr size_t kKept = 4;
  int64_t batch = statistics_ ? rows : config_.most_rows();
  if (sizes_ && !statistics_) batch = (rows + kRoundTo - 1) / kRoundTo * kRoundTo;
  std::unique_ptr<PreparedStep>& step = steps_[batch];
  if (!step) {
    if (sizes_ && steps_.size() > kKept) {
      last_ = nullptr;
      std::erase_if(steps_, [batch](const auto& s) { return s.first != batch; });
    }
    step = std::make_unique<PreparedStep>(step_of(batch), device_, *parameters_);
    step->set_profiling(profiling_);
  }
  return *step;
}

// By the memory of two plans.
int64_t Trainer::rows_that_fit(int64_t bytes) const {
  const auto bytes_of = [this](int64_t rows) {
    const StepGraph s = step_of(rows);
    const Plan plan(s.graph, device_, {.bound_params = bound_params(s)});
    double needed = static_cast<double>(plan.arena_bytes());
    for (const TensorType& t : row_types_) needed += static_cast<double>(rows * t.bytes());
    return needed;
  };
  const int64_t few = std::max<int64_t>(config_.most_rows() / config_.shards, 1);
  const double some = bytes_of(few), more = bytes_of(2 * few);
  const double of_row = std::max((more - some) / static_cast<double>(few), 1.0);
  const double fit = static_cast<double>(few) + (static_cast<double>(bytes) - some) / of_row;
  return std::llround(std::clamp(fit, 1.0, 1e6));
}

void Trainer::run_step(Dataset& data, const RowOrder& order, double lr) {
  const HyperParameters hyper = optimizer_->next(lr);
  try {
    sync_->begin(hyper);
    // What is added up on a device of its own is not there yet where a run's hooks are called.
    const bool one_run = own_.size() == 1 && config_.accumulate == 1;
    const bool follow = sync_->follows_the_run() && (device_.shares_host_memory() || one_run);
    if (sync_->follows_the_run() && !follow) {
      for (size_t i = 0; i < parameters_->slots().size(); ++i) sync_->before_read(i, nullptr);
    }
    for (int v = own_.begin; v < own_.end; ++v) run_shard(data, order, v, hyper.step, follow);
    if (statistics_) sync_->add_up_statistics();
    sync_->share(reports_);
  } catch (...) {
    optimizer_->leave_out();
    throw;
  }
  conclude(order.row_count(counts_.step));
}

// `follow`: the sync follows the run of a shard that has rows.
void Trainer::run_shard(Dataset& data, const RowOrder& order, int shard, int64_t step,
                        bool follow) {
  const std::span<const int64_t> rows = order.rows(shard, counts_.step);
  const bool last = shard + 1 == own_.end;
  if (rows.empty()) {
    leave_empty(shard);
  } else {
    const int parts = config_.parts_of(std::ssize(rows), statistics_ != nullptr);
    for (int k = 0; k < parts; ++k) {
      run_part(data, rows_of_part(rows, k, parts), order.row_count(counts_.step), {shard, k, parts},
               step, follow);
    }
    if (statistics_) statistics_->add(shard);
  }
  if (follow && last && !rows.empty()) return;
  gradients_->add(shard, {0, parameters_->size()});
  if (!last || !sync_->follows_the_run()) return;
  for (size_t i = 0; i < parameters_->slots().size(); ++i) sync_->gradient_ready(i, nullptr);
}

// Of a step of `of` rows.
void Trainer::run_part(Dataset& data, std::span<const int64_t> rows, int64_t of,
                       const ShardPart& part, int64_t step, bool follow) {
  PreparedStep& s = step_for(std::ssize(rows));
  s.fetch(data, rows, of);
  compute(s, part, step, follow ? hooks(s, part) : Hooks{});
  s.report(part, std::ssize(rows), reports_[static_cast<size_t>(part.shard)]);
  last_ = &s;
  const bool followed = follow && part.is_last() && part.shard + 1 == own_.end;
  if (part.number > 0 && !followed) gradients_->add_part(part.shard, {0, parameters_->size()});
}

// Tell the sync what a run needs, and of the last shard what has been added up.
Hooks Trainer::hooks(const PreparedStep& s, const ShardPart& part) {
  const auto before = [this, &s](int k, ndt_stream* stream) {
    if (const auto slot = s.slot_of_binding(k)) sync_->before_read(*slot, stream);
  };
  if (part.shard + 1 != own_.end || !part.is_last()) return {.before = before, .ready = {}};
  const auto ready = [this, &s, part](int k, ndt_stream* stream) {
    if (k == 0) sync_->forward_done();
    const std::optional<size_t> slot = s.slot_of_output(k);
    if (!slot) return;
    const ParameterRange range = parameters_->slots()[*slot].range;
    if (part.number > 0) gradients_->add_part(part.shard, range);
    gradients_->add(part.shard, range);
    sync_->gradient_ready(*slot, stream);
  };
  return {.before = before, .ready = ready};
}

// A shard that has run out adds zeros.
void Trainer::leave_empty(int shard) {
  for (size_t i = 0; i < parameters_->slots().size(); ++i) sync_->before_read(i, nullptr);
  const std::vector<float> zeros(static_cast<size_t>(parameters_->size()));
  device_.upload(gradients_->shard(shard), zeros.data(), zeros.size() * sizeof(float));
  if (statistics_) statistics_->add_unchanged(shard);
  reports_[static_cast<size_t>(shard)] = {};
}

// What all shards have reported: whether the step that was run is applied, and its loss and hits.
void Trainer::conclude(int64_t rows) {
  const StepReport all = sum_of(reports_);
  if (accept(all)) {
    try {
      sync_->backward_done();
    } catch (...) {
      optimizer_->leave_out();
      throw;
    }
    if (statistics_) statistics_->advance();
  }
  counts_.add(all, rows);
}

// In 16 bits a step is left out where a gradient is not finite; what the loss's scale cannot mend
// is an Error.
bool Trainer::accept(const StepReport& all) {
  const std::string why = why_lost(all, loss_scale_);
  if (why.empty() && config_.compute == DType::kF16) loss_scale_.update(all.finite);
  if (why.empty() && all.finite) return true;
  sync_->skip();
  optimizer_->leave_out();
  if (!why.empty())
    throw Error("epoch ", counts_.epoch + 1, ", step ", counts_.step + 1, ": ", why);
  return false;
}

// As the training's step `step`, from 1.
void Trainer::compute(PreparedStep& s, const ShardPart& part, int64_t step, const Hooks& hooks) {
  s.run({.part = part,
         .seed = config_.seed,
         .step = step,
         .loss_scale = loss_scale_.value,
         .gradients = part.number == 0 ? gradients_->shard(part.shard) : gradients_->part(),
         .statistics = statistics_.get()},
        hooks);
}

void Trainer::prepare(int64_t train_rows, int64_t val_rows) {
  sync_->flush();  // it may need the gradients that are written over
  if (train_rows > 0) {
    compute(step_for(std::min(train_rows, config_.most_rows())), {.shard = own_.begin},
            optimizer_->steps() + 1, {});
  }
  if (val_rows <= 0) return;
  std::vector<Tensor> zeros;
  for (const TensorType& t : row_types_) {
    zeros.emplace_back(TensorType{t.dtype, t.shape.with(0, std::min(val_rows, config_.batch))});
  }
  inference().run(zeros);
}

bool Trainer::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  return run_epoch(
      {.config = config_,
       .own = own_,
       .batch_statistics = statistics_ != nullptr,
       .lr_factor = lr_factor_,
       .sizes = sizes_},
      data.size(), counts_, result,
      [&](const RowOrder& order, std::span<const EpochStep> step) {
        run_step(data, order, step.front().lr);
      },
      on_step);
}

void Trainer::reset_optimizer() {
  sync_->flush();
  optimizer_->reset();
}

void Trainer::set_profiling(bool on) {
  profiling_ = on;
  for (auto& [batch, step] : steps_) step->set_profiling(on);
  optimizer_->set_profiling(on);
}

std::vector<Executor::NodeTime> Trainer::profile() const {
  if (!last_) return {};
  std::vector<Executor::NodeTime> times = last_->profile();
  std::ranges::copy(optimizer_->profile(), std::back_inserter(times));
  return times;
}

const Model& Trainer::model() {
  sync_->flush();
  const std::map<std::string, Tensor> averages = optimizer_->averages();
  for (size_t i = 0; i < parameters_->slots().size(); ++i) {
    const std::string& name = parameters_->slots()[i].name;
    const auto average = averages.find(name);
    model_.initialisers[name] =
        finite(name, average == averages.end() ? parameters_->copy(i) : average->second);
  }
  if (statistics_) {
    for (const auto& [name, value] : statistics_->copy()) {
      model_.initialisers[name] = finite(name, value);
    }
  }
  return model_;
}

BatchPlans Trainer::inference() {
  const Model& m = model();
  return {[&m](int64_t batch) { return inference_graph(m, batch, with_plain_logits); }, device_,
          config_.batch};
}

Evaluation Trainer::evaluate(Dataset& data) {
  BatchPlans plans = inference();
  return ndtrain::evaluate(plans, data, row_types_);
}

double Trainer::clip_exposed_s() const { return clip_exposed_before_s_ + sync_->clip_exposed_s(); }

int64_t Trainer::parameter_count() const { return parameters_->count(); }

Checkpoint Trainer::checkpoint() {
  sync_->flush();
  Checkpoint c;
  for (size_t i = 0; i < parameters_->slots().size(); ++i) {
    const std::string& name = parameters_->slots()[i].name;
    c.parameters[name] = finite(name, parameters_->copy(i));
  }
  if (statistics_) c.states = statistics_->copy();
  for (const auto& [name, value] : c.states) finite(name, value);
  c.optimizer = optimizer_->state();
  c.optimizer_steps = optimizer_->steps();
  c.loss_scale = loss_scale_;
  counts_.save(c);
  return c;
}

std::vector<std::pair<std::string, Shape>> Trainer::trainable_shapes() const {
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const std::string& name : trainable_) {
    shapes.emplace_back(name, parameters_->slots()[parameters_->slot(name)].shape);
  }
  return shapes;
}

void Trainer::restore(const Checkpoint& c) {
  sync_->flush();
  for (size_t i = 0; i < parameters_->slots().size(); ++i) {
    const std::string& name = parameters_->slots()[i].name;
    const auto it = c.parameters.find(name);
    if (it == c.parameters.end()) throw Error("checkpoint: parameter '", name, "' is missing");
    parameters_->set(i, finite(name, it->second));
  }
  if (statistics_) {
    for (const auto& [name, value] : statistics_->copy()) {
      const auto it = c.states.find(name);
      if (it == c.states.end())
        throw Error("checkpoint: running statistic '", name, "' is missing");
      statistics_->set(name, it->second);
    }
  }
  const EpochCounts counts = EpochCounts::of(c);
  optimizer_->restore(
      c.in_buckets ? moments_by_parameter(c.optimizer, trainable_shapes()) : c.optimizer,
      c.optimizer_steps);
  loss_scale_ = c.loss_scale;
  counts_ = counts;
}

}  // namespace ndtrain
