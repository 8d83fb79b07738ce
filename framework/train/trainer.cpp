#include "framework/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "framework/core/finite.h"
#include "framework/core/rng.h"
#include "framework/passes/inference.h"
#include "framework/train/checkpoint_1.h"

namespace ndtrain {
namespace {

constexpr const char* kDiverged =
    "; the training has diverged: begin it anew with a lower learning rate";

bool is_finite(const Tensor& t) {
  return all_finite(t.type().dtype, {static_cast<const std::byte*>(t.data()), t.bytes()});
}

// What leaves the Trainer, or comes back.
Tensor finite(const std::string& name, Tensor t) {
  if (is_finite(t)) return t;
  throw Error("'", name, "' has NaN or Inf", kDiverged);
}

}  // namespace

struct Trainer::Step {
  Step(StepGraph s, const Device& device, const ParameterSpace& parameters)
      : graph(std::move(s)),
        plan(graph.graph, device, {.bound_params = bound_params(graph)}),
        executor(plan) {
    const Graph& g = graph.graph;
    for (ValueId v : graph.trainable) slots[v] = parameters.slot(g.value(v).name);
    for (ValueId v : graph.features) inputs.emplace_back(device, g.type(v));
    labels = StagedTensor(device, g.type(graph.labels));
    weights = StagedTensor(device, g.type(graph.weights));
    loss = StagedTensor(device, g.type(g.outputs()[0]));
    logits = StagedTensor(device, g.type(g.outputs()[1]));
    seed = StagedTensor(device, {DType::kI64, {2}});
    loss_scale = StagedTensor(device, {DType::kF32, {}});
    finite = StagedTensor(device, {DType::kF32, {}});
  }

  static std::vector<ValueId> bound_params(const StepGraph& s) {
    std::vector<ValueId> bound = s.trainable;
    for (const TrainingGraph::State& state : s.states) bound.push_back(state.param);
    return bound;
  }

  // Tell `sync` what a run needs and what it has.
  Hooks hooks(GradientSync& sync) const {
    const auto before = [this, &sync](int k, ndt_stream* stream) {
      const auto it = slots.find(plan.bindings()[static_cast<size_t>(k)]);
      if (it != slots.end()) sync.before_read(it->second, stream);
    };
    const auto ready = [this, &sync](int k, ndt_stream* stream) {
      const size_t i = static_cast<size_t>(k) - StepGraph::kGradients;
      if (i < graph.trainable.size()) sync.gradient_ready(slots.at(graph.trainable[i]), stream);
    };
    return {.before = before, .ready = ready};
  }

  void send() {
    for (StagedTensor& t : inputs) t.send();
    for (StagedTensor* t : {&labels, &weights, &seed, &loss_scale}) t->send();
  }

  StepGraph graph;
  Plan plan;
  Executor executor;
  std::map<ValueId, size_t> slots;  // of the trainable parameters
  std::vector<StagedTensor> inputs;
  StagedTensor labels, weights, seed, loss_scale, loss, logits, finite;
};

Trainer::Trainer(Model model, std::vector<std::string> trainable, const Device& device,
                 TrainerConfig config, const MakeSync& make_sync)
    : model_(std::move(model)),
      trainable_(std::move(trainable)),
      device_(device),
      config_(std::move(config)) {
  if (config_.batch < 1) throw Error("a batch has at least one item, not ", config_.batch);
  if (config_.epochs < 1) throw Error("a run has at least one epoch, not ", config_.epochs);
  const StepGraph s =
      make_step_graph(bind(model_, 1), trainable_, config_.label_smoothing, config_.compute);
  for (ValueId v : s.features) row_types_.push_back(s.graph.type(v));
  parameters_ = std::make_unique<ParameterSpace>(s.graph, by_readiness(s), device_);
  optimizer_ = std::make_unique<Optimizer>(config_.optimizer, *parameters_, device);
  sync_ = make_sync ? make_sync(*parameters_, *optimizer_)
                    : std::make_unique<LocalSync>(*parameters_, *optimizer_);
  for (const TrainingGraph::State& state : s.states) {
    const Value& v = s.graph.value(state.param);
    Statistic& statistic = states_[v.name];
    statistic = {DeviceTensor(device_, v.type), DeviceTensor(device_, v.type)};
    statistic.now.set(v.data);
  }
  has_batch_statistics_ = !s.states.empty();
}

Trainer::~Trainer() = default;

Trainer::Step& Trainer::step_for(int64_t rows) {
  // A partial batch is padded and masked, except where padding would enter batch statistics.
  const int64_t batch = has_batch_statistics_ ? rows : config_.batch;
  std::unique_ptr<Step>& step = steps_[batch];
  if (!step) {
    StepGraph s =
        make_step_graph(bind(model_, batch), trainable_, config_.label_smoothing, config_.compute);
    step = std::make_unique<Step>(std::move(s), device_, *parameters_);
    step->executor.set_profiling(profiling_);
  }
  return *step;
}

// Rows and labels into the step; gives the rows.
std::vector<Tensor> Trainer::fetch(Step& s, Dataset& data, std::span<const int64_t> rows) {
  const auto n = rows.size();
  auto labels = s.labels.host().mutable_as<int64_t>();
  auto weights = s.weights.host().mutable_as<float>();
  std::ranges::fill(labels, 0);
  std::ranges::fill(weights, 0.0F);
  std::fill_n(weights.begin(), n, 1.0F / static_cast<float>(n));
  std::vector<Tensor> inputs;
  for (StagedTensor& t : s.inputs) inputs.push_back(t.host());
  data.fetch(rows, inputs, labels.first(n));
  const auto classes = static_cast<size_t>(s.logits.host().shape()[1]);
  for (size_t i = 0; i < n; ++i) {
    if (labels[i] < 0 || labels[i] >= static_cast<int64_t>(classes)) {
      throw Error("label ", labels[i], " but the model has ", classes, " classes");
    }
  }
  return inputs;
}

void Trainer::run_step(Step& s, Dataset& data, std::span<const int64_t> rows, double lr) {
  const std::vector<Tensor> inputs = fetch(s, data, rows);
  const HyperParameters hyper = optimizer_->next(lr);
  try {
    sync_->begin(hyper);
    compute(s, hyper.step, sync_->follows_the_run() ? s.hooks(*sync_) : Hooks{});
  } catch (...) {
    optimizer_->leave_out();
    throw;
  }
  last_ = &s;
  conclude(s, inputs);
  if (std::isfinite(s.loss.host().as<float>()[0])) {
    count(s, s.labels.host().as<int64_t>().first(rows.size()));
  }
}

// Whether the step that was run is applied. In 16 bits it is left out where a gradient is not
// finite; what the loss's scale cannot mend is an Error.
void Trainer::conclude(Step& s, const std::vector<Tensor>& inputs) {
  const bool scaled = s.graph.loss_scale != kNone;
  if (scaled) s.finite.fetch();
  s.loss.fetch();
  const float loss = s.loss.host().as<float>()[0];
  const bool finite = sync_->agreed(!scaled || s.finite.host().as<float>()[0] == 0);
  std::string why;
  if (!finite && loss_scale_.value <= LossScale::kLowest) {
    why = std::string("gradients are not finite") + kDiverged;
  } else if (finite && !std::isfinite(loss)) {
    const bool sound = std::ranges::all_of(inputs, is_finite);
    why = "the loss is " + std::to_string(loss) +
          (sound ? kDiverged : "; what is trained on has NaN or Inf");
  }
  if (why.empty() && scaled) loss_scale_.update(finite);
  if (why.empty() && finite) {
    sync_->backward_done();
    for (auto& [name, statistic] : states_) std::swap(statistic.now, statistic.next);
    return;
  }
  sync_->skip();
  optimizer_->leave_out();
  if (!why.empty()) throw Error("epoch ", epoch_ + 1, ", step ", step_ + 1, ": ", why);
}

void Trainer::count(Step& s, std::span<const int64_t> labels) {
  s.logits.fetch();
  const auto n = static_cast<double>(labels.size());
  loss_sum_ += static_cast<double>(s.loss.host().as<float>()[0]) * n;
  rows_ += n;
  const auto classes = static_cast<size_t>(s.logits.host().shape()[1]);
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = s.logits.host().as<float>().subspan(i * classes, classes);
    correct_ += std::ranges::max_element(row) - row.begin() == labels[i];
  }
}

// Loss, logits, gradients and new running statistics of the rows in `s`, as the training's step
// `step`, from 1.
void Trainer::compute(Step& s, int64_t step, const Hooks& hooks) {
  const Graph& g = s.graph.graph;
  auto seed = s.seed.host().mutable_as<int64_t>();
  seed[0] = static_cast<int64_t>(config_.seed);
  seed[1] = step - 1;
  s.loss_scale.host().mutable_as<float>()[0] = static_cast<float>(loss_scale_.value);
  s.send();

  const auto begin_of = [&](ValueId v) { return parameters_->slots()[s.slots.at(v)].range.begin; };
  std::map<ValueId, const void*> given;
  for (size_t k = 0; k < s.inputs.size(); ++k) given[s.graph.features[k]] = s.inputs[k].data();
  given[s.graph.labels] = s.labels.data();
  given[s.graph.weights] = s.weights.data();
  if (s.graph.dropout_seed != kNone) given[s.graph.dropout_seed] = s.seed.data();
  if (s.graph.loss_scale != kNone) given[s.graph.loss_scale] = s.loss_scale.data();
  for (ValueId v : s.graph.trainable) given[v] = parameters_->values(begin_of(v));
  for (const auto& state : s.graph.states)
    given[state.param] = states_.at(g.value(state.param).name).now.data();
  std::vector<const void*> bindings;
  for (ValueId v : s.plan.bindings()) bindings.push_back(given.at(v));

  std::vector<void*> outputs = {s.loss.data(), s.logits.data()};
  for (ValueId v : s.graph.trainable) outputs.push_back(parameters_->gradients(begin_of(v)));
  for (const auto& state : s.graph.states) {
    outputs.push_back(states_.at(g.value(state.param).name).next.data());
  }
  if (s.graph.loss_scale != kNone) outputs.push_back(s.finite.data());
  s.executor.run(bindings, outputs, hooks);
}

void Trainer::prepare(int64_t train_rows, int64_t val_rows) {
  sync_->flush();  // it may need the gradients that are written over
  if (train_rows > 0) {
    compute(step_for(std::min(train_rows, config_.batch)), optimizer_->steps() + 1, {});
  }
  if (val_rows <= 0) return;
  std::vector<Tensor> zeros;
  for (const TensorType& t : row_types_) {
    zeros.emplace_back(TensorType{t.dtype, t.shape.with(0, std::min(val_rows, config_.batch))});
  }
  inference().run(zeros);
}

bool Trainer::train_epoch(Dataset& data, EpochResult& result, const OnStep& on_step) {
  if (data.size() == 0) throw Error("there is nothing to train on");
  const int64_t total = (data.size() + config_.batch - 1) / config_.batch;
  Schedule schedule = config_.schedule;
  schedule.total_steps = total * config_.epochs;
  schedule.warmup_steps = static_cast<int64_t>(config_.warmup_epochs * static_cast<double>(total));
  const std::vector<int64_t> order =
      permutation(data.size(), Rng(config_.seed, "shuffle epoch " + std::to_string(epoch_)));
  double lr = 0;
  while (step_ < total) {
    const auto begin = static_cast<size_t>(step_ * config_.batch);
    const size_t n = std::min(static_cast<size_t>(config_.batch), order.size() - begin);
    lr = lr_factor_ * learning_rate(schedule, epoch_ % config_.epochs * total + step_);
    // A single row left over makes poor batch statistics; it is seen in another epoch.
    const bool left_over = n == 1 && total > 1 && config_.batch > 1;
    if (!left_over || !has_batch_statistics_) {
      run_step(step_for(static_cast<int64_t>(n)), data, std::span(order).subspan(begin, n), lr);
    }
    ++step_;
    if (on_step && !on_step(step_, total) && step_ < total) return false;
  }
  result = {.epoch = epoch_,
            .loss = loss_sum_ / std::max(rows_, 1.0),
            .top1 = correct_ / std::max(rows_, 1.0),
            .lr = lr};
  ++epoch_;
  step_ = 0;
  loss_sum_ = correct_ = rows_ = 0;
  return true;
}

void Trainer::reset_optimizer() {
  sync_->flush();
  optimizer_->reset();
}

void Trainer::set_profiling(bool on) {
  profiling_ = on;
  for (auto& [batch, step] : steps_) step->executor.set_profiling(on);
  optimizer_->set_profiling(on);
}

std::vector<Executor::NodeTime> Trainer::profile() const {
  if (!last_) return {};
  std::vector<Executor::NodeTime> times = last_->executor.profile();
  std::ranges::copy(optimizer_->profile(), std::back_inserter(times));
  return times;
}

const Model& Trainer::model() {
  sync_->flush();
  for (size_t i = 0; i < parameters_->slots().size(); ++i) {
    const std::string& name = parameters_->slots()[i].name;
    model_.initialisers[name] = finite(name, parameters_->copy(i));
  }
  for (const auto& [name, s] : states_) model_.initialisers[name] = finite(name, s.now.copy());
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

int64_t Trainer::parameter_count() const { return parameters_->count(); }

Checkpoint Trainer::checkpoint() {
  sync_->flush();
  Checkpoint c;
  for (size_t i = 0; i < parameters_->slots().size(); ++i) {
    const std::string& name = parameters_->slots()[i].name;
    c.parameters[name] = finite(name, parameters_->copy(i));
  }
  for (const auto& [name, s] : states_) c.states[name] = finite(name, s.now.copy());
  c.optimizer = optimizer_->state();
  c.optimizer_steps = optimizer_->steps();
  c.loss_scale = loss_scale_;
  c.epoch = epoch_;
  c.step = step_;
  c.loss_sum = loss_sum_;
  c.correct = correct_;
  c.rows = rows_;
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
  for (auto& [name, state] : states_) {
    const auto it = c.states.find(name);
    if (it == c.states.end() || it->second.type() != state.now.type()) {
      throw Error("checkpoint: running statistic '", name, "' is missing or of another size");
    }
    state.now.set(it->second);
  }
  if (c.epoch < 0 || c.step < 0) {
    throw Error("checkpoint: epoch ", c.epoch, ", step ", c.step, " is no place to go on from");
  }
  optimizer_->restore(
      c.in_buckets ? moments_by_parameter(c.optimizer, trainable_shapes()) : c.optimizer,
      c.optimizer_steps);
  loss_scale_ = c.loss_scale;
  epoch_ = c.epoch;
  step_ = c.step;
  loss_sum_ = c.loss_sum;
  correct_ = c.correct;
  rows_ = c.rows;
}

}  // namespace ndtrain
