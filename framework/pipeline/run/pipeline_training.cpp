#include "framework/pipeline/run/pipeline_training.h"

#include <algorithm>
#include <utility>

#include "framework/core/finite.h"
#include "framework/parallel/between_ranks.h"
#include "framework/passes/inference.h"
#include "framework/pipeline/run/pipeline_cut.h"
#include "framework/pipeline/run/stage_cuts.h"
#include "framework/train/checkpoint_1.h"

namespace ndtrain {
namespace {

constexpr ShardRange kOneShard{0, 1};
constexpr int kMostChunks = 32;
static_assert(kMostChunks * kMostChunks <= CommOp::kLanes, "a lane for any two of them");

void check(const TrainerConfig& config, const PipelineSchedule& schedule) {
  config.check();
  if (!schedule.synchronous()) {
    throw Error("schedule '", schedule.name(),
                "' has several versions of the parameters, which is not trained yet; gpipe, 1f1b, "
                "interleaved, zb and sync are");
  }
  if (config.shards != 1) {
    throw Error(config.shards, " shards: stages share a step by layers, and not its rows");
  }
  if (config.optimizer.clip_norm > 0) {
    throw Error("gradients are not clipped by stages yet: their norm is over all of them");
  }
  if (config.compute == DType::kF16) {
    throw Error("stages compute in f32 or bf16, not in f16");
  }
}

const Tensor& finite(const std::string& name, const Tensor& t) {
  if (all_finite(t)) return t;
  throw Error("'", name, "' has NaN or Inf", kDiverged);
}

const Tensor& of_checkpoint(const std::map<std::string, Tensor>& tensors, const std::string& what,
                            const std::string& name) {
  const auto it = tensors.find(name);
  if (it == tensors.end()) throw Error("checkpoint: ", what, " '", name, "' is missing");
  return finite(name, it->second);
}

}  // namespace

PipelineTraining::PipelineTraining(Model model, std::vector<std::string> trainable,
                                   const Device& device, const TrainerConfig& config,
                                   std::unique_ptr<Communicator> communicator,
                                   const Options& options)
    : model_(std::move(model)),
      trainable_(std::move(trainable)),
      device_(device),
      config_(config),
      schedule_(pipeline_schedule(options.schedule)),
      communicator_(std::move(communicator)) {
  check(config_, *schedule_);
  if (options.chunks < 1 || options.chunks > kMostChunks) {
    throw Error(options.chunks, " stages of a rank; 1 to ", kMostChunks, " can be");
  }
  const StepGraph step = step_of(1);
  const int count = communicator_->ranks() * options.chunks;
  const std::vector<int> stage_of =
      options.cut ? options.cut(step, count) : cut_by_operations(step, count);
  const std::vector<Stage> stages = make_stages(step, stage_of);
  if (std::ssize(stages) != count) {
    throw Error(stages.size(), " stages for ", communicator_->ranks(), " ranks of ",
                options.chunks);
  }
  for (ValueId v : step.features) row_types_.push_back(step.graph.type(v));
  batch_statistics_ = !step.states.empty();
  const PipeShape shape = shape_of(stages, options.chunks, config_.accumulate);
  (void)schedule_->instructions(shape, communicator_->rank());  // which it may refuse
  make_state(step, stages);
  talk_ = std::make_unique<StepTalk>(*communicator_);
  step_ = std::make_unique<PipelineStep>(
      PipelineStep::Settings{.schedule = *schedule_,
                             .shape = shape,
                             .stage_of = stage_of,
                             .step = [this](int64_t rows) { return step_of(rows); },
                             .padded_to = batch_statistics_ ? 0 : config_.most_rows()},
      *communicator_, *state_);
  for (size_t s = 0; s < stages.size(); ++s) sizes_.push_back({shape.rank_of(static_cast<int>(s))});
  measure(step, stages);
}

PipelineTraining::~PipelineTraining() = default;

StepGraph PipelineTraining::step_of(int64_t rows) const {
  return make_step_graph(bind(model_, rows), trainable_, config_.label_smoothing, config_.compute);
}

// Parameters, moments and statistics of the stages of this rank, a stage behind the other.
void PipelineTraining::make_state(const StepGraph& step, std::span<const Stage> stages) {
  std::vector<ValueId> params;
  std::map<int, size_t> ends;  // of each stage's
  std::map<std::string, Tensor> statistics;
  for (auto s = static_cast<size_t>(communicator_->rank()); s < stages.size();
       s += static_cast<size_t>(communicator_->ranks())) {
    if (!stages[s].trains() && !stages[s].parameters.empty()) {
      throw Error("the loss does not depend on '", step.graph.value(stages[s].parameters[0]).name,
                  "', which stage ", s, " is to train");
    }
    std::ranges::copy(stages[s].parameters, std::back_inserter(params));
    ends[static_cast<int>(s)] = params.size();
    for (const size_t k : stages[s].states) {
      const Value& v = step.graph.value(step.states[k].param);
      statistics[v.name] = v.data;
    }
  }
  parameters_ = std::make_unique<ParameterSpace>(step.graph, params, device_);
  int64_t begin = 0;
  for (const auto& [stage, end] : ends) {
    const bool last = end == params.size();
    ranges_[stage] = {begin, last ? parameters_->size() : parameters_->slots()[end].range.begin};
    begin = ranges_[stage].end;
  }
  optimizer_ = std::make_unique<Optimizer>(config_.optimizer, *parameters_, device_);
  gradients_ = std::make_unique<ShardSums>(parameters_->size(), kOneShard, 1, device_,
                                           parameters_->gradients());
  if (!statistics.empty()) {
    statistics_ = std::make_unique<RunningStatistics>(statistics, kOneShard, 1, device_);
  }
  state_.emplace(RankState{device_, *parameters_, *gradients_, statistics_.get()});
}

void PipelineTraining::measure(const StepGraph& step, std::span<const Stage> stages) {
  const Graph& g = step.graph;
  for (size_t s = 0; s < stages.size(); ++s) {
    StageSize& size = sizes_[s];
    const std::span<const Node> nodes = stages[s].forward.graph.nodes();
    size.nodes = nodes.size();
    size.first = stages[s].forward.graph.value(nodes.front().outputs[0]).name;
    size.last = stages[s].forward.graph.value(nodes.back().outputs[0]).name;
    for (ValueId v : stages[s].parameters) size.parameters += g.shape(v).count();
    for (const StagePort& port : stages[s].activations_out) {
      size.sent_bytes += static_cast<int64_t>(g.type(port.value).bytes());
    }
  }
}

bool PipelineTraining::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  stopped_ = false;
  return run_epoch(
      {config_, kOneShard, batch_statistics_, lr_factor_}, data.size(), counts_, result,
      [&](const EpochOrder& order, double lr) { run_step(data, order, lr); },
      [&](int64_t done, int64_t total) {
        stop_asked_ = stop_asked_ || (on_step && !on_step(done, total));
        return !stopped_;
      });
}

void PipelineTraining::run_step(Dataset& data, const EpochOrder& order, double lr) {
  whole_.reset();
  const std::span<const int64_t> rows = order.rows(0, counts_.step);
  const HyperParameters hyper = optimizer_->next(lr);
  try {
    talk_->begin();
    step_->run({.rows = {.data = data,
                         .rows = rows,
                         .of = std::ssize(rows),
                         .seed = config_.seed,
                         .step = hyper.step},
                .parts = config_.parts_of(std::ssize(rows), batch_statistics_),
                .forward_done = [&](const ShardReport& told) { talk_->tell(told); },
                .update =
                    [&](int stage) {
                      if (!why_lost(report(), loss_scale_).empty()) return;
                      const ParameterRange range = ranges_.at(stage);
                      optimizer_->apply(range, hyper, parameters_->gradients(range.begin),
                                        parameters_->values(range.begin),
                                        parameters_->values(range.begin));
                    }});
    stopped_ = talk_->end(stop_asked_);
    const std::string why = why_lost(report(), loss_scale_);
    if (!why.empty()) {
      throw Error("epoch ", counts_.epoch + 1, ", step ", counts_.step + 1, ": ", why);
    }
  } catch (...) {
    optimizer_->leave_out();
    throw;
  }
  if (statistics_) {
    statistics_->add(0);
    statistics_->advance();
  }
  counts_.add(report(), std::ssize(rows));
}

// Of the step, as the last stage has it; waits for it.
StepReport PipelineTraining::report() {
  const ShardReport& of_step = talk_->report();
  return sum_of({&of_step, 1});
}

Checkpoint PipelineTraining::own_part() const {
  Checkpoint c;
  for (size_t i = 0; i < parameters_->slots().size(); ++i) {
    c.parameters[parameters_->slots()[i].name] = parameters_->copy(i);
  }
  if (statistics_) c.states = statistics_->copy();
  c.optimizer = optimizer_->state();
  return c;
}

// Parameters, statistics and moments of all ranks.
const Checkpoint& PipelineTraining::whole() {
  if (whole_) return *whole_;
  whole_ = own_part();
  for (const std::string& bytes : gather(*communicator_, checkpoint_bytes(*whole_))) {
    Checkpoint part = parse_checkpoint(bytes).or_throw();
    whole_->parameters.merge(part.parameters);
    whole_->states.merge(part.states);
    whole_->optimizer.merge(part.optimizer);
  }
  return *whole_;
}

const Model& PipelineTraining::model() {
  for (const auto* tensors : {&whole().parameters, &whole().states}) {
    for (const auto& [name, value] : *tensors) {
      model_.initialisers[name] = finite(name, value);
    }
  }
  return model_;
}

Checkpoint PipelineTraining::checkpoint() {
  Checkpoint c = whole();
  for (const auto* tensors : {&c.parameters, &c.states}) {
    for (const auto& [name, value] : *tensors) finite(name, value);
  }
  c.optimizer_steps = optimizer_->steps();
  c.loss_scale = loss_scale_;
  counts_.save(c);
  return c;
}

void PipelineTraining::restore(const Checkpoint& c) {
  whole_.reset();
  std::vector<std::pair<std::string, Shape>> shapes;
  for (const std::string& name : trainable_) {  // so that all ranks say the same of it
    of_checkpoint(c.parameters, "parameter", name);
    shapes.emplace_back(name, model_.initialisers.at(name).shape());
  }
  for (size_t i = 0; i < parameters_->slots().size(); ++i) {
    parameters_->set(i, c.parameters.at(parameters_->slots()[i].name));
  }
  if (statistics_) {
    for (const auto& [name, now] : statistics_->copy()) {
      statistics_->set(name, of_checkpoint(c.states, "running statistic", name));
    }
  }
  counts_ = EpochCounts::of(c);
  optimizer_->restore(c.in_buckets ? moments_by_parameter(c.optimizer, shapes) : c.optimizer,
                      c.optimizer_steps);
  loss_scale_ = c.loss_scale;
}

void PipelineTraining::reset_optimizer() {
  whole_.reset();
  optimizer_->reset();
}

Evaluation PipelineTraining::evaluate(Dataset& data) {
  const Model& m = model();
  BatchPlans plans([&m](int64_t batch) { return inference_graph(m, batch, with_plain_logits); },
                   device_, config_.batch);
  return ndtrain::evaluate(plans, data, row_types_);
}

int64_t PipelineTraining::parameter_count() const {
  int64_t n = 0;
  for (const StageSize& s : sizes_) n += s.parameters;
  return n;
}

}  // namespace ndtrain
