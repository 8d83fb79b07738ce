#include "framework/pipeline/run/pipeline_training.h"

#include <algorithm>
#include <utility>

#include "framework/core/finite.h"
#include "framework/core/limits.h"
#include "framework/parallel/between_ranks.h"
#include "framework/parallel/plan_by_sizes.h"
#include "framework/passes/inference.h"
#include "framework/pipeline/run/pipeline_cut.h"
#include "framework/pipeline/run/stage_cuts.h"
#include "framework/train/checkpoint_1.h"
#include "framework/train/learning_rates.h"

namespace ndtrain {
namespace {

static_assert(limits::kStagesOfRank * limits::kStagesOfRank <= CommOp::kLanes,
              "a lane for any two of them");

void check(const TrainerConfig& config) {
  config.check();
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

StageRanks places_of(const PipelineTraining::Options& options, int ranks) {
  if (options.replicas.empty()) return StageRanks(std::vector<int>(static_cast<size_t>(ranks), 1));
  StageRanks places(options.replicas);
  if (places.ranks() != ranks) {
    throw Error("stages of ", places.ranks(), " ranks in all, but there are ", ranks);
  }
  if (options.chunks > 1 && places.most_replicas() > 1) {
    throw Error(options.chunks, " stages of a rank, which are not on several ranks as well");
  }
  return places;
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

bool reads_rows(const StepGraph& step, const Stage& stage) {
  return std::ranges::any_of(stage.forward.inputs, [&](ValueId v) {
    return v == step.labels || v == step.weights || std::ranges::count(step.features, v) > 0;
  });
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
      ranks_(places_of(options, communicator->ranks())),
      drain_every_(options.drain_every),
      seconds_(options.clock ? *options.clock : system_clock()),
      communicator_(std::move(communicator)) {
  check(config_);
  if (options.chunks < 1 || options.chunks > limits::kStagesOfRank) {
    throw Error(options.chunks, " stages of a rank; 1 to ", limits::kStagesOfRank, " can be");
  }
  if (options.staleness.any() && schedule_->synchronous()) {
    throw Error("schedule '", schedule_->name(), "' computes on the newest parameters: nothing is ",
                "stale");
  }
  if (drain_every_ < 1) throw Error("drained behind ", drain_every_, " steps; 1 is the least");
  const StepGraph step = step_of(1);
  const int count = ranks_.places() * options.chunks;
  const std::vector<int> stage_of =
      options.cut ? options.cut(step, count) : cut_by_operations(step, count);
  const std::vector<Stage> stages = make_stages(step, stage_of);
  if (std::ssize(stages) != count) {
    throw Error(stages.size(), " stages for ", ranks_.places(), " ranks of ", options.chunks);
  }
  check_routes(step, stages);
  batch_statistics_ = !step.states.empty();
  (void)parts_of(config_.batch);
  for (ValueId v : step.features) row_types_.push_back(step.graph.type(v));
  PipeShape shape = shape_of(stages, options.chunks, config_.accumulate);
  shape.recompute = options.recompute;
  (void)schedule_->instructions(shape, place());  // which it may refuse
  make_state(step, stages);
  weights_ = std::make_unique<StageWeights>(*parameters_, *optimizer_, device_,
                                            schedule_->delay(shape, place()), options.staleness);
  if (ranks_.replicas(place()) > 1 && parameters_->size() > 0) make_sync(options);
  talk_ = std::make_unique<StepTalk>(*communicator_, ranks_.group(ranks_.places() - 1));
  const bool padded = !batch_statistics_ && ranks_.most_replicas() == 1;
  interpreter_ = std::make_unique<PipelineInterpreter>(
      PipelineInterpreter::Settings{.schedule = *schedule_,
                                    .shape = shape,
                                    .ranks = ranks_,
                                    .stage_of = stage_of,
                                    .step = [this](int64_t rows) { return step_of(rows); },
                                    .padded_to = padded ? config_.most_rows() : 0},
      *communicator_, *state_);
  for (int s = 0; s < count; ++s) {
    const int at = shape.rank_of(s);
    sizes_.push_back({.rank = ranks_.rank_of(at),
                      .replicas = ranks_.replicas(at),
                      .versions = 1 + schedule_->delay(shape, s)});
  }
  measure(step, stages);
}

PipelineTraining::~PipelineTraining() = default;

StepGraph PipelineTraining::step_of(int64_t rows) const {
  return make_step_graph(bind(model_, rows), trainable_, config_.label_smoothing, config_.compute,
                         config_.labels_of_row);
}

// Parameters, moments and statistics of the stages of this rank, a stage behind the other.
void PipelineTraining::make_state(const StepGraph& step, std::span<const Stage> stages) {
  std::vector<ValueId> params;
  std::map<int, size_t> ends;  // of each stage's
  std::map<std::string, Tensor> statistics;
  for (auto s = static_cast<size_t>(place()); s < stages.size();
       s += static_cast<size_t>(ranks_.places())) {
    if (!stages[s].trains() && !stages[s].parameters.empty()) {
      throw Error("the loss does not depend on '", step.graph.value(stages[s].parameters[0]).name,
                  "', which stage ", s, " is to train");
    }
    fetches_ = fetches_ || reads_rows(step, stages[s]);
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
  set_learning_rates(*optimizer_, model_, trainable_);
  const ShardRange own{replica(), replica() + 1};
  const int shards = ranks_.replicas(place());
  gradients_ = std::make_unique<ShardSums>(parameters_->size(), own, shards, device_,
                                           parameters_->gradients());
  if (!statistics.empty()) {
    statistics_ = std::make_unique<RunningStatistics>(statistics, own, shards, device_);
  }
  state_.emplace(RankState{device_, *parameters_, *gradients_, statistics_.get()});
}

// Of values that change hands between ranks that share rows out in different ways.
void PipelineTraining::check_routes(const StepGraph& step, std::span<const Stage> stages) const {
  if (ranks_.most_replicas() == 1) return;
  const StepGraph of_two = step_of(2);
  const auto has_images = [&](ValueId v) {
    const Shape& one = step.graph.shape(v);
    return one.rank() > 0 && one[0] == 1 && of_two.graph.shape(v) == one.with(0, 2);
  };
  for (size_t s = 0; s < stages.size(); ++s) {
    for (const StagePort& port : stages[s].activations_out) {
      const int here = ranks_.replicas(static_cast<int>(s)), there = ranks_.replicas(port.peer);
      if (here == there || has_images(port.value)) continue;
      throw Error("'", step.graph.value(port.value).name, "' goes from stage ", s, " on ", here,
                  " ranks to stage ", port.peer, " on ", there,
                  ", but its first axis is not that of the photos, which they share out: give both "
                  "as many ranks, or cut elsewhere");
    }
  }
}

// Between the replicas of this rank's stage.
void PipelineTraining::make_sync(const Options& of) {
  const int replicas = ranks_.replicas(place());
  ExchangeOptions options{.group = ranks_.group(place())};
  // Of old versions a whole one follows, when the sums are there.
  if (weights_->updates_late() > 0) options.apply = [](auto&&...) {};
  std::vector<int> first_shards;
  for (int r = 0; r <= replicas; ++r) first_shards.push_back(r);
  auto exchange = std::make_unique<ExchangeSync>(
      Trainer::Shared{*parameters_, *optimizer_, *gradients_, nullptr, device_}, *communicator_,
      first_plan(of.sync, *parameters_, replicas), first_shards, options);
  if (goes_by_sizes(of.sync)) {
    sync_ = std::move(exchange);
    return;
  }
  std::vector<std::string> slots;
  for (const ParameterSlot& slot : parameters_->slots()) slots.push_back(slot.name);
  ExchangeSync& inner = *exchange;
  Clock& clock = of.clock ? *of.clock : system_clock();
  auto timed = std::make_unique<TimedSync>(
      std::move(exchange), std::move(slots), [&inner] { return inner.exposed_s(); }, clock);
  const auto say = [say = of.say, stage = place()](const std::string& line) {
    if (say) say("stage " + std::to_string(stage) + ": " + line);
  };
  tuner_ = std::make_unique<PlanTuner>(inner, *timed, *communicator_, std::move(first_shards),
                                       sizes_of(*parameters_, replicas),
                                       PlanTuner::Options{.schedule = of.sync, .say = say}, clock);
  sync_ = std::move(timed);
}

// Where nothing is under way.
void PipelineTraining::tune(const EpochStep& last, int64_t steps_of_epoch) {
  const int64_t done = last.step + 1, epochs = config_.epochs;
  tuner_->after_step({.step = counts_.epoch * steps_of_epoch + done,
                      .left = (epochs - counts_.epoch % epochs) * steps_of_epoch - done,
                      .steps_of_epoch = steps_of_epoch});
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
  if (std::exchange(stopped_, false)) stop_asked_ = false;
  seconds_.restart();
  if (tuner_) tuner_->go_on();
  if (const int64_t left = data.size() % config_.batch; left > 0) (void)parts_of(left);
  return run_epoch(
      {.config = config_,
       .own = {0, 1},
       .batch_statistics = batch_statistics_,
       .lr_factor = lr_factor_,
       .together = schedule_->synchronous() ? 1 : drain_every_},
      data.size(), counts_, result,
      [&](const RowOrder& order, std::span<const EpochStep> steps) {
        run_steps(data, order, steps, on_step);
      },
      [&](int64_t, int64_t) { return !stopped_; });
}

// Of a step's rows: each replica has some of each part.
int PipelineTraining::parts_of(int64_t rows) const {
  const int parts = config_.parts_of(rows, batch_statistics_);
  const int most = ranks_.most_replicas();
  if (most == 1) return parts;
  const int64_t least = int64_t{most} * (batch_statistics_ ? 2 : 1);
  if (rows < least) {
    throw Error("a step of ", rows, " photos for a stage on ", most, " ranks, each of which takes ",
                batch_statistics_ ? "two at least, as batch statistics need" : "one at least",
                ": choose another batch, or fewer ranks of a stage");
  }
  return static_cast<int>(std::min<int64_t>(parts, rows / least));
}

// Steps of as many parts are drained together: an epoch's last one may have fewer.
void PipelineTraining::run_steps(Dataset& data, const RowOrder& order,
                                 std::span<const EpochStep> steps, const OnStep& on_step) {
  whole_.reset();
  const auto parts = [&](const EpochStep& s) { return parts_of(order.row_count(s.step)); };
  while (!steps.empty()) {
    size_t n = 1;
    while (n < steps.size() && parts(steps[n]) == parts(steps[0])) ++n;
    run_drained(data, order, steps.first(n), on_step);
    if (tuner_ && !stopped_) tune(steps[n - 1], order.steps());
    steps = steps.subspan(n);
  }
}

void PipelineTraining::run_drained(Dataset& data, const RowOrder& order,
                                   std::span<const EpochStep> steps, const OnStep& on_step) {
  const int64_t before = optimizer_->steps();
  std::vector<StageWeights::Step> hyper;
  for (const EpochStep& s : steps) hyper.push_back(weights_->next(s.lr));
  try {
    seconds_.begin(std::ssize(steps));
    weights_->begin(hyper.front());
    talk_->begin(std::ssize(steps));
    interpret(data, order, steps, hyper, on_step);
    weights_->drained();
    stopped_ = talk_->end(stop_asked_);
    seconds_.drained();
    for (size_t k = 0; k < steps.size(); ++k) {
      const StepReport said = talk_->report(static_cast<int64_t>(k));
      const std::string why = why_lost(said, loss_scale_);
      if (!why.empty()) {
        throw Error("epoch ", counts_.epoch + 1, ", step ", steps[k].step + 1, ": ", why);
      }
      counts_.add(said, order.row_count(steps[k].step));
    }
  } catch (...) {
    optimizer_->set_steps(before);
    weights_->give_up();
    throw;
  }
}

void PipelineTraining::interpret(Dataset& data, const RowOrder& order,
                                 std::span<const EpochStep> steps,
                                 std::span<const StageWeights::Step> hyper, const OnStep& on_step) {
  std::vector<PipelineInterpreter::MiniBatch> mini_batches;
  for (size_t k = 0; k < steps.size(); ++k) {
    mini_batches.push_back({order.rows(0, steps[k].step), hyper[k].hyper.step});
  }
  interpreter_->run(
      {.data = data,
       .seed = config_.seed,
       .mini_batches = mini_batches,
       .parts = parts_of(std::ssize(mini_batches[0].rows)),
       .versions = weights_->versions(),
       .sync = sync_.get(),
       .forward_done =
           [&](const ShardReport* told) {
             if (told) talk_->tell(*told);
             if (statistics_) add_up_statistics();
           },
       .backward_begins =
           [&](int64_t k) {
             if (!sync_) return;
             sync_->begin(hyper[static_cast<size_t>(k)].hyper);
             sync_->forward_done();  // of the micro-batch that it exchanges behind
           },
       .update = [&](int stage, int64_t k) { update(stage, static_cast<size_t>(k), hyper); },
       .done =
           [&](int64_t k) {
             seconds_.step_done();
             const int64_t done = steps[static_cast<size_t>(k)].step + 1;
             if (on_step && !on_step(done, order.steps())) stop_asked_ = true;
           }});
}

// The mean over the replicas.
void PipelineTraining::add_up_statistics() {
  statistics_->add(replica());
  if (const RankGroup group = ranks_.group(place()); group.size() > 1) {
    CommOp op{.kind = CommOp::Kind::kAllReduce, .group = group, .name = "statistics"};
    op.data = {statistics_->sums()[0], static_cast<size_t>(statistics_->size())};
    const Communicator::Op sum = communicator_->enqueue(std::move(op));
    communicator_->release(sum);
    communicator_->wait(sum);
  }
  statistics_->advance();
}

// A step that cannot be applied ends the training where it is drained, so that all ranks say why.
// Until then there is a next version, though not one of use.
void PipelineTraining::update(int stage, size_t step, std::span<const StageWeights::Step> hyper) {
  const StepReport report = talk_->report(static_cast<int64_t>(step));
  const bool left_out = !why_lost(report, loss_scale_).empty() && !weights_->versions();
  if (sync_) {
    std::vector<ShardReport> none(static_cast<size_t>(ranks_.replicas(place())));
    sync_->share(none);
    left_out ? sync_->skip() : sync_->backward_done();
    if (!weights_->versions()) return;  // it updates
    sync_->flush();
  }
  if (left_out) return;
  const ParameterRange range = ranges_.at(stage);
  const StageWeights::Step* const following = step + 1 < hyper.size() ? &hyper[step + 1] : nullptr;
  weights_->update(range, hyper[step], following, parameters_->gradients(range.begin));
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
  if (sync_) sync_->flush();
  whole_ = own_part();
  const bool speaks = replica() == 0;  // for all that have the same
  for (const std::string& bytes :
       ndtrain::gather(*communicator_, speaks ? checkpoint_bytes(*whole_) : "")) {
    if (bytes.empty()) continue;
    Checkpoint part = parse_checkpoint(bytes).or_throw();
    whole_->parameters.merge(part.parameters);
    whole_->states.merge(part.states);
    whole_->optimizer.merge(part.optimizer);
  }
  return *whole_;
}

const Model& PipelineTraining::model() {
  const Checkpoint& all = whole();
  const bool averaged = config_.optimizer.ema > 0 && optimizer_->steps() > 0;
  for (const auto& [name, value] : all.parameters) {
    const Tensor& now = averaged ? all.optimizer.at(average_name(name)) : value;
    model_.initialisers[name] = finite(name, now);
  }
  for (const auto& [name, value] : all.states) model_.initialisers[name] = finite(name, value);
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
  if (sync_) sync_->flush();
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
  auto moments = c.in_buckets ? moments_by_parameter(c.optimizer, shapes) : c.optimizer;
  optimizer_->restore(moments, c.optimizer_steps);
  loss_scale_ = c.loss_scale;
  if (moments.empty()) return;
  // All of it is here: nobody needs to send any.
  whole_.emplace();
  whole_->parameters = c.parameters;
  whole_->states = c.states;
  whole_->optimizer = std::move(moments);
}

void PipelineTraining::reset_optimizer() {
  whole_.reset();
  if (sync_) sync_->flush();
  optimizer_->reset();
}

Evaluation PipelineTraining::evaluate(Dataset& data) {
  const Model& m = model();
  BatchPlans plans([&m](int64_t batch) { return inference_graph(m, batch, with_plain_logits); },
                   device_, config_.batch);
  return ndtrain::evaluate(plans, data, row_types_);
}

int64_t PipelineTraining::memory_bytes() const {
  const auto moments = std::ssize(optimizer_->moments({0, parameters_->size()}));
  const int64_t part = config_.accumulate > 1 ? 1 : 0;  // of gradients, before it is added
  const int64_t vectors = 2 + moments + part + weights_->extra_versions();
  return vectors * parameters_->size() * static_cast<int64_t>(sizeof(float)) +
         interpreter_->value_bytes() + interpreter_->work_bytes();
}

int64_t PipelineTraining::parameter_count() const {
  int64_t n = 0;
  for (const StageSize& s : sizes_) n += s.parameters;
  return n;
}

}  // namespace ndtrain
