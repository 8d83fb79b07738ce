#include "tuner/work/label_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "framework/core/json.h"
#include "ndp/jobs/features.h"
#include "ndp/labels/label_json.h"
#include "ndp/wire/digests.h"
#include "tuner/ingest/row_check.h"
#include "tuner/work/relabel_preview.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// A database without room is away until somebody makes some.
Status as_away(const Status& s) {
  return s.code() == Code::kNoSpace ? Status(Code::kIo, s.message()) : s;
}

constexpr size_t kAtOnce = 50'000;  // photos that are added in one transaction
constexpr int64_t kMany = 10'000;   // labels that are worth tidying up after

}  // namespace

LabelSink::LabelSink(LabelDb& db, Clock& clock, const PublishedModel& model, const JobSpec& spec)
    : db_(db), clock_(clock), classes_(model.classes.size()), spec_(spec), content_(model.content) {
  collection_ = demand(db_.collection(spec.collection));
  task_ = demand(db_.task(spec.task));
  class_ids_ = demand(db_.class_ids(task_, model.classes));
  const NewVersion version{.number = number_of(model),
                           .content = model.content,
                           .parent = std::nullopt,
                           .created = model.created,
                           .metrics = model.metrics};
  version_ = demand(db_.version(task_, version));
  demand(db_.put_in_force(task_, version_));
}

void LabelSink::learn(const PhotoClaims& photos, std::span<const int64_t> ids) {
  for (size_t i = 0; i < photos.size(); ++i) {
    if (const auto number = manifest_->number_of(photos.digest(i))) (*ids_)[*number] = ids[i];
  }
}

// Photos of stores that are away are known from the job's earlier life.
Status LabelSink::look_up() {
  std::vector<uint64_t> numbers;
  std::vector<Digest> unknown;
  for (uint64_t n = 0; n < manifest_->size(); ++n) {
    if ((*ids_)[n] != 0) continue;
    numbers.push_back(n);
    unknown.push_back(manifest_->entry(n).digest);
  }
  const Result<std::vector<int64_t>> ids = db_.photos_with(unknown);
  if (!ids.ok()) return ids.status();
  for (size_t i = 0; i < numbers.size(); ++i) (*ids_)[numbers[i]] = (*ids)[i];
  return {};
}

Result<std::vector<uint64_t>> LabelSink::open(const Manifest& manifest) {
  manifest_ = &manifest;
  ids_.emplace(manifest.size(), 0, manifest.memory());
  for (const auto& [photos, ids] : listed_) learn(*photos, ids);
  if (const Status s = look_up(); !s.ok()) return s;
  listed_.clear();  // it is opened again where that failed
  const Result<std::vector<int64_t>> done = db_.labelled_by(version_, *ids_);
  if (!done.ok()) return done.status();
  CurrentLabels current;
  if (spec_.only != RelabelOnly::kAll) {
    Result<CurrentLabels> read = CurrentLabels::read(db_, spec_.collection, spec_.task);
    if (!read.ok()) return read.status();
    current = std::move(*read);
  }
  before_ = not_asked_ = 0;
  std::vector<uint64_t> durable;
  size_t next_done = 0;
  for (uint64_t n = 0; n < manifest.size(); ++n) {
    const Digest& photo = manifest.entry(n).digest;
    const bool by_it = next_done < done->size() && (*done)[next_done] == (*ids_)[n];
    next_done += by_it;
    const bool labelled = by_it || (*ids_)[n] == 0;
    const bool wanted =
        spec_.only == RelabelOnly::kAll || current.wanted(photo, content_, spec_.only);
    if (labelled || !wanted) durable.push_back(n);
    before_ += labelled;
    not_asked_ += !labelled && !wanted;
  }
  return durable;
}

Status LabelSink::inventory(const RowIngest::Inventory& inventory) {
  const PhotoClaims& photos = *inventory.photos;
  std::vector<int64_t> all;  // ids
  all.reserve(photos.size());
  for (size_t begin = 0; begin < photos.size(); begin += kAtOnce) {
    const size_t end = std::min(begin + kAtOnce, photos.size());
    std::vector<PhotoPlace> places;
    for (size_t i = begin; i < end; ++i) {
      places.push_back({join(inventory.store, photos.path(i)), photos.digest(i)});
    }
    const Result<std::vector<int64_t>> ids = db_.add_photos(collection_, places);
    if (!ids.ok()) return ids.status();
    all.insert(all.end(), ids->begin(), ids->end());
  }
  if (manifest_ != nullptr) {
    learn(photos, all);
  } else {
    listed_.emplace_back(inventory.photos, std::move(all));
  }
  return {};
}

Result<int64_t> LabelSink::store_id(const std::string& name) {
  if (const auto it = stores_.find(name); it != stores_.end()) return it->second;
  const Result<int64_t> id = db_.store(name);
  if (id.ok()) stores_[name] = *id;
  return id;
}

Result<std::vector<RowIngest::BadRow>> LabelSink::keep(std::span<const RowIngest::Rows> rows) {
  LabelBatch batch{.task = task_, .source = LabelSource::kModel, .version = version_};
  std::vector<RowIngest::BadRow> bad;
  std::vector<uint64_t> numbers;  // of the batch
  for (const RowIngest::Rows& r : rows) {
    const Result<int64_t> store = store_id(r.store);
    if (!store.ok()) return store.status();
    for (const auto& [number, row] : r.rows) {
      const Result<std::vector<RankedClass>> top = read_label_row(row, classes_);
      if (!top.ok() || top->empty()) {
        bad.push_back({number, top.ok() ? "a label row without labels" : top.status().message()});
        continue;
      }
      if (ids_->at(number) == 0) {
        bad.push_back({number, "it was deleted"});
        continue;
      }
      NewLabel label{.photo = (*ids_)[number],
                     .class_id = class_ids_[(*top)[0].class_id],
                     .score = (*top)[0].score,
                     .time = clock_.unix_seconds(),
                     .store = *store};
      for (const RankedClass& l : *top) label.top_k.push_back({class_ids_[l.class_id], l.score});
      batch.labels.push_back(std::move(label));
      numbers.push_back(number);
    }
  }
  Result<PutReport> put = db_.put_labels(batch);
  if (put.ok()) {
    labelled_ += put->added;
    return bad;
  }
  if (put.status().code() != Code::kNotFound) return as_away(put.status());
  // Somebody has deleted a photo meanwhile: the others' labels are kept.
  const std::vector<NewLabel> all = std::exchange(batch.labels, {});
  for (size_t i = 0; i < all.size(); ++i) {
    batch.labels.assign(1, all[i]);
    put = db_.put_labels(batch);
    if (put.ok()) {
      labelled_ += put->added;
    } else if (put.status().code() == Code::kNotFound) {
      bad.push_back({numbers[i], "it was deleted"});
    } else {
      return as_away(put.status());
    }
  }
  return bad;
}

LabelWork::LabelWork(const JobContext& context, JobSpec spec, std::string directory,
                     PublishedModel model, LabelDb* db, Progress& progress, HumanLabels truths)
    : context_(context),
      spec_(std::move(spec)),
      directory_(std::move(directory)),
      model_(std::move(model)),
      db_(db),
      progress_(progress),
      human_labels_(std::move(truths)) {}

LabelWork::~LabelWork() = default;

RowRequest LabelWork::prepare() {
  RowRequest q;
  q.ask.set_rows(wire::Job::LABELS);
  q.ask.set_extractor(bytes_of(model_.extractor));
  if (model_.head != model_.extractor) q.ask.set_head(bytes_of(model_.head));
  const auto k = std::min<uint32_t>(spec_.top_k, static_cast<uint32_t>(model_.classes.size()));
  q.ask.set_top_k(k);
  q.ask.set_with_paths(db_ != nullptr);
  q.ask.set_deterministic(spec_.deterministic);
  q.features = row_types_of(context_.models.load(model_.extractor).model);
  row_bytes_ = q.row_bytes = k * kRankedClassBytes;
  q.check = known_classes(model_.classes.size());
  q.manifest = {.seed = spec_.seed, .runs = 1, .val_split = 0};
  if (db_ && spec_.dry_run) {
    q.manifest.only_labelled = false;
    auto preview = std::make_unique<PreviewSink>(*db_, context_.clock, model_, spec_);
    preview_ = preview.get();
    sink_ = std::move(preview);
  } else if (db_) {
    q.manifest.only_labelled = false;
    auto labels = std::make_unique<LabelSink>(*db_, context_.clock, model_, spec_);
    labels_ = labels.get();
    sink_ = std::move(labels);
  } else {
    q.manifest.classes = model_.classes;
    q.manifest.add_classes = true;
    q.manifest.holders_label = spec_.takes_labels_of_holders();
    q.manifest.truths = human_labels_();
    auto spool = std::make_unique<Spool>(context_.fs, context_.clock, join(directory_, "spool"),
                                         model_.content, spec_.disk);
    spool_ = spool.get();
    sink_ = std::move(spool);
  }
  return q;
}

void LabelWork::manifest(const Manifest& manifest, const std::vector<std::string>& stores) {
  manifest_ = &manifest;
  progress_.say(fmt::format("{}: {} photos on {} store{}", text_of(model_), manifest.size(),
                            stores.size(), stores.size() == 1 ? "" : "s"));
}

JobOutcome LabelWork::finish() {
  if (spool_) return evaluation();
  if (preview_) return {.result = preview_->report(), .model = std::nullopt};
  if (labels_->labelled() >= kMany) {
    if (const Status s = db_->settle(); !s.ok()) progress_.say("labels: " + s.message());
  }
  Json result = version_json(number_of(model_), model_.content);
  result.update({{"photos", manifest_->size()},
                 {"labelled", labels_->labelled()},
                 {"already_labelled", labels_->before()},
                 {"not_asked_for", labels_->not_asked()}});
  return {.result = json_text(result), .model = std::nullopt};
}

JobOutcome LabelWork::evaluation() {
  int64_t photos = 0, top1 = 0, top5 = 0, unknown = 0;
  std::string row(row_bytes_, '\0');
  for (uint64_t n = 0; n < manifest_->size(); ++n) {
    const Manifest::Entry& e = manifest_->entry(n);
    if (!spool_->has(e.digest)) continue;
    spool_->read(e.digest, std::as_writable_bytes(std::span(row)));
    const auto labels = read_label_row(row, model_.classes.size()).or_throw();
    const auto at =
        std::ranges::find(labels, static_cast<uint32_t>(e.label), &RankedClass::class_id);
    ++photos;
    top1 += at == labels.begin();
    top5 += at != labels.end() && at - labels.begin() < 5;
    unknown += static_cast<size_t>(e.label) >= model_.classes.size();
  }
  const auto share = [&](int64_t of) {
    return photos > 0 ? Json(static_cast<double>(of) / static_cast<double>(photos)) : Json();
  };
  Json result = version_json(number_of(model_), model_.content);
  result.update({{"photos", photos},
                 {"top1", share(top1)},
                 {"top5", share(top5)},
                 {"of_unknown_classes", unknown}});
  return {.result = json_text(result), .model = std::nullopt};
}

}  // namespace ndtrain::tuner
