#include "ndp/jobs/relabel.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "framework/core/log.h"
#include "ndp/jobs/far_sample.h"
#include "ndp/jobs/feature_cache.h"
#include "ndp/jobs/photo_feed.h"
#include "ndp/photos/object_url.h"

namespace ndtrain::ndp {
namespace {

constexpr std::chrono::milliseconds kWaitGlance{200};  // at whether to stop

void add(const EngineStats& some, EngineStats& to) {
  to.photos += some.photos;
  to.quarantined += some.quarantined;
  to.skipped += some.skipped;
  to.warnings += some.warnings;
  to.bytes += some.bytes;
  to.crops += some.crops;
  to.load_s += some.load_s;
  to.preprocess_s += some.preprocess_s;
  to.infer_s += some.infer_s;
  to.decode_s += some.decode_s;
  to.resize_s += some.resize_s;
  to.normalise_s += some.normalise_s;
  to.wall_s += some.wall_s;
  to.batch = some.batch;
}

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
        cache_(config.cache.empty() ? default_cache_directory() : config.cache),
        named_(config.photos),
        kept_(fs, clock, cache_, "relabels " + config.photos.names.at(0)) {
    named_.cache = cache_;
  }

  RelabelResult run() {
    far_ = is_far_directory();
    if (far_ && config_.dry_run && !compares()) return counted();
    const PhotoSet set = far_ && !config_.dry_run
                             ? label_while_reading()
                             : read_named_photos(fs_, named_, progress_, on_named_read());
    if (set.photos.empty() && set.quarantined.empty() && !result_.interrupted) {
      throw Error(named_.names.at(0), ": there are no photos");
    }
    result_.photos = static_cast<int64_t>(set.photos.size());
    result_.quarantined.insert(result_.quarantined.end(), set.quarantined.begin(),
                               set.quarantined.end());
    result_.skipped += set.skipped_count();
    if (!result_.interrupted) label_all(set);
    remember_damaged();
    if (crops_) {
      result_.cache_bytes = kept_.store().disk_bytes();
      kept_.close();
    }
    return result_;
  }

 private:
  // So that the next run does not fetch them to find the same.
  void remember_damaged() {
    if (damaged_.empty() || !far_) return;
    const auto catalogue = open_catalogue(fs_, cache_, named_.names[0]);
    for (const auto& [photo, reason] : damaged_) catalogue->quarantine(photo, reason).or_throw();
  }

  // Of one set: the photos that are to be labelled, and what the database calls each.
  struct Todo {
    std::vector<size_t> photos;
    std::vector<int64_t> ids;
  };

  // A comparison of precisions comes before all labels.
  bool compares() const { return needs_photos(model_.model, config_.precision.precision); }

  // Photos that are far away are not to be fetched twice.
  bool is_far_directory() const {
    if (named_.names.size() != 1 || !is_object_url(named_.names[0]) || !named_.root.empty())
      return false;
    const Result<FileInfo> info = fs_.info(named_.names[0]);
    return info.ok() && info->is_directory;
  }

  // To count what a listing has nothing is fetched: each photo that is new counts.
  RelabelResult counted() {
    const std::string& root = named_.names[0];
    const auto catalogue = open_catalogue(fs_, cache_, root);
    DirectorySource source(fs_, root);
    int64_t unread = 0;
    const PhotoSet set = listed_photos(source, *catalogue, root, unread);
    if (set.photos.empty() && set.quarantined.empty() && unread == 0) {
      throw Error(root, ": there are no photos");
    }
    open_version(set);
    result_.photos = static_cast<int64_t>(set.photos.size()) + unread;
    result_.labelled = static_cast<int64_t>(unlabelled(set).photos.size()) + unread;
    result_.quarantined = set.quarantined;
    result_.skipped = set.skipped_count();
    if (unread > 0) {
      progress_.say(std::to_string(unread) +
                    " photos were never fetched: they are counted as they are listed, also copies "
                    "and what may turn out to be damaged");
    }
    return result_;
  }

  OnNamedRead on_named_read() {
    if (config_.dry_run || compares()) return {};
    return [this](std::vector<PhotoRead> part) { return label_part(named_.root, std::move(part)); };
  }

  // Those on which precisions are compared come first, so that they are fetched once.
  bool label_sample(PhotoSource& source, Catalogue& catalogue, const std::string& root) {
    FarSample far = far_sample(source, catalogue, root, sample_size(config_.precision.photos));
    sample_ = sample_of(far, model_.preprocess, fs_);
    const bool begun = begin(far.set);
    sample_.reset();
    return begun && (far.files.empty() || label_part(root, std::move(far.files)));
  }

  // All that are there.
  PhotoSet label_while_reading() {
    const std::string& root = named_.names[0];
    const auto catalogue = open_catalogue(fs_, cache_, root);
    const auto alone = lock_scan(*catalogue, root, progress_);
    DirectorySource source(fs_, root);
    if (compares() && !label_sample(source, *catalogue, root)) {
      return known_photos(*catalogue, root);
    }
    {
      PhotoFeed feed(source, *catalogue, config_.again);
      progress_.begin("labelling what is new in " + root, 0, "photos");
      label_parts(root, [&](const std::stop_token& stop) {
        return feed.next([&] { return stop.stop_requested() || progress_.interrupted(); });
      });
      progress_.end();
      result_.interrupted = result_.interrupted || progress_.interrupted();
      if (!result_.interrupted) say_problems(feed.report(), progress_);
    }
    return known_photos(*catalogue, root);
  }

  using NextRead = std::function<std::optional<std::vector<PhotoRead>>(const std::stop_token&)>;

  // False: interrupted. While the first part is waited for, nothing is begun: there may be none.
  bool label_parts(const std::string& root, const NextRead& next) {
    std::optional<std::vector<PhotoRead>> first = next({});
    if (!first) return !progress_.interrupted();
    if (!begin({.root = root})) return false;
    const NextPart read = [&](const std::stop_token& stop) -> std::unique_ptr<PhotoPart> {
      auto photos = first ? std::exchange(first, std::nullopt) : next(stop);
      return photos ? part_of(root, std::move(*photos)) : nullptr;
    };
    add(classifier_->run(read, [&](const PhotoPart& part, auto results,
                                   auto bad) { return take(part.set, part.ids, results, bad); }),
        result_.engine);
    return !result_.interrupted;
  }

  bool label_part(const std::string& root, std::vector<PhotoRead> part) {
    std::optional<std::vector<PhotoRead>> only = std::move(part);
    return label_parts(root,
                       [&](const std::stop_token&) { return std::exchange(only, std::nullopt); });
  }

  std::unique_ptr<PhotoPart> part_of(const std::string& root, std::vector<PhotoRead> photos) {
    auto part = std::make_unique<PhotoPart>(PhotoPart{.set = {.root = root}});
    for (PhotoRead& p : photos) {
      part->set.photos.push_back({p.entry.ref.path, *p.entry.digest, p.entry.ref.size});
      part->files.push_back(std::move(p.file));
    }
    Todo todo = unlabelled(part->set);
    for (const size_t i : todo.photos) try_now(todo.ids[i]);
    part->photos = std::move(todo.photos);
    part->ids = std::move(todo.ids);
    return part;
  }

  void label_all(const PhotoSet& set) {
    if (config_.dry_run) {
      open_version(set);
      result_.labelled = static_cast<int64_t>(unlabelled(set).photos.size());
      return;
    }
    if (!begin(set)) return;
    Todo todo = unlabelled(set);
    progress_.begin("labelling", static_cast<int64_t>(todo.photos.size()), "photos");
    done_ = 0;
    for (bool waited = false; !todo.photos.empty(); waited = true) {
      away_ = {};
      add(classifier_->run(
              set, todo.photos,
              [&](auto results, auto bad) { return take(set, todo.ids, results, bad); }),
          result_.engine);
      if (away_.ok() && waited) log::info("the photos can be read again");
      if (away_.ok() || !wait(waited)) break;
      std::erase_if(todo.photos, [&](size_t i) { return tried_.contains(todo.ids[i]); });
    }
    progress_.end();
  }

  // False: interrupted.
  bool wait(bool again) {
    if (!again) log::warn("labelling waits for photos: {}", away_.message());
    for (std::chrono::nanoseconds left = config_.again; left.count() > 0; left -= kWaitGlance) {
      if (progress_.interrupted()) break;
      clock_.sleep(std::min<std::chrono::nanoseconds>(left, kWaitGlance));
    }
    result_.interrupted = progress_.interrupted();
    return !result_.interrupted;
  }

  // What comes before the first label. False: interrupted.
  bool begin(const PhotoSet& set) {
    if (classifier_) return true;
    open_version(set);
    db_.put_in_force(task_, result_.version.id).or_throw();
    if (config_.keep_crops) {
      if (!kept_.open_to_write(progress_)) {
        result_.interrupted = true;
        return false;
      }
      crops_.emplace(kept_.store(), model_.preprocess, config_.compress_crops);
    }
    classifier_.emplace(
        model_, device_, fs_,
        ClassifyOptions{
            .k = config_.k, .batch = config_.batch, .crops = crops_ ? &*crops_ : nullptr});
    return true;
  }

  void open_version(const PhotoSet& set) {
    PrecisionConfig precision = config_.precision;
    precision.cache = cache_;
    model_ = sample_ ? in_precision(model_, precision, *sample_, device_, fs_, progress_)
                     : in_precision(model_, precision, set, device_, fs_, progress_);
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

  // One photo per content, without those that this version has labelled, or that were bad.
  Todo unlabelled(const PhotoSet& set) {
    std::vector<PhotoPlace> places;
    for (const Photo& p : set.photos) places.push_back({p.path, p.digest});
    Todo todo{.photos = {}, .ids = db_.add_photos(collection_, places).or_throw()};
    const std::vector<int64_t> done = db_.labelled_by(result_.version.id, todo.ids).or_throw();
    std::set<int64_t> seen(done.begin(), done.end());
    const std::lock_guard lock(mutex_);
    result_.already = std::ranges::count_if(seen, [&](int64_t id) { return !tried_.contains(id); });
    seen.insert(tried_.begin(), tried_.end());
    for (size_t i = 0; i < todo.ids.size(); ++i) {
      if (seen.insert(todo.ids[i]).second) todo.photos.push_back(i);
    }
    return todo;
  }

  void try_now(int64_t id) {
    const std::lock_guard lock(mutex_);
    tried_.insert(id);
  }

  // `ids`: of all of the set.
  bool take(const PhotoSet& set, std::span<const int64_t> ids,
            std::span<const Classification> results, std::span<const BadPhoto> bad) {
    put(ids, results);
    for (const BadPhoto& b : bad) {
      if (b.reason.code() == Code::kUnavailable) {
        away_ = b.reason;
        continue;
      }
      try_now(ids[b.item]);
      ++done_;
      if (b.reason.code() == Code::kUnsupported) {
        ++result_.skipped;
      } else {
        const Photo& photo = set.photos[b.item];
        result_.quarantined.push_back({photo.path, b.reason.message()});
        if (b.reason.code() == Code::kCorrupt) damaged_.emplace(photo.digest, b.reason.message());
      }
    }
    done_ += static_cast<int64_t>(results.size());
    progress_.update(done_);
    result_.interrupted = progress_.interrupted();
    return !result_.interrupted && away_.ok();
  }

  void put(std::span<const int64_t> ids, std::span<const Classification> results) {
    LabelBatch batch{.task = task_, .source = LabelSource::kModel, .version = result_.version.id};
    for (const Classification& c : results) {
      NewLabel label{.photo = ids[c.photo],
                     .class_id = class_ids_[static_cast<size_t>(c.top[0].id)],
                     .score = c.top[0].score,
                     .time = clock_.unix_seconds()};
      for (const ClassScore& s : c.top)
        label.top_k.push_back({class_ids_[static_cast<size_t>(s.id)], s.score});
      batch.labels.push_back(std::move(label));
      try_now(ids[c.photo]);
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
  NamedPhotos named_;
  FeatureCache kept_;
  std::optional<CropCache> crops_;
  std::optional<PhotoSample> sample_;  // on which precisions are compared, where it is chosen
  std::optional<Classifier> classifier_;
  std::vector<int64_t> class_ids_;  // of each output of the model
  int64_t collection_ = 0, task_ = 0, done_ = 0;
  std::mutex mutex_;                       // of what follows, while parts are read
  std::set<int64_t> tried_;                // by this run: labelled, or bad, or about to be
  bool far_ = false;                       // what is named is a directory in S3 or RADOS
  std::map<Digest, std::string> damaged_;  // what a decoder said of them
  Status away_;                            // why photos are not there just now
  RelabelResult result_;
};

}  // namespace

RelabelResult relabel(const RelabelConfig& config, const ModelFile& model, const Device& device,
                      LabelDb& db, Fs& fs, Clock& clock, Progress& progress) {
  return Relabel(config, model, device, db, fs, clock, progress).run();
}

}  // namespace ndtrain::ndp
