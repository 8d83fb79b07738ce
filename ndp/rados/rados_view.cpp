#include "ndp/rados/rados_view.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/text.h"
#include "ndp/rados/content_mark.h"
#include "ndp/rados/placement_groups.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kDescribedAtOnce = 1024;
constexpr const char* kDigestAttribute = "ndtrain.sha256";  // of objects that add() made

Status no_osd_here(const std::set<std::string>& addresses) {
  std::string all;
  for (const std::string& a : addresses) all += (all.empty() ? "" : ", ") + a;
  return {Code::kNotFound, "no OSD that is up is at an address of this host (" + all +
                               "); say which are here by --rados-osds"};
}

}  // namespace

Status RadosView::follow_map() {
  const std::lock_guard alone(following_);
  const MonCommand command = [this](const std::string& c) { return pool_->command(c); };
  const Result<uint64_t> epoch = osd_epoch(command);
  if (!epoch.ok()) return epoch.status();
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !groups_.is_known();
    if (!first && groups_.map().epoch == *epoch) return {};
  }
  const bool by_address = !scope_.all && scope_.osds.empty();
  const std::set<std::string> addresses = by_address ? host_addresses() : std::set<std::string>();
  Result<OsdMap> map = read_osd_map(command, name_, addresses);
  if (!map.ok()) return map.status();
  if (first && by_address && map->at_addresses.empty()) return no_osd_here(addresses);
  std::set<int> osds = by_address ? map->at_addresses : scope_.osds;
  const std::lock_guard lock(mutex_);
  groups_.take(std::move(*map), std::move(osds), clock_.monotonic());
  return {};
}

std::vector<uint32_t> RadosView::groups() const {
  if (!scope_.all) return groups_.listed(clock_.monotonic());
  std::vector<uint32_t> all(groups_.map().groups());
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

Result<bool> RadosView::look() {
  if (scope_.all) return false;
  if (Status s = follow_map(); !s.ok()) return s;
  const std::lock_guard lock(mutex_);
  return listed_ != groups();
}

uint64_t RadosView::gained() const {
  const std::lock_guard lock(mutex_);
  return gained_;
}

Result<std::vector<std::string>> RadosView::list() {
  if (Status s = follow_map(); !s.ok()) return s;
  std::vector<uint32_t> listed;
  uint32_t all = 0;
  uint64_t gained = 0;
  {
    const std::lock_guard lock(mutex_);
    listed = groups();
    all = groups_.map().groups();
    gained = groups_.gained();
  }
  std::vector<std::string> names;
  for (const uint32_t group : listed) {
    Result<std::vector<std::string>> some = pool_->list(group, all);
    if (!some.ok()) return some.status();
    names.insert(names.end(), std::move_iterator(some->begin()), std::move_iterator(some->end()));
  }
  const std::lock_guard lock(mutex_);
  listed_ = std::move(listed);
  gained_ = gained;
  return names;
}

// Of many, without what their attributes take.
std::vector<Result<ObjectFacts>> RadosView::stat(std::span<const std::string> names) {
  std::vector<Result<ObjectFacts>> all;
  all.reserve(names.size());
  while (!names.empty()) {
    const auto some = names.first(std::min(kDescribedAtOnce, names.size()));
    for (const Result<ObjectDescription>& d : pool_->describe(some)) {
      all.push_back(d.ok() ? Result<ObjectFacts>(d->object) : d.status());
    }
    names = names.subspan(some.size());
  }
  return all;
}

std::vector<Status> RadosView::set_attributes(std::vector<NewAttributes> all) {
  std::vector<Status> said(all.size(), Status(Code::kUnavailable, "it was written just now"));
  std::vector<NewAttributes> settled;
  std::vector<size_t> places;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!is_settled(all[i].object, clock_.unix_seconds())) continue;
    all[i].attributes[kContentMark] = content_mark(all[i].object);
    settled.push_back(std::move(all[i]));
    places.push_back(i);
  }
  const std::vector<Status> done = pool_->set_attributes(settled);
  for (size_t i = 0; i < done.size(); ++i) said[places[i]] = done[i];
  return said;
}

Result<bool> RadosView::holds(const std::string& name, std::string_view bytes) {
  const Result<ObjectBytes> there = pool_->read(name, 0, static_cast<int64_t>(bytes.size()) + 1, 0);
  if (!there.ok()) return there.status();
  return there->bytes == bytes;
}

Status RadosView::add(const std::string& name, std::string_view bytes) {
  const ObjectAttributes attributes = {{kDigestAttribute, to_hex(sha256(bytes))}};
  Status s = pool_->add(name, bytes, attributes);
  if (s.code() != Code::kExists) return s;
  const Result<bool> same = holds(name, bytes);
  if (same.status().code() == Code::kNotFound) return pool_->add(name, bytes, attributes);
  if (!same.ok()) return same.status();
  if (*same) return {};
  return {Code::kExists, s.message() + "; another object is there, which is left as it is"};
}

Result<ObjectBytes> RadosView::read(const std::string& name, int64_t offset, int64_t size,
                                    uint64_t version) {
  Result<ObjectBytes> read = pool_->read(name, offset, size, version);
  if (read.ok()) count(name, offset == 0, read->bytes.size());
  return read;
}

void RadosView::count(const std::string& name, bool first, size_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!groups_.is_known()) return;
  const uint32_t group = placement_group(nspace_, name, groups_.map().groups());
  Count& c = reads_[{groups_.map().primary[group], groups_.owns(group)}];
  c.objects += first;
  c.bytes += bytes;
}

void RadosView::add_reads(std::vector<RadosReads>& to) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [of, c] : reads_) {
    to.push_back({.pool = name_,
                  .osd = of.first,
                  .here = of.second,
                  .objects = c.objects,
                  .bytes = c.bytes});
  }
}

}  // namespace ndtrain::ndp
