#include "tuner/ingest/row_ingest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ndp/wire/numbers.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr size_t kDigest = sizeof(Digest);
constexpr size_t kNamedConflicts = 10;

std::optional<uint64_t> hash_of(const wire::Inventory& m, size_t photo) {
  if (photo >= m.hashed().size() || m.hashed()[photo] == 0) return {};
  uint64_t hash = 0;
  std::memcpy(&hash, m.hashes().data() + photo * sizeof hash, sizeof hash);
  return hash;
}

std::string text_of(const Manifest::Alike& alike) {
  std::string text = fmt::format(
      "{} photos are in {} groups that are almost the same: {} changed sides, so that each group "
      "is on one side of the split",
      alike.photos, alike.groups, alike.moved);
  if (alike.unhashed > 0) {
    text += fmt::format("; of {} nobody could say what they look like", alike.unhashed);
  }
  return text;
}

}  // namespace

RowIngest::RowIngest(IngestRules rules) : rules_(std::move(rules)) {}

RowIngest::RowIngest(IngestRules rules, Manifest manifest, std::vector<std::string> stores,
                     Time now)
    : RowIngest(std::move(rules)) {
  manifest_ = std::make_unique<Manifest>(std::move(manifest));
  assignment_ = std::make_unique<RowAssignment>(*manifest_, stores);
  numbered_ = stores;
  for (uint32_t s = 0; s < stores.size(); ++s) {
    stores_[stores[s]].number = s;
    stores_[stores[s]].counted = now;
    away_.insert(stores[s]);
  }
  reported_.resize(manifest_->runs() + 1);
}

RowIngest::Actions RowIngest::begin(std::span<const uint64_t> durable,
                                    std::span<const uint64_t> absent) {
  for (uint64_t number : durable) (void)assignment_->mark_durable(number);
  for (uint64_t number : absent) {
    if (assignment_->has_row(number)) continue;
    for (uint32_t holder : manifest_->entry(number).holders) {
      assignment_->cannot_read(number, holder, "its run was closed without it");
    }
  }
  keeping_.resize(manifest_->size());
  begun_ = true;
  if (!rules_.audit.features.empty()) {
    std::vector<bool> wanted(manifest_->size());
    for (uint64_t n = 0; n < wanted.size(); ++n) wanted[n] = !assignment_->has_row(n);
    FeatureAudit::What what = rules_.audit;
    what.views = rules_.views;
    audit_ = std::make_unique<FeatureAudit>(*manifest_, std::move(what), wanted);
  }
  Actions a;
  ask_all(a);
  report_complete(a);
  return a;
}

RowIngest::Actions RowIngest::arrive(Time now, const std::string& name) {
  Actions a;
  now_ = now;
  if (manifest_ && !stores_.contains(name)) {
    if (late_.insert(name).second) a.notes.push_back("store " + name + " is too late for this job");
    return a;
  }
  Store& store = stores_[name];
  if (over_ || store.lost) return a;
  away_.erase(name);
  listing_.insert(name);
  ++store.session;
  store.portion = rules_.portion;
  store.portion_at.reset();
  store.here = true;
  store.ready = false;
  store.claims = std::make_shared<PhotoClaims>(
      rules_.manifest.memory);  // others may hold on to what it said before
  store.sample.clear();
  store.received.clear();
  store.pieces.clear();
  wire::Job& job = *a.send.emplace_back(name, wire::ToStore()).second.mutable_job();
  job = rules_.job;
  if (manifest_) job.clear_with_hashes();  // the split is made
  return a;
}

RowIngest::Actions RowIngest::leave(Time now, const std::string& name) {
  Actions a;
  now_ = now;
  const auto it = stores_.find(name);
  if (it == stores_.end() || !it->second.here) return a;
  Store& store = it->second;
  store.here = store.ready = false;
  listing_.erase(name);
  store.away = Time(0);
  store.counted = now;
  if (!store.number) {  // its inventory does not count yet
    stores_.erase(it);
    return a;
  }
  if (!store.lost) away_.insert(name);
  assignment_->leave(*store.number);
  if (audit_) audit_->leave(*store.number);
  ask_changed(a);
  report_complete(a);
  return a;
}

RowIngest::Actions RowIngest::message(Time now, const std::string& name, wire::FromStore m) {
  Actions a;
  now_ = now;
  const auto it = stores_.find(name);
  if (over_ || it == stores_.end() || !it->second.here) return a;
  Store& store = it->second;
  if (m.has_inventory() && m.inventory().job() == rules_.job.job()) {
    inventory(now, store, m.inventory(), a);
    if (store.ready) listing_.erase(name);
    if (!a.end_session && store.ready && store.number) {
      if (!assignment_->is_here(*store.number))
        a.inventories.push_back(
            {name, store.claims, store.photo_bytes, store.sample, store.bf16_gain});
      assignment_->hold(*store.number, held_now(store));
      assignment_->arrive(*store.number);
      ask_changed(a);
      report_complete(a);
    }
  } else if (m.has_rows() && m.rows().job() == rules_.job.job() && store.ready && begun_) {
    rows(store, name, std::move(*m.mutable_rows()), a);
  } else if (m.has_rows() && m.rows().job() == rules_.job.job() && m.answers() > 0 &&
             !store.lost) {  // an older program says no serial
    a.end_session = "rows before any were asked for";
  } else if (m.has_run_done() && m.run_done().job() == rules_.job.job() && store.ready) {
    run_done(store, m.run_done(), a);
  } else if (m.has_refused() && m.refused().job() == rules_.job.job()) {
    lose(name, store, m.refused().reason(), a);
  }
  return a;
}

void RowIngest::inventory(Time, Store& store, const wire::Inventory& m, Actions& a) {
  const size_t n = m.digests().size() / kDigest;
  if (store.ready || m.digests().size() % kDigest || m.labels().size() != static_cast<int>(n) ||
      m.sources().size() != n || (m.paths_size() > 0 && m.paths_size() != static_cast<int>(n)) ||
      m.hashes().size() != m.hashed().size() * sizeof(uint64_t) ||
      (!m.hashed().empty() && m.hashed().size() != n)) {
    a.end_session = "an inventory whose parts do not fit";
    return;
  }
  if (rules_.job.with_hashes() && !manifest_ && m.hashed().size() != n) {
    a.end_session = "an inventory without the perceptual hashes that its job asks for";
    return;
  }
  if (m.bf16_gain() > 0) store.bf16_gain = m.bf16_gain();
  if (!m.sample().empty()) {
    if (xxh3(m.sample().data(), m.sample().size()) != m.sample_checksum()) {
      a.end_session = "a sample's rows with a wrong checksum";
      return;
    }
    const std::string why = rules_.check_sample ? rules_.check_sample(m.sample()) : "";
    if (!why.empty()) {
      a.end_session = "the rows of the job's sample: " + why;
      return;
    }
    store.sample = m.sample();
  }
  PhotoClaims& claims = *store.claims;
  const size_t names = claims.names().size() + static_cast<size_t>(m.names_size());
  if (claims.size() + n > rules_.most_photos || names > static_cast<size_t>(limits::kClasses)) {
    a.end_session = "an inventory of more than " + std::to_string(rules_.most_photos) +
                    " photos or " + std::to_string(limits::kClasses) + " labels";
    return;
  }
  for (const std::string& name : m.names()) claims.add_name(name);
  for (size_t i = 0; i < n; ++i) {
    Digest digest;
    std::memcpy(digest.data(), m.digests().data() + i * kDigest, kDigest);
    const uint32_t label = m.labels(static_cast<int>(i));
    const auto source = static_cast<uint8_t>(m.sources()[i]);
    const bool rising = claims.size() == 0 || claims.photos()->back() < digest;
    if (label > claims.names().size() || !rising ||
        source < static_cast<uint8_t>(LabelSource::kModel) ||
        source > static_cast<uint8_t>(LabelSource::kHuman)) {
      a.end_session = "an inventory out of order, or with an unknown label or source";
      return;
    }
    claims.add(digest, label, static_cast<LabelSource>(source),
               m.paths_size() > 0 ? std::string_view(m.paths(static_cast<int>(i))) : "", 0,
               hash_of(m, i));
  }
  store.ready = m.last();
  store.photo_bytes = m.photo_bytes();
  store.unreadable = m.unreadable();
  store.unreadable_files.clear();
  for (const wire::Unreadable& u : m.unreadable_files()) {
    store.unreadable_files.push_back({.path = u.path(), .why = u.reason()});
  }
  if (store.ready) store.asked.assign(claims.size(), false);
}

// Photos of the manifest that it says it holds, in the order of digests.
std::vector<uint64_t> RowIngest::held_now(const Store& store) const {
  std::vector<uint64_t> numbers;
  for (const Digest& photo : *store.claims->photos()) {
    if (const auto number = manifest_->number_of(photo)) numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::string> RowIngest::ready() const {
  std::vector<std::string> names;
  for (const auto& [name, store] : stores_) {
    if (store.ready) names.push_back(name);
  }
  return names;
}

RowIngest::Actions RowIngest::count_in(std::span<const std::string> names) {
  Actions a;
  if (over_ || manifest_ || names.empty()) throw Error("row ingest: no stores to count in");
  std::vector<SharedClaims> claims;
  for (uint32_t s = 0; s < names.size(); ++s) {
    Store& store = stores_.at(names[s]);
    if (!store.ready) throw Error("row ingest: store ", names[s], " has not said what it holds");
    store.number = s;
    claims.push_back(store.claims);
  }
  std::erase_if(stores_, [](const auto& entry) { return !entry.second.number; });
  manifest_ = std::make_unique<Manifest>(claims, rules_.manifest);
  numbered_.assign(names.begin(), names.end());
  assignment_ = std::make_unique<RowAssignment>(*manifest_, numbered_);
  reported_.resize(manifest_->runs() + 1);
  for (auto& [name, store] : stores_) {
    assignment_->arrive(*store.number);
    a.inventories.push_back({name, store.claims, store.photo_bytes, store.sample, store.bf16_gain});
  }
  a.manifest_made = true;
  if (manifest_->unlabelled() > 0) {
    a.notes.push_back(std::to_string(manifest_->unlabelled()) + " photos have no label");
  }
  if (rules_.manifest.group_duplicates) a.notes.push_back(text_of(manifest_->alike()));
  name_conflicts(a);
  return a;
}

void RowIngest::name_conflicts(Actions& a) const {
  size_t named = 0;
  for (const Manifest::Conflict& c : manifest_->conflicts()) {
    if (++named > kNamedConflicts) {
      a.notes.push_back("and " + std::to_string(manifest_->conflicts().size() - kNamedConflicts) +
                        " more photos with several labels");
      break;
    }
    std::string labels;
    for (const std::string& l : c.labels) labels += (labels.empty() ? "" : ", ") + l;
    a.notes.push_back("photo " + to_hex(manifest_->entry(c.number).digest).substr(0, 12) +
                      " is labelled " + labels);
  }
}

void RowIngest::ask_all(Actions& a) {
  if (!begun_) return;
  (void)assignment_->take_changed();
  ask_these(numbered_, a);
}

// Of very many stores, few have other things to do than before.
void RowIngest::ask_changed(Actions& a) {
  if (!begun_) return;
  std::vector<std::string> names;
  for (const uint32_t store : assignment_->take_changed()) names.push_back(numbered_[store]);
  ask_these(std::move(names), a);
}

// Those that were not asked yet are first asked for their own. Again while a store finds that it
// lost a photo, which another may have then.
void RowIngest::ask_these(std::vector<std::string> names, Actions& a) {
  for (bool gone = true; std::exchange(gone, false); names = numbered_) {
    for (const bool first : {true, false}) {
      for (const std::string& name : names) {
        Store& store = stores_.at(name);
        if (!store.ready || store.lost || (first && store.portion_at)) continue;
        if (ask(name, store, first, a)) gone = true;
      }
    }
  }
}

// So that a store has always something to do, and others may have what it does not come to soon.
void RowIngest::adapt_portion(Store& store) const {
  if (store.portion_at) {
    const Time took = now_ - *store.portion_at;
    if (took < kShort) store.portion = std::min(2 * store.portion, kMostPortion);
    const size_t half = std::max(store.portion / 2, kLeastPortion);
    if (took > kLong) store.portion = std::min(store.portion, half);
  }
  store.portion_at = now_;
}

// Rows that travel for nothing must not be so many that they take longer than they save.
size_t RowIngest::second_of(const Store& store) const {
  const uint64_t photos = std::max<uint64_t>(1, store.claims->size());
  const uint64_t row = row_bytes(1) > 0 ? row_bytes(1) : store.photo_bytes / photos;
  return std::clamp<size_t>(kSecondBytes / std::max<uint64_t>(1, row), 1, kSecond);
}

// True when it has some of what it is to be asked for no more.
bool RowIngest::ask(const std::string& name, Store& store, bool own, Actions& a) {
  const uint32_t number = *store.number;
  const size_t outstanding = assignment_->outstanding(number);
  if (outstanding >= store.portion) return false;
  const size_t most = 2 * store.portion - outstanding;
  auto shares = own ? assignment_->take_own(number, most) : assignment_->take(number, most);
  if (shares.empty() && outstanding == 0 && !own) {
    RowAssignment::Share last = assignment_->take_second(number, second_of(store));
    if (!last.numbers.empty()) shares.push_back(std::move(last));
  }
  if (!shares.empty()) adapt_portion(store);
  bool gone = false;
  for (const RowAssignment::Share& share : shares) {
    std::vector<uint64_t> photos = share.numbers;
    if (audit_) audit_->ask(number, share.run, photos);
    if (want(name, store, share.run, photos, a)) gone = true;
  }
  return gone;
}

std::optional<size_t> RowIngest::place_of(const Store& store, uint64_t number) const {
  return store.claims->place_of(manifest_->entry(number).digest);
}

// True when it has some of them no more.
bool RowIngest::want(const std::string& name, Store& store, uint32_t run,
                     const std::vector<uint64_t>& photos, Actions& a) {
  std::vector<uint64_t> numbers, places;
  for (const uint64_t photo : photos) {
    const std::optional<size_t> place = place_of(store, photo);
    if (!place) {
      assignment_->cannot_read(photo, *store.number, "the photo is gone from store " + name);
      if (audit_) audit_->leave(*store.number, photo);
      continue;
    }
    store.asked[*place] = true;
    numbers.push_back(photo);
    places.push_back(*place);
  }
  if (numbers.empty()) return !photos.empty();
  wire::Wanted& w = *a.send.emplace_back(name, wire::ToStore()).second.mutable_wanted();
  w.set_job(rules_.job.job());
  w.set_run(run);
  w.set_numbers(pack_numbers(numbers));
  w.set_places(pack_numbers(places));
  return numbers.size() < photos.size();
}

std::vector<uint64_t> RowIngest::absent(uint32_t run) const {
  std::vector<uint64_t> numbers;
  for (uint64_t number : manifest_->run(run)) {
    if (!assignment_->has_row(number)) numbers.push_back(number);
  }
  return numbers;
}

uint64_t RowIngest::unreadable() const {
  uint64_t files = 0;
  for (const auto& [name, store] : stores_) files += store.number ? store.unreadable : 0;
  return files;
}

std::vector<UnreadablePhoto> RowIngest::unreadable_photos() const {
  std::vector<UnreadablePhoto> photos;
  for (const auto& [number, why] : assignment_->unreadable()) {
    const auto at = unreadable_at_.find(number);
    if (at == unreadable_at_.end()) continue;  // who had it is lost, or its row was refused
    photos.push_back({.photo = manifest_->entry(number).digest,
                      .store = at->second.store,
                      .path = at->second.path,
                      .why = why});
  }
  for (const auto& [name, store] : stores_) {
    if (!store.number) continue;
    for (const UnreadablePhoto& file : store.unreadable_files) {
      photos.push_back({.store = name, .path = file.path, .why = file.why});
    }
  }
  return photos;
}

void RowIngest::run_done(const Store& store, const wire::RunDone& done, Actions& a) {
  const auto received = store.received.find(done.run());
  const uint64_t n = received == store.received.end() ? 0 : received->second;
  if (n == done.photos()) return;
  a.end_session = "run " + std::to_string(done.run()) + ": the store has sent " +
                  std::to_string(done.photos()) + " photos, " + std::to_string(n) + " came";
}

// What nobody else has is missing from now on; whether the job may go on without it is a rule.
void RowIngest::lose(const std::string& name, Store& store, const std::string& why, Actions& a) {
  store.lost = true;
  store.ready = false;
  away_.erase(name);
  listing_.erase(name);
  a.notes.push_back("store " + name + " is lost for this job: " + why);
  if (!store.number) {
    a.failed = "store " + name + " cannot take part: " + why;
    over_ = true;
    return;
  }
  assignment_->leave(*store.number);
  if (audit_) audit_->leave(*store.number);
  uint64_t missing = 0;
  for (uint32_t run = 0; run <= manifest_->runs(); ++run) {
    for (uint64_t number : manifest_->run(run)) {
      if (assignment_->has_row(number)) continue;
      const bool known = assignment_->unreadable().contains(number);
      assignment_->cannot_read(number, *store.number, "store " + name + " is lost");
      missing += !known && assignment_->unreadable().contains(number);
    }
  }
  if (missing > 0 && !rules_.allow_missing) {
    a.failed = std::to_string(missing) + " photos are only on store " + name + ", which is lost (" +
               why + "); bring it back, or go on without them with --allow-missing";
    over_ = true;
    return;
  }
  if (missing > 0) a.notes.push_back(std::to_string(missing) + " photos are missing");
  ask_changed(a);
  report_complete(a);
}

RowIngest::Actions RowIngest::tick(Time now) {
  Actions a;
  now_ = now;
  for (const std::string& name : std::vector(away_.begin(), away_.end())) {
    if (over_) break;
    Store& store = stores_.at(name);
    store.away += std::min(now - store.counted, kStep);
    store.counted = now;
    if (store.away < rules_.lost_after) continue;
    lose(name, store,
         "away for " +
             std::to_string(
                 std::chrono::duration_cast<std::chrono::seconds>(rules_.lost_after).count()) +
             " s",
         a);
  }
  if (audit_since_ && !over_ && now - *audit_since_ >= kAuditPatience) {
    end_audit(a);
    report_complete(a);
  }
  return a;
}

RowIngest::Time RowIngest::next() const {
  Time next = Time::max();
  for (const std::string& name : away_) {
    const Store& store = stores_.at(name);
    next = std::min(next, store.counted + std::min(kStep, rules_.lost_after - store.away));
  }
  if (audit_since_ && !over_) next = std::min(next, *audit_since_ + kAuditPatience);
  return next;
}

void RowIngest::report_complete(Actions& a) {
  if (!begun_ || over_) return;
  for (uint32_t run = 0; run < reported_.size(); ++run) {
    if (reported_[run]) continue;
    if (!assignment_->complete(run)) return;  // validation first, then in order
    if (!audited(a)) return;
    reported_[run] = true;
    a.complete.push_back(run);
  }
}

}  // namespace ndtrain::tuner
