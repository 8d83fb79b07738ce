#include "tuner/work/production_answers.h"

#include <fmt/format.h>

#include "framework/core/checksummed_json.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/engine/feature_rows.h"
#include "ndp/engine/numerics.h"
#include "ndp/wire/digests.h"
#include "tuner/work/cut_model.h"
#include "tuner/work/promotion.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr const char* kAnswerRecords = "production";

std::string answers_file(const std::string& directory) {
  return join(join(directory, kAnswerRecords), "answers.json");
}

// All other photos count as durable, so that stores are asked for these alone.
class ValidationSink final : public RowSink {
 public:
  explicit ValidationSink(Spool& spool) : spool_(spool) {}
  Status inventory(const RowIngest::Inventory& i) override { return spool_.inventory(i); }
  Result<std::vector<uint64_t>> open(const Manifest& manifest) override {
    if (const auto durable = spool_.open(manifest); !durable.ok()) return durable.status();
    std::vector<uint64_t> not_asked;
    for (uint64_t n = 0; n < manifest.size(); ++n) {
      const Manifest::Entry& e = manifest.entry(n);
      if (e.run != 0 || spool_.has(e.digest)) not_asked.push_back(n);
    }
    return not_asked;
  }
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override {
    return spool_.keep(rows);
  }

 private:
  Spool& spool_;
};

}  // namespace

ProductionAnswers::ProductionAnswers(const JobContext& context, PublishedModel version,
                                     JobSpec spec, std::string directory, Progress& progress,
                                     HumanLabels truths)
    : context_(context),
      version_(std::move(version)),
      spec_(std::move(spec)),
      directory_(std::move(directory)),
      progress_(progress),
      human_labels_(std::move(truths)) {}

std::optional<Answers> ProductionAnswers::outcome(Fs& fs, const std::string& directory,
                                                  const PublishedModel& version) {
  const Result<std::string> text = fs.read(answers_file(directory));
  if (text.status().code() == Code::kNotFound) return std::nullopt;
  text.status().or_throw();
  try {
    const Json json = verified(*text);
    if (json.at("version") != version.version) return std::nullopt;
    Answers answers;
    for (const auto& [photo, name] : json.at("answers").items()) {
      answers[digest_from_hex(photo)] = name.get<std::string>();
    }
    return answers;
  } catch (const std::exception& e) {
    log::warn("{}: {}; the version is asked again", answers_file(directory), e.what());
    return std::nullopt;
  }
}

std::optional<PublishedModel> ProductionAnswers::due(const JobContext& context,
                                                     const Versions& versions, uint64_t job,
                                                     const JobSpec& spec,
                                                     const std::string& directory) {
  const bool ruled = spec.kind == JobKind::kFinetune && spec.publish && spec.val_split > 0 &&
                     spec.promote == Promote::kRule;
  if (!ruled) return std::nullopt;
  std::optional<PublishedModel> version = compared_with(versions, job, spec.task);
  if (!version || version->head == version->extractor) return std::nullopt;
  if (outcome(context.fs, directory, *version)) return std::nullopt;
  if (cut_model(context, spec, directory).extractor == version->extractor) return std::nullopt;
  return version;
}

RowRequest ProductionAnswers::prepare() {
  extractor_ = context_.models.load(version_.extractor);
  row_types_ = row_types_of(extractor_.model);
  const std::string spool = join(join(directory_, kAnswerRecords), "spool");
  context_.fs.make_directories(spool).or_throw();
  spool_ =
      std::make_unique<Spool>(context_.fs, context_.clock, spool, version_.extractor, spec_.disk);
  const bool here = spec_.mode == JobMode::kIdeal;
  if (context_.features) {
    spool_->share(std::make_unique<JobFeatures>(
        *context_.features, context_.fs, join(spool, "begun_with.json"),
        JobFeatures::What{
            .extractor = version_.extractor,
            .exact = spec_.deterministic,
            .here = here ? feature_numerics(context_.devices.get(spec_.deterministic)) : ""}));
  }
  sink_ = std::make_unique<ValidationSink>(*spool_);
  RowRequest q{.records = kAnswerRecords};
  q.manifest = {.seed = spec_.seed,
                .runs = 1,
                .val_split = spec_.val_split,
                .classes = version_.classes,
                .add_classes = true,
                .holders_label = spec_.takes_labels_of_holders(),
                .truths = human_labels_()};
  if (here) {
    local_ = photos_here(context_, spec_, directory_, progress_);
    q.local = claims_of(local_);
  }
  q.ask.set_deterministic(spec_.deterministic);
  q.ask.set_rows(wire::Job::FEATURES);
  q.ask.set_extractor(bytes_of(version_.extractor));
  for (const TensorType& t : row_types_) q.row_bytes += bytes_of_row(t);
  q.features = row_types_;
  q.check = finite_features(row_types_);
  return q;
}

void ProductionAnswers::manifest(const Manifest& manifest, const std::vector<std::string>& stores) {
  manifest_ = &manifest;
  progress_.say(fmt::format(
      "{} is in force and has another extractor: it is asked about the {} validation photos on {} "
      "store{}, too; features of {} photos are here from earlier jobs",
      text_of(version_), manifest.run(0).size(), stores.size(), stores.size() == 1 ? "" : "s",
      spool_->shared()));
}

bool ProductionAnswers::run(uint32_t run) {
  if (run != 0) return true;
  const Device& device = context_.devices.get(spec_.deterministic);
  if (spec_.mode == JobMode::kIdeal) {
    TunerExtractor extractor(extractor_, device, *spool_, context_.decoder);
    extract_here(context_.fs, extractor, *spool_, local_, *manifest_, run, progress_);
  }
  std::vector<Digest> photos;
  for (const uint64_t n : manifest_->run(0)) photos.push_back(manifest_->entry(n).digest);
  const AnswerRules rules{.models = context_.models, .device = device};
  Json answers = Json::object();
  for (const auto& [photo, name] : answers_of(version_, *spool_, photos, row_types_, rules)) {
    answers[to_hex(photo)] = name;
  }
  publish(context_.fs, answers_file(directory_),
          checksummed({{"version", version_.version}, {"answers", std::move(answers)}}))
      .or_throw();
  return true;
}

JobOutcome ProductionAnswers::finish() {
  spool_->clear().or_throw();
  return {.again = true};
}

}  // namespace ndtrain::tuner
