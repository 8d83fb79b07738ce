#include "ndp/jobs/finetune.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <sstream>

#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/parallel/between_ranks.h"
#include "framework/passes/inference.h"
#include "framework/train/compute.h"
#include "ndp/jobs/finetune_report.h"
#include "ndp/jobs/mixed_rows.h"
#include "ndp/jobs/photo_duplicates.h"
#include "ndp/jobs/photo_views.h"
#include "ndp/jobs/training_loop.h"
#include "ndp/jobs/training_photos.h"
#include "ndp/jobs/transfer.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kEpochs = "epochs";

// Whether some ranks are at one site: see sites_of_ranks().
bool are_grouped(const std::vector<int>& sites) {
  for (size_t r = 0; r < sites.size(); ++r) {
    if (sites[r] != static_cast<int>(r)) return true;
  }
  return false;
}

class Finetune {
 public:
  Finetune(const FinetuneConfig& config, const Device& device, Fs& fs, Clock& clock,
           Progress& progress, std::unique_ptr<Communicator> ranks)
      : config_(config),
        ranks_(std::move(ranks)),
        device_(device),
        fs_(fs),
        clock_(clock),
        progress_(progress),
        run_(fs, clock, config.out, config.resume),
        start_(clock.monotonic()) {
    if (config_.cache.empty()) config_.cache = default_cache_directory();
    if (config_.memory_limit == 0) config_.memory_limit = half_of_free_memory();
  }

  FinetuneResult run() {
    try {
      compare_settings();
      choose();
      if (ranks_ && config_.how.ranks.one_cache && ranks_->rank() != 0) barrier(*ranks_);
      open_data();
      prepare_model();
      describe_run();
      agree(/*have_cache=*/false);
      result_.setup_s = seconds();
      if (!result_.interrupted) make_rows();
      agree(/*have_cache=*/true);
      if (!stops()) split_rows();
    } catch (const std::exception&) {
      run_.abandon();
      throw;
    }
    result_.extract_s = seconds() - result_.setup_s;
    if (!result_.interrupted) train();
    if (!result_.interrupted && !config_.how.ranks.is_breakdown()) finish();
    job_->leave_together();
    result_.lost_ranks = job_->lost_ranks();
    result_.total_s = seconds();
    return result_;
  }

 private:
  Training& training() const { return job_->training(); }

  double seconds() const {
    return std::chrono::duration<double>(clock_.monotonic() - start_).count();
  }

  // Before anything takes time.
  void compare_settings() {
    settings_.asked = config_.given;
    if (!config_.resume) return;
    before_ = read_run_settings(fs_, run_.path()).or_throw();
    if (config_.choice) follow(begun_exchange(*config_.choice, before_));
    const std::string was = before_.text(kEpochs);
    int64_t epochs = INT64_MAX;
    std::from_chars(was.data(), was.data() + was.size(), epochs);
    longer_ = epochs < config_.how.trainer.epochs;
    RunSettings now = settings_;
    for (auto& [flag, value] : now.asked) {
      if (longer_ && flag == kEpochs) value = was;
    }
    refuse_changed(changed_settings(before_, now));
  }

  void refuse_changed(const std::vector<std::string>& changed) const {
    if (changed.empty()) return;
    std::string all;
    for (const std::string& c : changed) all += (all.empty() ? "" : "; ") + c;
    throw Error(config_.out, " was begun otherwise: ", all,
                "; go on with what it was begun with, or start a new run with another -o");
  }

  // Of a training that begins. Only rank 0 looks at the photos: others wait for its cache.
  void choose() {
    if (!config_.choice || !ranks_ || config_.resume) return;
    ModelFile file = load_model(fs_, config_.model);
    std::string counts;
    if (ranks_->rank() == 0) {
      open_data();
      const auto classes =
          config_.head == "grow" ? with_added(file.classes, photos_.set) : photos_.set.classes;
      counts =
          fmt::format("{} {}", std::ranges::count(photos_.for_validation, false), classes.size());
    }
    std::istringstream in(broadcast(*ranks_, 0, counts));
    int64_t photos = 0, classes = 0;
    in >> photos >> classes;
    TrainerConfig trainer = config_.how.trainer;
    trainer.compute = training_compute(trainer.compute, device_).dtype;
    const TransferModel model = prepare_transfer(file, class_names(file, classes), config_.head,
                                                 config_.freeze, config_.cache_dtype, trainer.seed);
    std::vector<double> shares = config_.how.ranks.shares;
    if (shares.empty()) shares.assign(static_cast<size_t>(ranks_->ranks()), 1);
    result_.exchange = choose_exchange(*ranks_, *config_.choice,
                                       {.head = model.head,
                                        .trainable = model.trainable,
                                        .trainer = trainer,
                                        .first_shards = shards_of_ranks(trainer.shards, shares),
                                        .epoch_steps = std::max<int64_t>(1, photos / trainer.batch),
                                        .device = device_,
                                        .clock = clock_,
                                        .progress = progress_});
    follow(result_.exchange.candidate);
  }

  // So many, of which the first are the model's: what they are called costs nothing.
  static std::vector<std::string> class_names(const ModelFile& file, int64_t count) {
    std::vector<std::string> names = file.classes;
    if (count < std::ssize(names)) names.clear();
    while (std::ssize(names) < count) names.push_back(fmt::format("class {}", names.size()));
    return names;
  }

  // One of the candidates, as if it had been asked for by name.
  void follow(std::optional<size_t> candidate) {
    if (!candidate) return;
    const ExchangeCandidate& c = config_.choice->candidates[*candidate];
    config_.how.slow_link = c.config;
    for (const auto& setting : c.settings) {
      std::erase_if(settings_.asked, [&](const auto& kv) { return kv.first == setting.first; });
      settings_.asked.push_back(setting);
    }
  }

  void open_data() {
    if (!photos_.set.photos.empty()) return;  // to choose an exchange
    photos_ = load_training_photos(fs_,
                                   {.data = config_.data,
                                    .labels = config_.labels,
                                    .database = config_.database,
                                    .val_split = config_.val_split,
                                    .cache = config_.cache},
                                   progress_);
    if (config_.group_duplicates) {
      keep_duplicates_together(photos_, config_.cache, fs_, clock_, progress_);
    }
    choose_photos(photos_, config_.sampling, config_.how.trainer.seed, progress_);
  }

  void prepare_model() {
    model_ = load_model(fs_, config_.model);
    progress_.say(preprocess_note(model_));
    model_.preprocess.fast_decode |= config_.fast_decode;
    if (config_.head == "grow") count_in(photos_.set, with_added(model_.classes, photos_.set));
    transfer_ = prepare_transfer(model_, photos_.set.classes, config_.head, config_.freeze,
                                 config_.cache_dtype, config_.how.trainer.seed);
    check_augmentation(config_.augmentation, config_.views, !transfer_.features.empty());
    if (config_.augmentation.mixes()) config_.how.trainer.labels_of_row = 2;
    lower_what_is_frozen();
    const TrainingCompute compute = training_compute(config_.how.trainer.compute, device_);
    if (!compute.why.empty()) progress_.say(compute.why);
    config_.how.trainer.compute = compute.dtype;
    make_training();
    const double ema = config_.how.trainer.optimizer.ema;
    if (ema > 0) {
      progress_.say(
          fmt::format("an average of the weights, of which {:g} stays at a step, is evaluated and "
                      "written instead of them",
                      ema));
    }
    for (const TensorType& t : row_types_) result_.feature_bytes += static_cast<int64_t>(t.bytes());
    result_.mean_photo_bytes = photos_.set.mean_bytes();
    const auto train = static_cast<size_t>(std::ranges::count(photos_.for_validation, false));
    const size_t others = config_.views > 1 ? static_cast<size_t>(config_.views - 1) * train : 0;
    say_feature_sizes(result_, photos_.set.photos.size() + others, !transfer_.features.empty(),
                      progress_);
  }

  void make_training() {
    job_ = std::make_unique<JobTraining>(
        transfer_, device_, config_.how, std::move(ranks_),
        RankTraining::Place{
            .fs = fs_, .clock = clock_, .progress = progress_, .run = run_, .saved = [this] {
              return saved();
            }});
    row_types_ = job_->row_types();
    result_.parameters = job_->parameters();
  }

  Checkpoint saved() const {
    std::optional<Checkpoint> last = loop_->saved();
    return last ? *std::move(last) : job_->beginning();
  }

  // All that decides the result: ranks that differ would not end up with the same bytes.
  Fingerprint rank_fingerprint() const {
    Fingerprint all = {{"program", settings_.version}};
    for (const auto& [flag, value] : settings_.asked) all.emplace_back("--" + flag, value);
    all.emplace_back("model", settings_.model);
    all.emplace_back("photos and labels", settings_.digest);
    if (device_.deterministic()) all.emplace_back("processor and plugin", settings_.numerics);
    return all;
  }

  // Ranks that have one cache agree once it is filled, for which those other than 0 have waited.
  // Where one stops nobody is asked: it may have read a part.
  void agree(bool have_cache) {
    if (config_.how.ranks.one_cache != have_cache) return;
    Communicator* const ranks = job_->ranks();
    if (have_cache && ranks && ranks->rank() == 0) barrier(*ranks);
    if (!stops()) job_->agree(rank_fingerprint());
  }

  // Whether some rank has been asked to stop, and so all do.
  bool stops() {
    if (result_.interrupted) return true;
    const bool asked = progress_.interrupted();
    Communicator* const ranks = job_->ranks();
    result_.interrupted = ranks ? any_of_ranks(*ranks, asked) : asked;
    return result_.interrupted;
  }

  // In the precision asked for, once the model as it came has been compared with f32.
  void lower_what_is_frozen() {
    const bool declared = declared_precision(model_.model) != Precision::kF32;
    if (config_.precision.precision.empty() && !declared) return;
    if (transfer_.features.empty()) {
      if (config_.precision.precision.empty()) return;
      throw Error("--precision ", config_.precision.precision,
                  " is of the frozen part, and nothing is frozen");
    }
    PhotoSet set = photos_.set;
    set.root.clear();
    for (size_t i = 0; i < set.photos.size(); ++i) {
      set.photos[i].path = photos_.path(i);
      if (set.classes != model_.classes) set.photos[i].label = -1;
    }
    config_.precision.cache = config_.cache;
    const ModelFile low = in_precision(model_, config_.precision, set, device_, fs_, progress_);
    const Precision p = declared_precision(low.model);
    Model whole =
        lowered(transfer_.whole, p, transfer_.features,
                sample_of(set, kCalibrationPhotos, model_.preprocess, fs_), device_, progress_);
    transfer_ = with_whole(std::move(transfer_), std::move(whole), model_.preprocess);
  }

  // Everything that decides an epoch of the result: a checkpoint of another one is refused.
  std::string fingerprint() const {
    Sha256 hash;
    hash.field(settings_.model).field(settings_.digest).field(config_.freeze).field(config_.head);
    hash.field(name_of(config_.cache_dtype)).field(fmt::format("{:.17g}", photos_.val_split));
    if (config_.augmentation.any()) hash.field(name_of(config_.augmentation));
    if (config_.views > 0) hash.field(config_.views);
    if (config_.sampling.any()) hash.field(describe(config_.sampling));
    if (device_.deterministic()) hash.field(settings_.numerics);
    const auto& slow_link = config_.how.slow_link;
    if (slow_link && are_grouped(slow_link->sites)) {
      hash.field(fmt::format("{}", fmt::join(slow_link->sites, ",")));
    }
    return to_hex(hash.finish());
  }

  void describe_run() {
    const auto val = std::ranges::count(photos_.for_validation, true);
    settings_.version = config_.version;
    settings_.directory = std::filesystem::current_path().string();
    settings_.numerics = feature_numerics(device_);
    settings_.model = to_hex(model_.id());
    settings_.photos =
        fmt::format("{} to train on, {} to validate", std::ssize(photos_.set.photos) - val, val);
    settings_.digest = digest_of(photos_);
    fingerprint_ = fingerprint();
    if (config_.resume) return go_on();
    if (config_.repeats) say_what_differs(*config_.repeats);
    std::string classes;
    for (const std::string& name : photos_.set.classes) classes += name + "\n";
    run_.write("classes.txt", classes);
    keep_notes();
    run_.write("env.json", run_.env_json());
    run_.write(kRunArgs, to_toml(settings_));  // last: it marks the directory as a run
  }

  void go_on() {
    std::vector<std::string> changed = changed_inputs(before_, settings_);
    if (device_.deterministic()) {
      std::ranges::move(changed_numerics(before_, settings_), std::back_inserter(changed));
    }
    refuse_changed(changed);
    keep_notes();
    if (!longer_) return;
    progress_.say(fmt::format("going on to {} epochs, instead of {}{}", config_.how.trainer.epochs,
                              before_.text(kEpochs), what_the_length_decides()));
    before_.asked = settings_.asked;
    run_.write(kRunArgs, to_toml(before_));
  }

  void keep_notes() {
    const Notes before = read_notes(fs_, run_.path()).or_throw();
    const Notes now = changed_notes(before, config_.notes);
    if (now != before) run_.write(kNotesFile, json_text(to_json(now), 2) + "\n");
  }

  std::string what_the_length_decides() const {
    const bool rate = follows_length(config_.how.trainer.schedule.kind);
    const bool cutout = config_.augmentation.cutout;
    if (!rate && !cutout) return "";
    return fmt::format("; from here on {} of the longer run",
                       rate && cutout ? "the learning rate and cut-out are those"
                       : rate         ? "the learning rate is that"
                                      : "cut-out is that");
  }

  void say_what_differs(const RunSettings& first) const {
    for (const auto& changed :
         {changed_inputs(first, settings_), changed_numerics(first, settings_)}) {
      for (const std::string& c : changed) log::warn("not as in the run that is repeated: {}", c);
    }
  }

  Result<std::string> open(size_t i) const { return fs_.read(photos_.path(i), limits::kPhotoFile); }

  void make_rows() {
    if (transfer_.features.empty()) {
      crops_ = std::make_unique<PhotoRows>(model_.preprocess, config_.memory_limit);
      crops_->fill(
          photos_.set.photos, [this](size_t i) { return open(i); }, progress_,
          photos_.set.quarantined, photos_.set.skipped,
          [this](size_t i) { return photos_.for_validation[i] || !config_.augmentation.crop; });
      augmented_ = std::make_unique<AugmentedPhotos>(
          *crops_, AugmentedPhotos::Config{.what = config_.augmentation,
                                           .seed = config_.how.trainer.seed,
                                           .epochs = config_.how.trainer.epochs});
      return;
    }
    cache_ = std::make_unique<FeatureCache>(fs_, clock_, config_.cache, "trains " + config_.out);
    BatchPlans plans([this](int64_t b) { return inference_graph(transfer_.extractor, b); }, device_,
                     config_.extract_batch);
    views_ = std::make_unique<PhotoViews>(photos_, model_.preprocess,
                                          ViewRule{.what = config_.augmentation,
                                                   .seed = config_.how.trainer.seed,
                                                   .views = config_.views});
    Engine engine(plans, model_.preprocess,
                  {.batch = config_.extract_batch, .crop = views_->crop()});
    table_ = std::make_unique<FeatureTable>(*cache_, transfer_.extractor_id, row_types_,
                                            config_.memory_limit);
    result_.extraction = table_->fill(
        views_->items(), engine, [this](size_t i) { return open(views_->photo_of(i)); },
        {.id = feature_numerics(device_), .exact = device_.deterministic()}, progress_,
        photos_.set.quarantined, photos_.set.skipped);
    progress_.say(fmt::format("{} photos decoded and inferred, {} from the cache",
                              result_.extraction.extracted, result_.extraction.cached));
  }

  void split_rows() {
    std::vector<size_t> rows[2];
    std::vector<int64_t> labels[2];
    for (size_t i = 0; i < photos_.set.photos.size(); ++i) {
      if (!(table_ ? views_->are_in(*table_, i) : crops_->has(i))) continue;
      rows[photos_.for_validation[i]].push_back(i);
      labels[photos_.for_validation[i]].push_back(photos_.set.photos[i].label);
    }
    val_rows_ = rows[1];
    const auto epoch = [this] { return training().epoch(); };
    const uint64_t seed = config_.how.trainer.seed;
    if (table_) {
      train_ = views_->rows(*table_, rows[0], labels[0], epoch);
      val_ = std::make_unique<FeatureDataset>(*table_, rows[1], labels[1]);
    } else {
      PhotoDataset::Read augmented;
      if (config_.augmentation.changes_photos()) {
        augmented = [this, epoch](size_t photo, float* to) {
          augmented_->read(photo, epoch(), to);
        };
      }
      train_ = std::make_unique<PhotoDataset>(*crops_, rows[0], labels[0], std::move(augmented));
      val_ = std::make_unique<PhotoDataset>(*crops_, rows[1], labels[1]);
    }
    train_ = sampled(std::move(train_), rows[0], photos_, config_.sampling, seed, epoch);
    train_ = mixed(std::move(train_), config_.augmentation, model_.preprocess, seed, epoch);
    result_.train_photos = train_->size();
    result_.val_photos = val_->size();
    result_.quarantined = static_cast<int64_t>(photos_.set.quarantined.size());
    result_.skipped = photos_.set.skipped_count();
    result_.unlabelled = photos_.set.unlabelled;
    result_.classes = static_cast<int64_t>(photos_.set.classes.size());
    run_.write("quarantine.csv", quarantine_csv(photos_.set.quarantined));
    if (train_->size() == 0) throw Error(config_.data, ": no photo is left to train on");
  }

  void train() {
    loop_ = std::make_unique<TrainingLoop>(fs_, run_, training(), clock_, progress_, fingerprint_,
                                           config_.best);
    if (config_.resume) (void)loop_->restore();
    while (training().epoch() < config_.how.trainer.epochs) {
      if (config_.patience > 0 && !config_.how.ranks.is_breakdown() &&
          training().epoch() - 1 - loop_->best_epoch() >= config_.patience)
        break;
      Dataset* const val = config_.how.ranks.is_breakdown() ? nullptr : val_.get();
      if (!loop_->train_epoch(*train_, val, config_.how.trainer.epochs)) {
        result_.interrupted = true;
        break;
      }
    }
    result_.train_s = loop_->seconds();
    result_.figures = job_->describe();
    if (loop_->first_step().count() > 0) {
      result_.first_step_s = std::chrono::duration<double>(loop_->first_step() - start_).count();
    }
    if (!result_.interrupted) result_.epochs = training().epoch();
  }

  // The best epoch's weights, evaluated once more and written out.
  void finish() {
    loop_->restore_best();
    Calibrated trained{.model = training().model()};
    if (config_.calibrate) {
      trained = calibrated(trained.model, *val_, row_types_, device_, config_.how.trainer.batch,
                           progress_);
    }
    result_.temperature = trained.temperature;
    result_.model =
        write_models(fs_, run_, model_, transfer_, trained.model, photos_.set.classes).path;
    result_.best_epoch = loop_->best_epoch() + 1;
    if (val_->size() == 0) return;
    const Evaluation e = training().evaluate(*val_);
    result_.top1 = e.top1;
    result_.top5 = e.top5;
    result_.loss = e.loss;
    result_.macro_f1 = score_of(e, BestMetric::kMacroF1);
    write_finetune_report(fs_, run_, config_, result_, photos_, val_rows_, e);
  }

  FinetuneConfig config_;
  std::unique_ptr<Communicator> ranks_;
  const Device& device_;
  Fs& fs_;
  Clock& clock_;
  Progress& progress_;
  RunDirectory run_;
  std::chrono::nanoseconds start_;
  TrainingPhotos photos_;
  ModelFile model_;
  TransferModel transfer_;
  std::unique_ptr<FeatureCache> cache_;
  std::unique_ptr<PhotoViews> views_;           // in front of a cut,
  std::unique_ptr<FeatureTable> table_;         // and their features behind it
  std::unique_ptr<PhotoRows> crops_;            // or without one,
  std::unique_ptr<AugmentedPhotos> augmented_;  // to train on
  std::unique_ptr<Dataset> train_, val_;
  std::vector<size_t> val_rows_;
  std::unique_ptr<JobTraining> job_;
  std::vector<TensorType> row_types_;
  std::unique_ptr<TrainingLoop> loop_;
  RunSettings settings_, before_;  // of this run; of the one that is gone on with
  bool longer_ = false;            // this is for more epochs than it was begun with
  std::string fingerprint_;
  FinetuneResult result_;
};

}  // namespace

FinetuneResult finetune(const FinetuneConfig& config, const Device& device, Fs& fs, Clock& clock,
                        Progress& progress, std::unique_ptr<Communicator> ranks) {
  return Finetune(config, device, fs, clock, progress, std::move(ranks)).run();
}

}  // namespace ndtrain::ndp
