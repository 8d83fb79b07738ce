#include "tuner/jobs/done_traces.h"

#include <algorithm>

namespace ndtrain::tuner {
using namespace ndp;

Status DoneTraces::forget(JobFiles& files, Fs& fs, const JobRecord& job,
                          const std::set<Digest>& photos) {
  if (!saved_) {
    const Result<JobRecord> kept = files.load();
    const bool done = kept.ok() && kept->state == JobState::kDone;
    if (Status s = done ? Status() : files.save(job); !s.ok()) return s;
    saved_ = true;
  }
  if (asked_before_) {
    if (Status s = files.remove_asked_before(); !s.ok()) return s;
    asked_before_ = false;
  }
  const Result<bool> named = names_any(files, fs, photos);
  if (named.ok() && !*named) return {};
  quarantined_.reset();
  list_.reset();
  has_no_list_ = false;
  return files.forget(photos, true);
}

Result<bool> DoneTraces::names_any(const JobFiles& files, Fs& fs, const std::set<Digest>& photos) {
  if (!quarantined_) {
    const auto kept = files.load_quarantine();
    if (!kept.ok()) return kept.status();
    quarantined_.emplace();
    for (const UnreadablePhoto& p : *kept) {
      if (p.photo) quarantined_->insert(*p.photo);
    }
  }
  const auto is_quarantined = [&](const Digest& photo) { return quarantined_->contains(photo); };
  if (!quarantined_->empty() && std::ranges::any_of(photos, is_quarantined)) return true;
  return lists_any(files, fs, photos);
}

Result<bool> DoneTraces::lists_any(const JobFiles& files, Fs& fs, const std::set<Digest>& photos) {
  if (has_no_list_) return false;
  const std::string path = files.manifest_path();
  const Result<FileInfo> info = fs.info(path);
  if (info.status().code() == Code::kNotFound) {
    has_no_list_ = true;
    return false;
  }
  if (!info.ok()) return info.status();
  if (!list_ || !list_->are_in(*info)) {
    const auto bytes = files.manifest_bytes();
    if (!bytes.ok()) return bytes.status();
    list_ = *bytes ? ListedDigests::find(**bytes, *info) : std::nullopt;
    if (!list_) return true;  // who reads all that it says will tell
  }
  // Of very many a look at each costs more than all of it.
  if (photos.size() > list_->size() / 32 + 8) return true;
  return list_->has_any(fs, path, photos);
}

}  // namespace ndtrain::tuner
