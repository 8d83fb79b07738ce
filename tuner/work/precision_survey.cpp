#include "tuner/work/precision_survey.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/checksummed_json.h"
#include "framework/core/file_digest.h"
#include "framework/core/json.h"
#include "framework/core/publish.h"
#include "ndp/engine/crops.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr const char* kRecords = "survey";
constexpr const char* kDigest = "lowered.json";  // of the outcome

ModelFile model_of(const JobContext& context, const JobSpec& spec) {
  return context.models.load(digest_from_hex(spec.model));
}

// What the job's work takes its extractor from.
void write_outcome(const JobContext& context, const JobSpec& spec, const std::string& directory,
                   const ModelFile& model, const ModelFile& low, const PhotoSample& sample,
                   Progress& progress) {
  ModelFile outcome = low;
  if (spec.kind == JobKind::kFinetune) {
    const TransferModel t = transfer_of(model, spec, any_classes(model, spec));
    outcome.model = lowered(t.whole, declared_precision(low.model), t.features, sample,
                            context.devices.get(spec.deterministic), progress);
    outcome.classes = {};
  }
  outcome.preprocess_declared = true;
  const std::string file = PrecisionSurvey::outcome(directory);
  save_model(context.fs, file, outcome);
  const Digest digest = sha256_of_file(context.fs, file).or_throw();
  publish(context.fs, join(directory, kDigest), checksummed({{"sha256", to_hex(digest)}}))
      .or_throw();
}

}  // namespace

SurveySink::SurveySink(const JobContext& context, const std::string& directory,
                       const Preprocess& preprocess, size_t photos, int64_t disk)
    : fs_(context.fs),
      gains_file_(join(directory, "gains.json")),
      preprocess_(preprocess),
      photos_(photos),
      spool_(context.fs, context.clock, join(directory, "spool"), crop_group(preprocess), disk) {
  const Result<std::string> text = fs_.read(gains_file_);
  if (text.status().code() == Code::kNotFound) return;
  text.status().or_throw();
  try {
    const Json json = verified(*text);
    const bool older = !json.contains("gains") || !json["gains"].is_object();
    gains_ = (older ? json : json["gains"]).get<std::map<std::string, double>>();
  } catch (const std::exception& e) {
    throw Error(gains_file_, ": ", e.what(), "; removed, the stores say it again");
  }
}

Status SurveySink::inventory(const RowIngest::Inventory& inventory) {
  if (inventory.bf16_gain <= 0) return {};
  gains_[inventory.store] = inventory.bf16_gain;
  return publish(fs_, gains_file_, checksummed({{"gains", gains_}}, -1));
}

Result<std::vector<uint64_t>> SurveySink::open(const Manifest& manifest) {
  Result<std::vector<uint64_t>> durable = spool_.open(manifest);
  if (!durable.ok()) return durable.status();
  std::erase_if(*durable, [this](uint64_t n) { return n >= photos_; });
  for (uint64_t n = photos_; n < manifest.size(); ++n) durable->push_back(n);
  return durable;
}

bool SurveySink::fill(const Digest& photo, float* to) {
  if (!spool_.has(photo)) return false;  // nobody could read it
  Image crop(preprocess_.img_size, preprocess_.img_size);
  spool_.read(photo, std::as_writable_bytes(std::span(crop.rgb)));
  normalize(crop, preprocess_, to);
  return true;
}

PhotoSample SurveySink::sample(const Manifest& manifest, size_t classes) {
  PhotoSample sample{.source = "the stores", .digests = {}, .labels = {}, .read = {}};
  for (uint64_t n = 0; n < std::min<uint64_t>(photos_, manifest.size()); ++n) {
    const int32_t label = manifest.entry(n).label;
    sample.digests.push_back(manifest.entry(n).digest);
    sample.labels.push_back(label < static_cast<int64_t>(classes) ? label : -1);
  }
  sample.read = [this, &manifest](auto photos, int64_t batch, const PhotoSample::Each& each) {
    const auto input = [&](size_t i, float* to) { return fill(manifest.entry(i).digest, to); };
    for_each_batch(photos, batch, preprocess_, input, each);
  };
  return sample;
}

PrecisionSurvey::PrecisionSurvey(const JobContext& context, JobSpec spec, std::string directory,
                                 Progress& progress, HumanLabels truths)
    : context_(context),
      spec_(std::move(spec)),
      directory_(std::move(directory)),
      progress_(progress),
      human_labels_(std::move(truths)) {}

std::string PrecisionSurvey::outcome(const std::string& directory) {
  return join(directory, "lowered.onnx");
}

bool PrecisionSurvey::is_whole(Fs& fs, const std::string& directory) {
  const Result<std::string> digest = fs.read(join(directory, kDigest));
  if (digest.status().code() == Code::kNotFound) return true;
  digest.status().or_throw();
  const Digest is = sha256_of_file(fs, outcome(directory)).or_throw();
  try {
    return verified(*digest).value("sha256", "") == to_hex(is);
  } catch (const Error&) {
    return false;
  }
}

bool PrecisionSurvey::is_due(const JobContext& context, const JobSpec& spec,
                             const std::string& directory, Progress& progress) {
  if (spec.precision.empty()) return false;
  if (context.fs.exists(outcome(directory))) {
    if (is_whole(context.fs, directory)) return false;
    progress.say(fmt::format("{} is damaged, and made again", outcome(directory)));
    context.fs.remove(outcome(directory)).or_throw();
  }
  const ModelFile model = model_of(context, spec);
  if (needs_photos(model.model, spec.precision)) return true;
  const PhotoSample none;
  const ModelFile low = in_precision(model, {.precision = spec.precision}, none,
                                     context.devices.get(spec.deterministic), context.fs, progress);
  write_outcome(context, spec, directory, model, low, none, progress);
  return false;
}

RowRequest PrecisionSurvey::prepare() {
  model_ = model_of(context_, spec_);
  if (spec_.kind == JobKind::kFinetune) {
    (void)transfer_of(model_, spec_, any_classes(model_, spec_));  // throws before anybody is asked
  }
  const std::string records = join(directory_, kRecords);
  context_.fs.make_directories(records).or_throw();
  sink_ = std::make_unique<SurveySink>(context_, records, model_.preprocess,
                                       sample_size(config().photos), spec_.disk);
  RowRequest q{.row_bytes = model_.preprocess.values(), .records = kRecords};
  q.ask.set_rows(wire::Job::CROPS);
  for (const auto& [key, value] : to_metadata(model_.preprocess)) {
    (*q.ask.mutable_preprocessing())[key] = value;
  }
  q.ask.set_deterministic(spec_.deterministic);
  q.ask.set_with_gain(spec_.precision == "auto");
  q.manifest = {.seed = spec_.seed,
                .runs = 1,
                .val_split = 0,
                .classes = model_.classes,
                .add_classes = true,
                .only_labelled = spec_.kind == JobKind::kFinetune,
                .holders_label = spec_.takes_labels_of_holders(),
                .truths = human_labels_()};
  if (spec_.mode == JobMode::kIdeal) {
    here_ = photos_here(context_, spec_, directory_, progress_);
    q.local = claims_of(*here_);
  }
  return q;
}

void PrecisionSurvey::manifest(const Manifest& manifest, const std::vector<std::string>& stores) {
  manifest_ = &manifest;
  progress_.say(fmt::format("before {}: {} of {} photos on {} store{} are looked at",
                            spec_.precision,
                            std::min(manifest.size(), sample_size(config().photos)),
                            manifest.size(), stores.size(), stores.size() == 1 ? "" : "s"));
}

PrecisionConfig PrecisionSurvey::config() const {
  PrecisionConfig c{.precision = spec_.precision, .max_drop = spec_.max_drop};
  if (c.precision != "auto" || !sink_ || here_) return c;
  const auto& gains = sink_->gains();
  const bool worth = !gains.empty() && std::ranges::all_of(gains, [](const auto& store) {
    return worth_bf16(store.second);
  });
  c.precision = name_of(worth ? Precision::kBF16 : Precision::kF32);
  return c;
}

// What people said elsewhere is in the manifest, and what they deleted is not.
PhotoSample PrecisionSurvey::sample_here() {
  std::map<Digest, int32_t> labels;
  for (uint64_t n = 0; n < manifest_->size(); ++n) {
    labels.emplace(manifest_->entry(n).digest, manifest_->entry(n).label);
  }
  std::erase_if(here_->photos, [&](const Photo& p) { return !labels.contains(p.digest); });
  const auto classes = static_cast<int32_t>(model_.classes.size());
  for (Photo& p : here_->photos) {
    const int32_t label = labels.at(p.digest);
    p.label = label < classes ? label : -1;
  }
  return sample_of(*here_, sample_size(config().photos), model_.preprocess, context_.fs);
}

bool PrecisionSurvey::run(uint32_t run) {
  if (run == 0) return true;
  const PrecisionConfig c = config();
  if (spec_.precision == "auto" && !here_) {
    std::string text = c.precision + ": in bf16 the stores compute this many times as fast:";
    for (const auto& [store, gain] : sink_->gains()) text += fmt::format(" {} {:.2f}", store, gain);
    progress_.say("precision " + text);
  }
  const PhotoSample sample =
      here_ ? sample_here() : sink_->sample(*manifest_, model_.classes.size());
  const ModelFile low = in_precision(model_, c, sample, context_.devices.get(spec_.deterministic),
                                     context_.fs, progress_);
  if (progress_.interrupted()) return false;
  write_outcome(context_, spec_, directory_, model_, low, sample, progress_);
  return true;
}

JobOutcome PrecisionSurvey::finish() {
  sink_->clear();
  return {.again = true};
}

}  // namespace ndtrain::tuner
