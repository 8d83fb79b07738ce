#include "ndp/jobs/relabel.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "ndp/jobs/feature_cache.h"

namespace ndtrain::ndp {
namespace {

class Relabel {
 public:
  Relabel(const RelabelConfig& config, const ModelFile& model, const Device& device, LabelDb& db,
          Fs& fs, Clock& clock, Progress& progress)
      : config_(config),
        model_(model),
        device_(device),
        db_(db),
        fs_(fs),
        clock_(clock),
        progress_(progress),
        cache_(config.cache.empty() ? default_cache_directory() : config.cache) {}

  RelabelResult run() {
    NamedPhotos named = config_.photos;
    named.cache = cache_;
    set_ = read_named_photos(fs_, named, progress_);
    if (set_.photos.empty() && set_.quarantined.empty()) {
      throw Error(named.names.at(0), ": there are no photos");
    }
    result_.photos = static_cast<int64_t>(set_.photos.size());
    result_.quarantined = set_.quarantined;
    result_.skipped = set_.skipped_count();
    lower();
    open_version();
    const std::vector<size_t> todo = unlabelled();
    result_.labelled = static_cast<int64_t>(todo.size());
    if (config_.dry_run) return result_;
    result_.labelled = 0;
    db_.put_in_force(task_, result_.version.id).or_throw();
    label(todo);
    return result_;
  }

 private:
  void lower() {
    PrecisionConfig config = config_.precision;
    config.cache = cache_;
    model_ = in_precision(model_, config, set_, device_, fs_, progress_);
  }

  void open_version() {
    std::vector<std::string> names;
    for (int64_t i = 0, n = model_.outputs(); i < n; ++i) names.push_back(model_.class_name(i));
    collection_ = db_.collection(config_.collection).or_throw();
    task_ = db_.task(config_.task).or_throw();
    class_ids_ = db_.class_ids(task_, names).or_throw();
    NewVersion version{.content = model_.id(), .created = clock_.unix_seconds()};
    version.parent = metadata::digest(model_.model, metadata::kParent);
    db_.version(task_, version).or_throw();
    result_.version = existing_version(db_, task_, to_hex(version.content)).or_throw();
    progress_.say("labels as version " +
                  full_version_name(result_.version.number, version.content));
  }

  // One photo per content, without those that this version has labelled.
  std::vector<size_t> unlabelled() {
    std::vector<PhotoPlace> places;
    for (const Photo& p : set_.photos) places.push_back({p.path, p.digest});
    ids_ = db_.add_photos(collection_, places).or_throw();
    const std::vector<int64_t> done = db_.labelled_by(result_.version.id, ids_).or_throw();
    std::set<int64_t> seen(done.begin(), done.end());
    result_.already = static_cast<int64_t>(seen.size());
    std::vector<size_t> todo;
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (seen.insert(ids_[i]).second) todo.push_back(i);
    }
    return todo;
  }

  void label(const std::vector<size_t>& todo) {
    int64_t done = 0;
    FeatureCache cache(fs_, clock_, cache_, "relabels " + config_.photos.names.at(0));
    std::optional<CropCache> crops;
    if (config_.keep_crops) {
      if (!cache.open_to_write(progress_)) {
        result_.interrupted = true;
        return;
      }
      crops.emplace(cache.store(), model_.preprocess, config_.compress_crops);
    }
    progress_.begin("labelling", static_cast<int64_t>(todo.size()), "photos");
    result_.engine = classify(
        model_, device_, fs_, set_, todo,
        {.k = config_.k, .batch = config_.batch, .crops = crops ? &*crops : nullptr},
        [&](std::span<const Classification> results, std::span<const BadPhoto> bad) {
          put(results);
          for (const BadPhoto& b : bad) {
            if (b.reason.code() == Code::kUnsupported) {
              ++result_.skipped;
            } else {
              result_.quarantined.push_back({set_.photos[b.item].path, b.reason.message()});
            }
          }
          done += static_cast<int64_t>(results.size() + bad.size());
          progress_.update(done);
          result_.interrupted = progress_.interrupted();
          return !result_.interrupted;
        });
    progress_.end();
    if (!crops) return;
    result_.cache_bytes = cache.store().disk_bytes();
    cache.close();
  }

  void put(std::span<const Classification> results) {
    LabelBatch batch{.task = task_, .source = LabelSource::kModel, .version = result_.version.id};
    for (const Classification& c : results) {
      NewLabel label{.photo = ids_[c.photo],
                     .class_id = class_ids_[static_cast<size_t>(c.top[0].id)],
                     .score = c.top[0].score,
                     .time = clock_.unix_seconds()};
      for (const ClassScore& s : c.top)
        label.top_k.push_back({class_ids_[static_cast<size_t>(s.id)], s.score});
      batch.labels.push_back(std::move(label));
    }
    result_.labelled += db_.put_labels(batch).or_throw().added;
  }

  const RelabelConfig& config_;
  ModelFile model_;
  const Device& device_;
  LabelDb& db_;
  Fs& fs_;
  Clock& clock_;
  Progress& progress_;
  const std::string cache_;
  PhotoSet set_;
  std::vector<int64_t> ids_;        // of each photo in the database
  std::vector<int64_t> class_ids_;  // of each output of the model
  int64_t collection_ = 0, task_ = 0;
  RelabelResult result_;
};

}  // namespace

RelabelResult relabel(const RelabelConfig& config, const ModelFile& model, const Device& device,
                      LabelDb& db, Fs& fs, Clock& clock, Progress& progress) {
  return Relabel(config, model, device, db, fs, clock, progress).run();
}

}  // namespace ndtrain::ndp
