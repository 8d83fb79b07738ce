#include "framework/pipeline/profiler/measure_profile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "framework/core/limits.h"
#include "framework/graph/uses.h"
#include "framework/pipeline/profiler/node_seconds.h"
#include "framework/pipeline/profiler/step_bytes.h"
#include "framework/pipeline/profiler/step_samples.h"
#include "framework/train/prepared_step.h"

namespace ndtrain {
namespace {

constexpr int kRunsAlone = 5;  // of the step without fused kernels; the first is not counted
// The second measurement has an eighth of the rows, and of the steps.
constexpr int kTimesFewer = 8, kFewestSteps = 3;
constexpr int64_t kFewestRows = 2;
// Kernels are chosen by their rows: workspaces are looked at in such parts of them, too.
constexpr int kPartsBetween[] = {2, 4};

void check(const ProfileOptions& options, int64_t rows) {
  if (options.steps < 1 || options.steps > limits::kProfiledSteps) {
    throw Error("profile: ", options.steps, " steps; 1 to ", limits::kProfiledSteps, " can be");
  }
  if (options.batch < 1) throw Error("profile: a step of ", options.batch, " rows has nothing");
  if (rows < 1) throw Error("profile: there are no rows");
}

double median_of(std::vector<double> seconds) { return time_of(std::move(seconds)).median_s; }

class Measurement {
 public:
  Measurement(const Model& model, std::span<const std::string> trainable, const Device& device,
              Dataset& rows, const ProfileOptions& options, Clock& clock)
      : device_(device),
        rows_(rows),
        options_(options),
        clock_(clock),
        step_(make_step_graph(bind(model, options.batch), trainable, 0, options.compute)),
        nodes_(step_nodes(step_)),
        parameters_(step_.graph, by_readiness(step_), device),
        optimizer_(options.optimizer, parameters_, device) {
    std::map<std::string, Tensor> statistics;
    for (const TrainingGraph::State& state : step_.states) {
      const Value& v = step_.graph.value(state.param);
      statistics[v.name] = v.data;
    }
    if (!statistics.empty()) {
      statistics_ = std::make_unique<RunningStatistics>(statistics, ShardRange{}, 1, device);
    }
    optimizer_.set_profiling(true);
  }

  ModelProfile run() {
    const std::vector<double> alone = seconds_alone();
    PreparedStep step(step_, device_, parameters_);
    step.set_profiling(true);
    StepSamples samples(step_, nodes_);
    std::unique_ptr<NodeSeconds> seconds;
    std::vector<double> updates, loads, copies;
    for (int i = 0; i <= options_.steps; ++i) {
      const double load_s = timed([&] { fetch(step); });
      const double copy_s = timed([&] { copy(); });
      compute(step);
      const double update_s = update();
      const std::vector<Executor::NodeTime> kernels = step.profile();
      if (!seconds) seconds = std::make_unique<NodeSeconds>(step_.graph, kernels, alone);
      if (i == 0) continue;
      samples.add(seconds->of(kernels));
      updates.push_back(update_s);
      loads.push_back(load_s);
      copies.push_back(copy_s);
      if (options_.on_step && !options_.on_step(i)) break;
    }
    ModelProfile profile = described(updates.size());
    add_inputs(profile, loads, copies);
    add_nodes(profile, samples, seconds->workspaces());
    profile.optimizer_s_per_byte = median_of(updates) / parameter_bytes();
    profile.moment_bytes_per_byte = static_cast<double>(moments());
    profile.peak_bytes = peak_bytes(step.plan());
    validate(profile, "profile");
    return profile;
  }

  // What nodes work in, of those that are planned, in the order of run()'s.
  std::vector<double> workspaces() {
    PreparedStep step(step_, device_, parameters_);
    step.set_profiling(true);
    fetch(step);
    copy();
    compute(step);
    return workspaces_by(NodeSeconds(step_.graph, step.profile()).workspaces());
  }

 private:
  template <typename Work>
  double timed(const Work& work) const {
    const std::chrono::nanoseconds begun = clock_.monotonic();
    work();
    return std::chrono::duration<double>(clock_.monotonic() - begun).count();
  }

  double parameter_bytes() const {
    return static_cast<double>(parameters_.count()) * sizeof(float);
  }
  size_t moments() { return optimizer_.moments({0, parameters_.size()}).size(); }

  // Of each node, median: in a plan of the same step where each has a kernel of its own.
  std::vector<double> seconds_alone() {
    PreparedStep step(step_, device_, parameters_, /*fuse=*/false);
    step.set_profiling(true);
    fetch(step);
    std::vector<std::vector<double>> runs(step_.graph.nodes().size());
    for (int i = 0; i <= kRunsAlone; ++i) {
      compute(step);
      const std::vector<Executor::NodeTime> kernels = step.profile();
      const std::vector<double> seconds = NodeSeconds(step_.graph, kernels).of(kernels);
      for (size_t n = 0; i > 0 && n < runs.size(); ++n) runs[n].push_back(seconds[n]);
    }
    std::vector<double> medians;
    for (std::vector<double>& r : runs) medians.push_back(median_of(std::move(r)));
    return medians;
  }

  void fetch(PreparedStep& step) {
    std::vector<int64_t> numbers(static_cast<size_t>(options_.batch));
    std::iota(numbers.begin(), numbers.end(), int64_t{0});
    for (int64_t& n : numbers) n %= rows_.size();
    step.fetch(rows_, numbers, options_.batch);
  }

  // As a step sends its inputs.
  void copy() {
    if (device_.shares_host_memory()) return;
    if (inputs_.empty()) {
      for (const ValueId v : step_.features) inputs_.emplace_back(device_, step_.graph.type(v));
    }
    for (StagedTensor& t : inputs_) t.send();
  }

  void compute(PreparedStep& step) {
    step.run({.part = {},
              .seed = options_.seed,
              .step = optimizer_.steps() + 1,
              .gradients = parameters_.gradients(),
              .statistics = statistics_.get()},
             {});
  }

  // With a rate of nothing, so that the numbers stay such as a training has them.
  double update() {
    optimizer_.apply({0, parameters_.size()}, optimizer_.next(0), parameters_.gradients(),
                     parameters_.values(), parameters_.values());
    double seconds = 0;
    for (const Executor::NodeTime& t : optimizer_.profile()) seconds += t.seconds;
    return seconds;
  }

  ModelProfile described(size_t steps) const {
    ModelProfile profile{.model = options_.model, .batch = options_.batch};
    profile.source = "measured: " + std::string(device_.backend().name()) + ", " +
                     std::to_string(shared_threads().threads()) + " threads, " +
                     std::string(name_of(options_.compute)) + ", " + std::to_string(steps) +
                     " steps";
    return profile;
  }

  void add_inputs(ModelProfile& profile, const std::vector<double>& loads,
                  const std::vector<double>& copies) const {
    for (size_t k = 0; k < step_.features.size(); ++k) {
      const Value& v = step_.graph.value(step_.features[k]);
      NodeProfile n{.id = v.name, .description = "Input" + std::to_string(k)};
      n.activation_bytes = static_cast<double>(v.type.bytes());
      if (k == 0 && options_.load) n.input_gradient = time_of(loads);
      if (k == 0 && !device_.shares_host_memory()) n.forward = time_of(copies);
      profile.nodes.push_back(std::move(n));
    }
  }

  // Of each node the gradients beside it and its largest kernel's.
  std::vector<double> workspaces_by(const std::vector<size_t>& of_kernels) const {
    std::vector<double> largest(nodes_.nodes.size());
    for (size_t i = 0; i < step_.made_for.size(); ++i) {
      double& l = largest[nodes_.part_of[step_.made_for[i]]];
      l = std::max(l, static_cast<double>(of_kernels[i]));
    }
    const std::vector<NodeBytes> bytes = step_bytes(step_, nodes_);
    for (size_t n = 0; n < largest.size(); ++n) largest[n] += bytes[n].gradients;
    return largest;
  }

  void add_nodes(ModelProfile& profile, const StepSamples& samples,
                 const std::vector<size_t>& of_kernels) const {
    const std::vector<NodeBytes> bytes = step_bytes(step_, nodes_);
    const std::vector<double> workspaces = workspaces_by(of_kernels);
    const size_t first = profile.nodes.size();
    for (size_t n = 0; n < nodes_.nodes.size(); ++n) {
      profile.nodes.push_back({.id = nodes_.names[n],
                               .description = step_.graph.nodes()[nodes_.nodes[n]].op,
                               .forward = samples.forward(n),
                               .input_gradient = samples.input_gradient(n),
                               .weight_gradient = samples.weight_gradient(n),
                               .activation_bytes = bytes[n].activation,
                               .saved_bytes = bytes[n].saved,
                               .workspace_bytes = workspaces[n],
                               .parameter_bytes = bytes[n].trained,
                               .frozen_bytes = bytes[n].frozen});
    }
    add_edges(profile, first);
  }

  void add_edges(ModelProfile& profile, size_t first) const {
    const Uses<ValueId> uses = uses_of(step_.graph);
    for (size_t i = 0; i < step_.forward_nodes; ++i) {
      std::vector<int>& inputs = profile.nodes[first + nodes_.part_of[i]].inputs;
      for (const ValueId v : step_.graph.nodes()[i].inputs) {
        if (v == kNone) continue;
        const int producer = uses.producer(v);
        const auto feature = std::ranges::find(step_.features, v);
        size_t from = static_cast<size_t>(feature - step_.features.begin());
        if (producer >= 0) {
          from = first + nodes_.part_of[static_cast<size_t>(producer)];
        } else if (feature == step_.features.end()) {
          continue;
        }
        const auto number = static_cast<int>(from);
        if (from == first + nodes_.part_of[i] || std::ranges::count(inputs, number) > 0) continue;
        inputs.push_back(number);
      }
    }
  }

  double peak_bytes(const Plan& plan) {
    auto bytes = static_cast<double>(plan.arena_bytes() + plan.constant_bytes());
    bytes += static_cast<double>(parameters_.size()) * sizeof(float) *
             static_cast<double>(2 + moments());
    if (statistics_) bytes += 2 * static_cast<double>(statistics_->size()) * sizeof(float);
    for (const ValueId v : step_.features)
      bytes += static_cast<double>(step_.graph.type(v).bytes());
    return bytes;
  }

  const Device& device_;
  Dataset& rows_;
  const ProfileOptions& options_;
  Clock& clock_;
  const StepGraph step_;
  const StepNodes nodes_;
  const ParameterSpace parameters_;
  Optimizer optimizer_;
  std::unique_ptr<RunningStatistics> statistics_;  // null: the model has none
  std::vector<StagedTensor> inputs_;
};

// What the line through two batches has for no rows.
double fixed_of(double many, double few, double few_share) {
  return std::clamp((few - many * few_share) / (1 - few_share), 0.0, std::min(few, many));
}

void set_fixed(NodeTime& of_many, const NodeTime& of_few, double few_share) {
  of_many.fixed_s = fixed_of(of_many.median_s, of_few.median_s, few_share);
}

void set_fixed(ModelProfile& profile, const ModelProfile& few) {
  const double share = static_cast<double>(few.batch) / static_cast<double>(profile.batch);
  for (size_t i = 0; i < profile.nodes.size(); ++i) {
    NodeProfile& n = profile.nodes[i];
    if (n.is_input()) continue;
    set_fixed(n.forward, few.nodes[i].forward, share);
    set_fixed(n.input_gradient, few.nodes[i].input_gradient, share);
    set_fixed(n.weight_gradient, few.nodes[i].weight_gradient, share);
    n.fixed_workspace_bytes = fixed_of(n.workspace_bytes, few.nodes[i].workspace_bytes, share);
  }
}

// So much that no batch in between, of `rows`, is said to work in less than it does.
void raise_fixed_workspaces(ModelProfile& profile, std::span<const double> of_fewer, int64_t rows) {
  const double share = static_cast<double>(rows) / static_cast<double>(profile.batch);
  size_t next = 0;
  for (NodeProfile& n : profile.nodes) {
    if (n.is_input()) continue;
    const double fixed = fixed_of(n.workspace_bytes, of_fewer[next++], share);
    n.fixed_workspace_bytes = std::max(n.fixed_workspace_bytes, fixed);
  }
}

}  // namespace

ModelProfile measure_profile(const Model& model, std::span<const std::string> trainable,
                             const Device& device, Dataset& rows, const ProfileOptions& options,
                             Clock& clock) {
  check(options, rows.size());
  bool stopped = false;
  ProfileOptions of_many = options, of_few = options;
  of_many.on_step = [&](int done) {
    stopped = options.on_step && !options.on_step(done);
    return !stopped;
  };
  ModelProfile profile = Measurement(model, trainable, device, rows, of_many, clock).run();
  of_few.batch = std::max(kFewestRows, options.batch / kTimesFewer);
  if (of_few.batch >= options.batch || stopped) return profile;
  of_few.steps = std::max(kFewestSteps, options.steps / kTimesFewer);
  of_few.load = false;
  of_few.on_step = {};
  set_fixed(profile, Measurement(model, trainable, device, rows, of_few, clock).run());
  for (const int parts : kPartsBetween) {
    ProfileOptions between = of_few;
    between.batch = options.batch / parts;
    if (between.batch <= of_few.batch) break;
    Measurement step(model, trainable, device, rows, between, clock);
    raise_fixed_workspaces(profile, step.workspaces(), between.batch);
  }
  return profile;
}

}  // namespace ndtrain
