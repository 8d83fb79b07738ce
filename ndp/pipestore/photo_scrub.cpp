#include "ndp/pipestore/photo_scrub.h"

#include <algorithm>

#include "framework/core/checksummed_json.h"
#include "framework/core/file_digest.h"
#include "framework/core/json.h"
#include "framework/core/limits.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "framework/core/text.h"
#include "ndp/photos/upload_path.h"

namespace ndtrain::ndp {
namespace {

constexpr const char* kFile = "scrub.json";
constexpr const char* kUploadsBegin = "uploads/";
constexpr size_t kPage = 256;
constexpr size_t kMostSuspects = 1000;
constexpr PhotoScrub::Time kBetweenSaves = std::chrono::seconds(60);
constexpr PhotoScrub::Time kBetweenCounts = std::chrono::seconds(10);
constexpr PhotoScrub::Time kNothingToDo = std::chrono::seconds(60);
constexpr PhotoScrub::Time kCatchUp = std::chrono::seconds(60);  // what a busy time may owe

}  // namespace

PhotoScrub::PhotoScrub(Setting setting, Fs& fs, Clock& clock, std::unique_ptr<Catalogue> catalogue)
    : setting_(std::move(setting)),
      fs_(fs),
      clock_(clock),
      photos_(fs, setting_.photos, setting_.state),
      catalogue_(std::move(catalogue)),
      last_(clock.monotonic()) {
  if (setting_.period.count() > 0 && !load()) begin_round();
  count_damaged();
}

void PhotoScrub::suspect(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (suspects_.size() == kMostSuspects || std::ranges::count(suspects_, path) > 0) return;
  suspects_.push_back(path);
}

PhotoScrub::Counts PhotoScrub::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<Digest> PhotoScrub::damaged_uploads() const {
  const std::lock_guard lock(mutex_);
  return damaged_uploads_;
}

void PhotoScrub::restored(const Digest& photo) {
  const std::lock_guard lock(mutex_);
  ++counts_.restored;
  counts_.damaged -= static_cast<int64_t>(std::erase(damaged_uploads_, photo));
}

std::optional<std::string> PhotoScrub::take_suspect() {
  const std::lock_guard lock(mutex_);
  if (suspects_.empty()) return std::nullopt;
  std::string path = std::move(suspects_.front());
  suspects_.pop_front();
  return path;
}

PhotoScrub::Time PhotoScrub::step() {
  const Time now = clock_.monotonic();
  if (now - counted_ >= kBetweenCounts) count_damaged();
  if (const std::optional<std::string> path = take_suspect()) {
    look_at(*path);
    return now;
  }
  if (setting_.period.count() == 0) return now + kNothingToDo;
  if (now - paced_ >= kBetweenSaves) set_pace();
  const Time due = last_ + between_;
  if (now < due) return due;
  if (const std::optional<CatalogueEntry> e = next_of_round()) {
    check(*e);
    ++round_.photos;
    last_ = std::max(due, now - kCatchUp);
  } else {
    end_round();
  }
  if (now - saved_ >= kBetweenSaves) save();
  return last_ + between_;
}

// Of a file that is suspected, or was written anew.
void PhotoScrub::look_at(const std::string& path) {
  const std::optional<CatalogueEntry> known = catalogue_->find(path).or_throw();
  if (!known || !known->digest) return;
  if (known->state == PhotoState::kOk) return check(*known);
  const std::optional<Digest> photo = photo_of_upload_path(path);
  const Result<Digest> now = sha256_of_file(fs_, photos_.file_of(path));
  if (!photo || !now.ok() || *now != *photo) return;
  catalogue_->forget_damage(path).or_throw();
  count_damaged();
}

bool PhotoScrub::load() {
  const std::string path = join(setting_.state, kFile);
  Result<std::string> text = fs_.read(path);
  if (text.status().code() == Code::kNotFound) return false;
  try {
    const Json json = verified(std::move(text).or_throw());
    round_ = {.begun = json.at("begun"),
              .uploads = json.at("uploads"),
              .passed = json.at("passed"),
              .photos = json.at("photos")};
  } catch (const std::exception& e) {
    log::warn("{}: {}; all photos are read again from the first", path, e.what());
    return false;
  }
  set_pace();
  for (int64_t i = 0; i < round_.passed && fill_page(); ++i) page_.pop_front();
  return true;
}

void PhotoScrub::save() {
  saved_ = clock_.monotonic();
  const std::string text = checksummed({{"begun", round_.begun},
                                        {"uploads", round_.uploads},
                                        {"passed", round_.passed},
                                        {"photos", round_.photos}},
                                       -1);
  const Status s = publish(fs_, join(setting_.state, kFile), text);
  if (!s.ok()) log::warn("how far the scrub is is not kept: {}", s.message());
}

// Photos come and go while a round lasts.
void PhotoScrub::set_pace() {
  paced_ = clock_.monotonic();
  const int64_t photos = catalogue_->counts().or_throw().ok;
  between_ = setting_.period / std::max<int64_t>(photos, 1);
}

void PhotoScrub::begin_round() {
  set_pace();
  round_ = {.begun = clock_.unix_seconds()};
  after_.clear();
  page_.clear();
}

// Without photos there is nothing to say; the next look at whether there are some comes soon.
void PhotoScrub::end_round() {
  if (round_.photos > 0) {
    log::info("all {} photos were read in {} h, damaged are {} now", round_.photos,
              (clock_.unix_seconds() - round_.begun) / 3600, counts().damaged);
    const std::lock_guard lock(mutex_);
    ++counts_.rounds;
  } else {
    last_ = clock_.monotonic() + kNothingToDo;
  }
  begin_round();
  save();
}

// The uploads have been read.
void PhotoScrub::others() {
  round_.uploads = false;
  round_.passed = 0;
  after_.clear();
  page_.clear();
}

// Entries of those that are read now; false: there are no more.
bool PhotoScrub::fill_page() {
  while (page_.empty()) {
    const std::string after =
        round_.uploads ? std::max<std::string>(after_, kUploadsBegin) : after_;
    std::vector<CatalogueEntry> page = catalogue_->entries_after(after, kPage).or_throw();
    if (page.empty()) return false;
    after_ = page.back().ref.path;
    const bool uploads_over = round_.uploads && !after_.starts_with(kUploadsBegin);
    for (CatalogueEntry& e : page) {
      if (e.ref.path.starts_with(kUploadsBegin) == round_.uploads) page_.push_back(std::move(e));
    }
    if (uploads_over && page_.empty()) return false;
  }
  return true;
}

std::optional<CatalogueEntry> PhotoScrub::next_of_round() {
  for (;;) {
    if (!fill_page()) {
      if (!round_.uploads) return std::nullopt;
      others();
      continue;
    }
    CatalogueEntry e = std::move(page_.front());
    page_.pop_front();
    ++round_.passed;
    if (e.state == PhotoState::kOk && e.digest) return e;
  }
}

// Whether the file is the one that was hashed, going by its size, time and inode; uploads never
// change.
bool PhotoScrub::is_untouched(const CatalogueEntry& e) const {
  const Result<FileInfo> now = fs_.info(photos_.file_of(e.ref.path));
  if (!now.ok()) return false;
  return photos_.is_upload(e.ref.path) ||
         (now->size == e.ref.size && now->mtime_ns == e.ref.mtime_ns && now->inode == e.ref.inode);
}

void PhotoScrub::check(const CatalogueEntry& e) {
  if (!is_untouched(e)) return;  // a scan reads it
  const std::string file = photos_.file_of(e.ref.path);
  const Result<Digest> now = sha256_of_file(fs_, file);
  {
    const std::lock_guard lock(mutex_);
    ++counts_.photos;
    counts_.bytes += now.ok() ? e.ref.size : 0;
    counts_.unreadable += !now.ok();
  }
  if (!now.ok()) {
    log::error("photo {}: the disk does not give it: {}", printable(e.ref.path),
               now.status().message());
  } else if (*now != *e.digest && is_untouched(e)) {
    damaged(e, *now);
  }
}

void PhotoScrub::damaged(const CatalogueEntry& e, const Digest& now) {
  if (restore(e)) {
    log::warn("photo {}: the disk had changed it; it is put right from another file of this store",
              printable(e.ref.path));
    const std::lock_guard lock(mutex_);
    ++counts_.restored;
    return;
  }
  catalogue_->set_damaged(e.ref.path, now).or_throw();
  count_damaged();
  log::error("photo {}: {}", printable(e.ref.path), damaged_by_disk(*e.digest));
}

bool PhotoScrub::restore(const CatalogueEntry& e) {
  if (!photos_.is_upload(e.ref.path) || !setting_.put_back) return false;
  for (const CatalogueEntry& other : catalogue_->with_digest(*e.digest).or_throw()) {
    if (other.ref.path == e.ref.path) continue;
    const Result<std::string> file = fs_.read(photos_.file_of(other.ref.path), limits::kPhotoFile);
    if (!file.ok() || sha256(*file) != *e.digest) continue;
    const Status s = setting_.put_back(*e.digest, *file);
    if (!s.ok()) log::warn("{}", s.message());
    return s.ok();
  }
  return false;
}

void PhotoScrub::count_damaged() {
  counted_ = clock_.monotonic();
  const std::vector<DamagedPhoto> all = catalogue_->damaged().or_throw();
  std::vector<Digest> uploads;
  for (const DamagedPhoto& d : all) {
    if (photos_.is_upload(d.path)) uploads.push_back(d.photo);
  }
  const std::lock_guard lock(mutex_);
  counts_.damaged = static_cast<int64_t>(all.size());
  damaged_uploads_ = std::move(uploads);
}

}  // namespace ndtrain::ndp
