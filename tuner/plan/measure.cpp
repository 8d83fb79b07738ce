#include "tuner/plan/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>

#include "framework/core/error.h"
#include "framework/passes/inference.h"
#include "framework/runtime/batch_plans.h"
#include "framework/train/trainer.h"
#include "framework/train/useful_cuts.h"
#include "ndp/engine/engine.h"
#include "ndp/engine/numerics.h"
#include "ndp/jobs/run_directory.h"
#include "ndp/jobs/training_loop.h"
#include "ndp/jobs/transfer.h"
#include "ndp/photos/dataset.h"
#include "tuner/plan/measure_photos.h"
#include "tuner/plan/repeat.h"
#include "tuner/plan/timeline.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr double kHeavyStep = 2e-3;  // s per photo behind the cut: then small batches will do
constexpr int64_t kSmallBatch = 8;

// `size` rows that repeat the few that there are.
class RepeatedRows final : public Dataset {
 public:
  RepeatedRows(const std::vector<Tensor>& rows, int64_t size, int64_t classes)
      : rows_(rows), size_(size), classes_(classes) {}

  int64_t size() const override { return size_; }
  void fetch(std::span<const int64_t> rows, std::span<Tensor> inputs,
             std::span<int64_t> labels) override {
    for (size_t k = 0; k < rows_.size(); ++k) {
      const auto there = rows_[k].shape()[0];
      const size_t bytes = rows_[k].bytes() / static_cast<size_t>(there);
      const auto* from = static_cast<const std::byte*>(rows_[k].data());
      auto* to = static_cast<std::byte*>(inputs[k].mutable_data());
      for (size_t i = 0; i < rows.size(); ++i) {
        std::memcpy(to + i * bytes, from + static_cast<size_t>(rows[i] % there) * bytes, bytes);
      }
    }
    for (size_t i = 0; i < rows.size(); ++i) labels[i] = rows[i] % classes_;
  }

 private:
  const std::vector<Tensor>& rows_;
  int64_t size_, classes_;
};

double parameter_bytes(const Model& m) {
  double bytes = 0;
  for (const auto& [name, t] : m.initialisers) bytes += static_cast<double>(t.bytes());
  return bytes;
}

class Measurement {
 public:
  Measurement(const MeasureConfig& config, const Device& device, Fs& fs, Clock& clock,
              Progress& progress)
      : config_(config), device_(device), fs_(fs), clock_(clock), progress_(progress) {
    threads_ = shared_threads().threads();
  }

  Profile run() {
    PlanCosts& costs = profile_.inputs.costs;
    costs.setup_s = seconds_of([&] { load(); });
    costs.plans_s = seconds_of([&] { plan(); });
    photos();
    cuts();
    engine();
    training_loop();
    costs.store.cores = costs.tuner.cores = threads_;
    say_sources();
    return std::move(profile_);
  }

 private:
  template <typename F>
  double seconds_of(const F& work) {
    const auto start = clock_.monotonic();
    work();
    return std::chrono::duration<double>(clock_.monotonic() - start).count();
  }

  // What the Tuner does before the first byte.
  void load() {
    model_ = load_model(fs_, config_.model);
    progress_.say(preprocess_note(model_));
    const std::vector<std::string> names = classes();
    classes_ = static_cast<int64_t>(names.size());
    transfer_ =
        prepare_transfer(model_, names, config_.head, config_.freeze, DType::kF32, config_.seed);
    if (transfer_.features.empty()) throw Error("--freeze ", config_.freeze, ": ", kNothingFrozen);
    Trainer trainer(transfer_.head, transfer_.trainable, device_, {.batch = config_.batch});
  }

  // What comes before the first photo where the network runs.
  void plan() {
    BatchPlans plans([&](int64_t b) { return inference_graph(transfer_.extractor, b); }, device_,
                     batch_);
    constexpr auto kDrawn = static_cast<int64_t>(kNumericsSample);
    plans.run(std::vector{Tensor({DType::kF32, input_shape(kDrawn)})});
    plans.plan(batch_);
  }

  std::vector<std::string> classes() const {
    if (!config_.labels.empty()) {
      const LabelledPhotos labelled =
          read_labels_csv(fs_, config_.labels, config_.photos).or_throw();
      std::set<std::string> shown;
      for (const LabelledPhotos::Item& i : labelled.items) {
        shown.insert(labelled.classes[static_cast<size_t>(i.label)]);
      }
      return {shown.begin(), shown.end()};
    }
    if (!config_.photos.empty()) {
      const Result<DataLayout> layout = find_layout(fs_, config_.photos);
      if (layout.ok()) {
        const Result<LabelledPhotos> labelled = read_image_folder(fs_, layout->train);
        if (labelled.ok()) return labelled->classes;
      }
    }
    if (!model_.classes.empty()) return model_.classes;
    std::vector<std::string> numbers;
    for (int64_t i = 0; i < model_.outputs(); ++i) numbers.push_back(std::to_string(i));
    return numbers;
  }

  void photos() {
    const bool drawn = config_.photos.empty();
    sample_ = drawn ? draw_photos(config_.photo_bytes, config_.sample / 8 + 1, config_.seed)
                    : sample_photos(fs_, config_.photos, config_.sample);
    progress_.begin("measuring photos", 1, "steps");
    profile_.inputs.costs.photo =
        measure_photos(sample_, model_.preprocess, clock_, config_.budget_s);
    progress_.update(1);
    progress_.end();
    profile_.inputs.photos = sample_.photos;
    input_ = Tensor({DType::kF32, input_shape(batch_)});
    auto values = input_.mutable_as<float>();
    for (size_t i = 0; i < static_cast<size_t>(batch_); ++i) {
      const size_t at = i % sample_.files.size();
      PhotoCost cost;
      preprocess_photo(sample_.names[at], sample_.files[at], model_.preprocess,
                       values.data() + i * model_.preprocess.values(), cost)
          .or_throw();
    }
  }

  Shape input_shape(int64_t n) const {
    const int64_t side = model_.preprocess.img_size;
    return model_.preprocess.layout == Layout::kNchw ? Shape{n, 3, side, side}
                                                     : Shape{n, side, side, 3};
  }

  void cuts() {
    std::vector<CutCost>& costs = profile_.inputs.costs.cuts;
    const auto all = useful_cuts(transfer_.whole, transfer_.trainable);
    progress_.begin("measuring cuts", static_cast<int64_t>(all.size()), "cuts");
    // From the back, so that what lies behind a cut can be foreseen.
    double whole_s = 0;
    for (size_t i = all.size(); i-- > 0;) {
      costs.push_back(cost_of(all[i], whole_s));
      whole_s = std::max(whole_s, costs.back().extract_s);
      progress_.update(static_cast<int64_t>(all.size() - i));
    }
    progress_.end();
    std::ranges::reverse(costs);
  }

  // `whole_s`: extraction up to the last cut; 0: this is it.
  CutCost cost_of(std::vector<std::string> features, double whole_s) {
    CutCost cost{.name = cut_name(features)};
    Model whole = transfer_.whole;
    if (config_.feature_dtype == DType::kF16) {
      whole = with_rounded_features(whole, features);
      for (std::string& name : features) name += "@f16";
    }
    const std::vector<std::string> input = {whole.inputs[0].name};
    const Model extractor = extract(whole, input, features);
    const Model head = extract(whole, features, whole.outputs);
    cost.extractor_bytes = parameter_bytes(extractor);
    cost.head_bytes = parameter_bytes(head);
    BatchPlans plans([&](int64_t b) { return inference_graph(extractor, b); }, device_, batch_);
    std::vector<Tensor> rows;
    const double wall = median_seconds(clock_, config_.budget_s,
                                       [&] { rows = plans.run(std::vector<Tensor>{input_}); });
    cost.extract_s = wall * threads_ / static_cast<double>(batch_);
    for (const Tensor& t : rows) {
      cost.feature_bytes += static_cast<double>(t.bytes()) / static_cast<double>(batch_);
    }
    train_behind(head, rows, whole_s - cost.extract_s, cost);
    return cost;
  }

  // Stages beside each other take longer than each alone: what they take together and the network
  // does not take alone, a photo takes to be prepared.
  void engine() {
    PlanCosts& costs = profile_.inputs.costs;
    BatchPlans plans([&](int64_t b) { return inference_graph(transfer_.extractor, b); }, device_,
                     batch_);
    Engine engine(plans, model_.preprocess, {.batch = batch_});
    std::vector<size_t> items(static_cast<size_t>(2 * batch_));
    std::iota(items.begin(), items.end(), size_t{0});
    const auto at = [&](size_t item) { return item % sample_.files.size(); };
    const double wall = median_seconds(clock_, config_.budget_s, [&] {
      engine.run(
          items, [&](size_t i) { return sample_.names[at(i)]; },
          [&](size_t i) -> Result<std::string> { return sample_.files[at(i)]; },
          [](const Engine::Batch&) { return true; });
    });
    const double photo = wall * threads_ / static_cast<double>(items.size());
    costs.photo.prepare_s = std::max(costs.photo.prepare_s, photo - costs.cuts.back().extract_s);
  }

  // What a Tuner does besides training: checkpoints and curves behind each epoch; models at the
  // end.
  void training_loop() {
    Trainer trainer(transfer_.head, transfer_.trainable, device_,
                    {.epochs = 1 << 20, .batch = kSmallBatch, .seed = config_.seed});
    const Graph head = bind(transfer_.head, kSmallBatch);
    std::vector<Tensor> rows;
    for (const ValueId v : head.inputs()) {
      rows.emplace_back(head.type(v));
      std::ranges::fill(rows.back().mutable_as<float>(), 0.5F);
    }
    RepeatedRows data(rows, kSmallBatch, classes_);
    RunDirectory run(fs_, clock_, join(config_.scratch, "run"), false);
    TrainingLoop loop(fs_, run, trainer, clock_, quiet_, "");
    EpochResult result;
    const auto bare = [&] {
      trainer.train_epoch(data, result);
      trainer.evaluate(data);
    };
    const auto whole = [&] { loop.train_epoch(data, &data, int64_t{1} << 20); };
    const double all = median_seconds(clock_, config_.budget_s, whole);
    PlanCosts& costs = profile_.inputs.costs;
    costs.epoch_s = std::max(0.0, all - median_seconds(clock_, config_.budget_s, bare));
    const std::vector<std::string> names = classes();
    costs.finish_s =
        seconds_of([&] { write_models(fs_, run, model_, transfer_, trainer.model(), names); });
  }

  void train_behind(const Model& head, const std::vector<Tensor>& rows, double expected_s,
                    CutCost& cost) {
    const int64_t batch =
        expected_s < kHeavyStep ? config_.batch : std::min(config_.batch, kSmallBatch);
    Trainer trainer(head, transfer_.trainable, device_,
                    {.epochs = 1 << 20, .batch = batch, .seed = config_.seed});
    RepeatedRows data(rows, batch, classes_);
    EpochResult result;
    const double step =
        median_seconds(clock_, config_.budget_s, [&] { trainer.train_epoch(data, result); });
    const double forward =
        median_seconds(clock_, config_.budget_s, [&] { trainer.evaluate(data); });
    cost.train_s = step * threads_ / static_cast<double>(batch);
    cost.evaluate_s = forward * threads_ / static_cast<double>(batch);
  }

  void say_sources() {
    const std::string here = fmt::format("measured, {} thread{}, {}", threads_,
                                         threads_ == 1 ? "" : "s", device_.numerics());
    Profile plain;
    plain.inputs.costs.cuts.resize(profile_.inputs.costs.cuts.size());
    const std::vector<NamedInput> defaults = named_inputs(plain);
    const std::vector<NamedInput> inputs = named_inputs(profile_);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool told = inputs[i].required || *inputs[i].value != *defaults[i].value;
      if (told) profile_.sources[inputs[i].path] = here;
    }
    const std::string photos =
        config_.photos.empty() ? "given; photos of that size were drawn" : "of " + config_.photos;
    profile_.sources["photo/bytes"] = photos;
    if (profile_.inputs.photos > 0) profile_.sources["job/photos"] = photos;
    profile_.sources["store/cores"] = profile_.sources["tuner/cores"] = "threads here";
    profile_.name =
        fmt::format("{}, --head {} --freeze {}", config_.model, config_.head, config_.freeze);
  }

  const MeasureConfig& config_;
  const Device& device_;
  Fs& fs_;
  Clock& clock_;
  Progress& progress_;
  int threads_ = 1;
  int64_t classes_ = 0;
  static constexpr auto batch_ = static_cast<int64_t>(kEngineBatch);
  ModelFile model_;
  TransferModel transfer_;
  TimedPhotos sample_;
  Tensor input_;  // preprocessed photos
  NoProgress quiet_;
  Profile profile_;
};

}  // namespace

Profile measure_profile(const MeasureConfig& config, const Device& device, Fs& fs, Clock& clock,
                        Progress& progress) {
  return Measurement(config, device, fs, clock, progress).run();
}

}  // namespace ndtrain::tuner
