#include "tuner/ingest/kept_features.h"

#include <algorithm>

#include "framework/core/checksummed_json.h"
#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

Digest group_of(const Digest& extractor, bool exact) {
  return Sha256().field(to_hex(extractor)).field(int64_t{exact}).finish();
}

}  // namespace

KeptFeatures::KeptFeatures(Fs& fs, const Clock& clock, const std::string& directory,
                           int64_t budget) {
  auto store = SegmentStore::open(fs, clock, directory, {.budget_bytes = budget});
  if (!store.ok()) throw Error("features ", directory, ": ", store.status().message());
  store_ = std::move(*store);
}

// The next start need not read what is there.
KeptFeatures::~KeptFeatures() {
  if (const Status s = store_->close(); !s.ok()) log::warn("{}", s.message());
}

int64_t KeptFeatures::photos_of(const Digest& extractor, bool exact, const ViewRule& views) const {
  const RowGroups groups(group_of(extractor, exact), views);
  const auto [begin, end] = groups.views_of(/*run=*/1);
  int64_t photos = INT64_MAX;
  for (int64_t view = begin; view < end; ++view) {
    int64_t records = 0;
    for (const GroupInfo& g : store_->groups()) {
      if (g.group == groups.of(view)) records = g.records;
    }
    photos = std::min(photos, records);
  }
  return photos;
}

Status KeptFeatures::forget(const std::set<Digest>& photos) {
  bool any = false;
  for (const GroupInfo& group : store_->groups()) {
    for (const Digest& photo : photos) {
      if (!store_->contains(group.group, photo)) continue;
      if (Status s = store_->remove(group.group, photo); !s.ok()) return s;
      any = true;
    }
  }
  return any ? store_->compact().status() : Status();
}

JobFeatures::JobFeatures(KeptFeatures& kept, Fs& fs, std::string record, const What& what)
    : kept_(kept),
      fs_(fs),
      record_(std::move(record)),
      groups_(group_of(what.extractor, what.exact), what.views),
      extracts_here_(!what.here.empty()) {
  if (extracts_here_) tags_[""] = numerics_tag(what.here);
}

void JobFeatures::count_in(const std::string& store, const std::string& numerics) {
  if (extracts_here_) return;
  const std::lock_guard lock(mutex_);
  tags_[store] = numerics_tag(numerics);
}

uint64_t JobFeatures::tag_of(const std::string& store) const {
  const std::lock_guard lock(mutex_);
  const auto tag = tags_.find(extracts_here_ ? "" : store);
  return tag == tags_.end() ? 0 : tag->second;
}

// Written before any row is counted on. One that is damaged costs no more than that stores send
// what is here.
std::set<uint64_t> JobFeatures::begun_with() {
  std::set<uint64_t> tags;
  if (const Result<std::string> text = fs_.read(record_); text.ok()) {
    try {
      return verified(*text).at("numerics").get<std::set<uint64_t>>();
    } catch (const std::exception& e) {
      log::warn("{}: {}; features of earlier jobs are sent again", record_, e.what());
      return tags;
    }
  }
  for (const auto& [store, tag] : tags_) tags.insert(tag);
  publish(fs_, record_, checksummed({{"numerics", tags}})).or_throw();
  return tags;
}

bool JobFeatures::is_whole(const ManifestEntry& photo, const std::set<uint64_t>& tags) const {
  const auto [begin, end] = groups_.views_of(photo.run);
  for (int64_t view = begin; view < end; ++view) {
    const Result<Found> found = kept_.store().find(groups_.of(view), photo.digest);
    if (!found.ok() || !tags.contains(found->meta.numerics)) return false;
  }
  return true;
}

void JobFeatures::begin(const Manifest& manifest) {
  const std::set<uint64_t> tags = begun_with();
  photos_.clear();
  for (uint64_t n = 0; n < manifest.size(); ++n) {
    const ManifestEntry& photo = manifest.entry(n);
    if (is_whole(photo, tags)) photos_.emplace(photo.digest, photo.run);
  }
}

bool JobFeatures::has(const Digest& photo, int64_t view) const {
  const auto at = photos_.find(photo);
  if (at == photos_.end()) return false;
  const auto [begin, end] = groups_.views_of(at->second);
  return view >= begin && view < end;
}

Result<Found> JobFeatures::get(const Digest& photo, int64_t view, std::span<std::byte> to) {
  return kept_.store().get(groups_.of(view), photo, to);
}

Status JobFeatures::leave(const Digest& photo, int64_t view, uint64_t numerics,
                          std::span<const std::byte> row) {
  if (numerics == 0) return {};
  const RecordMeta meta{.numerics = numerics};
  const Result<Found> found = kept_.store().find(groups_.of(view), photo);
  if (found.ok() && found->meta == meta) return {};
  return kept_.store().put(groups_.of(view), photo, meta, row);
}

Status JobFeatures::end() { return kept_.store().flush(); }

}  // namespace ndtrain::tuner
