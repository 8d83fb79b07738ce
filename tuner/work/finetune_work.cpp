#include "tuner/work/finetune_work.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/train/compute.h"
#include "ndp/engine/numerics.h"
#include "ndp/jobs/features.h"
#include "ndp/wire/digests.h"
#include "tuner/work/cut_model.h"

namespace ndtrain::tuner {
using namespace ndp;

TransferModel transfer_of(const ModelFile& model, const JobSpec& spec,
                          const std::vector<std::string>& classes) {
  TransferModel t = prepare_transfer(model, classes, spec.head, spec.freeze, spec.feature_dtype,
                                     spec.seed, spec.cut);
  if (!t.features.empty()) return t;
  throw Error("nothing of the model is frozen with --freeze ", spec.freeze,
              ", so there are no features to send; another --freeze, or ndtrain train on one "
              "machine");
}

std::vector<std::string> any_classes(const ModelFile& model, const JobSpec& spec) {
  std::vector<std::string> classes;
  if (spec.head == "grow") classes = model.classes;
  classes.insert(classes.end(), {"one", "other"});
  return classes;
}

PhotoSet photos_here(const JobContext& context, const JobSpec& spec, const std::string& directory,
                     Progress& progress) {
  const LabelledPhotos labelled =
      (spec.labels.empty() ? read_image_folder(context.fs, spec.photos)
                           : read_labels_csv(context.fs, spec.labels, spec.photos))
          .or_throw();
  return hash_photos(context.fs, *open_catalogue(context.fs, directory, spec.photos), labelled,
                     progress);
}

std::vector<PhotoClaim> claims_of(const PhotoSet& set) {
  std::vector<PhotoClaim> claims;
  for (const Photo& p : set.photos) {
    claims.push_back({.digest = p.digest, .label = set.classes[static_cast<size_t>(p.label)]});
  }
  return claims;
}

void extract_here(Fs& fs, TunerExtractor& extractor, Spool& spool, const PhotoSet& set,
                  const Manifest& manifest, uint32_t run, Progress& progress) {
  std::map<Digest, const Photo*> photos;
  for (const Photo& p : set.photos) photos.emplace(p.digest, &p);
  std::vector<TunerExtractor::Item> items;
  std::vector<const Photo*> files;
  for (const uint64_t number : manifest.run(run)) {
    const Digest& digest = manifest.entry(number).digest;
    const auto photo = photos.find(digest);
    if (spool.has(digest) || photo == photos.end()) continue;
    items.push_back({number, digest});
    files.push_back(photo->second);
  }
  const auto bad =
      extractor
          .photos(
              items, [&](size_t i) { return files[i]->path; },
              [&](size_t i) { return fs.read(join(set.root, files[i]->path), limits::kPhotoFile); })
          .or_throw();
  for (const RowIngest::BadRow& b : bad) {
    progress.say("photo " + std::to_string(b.number) + ": " + b.reason);
  }
  spool.flush().or_throw();
}

FinetuneWork::FinetuneWork(const JobContext& context, const Versions& versions, uint64_t job,
                           JobSpec spec, std::string directory, Progress& progress,
                           HumanLabels truths)
    : context_(context),
      versions_(versions),
      job_(job),
      spec_(std::move(spec)),
      memory_(spec_.memory > 0 ? spec_.memory : half_of_free_memory()),
      directory_(std::move(directory)),
      progress_(progress),
      human_labels_(std::move(truths)) {}

TransferModel FinetuneWork::transfer(const std::vector<std::string>& classes) const {
  TransferModel t = transfer_of(model_, spec_, classes);
  return lowered_ ? with_extractor_of(std::move(t), *lowered_, model_.preprocess) : t;
}

RowRequest FinetuneWork::prepare() {
  if (spec_.tuners > 1) check_group_device(context_.devices, spec_);  // before anybody works
  CutModel cut = cut_model(context_, spec_, directory_);
  model_ = std::move(cut.model);
  lowered_ = std::move(cut.lowered);
  transfer_ = std::move(cut.transfer);
  extractor_ = cut.extractor;
  progress_.say(preprocess_note(model_));
  RowRequest q;
  const Graph head = bind(transfer_.head, 1);
  row_types_.clear();
  for (const ValueId v : head.inputs()) {
    row_types_.push_back(head.type(v));
    q.row_bytes += bytes_of_row(row_types_.back());
  }
  spool_ = std::make_unique<Spool>(context_.fs, context_.clock, join(directory_, "spool"),
                                   transfer_.extractor_id, spec_.disk, spec_.view_rule());
  ask_for_rows(q);
  share_features();
  q.manifest = {.seed = spec_.seed,
                .runs = spec_.runs,
                .val_split = spec_.val_split,
                .classes = model_.classes,
                .add_classes = spec_.head == "grow",
                .holders_label = spec_.takes_labels_of_holders(),
                .truths = human_labels_(),
                .group_duplicates = spec_.group_duplicates};
  if (spec_.sampling.any()) {
    q.manifest.choose = [this](std::span<const ManifestEntry> photos,
                               const std::vector<std::string>& classes) {
      return choose(photos, classes);
    };
  }
  return q;
}

void FinetuneWork::ask_for_rows(RowRequest& q) {
  q.ask.set_deterministic(spec_.deterministic);
  q.ask.set_with_hashes(spec_.group_duplicates);
  if (spec_.mode == JobMode::kNdpipe) {
    q.ask.set_rows(wire::Job::FEATURES);
    q.ask.set_extractor(bytes_of(extractor_));
    q.features = row_types_;
    q.check = finite_features(row_types_);
    if (spec_.views == 0) return;
    q.views = static_cast<size_t>(spec_.views);
    wire::Job::Views& views = *q.ask.mutable_views();
    views.set_changes(name_of(spec_.view_rule().pixels()));
    views.set_seed(spec_.seed);
    views.set_count(static_cast<uint32_t>(spec_.views));
    return;
  }
  here_ = std::make_unique<TunerExtractor>(context_.models.load(extractor_),
                                           context_.devices.get(spec_.deterministic), *spool_,
                                           context_.decoder);
  if (spec_.mode == JobMode::kIdeal) {
    local_ = photos_here(context_, spec_, directory_, progress_);
    q.local = claims_of(local_);
    return;
  }
  const bool files = spec_.mode == JobMode::kTypical, packed = spec_.mode == JobMode::kSrvC;
  q.ask.set_rows(files ? wire::Job::FILES : packed ? wire::Job::PACKED_CROPS : wire::Job::CROPS);
  q.row_bytes = files || packed ? 0 : model_.preprocess.values();
  if (!files) {
    for (const auto& [key, value] : to_metadata(model_.preprocess)) {
      (*q.ask.mutable_preprocessing())[key] = value;
    }
  }
  sink_ = std::make_unique<ExtractingSink>(q.ask.rows(), *here_, *spool_);
}

// Behind an extraction on this machine rows are its own; else they are the stores'.
void FinetuneWork::share_features() {
  if (!context_.features) return;
  const bool here = spec_.mode != JobMode::kNdpipe;
  spool_->share(std::make_unique<JobFeatures>(
      *context_.features, context_.fs, join(directory_, "spool/begun_with.json"),
      JobFeatures::What{
          .extractor = extractor_,
          .views = spec_.view_rule(),
          .exact = spec_.deterministic,
          .here = here ? feature_numerics(context_.devices.get(spec_.deterministic)) : ""}));
}

void FinetuneWork::say_what_is_here() const {
  if (spool_->shared() == 0) return;
  progress_.say(fmt::format("features of {} photos are here from earlier jobs", spool_->shared()));
}

void FinetuneWork::discard(const std::function<bool()>& stop) {
  const Status s = spool_->leave(*manifest_, stop);
  if (!s.ok()) {
    log::warn("job {}: some of its features are not kept for later jobs: {}", job_, s.message());
  }
  spool_->clear().or_throw();
}

void FinetuneWork::manifest(const Manifest& manifest, const std::vector<std::string>& stores) {
  manifest_ = &manifest;
  stores_ = stores.size();
  if (manifest.size() == 0) {
    throw Error(
        "none of the stores' photos has a label to train on: say what they show (ndtrain labels "
        "set or import), or let stores take it from their folders (--labels folder of pipestore "
        "serve and up)");
  }
  const Digest before = transfer_.extractor_id;
  transfer_ = transfer(manifest.classes());
  if (transfer_.extractor_id != before) throw Error("the extractor depends on the classes");
  make_training();
  const std::string run = join(directory_, "run");
  const bool resume = context_.fs.exists(join(run, "args.toml"));
  run_directory_ = std::make_unique<RunDirectory>(context_.fs, context_.clock, run, resume);
  if (!resume) {
    std::string names;
    for (const std::string& name : manifest.classes()) names += name + "\n";
    run_directory_->write("classes.txt", names);
    run_directory_->write("env.json", run_directory_->env_json());
    run_directory_->write("job.json", spec_.text());
    run_directory_->write("args.toml", fmt::format("# job.json has all of it\njob = {}\n", job_));
  }
  loop_ = std::make_unique<TrainingLoop>(context_.fs, *run_directory_, *training_, context_.clock,
                                         progress_, fingerprint(), spec_.best);
  (void)loop_->restore();
  const size_t val = manifest.run(0).size();
  progress_.say(fmt::format("{} photos of {} classes on {} store{}, {} for validation{}",
                            manifest.size(), manifest.classes().size(), stores.size(),
                            stores.size() == 1 ? "" : "s", val,
                            val == 0 ? ": there will be no accuracy" : ""));
  if (spec_.views > 0) {
    progress_.say(
        fmt::format("of each photo to train on stores make {} view{}, by {}, in front of "
                    "the cut; an epoch sees one",
                    spec_.views, spec_.views == 1 ? "" : "s", name_of(spec_.view_rule().pixels())));
  }
  say_what_is_here();
}

// What is trained in several shards follows the rule that is the same on all machines.
const Device& FinetuneWork::device() const {
  return context_.devices.get(spec_.deterministic || spec_.trainer.shards > 1);
}

void FinetuneWork::make_training() {
  const TrainingCompute compute = training_compute(spec_.trainer.compute, device());
  if (!compute.why.empty()) progress_.say(compute.why);
  if (spec_.tuners > 1) {
    if (!context_.members) throw Error("this Tuner takes no others to train with");
    progress_.say(fmt::format(
        "{} shards: so many Tuners can train together at most, and {}", spec_.trainer.shards,
        is_slow_link(spec_.sync) ? "another number of them trains another model"
                                 : "any number of them trains the same model"));
    group_ = GroupLeader::meet({.fs = context_.fs,
                                .clock = context_.clock,
                                .device = device(),
                                .members = *context_.members,
                                .progress = progress_,
                                .job = job_,
                                .directory = directory_},
                               group_rules(compute.dtype));
  }
  if (group_) {
    training_ = &group_->training();
    return;
  }
  TrainerConfig config = spec_.trainer;
  config.compute = compute.dtype;
  if (spec_.augmentation.mixes()) config.labels_of_row = 2;
  alone_ = std::make_unique<Trainer>(transfer_.head, transfer_.trainable, device(), config);
  training_ = alone_.get();
}

GroupRules FinetuneWork::group_rules(DType compute) const {
  ModelFile head = model_;
  head.model = transfer_.head;
  head.model.metadata = {};
  head.classes = manifest_->classes();
  const std::string file = join(directory_, "group_head.onnx");
  save_model(context_.fs, file, head);
  return {.spec = spec_,
          .head = context_.fs.read(file).or_throw(),
          .trainable = transfer_.trainable,
          .compute = compute,
          .rows = transfer_.extractor_id,
          .numerics = group_numerics(context_.devices),
          .least_rows = least_rows()};
}

// Of a step, of all runs.
int64_t FinetuneWork::least_rows() const {
  const int64_t batch = spec_.trainer.batch;
  int64_t least = batch, rows = 0;
  for (uint32_t run = 1; run <= spec_.runs; ++run) {
    const auto own = static_cast<int64_t>(manifest_->run(run).size());
    rows = spec_.all_runs ? rows + own : own;
    if (rows % batch > 0) least = std::min(least, rows % batch);
  }
  return least;
}

std::string FinetuneWork::fingerprint() const {
  JobSpec decisive = spec_;  // without what changes nothing about the result
  const JobSpec plain;
  decisive.stores = 1;  // these two as older versions wrote them, so that their jobs go on
  decisive.store_timeout = 600;
  decisive.lost_after = plain.lost_after;
  decisive.max_drop = plain.max_drop;
  decisive.allow_missing = plain.allow_missing;
  decisive.memory = plain.memory;
  decisive.disk = plain.disk;
  decisive.publish = plain.publish;
  decisive.promote = plain.promote;
  decisive.why = plain.why;
  decisive.mode = plain.mode;
  decisive.photos = plain.photos;
  decisive.labels = plain.labels;
  decisive.tuners = plain.tuners;
  if (!is_slow_link(spec_.sync)) decisive.sync = plain.sync;
  decisive.slow_link.verify = plain.slow_link.verify;
  Sha256 hash;
  hash.field(decisive.text()).field(to_hex(transfer_.extractor_id));
  for (const std::string& name : manifest_->classes()) hash.field(name);
  for (uint64_t n = 0; n < manifest_->size(); ++n) {
    const Manifest::Entry& e = manifest_->entry(n);
    hash.field(to_hex(e.digest)).field(int64_t{e.run}).field(int64_t{e.label});
    if (spec_.sampling.truth_share) hash.field(int64_t{is_recent(e)});
  }
  return to_hex(hash.finish());
}

std::unique_ptr<SpoolDataset> FinetuneWork::dataset(std::span<const uint64_t> numbers,
                                                    int64_t memory, SpoolDataset::Epoch epoch) {
  return std::make_unique<SpoolDataset>(*spool_, *manifest_, numbers, row_types_, memory,
                                        std::move(epoch));
}

bool FinetuneWork::is_recent(const ManifestEntry& photo) const {
  return spec_.sampling.since && photo.label_time >= *spec_.sampling.since;
}

// Photos for validation all stay.
std::vector<bool> FinetuneWork::choose(std::span<const ManifestEntry> photos,
                                       const std::vector<std::string>& classes) const {
  std::vector<Candidate> candidates;
  for (const ManifestEntry& e : photos) {
    if (e.run > 0) candidates.push_back({e.digest, e.label, is_recent(e)});
  }
  const std::vector<bool> stay = chosen(candidates, spec_.sampling, classes, spec_.seed);
  std::vector<bool> stays;
  size_t next = 0;
  for (const ManifestEntry& e : photos) stays.push_back(e.run == 0 || stay[next++]);
  return stays;
}

RowWeights FinetuneWork::weights_of(const SpoolDataset& rows) const {
  const Sampling& sampling = spec_.sampling;
  if (!sampling.weighs()) return {};
  std::map<Digest, const ManifestEntry*> entries;
  for (uint64_t n = 0; n < manifest_->size(); ++n) {
    entries.emplace(manifest_->entry(n).digest, &manifest_->entry(n));
  }
  std::vector<SampledRow> facts;
  for (const Digest& photo : rows.photos()) {
    const ManifestEntry& e = *entries.at(photo);
    facts.push_back({.label = e.label, .recent = is_recent(e)});
  }
  RowWeights weights{.loss = loss_weights(facts, sampling, manifest_->classes())};
  if (sampling.draws()) weights.draw = draw_probabilities(facts, sampling, spec_.trainer.shards);
  return weights;
}

bool FinetuneWork::is_out_of_patience() const {
  return spec_.patience > 0 && training_->epoch() - 1 - loop_->best_epoch() >= spec_.patience;
}

// A run that begins; not one that goes on after a restart.
void FinetuneWork::begin_run(uint32_t run) {
  const auto n = static_cast<double>(spec_.runs);
  training_->scale_lr(spec_.damp ? (n - static_cast<double>(run - 1) / 2) / n : 1);
  const bool begins =
      training_->checkpoint().step == 0 && training_->epoch() == (run - 1) * spec_.trainer.epochs;
  if (run > 1 && begins && spec_.reset_optimizer) training_->reset_optimizer();
}

bool FinetuneWork::run(uint32_t run) {
  if (spec_.mode == JobMode::kIdeal) {
    extract_here(context_.fs, *here_, *spool_, local_, *manifest_, run, progress_);
  }
  if (run == 0) {
    val_ = dataset(manifest_->run(0), memory_ / 4);
    // While the stores extract.
    if (alone_) alone_->prepare(static_cast<int64_t>(manifest_->run(1).size()), val_->size());
    return true;
  }
  const std::span<const uint64_t> own = manifest_->run(run);
  std::vector<uint64_t> numbers(own.begin(), own.end());
  if (spec_.all_runs) {
    for (uint32_t r = 1; r < run; ++r) {
      numbers.insert(numbers.end(), manifest_->run(r).begin(), manifest_->run(r).end());
    }
    std::ranges::sort(numbers);
  }
  const auto epoch = [this] { return training_->epoch(); };
  auto spooled = dataset(numbers, memory_ / 4 * 3, epoch);
  SpoolDataset& rows = *spooled;
  const RowWeights weights = weights_of(rows);
  const std::unique_ptr<Dataset> train = as_trained(std::move(spooled), weights, spec_, epoch);
  if (train->size() == 0) {
    progress_.say(fmt::format("run {} has no photos to train on", run));
    return true;
  }
  if (progress_.interrupted()) return false;
  const double before = loop_->seconds();
  const int64_t until = run * spec_.trainer.epochs, all = spec_.runs * spec_.trainer.epochs;
  const GroupLeader::Use use(training_->epoch() < until ? group_.get() : nullptr, rows, weights);
  begin_run(run);
  while (training_->epoch() < until && !is_out_of_patience()) {
    // As often as one run over all photos would: after as many photos as there are in all.
    const int64_t left = until - training_->epoch() - 1;
    const bool validate = left % spec_.runs == 0;
    const bool whole = loop_->train_epoch(*train, validate ? val_.get() : nullptr, all);
    if (group_) group_->report(*run_directory_);
    if (!whole) return false;
    if (group_ && training_->epoch() < until) group_->take_in();
  }
  const int64_t last = std::min(until, training_->epoch());
  report({.run = run,
          .photos = train->size(),
          .last = run_directory_->epochs().at(static_cast<size_t>(last) - 1),
          .train_s = loop_->seconds() - before});
  return true;
}

// That are trained.
int64_t FinetuneWork::parameters() const {
  int64_t n = 0;
  for (const std::string& name : transfer_.trainable) {
    n += transfer_.head.initialisers.at(name).shape().count();
  }
  return n;
}

void FinetuneWork::report(const RunReport& r) {
  reports_.push_back(r);
  if (r.train_s == 0) return;  // trained before a restart
  // Inter-run difference of the loss with probability 1 - theta (NDPipe, ASPLOS'24, section 5).
  constexpr double kTheta = 0.05;
  const double bound = std::sqrt(std::log(2 * static_cast<double>(parameters()) / kTheta) /
                                 (2 * static_cast<double>(r.photos)));
  const std::string val = r.last.val
                              ? fmt::format("val loss {:.4f}, top-1 {:.4f}, top-5 {:.4f}",
                                            r.last.val->loss, r.last.val->top1, r.last.val->top5)
                              : "top-1 -";
  progress_.say(
      fmt::format("run {}/{}: {} photos, {:.2f} s of training, loss {:.4f}, {}; bound on the "
                  "difference of loss between runs {:.3f} (95 %)",
                  r.run, spec_.runs, r.photos, r.train_s, r.last.train_loss, val, bound));
}

}  // namespace ndtrain::tuner
