// Photos that no version has labelled yet: taken while there was none, or found in the photo
// directory. They go through the engine, as in a job, and in pieces, as those that people upload
// just now go first.
#include <algorithm>

#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "ndp/engine/crops.h"
#include "ndp/engine/feature_rows.h"
#include "ndp/pipestore/uploads.h"
#include "ndp/wire/message_limits.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kPieceOfWaiting = 512;  // photos that nobody else touches meanwhile
constexpr size_t kLabelsOfACommit = 64;
constexpr size_t kFoundOfACommit = 10'000;
constexpr size_t kExtractorBytes = sizeof(Digest);

}  // namespace

// A crash before the line is there leaves a photo that the catalogue does not count as seen: the
// next scan finds it again. One behind it leaves a line without a label, which the next start sees.
Status Uploads::take_in(std::span<const FoundPhoto> found) {
  int64_t fresh = 0;
  while (!found.empty()) {
    std::vector<wire::Upload> lines;
    const auto some = found.first(std::min(kFoundOfACommit, found.size()));
    found = found.subspan(some.size());
    for (const FoundPhoto& photo : some) {
      const std::optional<UploadLog::Known> known = log_.find(photo.id);
      if (!known || (!known->uploaded && !known->removed)) {
        if (!photo.is_new) continue;
        lines.push_back(line_of(photo.id, photo.path));
        ++fresh;
        continue;
      }
      if (known->removed || known->path == photo.path || fs_.exists(photos_.file_of(known->path))) {
        continue;
      }
      for (wire::Upload& line : labels_at(photo)) lines.push_back(std::move(line));
    }
    if (lines.empty()) continue;
    if (Status s = log_.commit_new(std::move(lines)); !s.ok()) return s;
    changed_();
  }
  if (fresh == 0) return {};
  {
    const std::lock_guard lock(mutex_);
    found_ += fresh;
    unlabelled_ = true;
  }
  woken_.notify_all();
  return {};
}

// What the log has of a photo that is elsewhere by now.
std::vector<wire::Upload> Uploads::labels_at(const FoundPhoto& photo) const {
  std::vector<wire::Upload> lines;
  for (const std::string& task : log_.tasks_of(photo.id)) {
    const std::optional<UploadLog::Known> known = log_.find(photo.id, task);
    if (!known || known->version == 0) continue;
    wire::Upload& line = lines.emplace_back(line_of(photo.id, photo.path));
    if (task != kDefaultTask) line.set_task(task);
    line.set_time(known->time);
    line.set_version(known->version);
    line.set_extractor(known->files.substr(0, kExtractorBytes));
    line.set_head(known->files.substr(line.extractor().size()));
    line.mutable_top()->Assign(known->top.begin(), known->top.end());
  }
  return lines;
}

// Waiting photos on their way through one network, each alone meanwhile.
class Uploads::WaitingBatch {
 public:
  WaitingBatch(Uploads& uploads, std::shared_ptr<OnlineModel> model, const std::vector<Digest>& ids)
      : uploads_(uploads), model_(std::move(model)) {
    for (const Digest& id : ids) {
      if (uploads.undecodable_.contains(id) || uploads.in_trash(id)) continue;
      auto alone = std::make_unique<Busy>(uploads, id);
      const auto known = uploads.log_.find(id, model_->task);
      if (!known || !known->uploaded || known->version > 0) continue;
      const Result<std::vector<std::string>> paths = uploads.places(id);
      if (!paths.ok()) continue;  // somebody took it away
      const auto path = std::ranges::find_if(*paths, wire::is_photo_path);
      if (path != paths->end()) photos_.push_back({id, *path, std::move(alone)});
    }
  }

  // The last photo that was looked at: the others' turn comes again.
  Result<std::optional<Digest>> run() {
    if (photos_.empty()) return std::optional<Digest>();
    std::vector<size_t> items(photos_.size());
    for (size_t i = 0; i < items.size(); ++i) items[i] = i;
    {
      const std::lock_guard alone(model_->network->running());
      extract(items);
    }
    if (status_.ok()) commit();
    if (!status_.ok()) return status_;
    return std::optional<Digest>(photos_[std::max<size_t>(1, done_) - 1].id);
  }

 private:
  struct WaitingPhoto {
    Digest id{};
    std::string path;
    std::unique_ptr<Busy> alone;
  };

  void extract(std::span<const size_t> items) {
    Network& n = *model_->network;
    const std::function<const Digest&(size_t)> digest = [&](size_t i) -> const Digest& {
      return photos_[i].id;
    };
    FeatureRows features(n.has_features() ? &uploads_.cache_ : nullptr, n.features());
    CropCache kept(uploads_.cache_, n.preprocess(), uploads_.config_.compress_crops);
    const Engine::Crops crops = kept.with(digest);
    const FeatureRows::Photos photos{
        .digest = digest,
        .name = [&](size_t i) { return photos_[i].path; },
        .open = [&](size_t i) { return open(photos_[i]); },
        .crops = &crops,
        .take =
            [&](size_t i, std::span<const std::byte> row) {
              rows_.emplace_back(reinterpret_cast<const char*>(row.data()), row.size());
              of_rows_.push_back(i);
              return n.is_finite(rows_.back());
            },
        .bad = [&](const BadPhoto& b) { take_bad(b); },
        .full = [](const Status& s) { log::warn("features are not kept: {}", s.message()); },
        .go_on = [&](size_t some) { return label(some); }};
    features.extract(n.engine(), items, photos);
  }

  // Its bytes, and no others that are at its path by now.
  Result<std::string> open(const WaitingPhoto& photo) const {
    Result<std::string> file =
        uploads_.fs_.read(uploads_.photos_.file_of(photo.path), limits::kPhotoFile);
    if (file.ok() && sha256(*file) != photo.id) {
      return Status(Code::kNotFound, photo.path + " is another photo by now");
    }
    return file;
  }

  void take_bad(const BadPhoto& b) {
    const WaitingPhoto& photo = photos_[b.item];
    const Code code = b.reason.code();
    if (code == Code::kNotFound || code == Code::kIo) return;
    uploads_.undecodable_.insert(photo.id);
    log::warn("{} is not labelled: {}", photo.path, b.reason.message());
    const std::lock_guard lock(uploads_.catalogue_mutex_);
    const Status s = uploads_.catalogue_->quarantine(photo.id, b.reason.message());
    if (!s.ok()) log::warn("{}", s.message());
  }

  // After a batch of so many; whether to go on.
  bool label(size_t some) {
    done_ += some;
    std::vector<std::vector<ClassScore>> best;
    if (!rows_.empty()) best = model_->network->classify(rows_, uploads_.config_.online.classes);
    for (size_t i = 0; i < best.size(); ++i) {
      const WaitingPhoto& photo = photos_[of_rows_[i]];
      wire::Upload line = uploads_.line_of(photo.id, photo.path);
      if (put_label(line, *model_, best[i])) lines_.push_back(std::move(line));
    }
    rows_.clear();
    of_rows_.clear();
    if (lines_.size() >= kLabelsOfACommit) commit();
    const std::lock_guard lock(uploads_.mutex_);
    return status_.ok() && !uploads_.stopping_ && !uploads_.upload_priority_.busy();
  }

  void commit() {
    if (lines_.empty()) return;
    const auto n = static_cast<int64_t>(lines_.size());
    status_ = uploads_.log_.commit(std::exchange(lines_, {}));
    if (!status_.ok()) return;
    uploads_.changed_();
    const std::lock_guard lock(uploads_.mutex_);
    uploads_.waited_ += n;
  }

  Uploads& uploads_;
  const std::shared_ptr<OnlineModel> model_;
  std::vector<WaitingPhoto> photos_;
  std::vector<std::string> rows_;  // of the last batch
  std::vector<size_t> of_rows_;    // whose they are
  std::vector<wire::Upload> lines_;
  size_t done_ = 0;
  Status status_;
};

// One task after the other: where they share an extractor, its features are kept by then.
bool Uploads::label_waiting() {
  bool good = true;
  for (const auto& sharing : online_.models()) {
    for (const auto& model : *sharing) good &= label_waiting(model);
  }
  return good;
}

bool Uploads::label_waiting(const std::shared_ptr<OnlineModel>& model) {
  std::optional<Digest> after;
  for (;;) {
    const bool small = upload_priority_.yield_to_uploads();
    const size_t most = small ? UploadPriority::kSmallPiece : kPieceOfWaiting;
    const std::vector<Digest> ids = log_.unlabelled(after, most, model->task);
    if (ids.empty()) return true;
    Result<std::optional<Digest>> last = std::optional<Digest>();
    try {
      last = WaitingBatch(*this, model, ids).run();
    } catch (const std::exception& e) {
      last = Status(Code::kIo, e.what());
    }
    if (!last.ok()) {
      log::warn("waiting photos are not labelled for now: {}", last.status().message());
      return false;
    }
    after = last->value_or(ids.back());
    const std::lock_guard lock(mutex_);
    if (stopping_) return true;
  }
}

}  // namespace ndtrain::ndp
