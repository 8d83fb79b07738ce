#include "ndp/pipestore/uploads.h"

#include <algorithm>
#include <cmath>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/engine/crops.h"
#include "ndp/photos/object_url.h"
#include "ndp/photos/upload_path.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kCachedBehind = 128;  // photos whose crops and features wait for the disk
constexpr int64_t kHeldBytes = int64_t{256} << 20;  // of files that are being uploaded

}  // namespace

Uploads::Busy::Busy(Uploads& uploads, const Digest& id) : uploads_(uploads), id_(id) {
  std::unique_lock lock(uploads_.mutex_);
  uploads_.freed_.wait(lock, [&] { return !uploads_.busy_.contains(id); });
  uploads_.busy_.insert(id);
}

Uploads::Busy::~Busy() {
  {
    const std::lock_guard lock(uploads_.mutex_);
    uploads_.busy_.erase(id_);
  }
  uploads_.freed_.notify_all();
}

Uploads::Uploads(const UploadConfig& config, Fs& fs, Clock& clock, UploadLog& log,
                 SegmentStore& cache, std::unique_ptr<Catalogue> catalogue,
                 UploadPriority& upload_priority, std::function<void()> changed)
    : config_(config),
      decoder_(config_.decoder ? *config_.decoder : decoder_in_process()),
      fs_(fs),
      photos_(fs, config.photos, config.state),
      clock_(clock),
      log_(log),
      files_(fs, config.photos, config.state),
      cache_(cache),
      upload_priority_(upload_priority),
      changed_(std::move(changed)),
      online_(config.online),
      cache_writer_(cache, config_.compress_crops, kCachedBehind),
      decoders_(shared_threads().threads()),
      catalogue_(std::move(catalogue)),
      rate_limiter_(config.quota) {
  for (const auto& [id, path] : log_.removed()) {  // a crash may have come in between
    if (path.empty()) continue;
    const Status s = erase(id, {path});
    // Keys that may not delete, for one; the next scan tries again.
    if (!s.ok() && is_object_url(config_.photos)) {
      log::warn("the file of a deleted photo stays for now, unused: {}", s.message());
    } else {
      s.or_throw();
    }
  }
  thread_ = std::jthread([this] { chores(); });
}

Uploads::~Uploads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  woken_.notify_all();
}

void Uploads::put_in_force(const std::string& task,
                           std::function<std::shared_ptr<OnlineModel>()> load) {
  {
    const std::lock_guard lock(mutex_);
    coming_[task] = std::move(load);
  }
  woken_.notify_all();
}

uint64_t Uploads::version(std::string_view task) const {
  const auto model = online_.model(task);
  return model ? model->version : 0;
}

std::vector<std::string> Uploads::tasks() const {
  std::vector<std::string> tasks;
  for (const auto& sharing : online_.models()) {
    for (const auto& model : *sharing) tasks.push_back(model->task);
  }
  return tasks;
}

std::shared_ptr<void> Uploads::admit(int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const bool full = in_progress_ >= static_cast<int64_t>(config_.queue) ||
                      (in_progress_ > 0 && held_bytes_ + bytes > kHeldBytes);
    refused_ += full;
    if (full) return nullptr;
    ++in_progress_;
    held_bytes_ += bytes;
  }
  upload_priority_.upload_begins();
  return {this, [bytes](Uploads* uploads) {
            uploads->upload_priority_.upload_ends();
            const std::lock_guard lock(uploads->mutex_);
            --uploads->in_progress_;
            uploads->held_bytes_ -= bytes;
          }};
}

bool Uploads::within_quota(const std::string& client) {
  const std::lock_guard lock(mutex_);
  const bool within = rate_limiter_.take(clock_.monotonic(), client);
  refused_ += !within;
  return within;
}

Result<Uploads::Photo> Uploads::add(const std::string& file) {
  const Digest id = sha256(file);
  const std::string hex = to_hex(id);
  std::string path = upload_path_of(id, file);
  const Busy alone(*this, id);
  const std::optional<UploadLog::Known> known = log_.find(id);
  if (known && known->removed) {
    return Status(Code::kExists, "photo " + hex + " was deleted here, and is not taken in again");
  }
  // Before the photo can be trashed anew: it is restored by what is said of this revision.
  const uint64_t restores = in_trash(id) ? config_.trash->revision() : 0;
  const bool here = known && known->uploaded && has(known->path, file);
  if (here && restores == 0 && is_labelled(id, online_.models())) return Photo{id, *known};

  Result<Labelling> labelling = begin_labels(path, file);
  if (!labelling.ok()) return labelling.status();
  const AllModels by = labelling->models;
  if (!here) {
    Result<std::string> kept = keep(known, path, file);
    if (kept.status().code() == Code::kUnavailable) {
      return Status(Code::kUnavailable,
                    kept.status().message() + "; the photo is not kept: upload it again later");
    }
    if (!kept.ok()) return kept.status();
    path = std::move(*kept);
  } else {
    path = known->path;
  }
  std::vector<wire::Upload> lines = labels_of(line_of(id, path), std::move(*labelling));
  lines.front().set_restores(restores);
  if (Status s = log_.commit(std::move(lines)); !s.ok()) {
    if (!here && !(known && known->uploaded)) take_back(path);
    return s;
  }
  if (restores > 0) {
    if (Status s = config_.trash->restore(id); !s.ok()) return s;
  }
  changed_();
  {
    const std::lock_guard lock(mutex_);
    bytes_ += static_cast<int64_t>(file.size());
  }
  if (online_.models() != by)
    restored();  // a version came meanwhile, of a task without one perhaps
  return Photo{id, *log_.find(id)};
}

// A file of which no line speaks would take room that nobody finds again.
void Uploads::take_back(const std::string& path) {
  if (!photos_.is_upload(path)) return;
  const Status s = fs_.remove(photos_.file_of(path));
  if (!s.ok()) log::warn("{} stays, though it is no upload: {}", path, s.message());
}

// One that the disk has damaged is put right where it is.
Result<std::string> Uploads::keep(const std::optional<UploadLog::Known>& known,
                                  const std::string& path, const std::string& file) {
  const bool again = known && known->uploaded;
  if (!again || !photos_.is_upload(known->path)) {
    Result<std::string> kept = files_.keep(path, file);
    if (kept.ok() && again && config_.suspect) config_.suspect(*kept);
    return kept;
  }
  if (Status s = files_.keep_in_state(known->path, file); !s.ok()) return s;
  if (config_.suspect) config_.suspect(known->path);
  return known->path;
}

// A damaged file is not taken for the photo: it is written anew.
bool Uploads::has(const std::string& path, const std::string& file) const {
  const Result<std::string> there = fs_.read(photos_.file_of(path), limits::kPhotoFile);
  return there.ok() && *there == file;
}

Result<std::string> Uploads::feature(const std::string& file, OnlineModel& model) {
  Network& n = *model.network;
  const Result<std::string> pixels = crop(upload_path_of(sha256(file), file), file, n.preprocess());
  if (!pixels.ok()) return pixels.status();
  const std::string_view crops[] = {*pixels};
  const std::lock_guard alone(n.running());
  return n.rows(infer_crops(n.plans(), n.preprocess(), crops), 1).at(0);
}

bool Uploads::is_labelled(const Digest& id, const AllModels& all) const {
  for (const auto& sharing : all) {
    for (const auto& model : *sharing) {
      const std::optional<UploadLog::Known> known = log_.find(id, model->task);
      if (!known || known->version != model->version ||
          known->files != model->extractor + model->head) {
        return false;
      }
    }
  }
  return true;
}

// The photo is decoded once for each preprocessing; where there is no model, to see that it can be.
Result<Uploads::Labelling> Uploads::begin_labels(const std::string& path, const std::string& file) {
  const OnlineLabeler::Coming coming(online_);
  Labelling labelling{.models = online_.models(), .labelled = {}};
  std::vector<std::pair<Preprocess, std::string>> crops;
  if (labelling.models.empty()) crops.emplace_back(Preprocess(), "");
  for (const auto& sharing : labelling.models) {
    const Preprocess& wanted = sharing->front()->network->preprocess();
    if (std::ranges::find(crops, wanted, &std::pair<Preprocess, std::string>::first) ==
        crops.end()) {
      crops.emplace_back(wanted, "");
    }
  }
  for (auto& [preprocess, pixels] : crops) {
    Result<std::string> made = crop(path, file, preprocess);
    if (!made.ok()) return made.status();
    pixels = std::move(*made);
  }
  for (const auto& sharing : labelling.models) {
    const auto pixels = std::ranges::find(crops, sharing->front()->network->preprocess(),
                                          &std::pair<Preprocess, std::string>::first);
    labelling.labelled.push_back(online_.label(sharing, pixels->second));
  }
  return labelling;
}

// A line for each label; without any, `taken` alone.
std::vector<wire::Upload> Uploads::labels_of(const wire::Upload& taken, Labelling labelling) {
  std::vector<wire::Upload> lines;
  for (size_t i = 0; i < labelling.models.size(); ++i) {
    const OnlineModels& sharing = *labelling.models[i];
    OnlineLabeler::Labelled label = labelling.labelled[i].get();
    const size_t before = lines.size();
    for (size_t m = 0; m < sharing.size(); ++m) {
      wire::Upload line = taken;
      if (put_label(line, *sharing[m], label.top[m])) lines.push_back(std::move(line));
    }
    if (lines.size() > before) {
      cache_writer_.put(*digest_of(taken.digest()), sharing.front(), std::move(label));
    }
  }
  if (lines.empty()) lines.push_back(taken);
  return lines;
}

Result<std::string> Uploads::crop(const std::string& name, const std::string& file,
                                  const Preprocess& preprocess) {
  decoders_.acquire();
  const std::unique_ptr<std::counting_semaphore<>, void (*)(std::counting_semaphore<>*)> slot(
      &decoders_, [](std::counting_semaphore<>* s) { s->release(); });
  PhotoCost cost;
  const Result<Image> image = crop_photo(name, file, preprocess, cost, decoder_);
  if (image.ok()) {
    return std::string(reinterpret_cast<const char*>(image->rgb.data()), image->rgb.size());
  }
  count_unreadable();
  return image.status();
}

Status Uploads::put_back(const Digest& id, const std::string& file) {
  const Busy alone(*this, id);
  const std::optional<UploadLog::Known> known = log_.find(id);
  const bool is_object = known && known->path == upload_key(known->path);
  if (!known || known->removed || is_object || !is_upload_path(known->path)) {
    return {Code::kNotFound, "photo " + to_hex(id) + " is no upload of this store"};
  }
  if (sha256(file) != id) return {Code::kCorrupt, "this file is not photo " + to_hex(id)};
  Status s = files_.keep_in_state(known->path, file);
  if (s.ok() && config_.suspect) config_.suspect(known->path);
  return s;
}

wire::Upload Uploads::line_of(const Digest& id, const std::string& path) const {
  wire::Upload line;
  line.set_digest(bytes_of(id));
  line.set_path(path);
  line.set_time(std::clamp<int64_t>(clock_.unix_seconds(), 0, wire::kLatestTime));
  return line;
}

bool Uploads::put_label(wire::Upload& line, OnlineModel& model,
                        const std::vector<ClassScore>& top) {
  const bool numbers =
      std::ranges::all_of(top, [](const ClassScore& c) { return std::isfinite(c.score); });
  const bool named = std::ranges::all_of(top, [&](const ClassScore& c) {
    return wire::is_class_name(model.network->class_name(c.id));
  });
  if (!numbers || !named) {
    log::warn("{} has no label by version {}: {}", line.path(), model.version,
              numbers ? "a class is called what none may be" : "its scores are not finite");
    return false;
  }
  if (model.task != kDefaultTask) line.set_task(model.task);
  line.set_version(model.version);
  line.set_extractor(model.extractor);
  line.set_head(model.head);
  for (const ClassScore& c : top) {
    wire::TopClass& t = *line.add_top();
    t.set_name(model.network->class_name(c.id));
    t.set_score(std::clamp(c.score, 0.0F, 1.0F));
  }
  return true;
}

Result<std::vector<std::string>> Uploads::places(const Digest& id) {
  std::vector<std::string> paths;
  if (const auto known = log_.find(id); known && !known->path.empty() && !known->removed) {
    paths.push_back(known->path);
  }
  const std::lock_guard lock(catalogue_mutex_);
  const Result<std::vector<CatalogueEntry>> entries = catalogue_->with_digest(id);
  if (!entries.ok()) return entries.status();
  for (const CatalogueEntry& e : *entries) {
    if (std::ranges::find(paths, e.ref.path) == paths.end()) paths.push_back(e.ref.path);
  }
  Status away;
  std::erase_if(paths, [&](const std::string& path) {
    const Status s = fs_.info(photos_.file_of(path)).status();
    if (s.code() == Code::kUnavailable) away = s;
    if (!s.ok() && s.code() != Code::kNotFound && away.ok()) s.or_throw();
    return !s.ok();
  });
  if (paths.empty() && !away.ok()) return away;
  if (paths.empty()) return Status(Code::kNotFound, "there is no photo " + to_hex(id) + " here");
  return paths;
}

Result<std::vector<std::string>> Uploads::shown(const Digest& id) {
  if (!in_trash(id)) return places(id);
  return Status(Code::kNotFound, "photo " + to_hex(id) +
                                     " is in the trash; `ndtrain photos restore` brings it back");
}

Result<Uploads::Photo> Uploads::find(const Digest& id, std::string_view task) {
  const Result<std::vector<std::string>> paths = shown(id);
  if (!paths.ok()) return paths.status();
  Photo photo{id, log_.find(id, task).value_or(UploadLog::Known())};
  photo.known.path = paths->front();
  return photo;
}

Result<std::string> Uploads::read(const Digest& id) {
  const Result<std::vector<std::string>> paths = shown(id);
  if (!paths.ok()) return paths.status();
  Status why;
  for (const std::string& path : *paths) {
    Result<std::string> file = fs_.read(photos_.file_of(path), limits::kPhotoFile);
    if (file.ok() && sha256(*file) == id) return file;
    if (file.ok() && config_.suspect) config_.suspect(path);
    why = file.ok() ? Status(Code::kIo, path + ": " + damaged_by_disk(id)) : file.status();
  }
  return why;
}

// One of the photo directory may have a wrong name and be looked at all the same.
Result<Image> Uploads::decode(const Digest& id, std::string_view file, const DecodeOptions& options,
                              const Preprocess* crop) {
  const Result<std::vector<std::string>> paths = shown(id);
  if (!paths.ok()) return paths.status();
  const auto uploaded = std::ranges::find_if(*paths, is_upload_path);
  PhotoCost cost;
  return decoder_.decode(uploaded == paths->end() ? "" : *uploaded, file, options, crop, cost);
}

Result<Uploads::Photo> Uploads::say(const Digest& id, const std::string& truth,
                                    std::string_view task) {
  const Busy alone(*this, id);
  const Result<std::vector<std::string>> paths = shown(id);
  if (!paths.ok()) return paths.status();
  const auto path = std::ranges::find_if(*paths, wire::is_photo_path);
  if (path == paths->end()) {
    return Status(Code::kUnsupported, "'" + printable(paths->front(), 256) +
                                          "' is too long, no UTF-8, or has control characters: "
                                          "rename the file, and say it again");
  }
  wire::Upload line = line_of(id, *path);
  line.set_truth(truth);
  if (task != kDefaultTask) line.set_task(std::string(task));
  // Her last word is her newest, though the clock was set back.
  if (const auto known = log_.find(id, task); known && !known->truth.empty()) {
    line.set_time(std::min(std::max(line.time(), known->said + 1), wire::kLatestTime));
  }
  if (Status s = log_.commit({line}); !s.ok()) return s;
  changed_();
  return Photo{id, *log_.find(id, task)};
}

Uploads::Counts Uploads::counts() const {
  const std::lock_guard lock(mutex_);
  return {.log = log_.counts(),
          .online = online_.counts(),
          .in_progress = in_progress_,
          .refused = refused_,
          .unreadable = unreadable_,
          .not_cached = cache_writer_.dropped(),
          .bytes = bytes_,
          .found = found_,
          .waited = waited_};
}

}  // namespace ndtrain::ndp
