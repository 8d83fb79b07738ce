#include "tuner/service/upload_ingest.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "framework/core/hash.h"
#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/text.h"
#include "ndp/wire/digests.h"
#include "ndp/wire/message_limits.h"
#include "ndp/wire/upload_line.h"
#include "tuner/service/service_lanes.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

constexpr UploadIngest::Time kIngestRetry = std::chrono::seconds(2);
// What one upload may take, until the store says what is free now.
constexpr uint64_t kUploadTakes = uint64_t{1} << 20;
constexpr int kForbidden = 403;

constexpr std::string_view kHttps = "https://";

// Of an address; a unix socket is this machine's own.
std::string host_of(const std::string& peer) {
  return peer.starts_with("unix:") ? "127.0.0.1" : peer.substr(0, peer.rfind(':'));
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host == "localhost" || host == "[::1]";
}

}  // namespace

void UploadIngest::take(const std::string& store, const wire::Uploads& message) {
  if (!ports_.uploads) return;
  std::string all;
  for (const std::string& line : message.lines()) all += line;
  if (xxh3(all.data(), all.size()) != message.checksum() || message.lines_size() == 0) {
    return ports_.stores.refuse(store, "uploads that are not what was sent");
  }
  if (!queues_.put(store, *ports_.stores.link_of(store), message)) {
    return ports_.stores.refuse(store, "more uploads unacknowledged than its window");
  }
  pump();
}

void UploadIngest::pump() {
  if (stopping_) return;
  const auto counts = [this](const wire::Upload& line) {
    const Digest photo = *digest_of(line.digest());
    return (is_statement(line) || ports_.trash.would_restore(photo, line.restores())) &&
           !ports_.deletions.has(photo);
  };
  UploadBatch* const batch = queues_.next(now(), counts);
  if (!batch) return;
  leave_out_removed_tasks(*batch);
  std::vector<Digest> about;  // photos that something is said of
  for (const UploadLine& line : batch->lines) {
    if (line.refused.empty() && counts(line.upload))
      about.push_back(*digest_of(line.upload.digest()));
  }
  if (about.empty() || batch->judged) return keep();
  ports_.lanes.start(
      kUploadLane, [this, about = std::move(about), earlier = earlier_records()]() -> Continuation {
        std::optional<SavedManifest> recalled;
        for (const JobFiles& job : earlier) {  // newest first
          Result<std::optional<SavedManifest>> kept = job.load_manifest();
          if (kept.ok() && *kept) recalled = std::move(**kept);
          if (recalled) break;
        }
        const auto stores = ports_.uploads->holders(about);
        return [this, about, recalled, stores] {
          if (recalled) ports_.holders.recall(*recalled);
          if (!stores.ok()) return failed(stores.status());
          std::map<Digest, std::set<std::string>> recorded;
          for (size_t i = 0; i < about.size(); ++i) recorded.emplace(about[i], (*stores)[i]);
          judge(recorded);
        };
      });
}

// What was said in a task goes with it: of such a line, where the photo is stays.
void UploadIngest::leave_out_removed_tasks(UploadBatch& batch) const {
  std::map<std::string, size_t> left_out;
  for (UploadLine& line : batch.lines) {
    wire::Upload& u = line.upload;
    const std::optional<RemovedTask> removed =
        u.task().empty() ? std::nullopt : ports_.versions.removed(u.task());
    if (!removed) continue;
    if (!ports_.versions.is_gone(u.task()) && !removed->had(u.version()) &&
        u.time() > removed->time) {
      continue;
    }
    ++left_out[u.task()];
    wire::leave_out_what_is_said(u);
  }
  for (const auto& [task, lines] : left_out) {
    log::info("{} lines of store {} are left out: they are of the task {}, which was taken away",
              lines, batch.store, task);
  }
}

// What earlier jobs know of who holds what; once in the life of this process, where nothing else is
// known of some store.
std::vector<JobFiles> UploadIngest::earlier_records() {
  std::vector<JobFiles> all;
  if (std::exchange(recalled_, true)) return all;
  const auto heard = [&](const auto& store) { return ports_.holders.heard_of(store.first); };
  if (std::ranges::all_of(ports_.stores.all(), heard)) return all;
  const auto& records = ports_.records.all();
  for (auto at = records.rbegin(); at != records.rend(); ++at) {
    all.push_back(ports_.records.files(at->first));
  }
  return all;
}

// A store speaks of photos that it holds, or that nobody else does. What it says is in the audit
// log before it counts; of what it may not say, one line of each kind is.
void UploadIngest::judge(const std::map<Digest, std::set<std::string>>& recorded) {
  UploadBatch& batch = *queues_.out();
  std::set<Digest> taken;  // by this batch
  std::vector<AuditLine> audit;
  std::map<std::string, AuditLine> refused;
  std::map<std::string, size_t> refusals;
  for (UploadLine& line : batch.lines) {
    if (!line.refused.empty()) continue;
    const Digest photo = *digest_of(line.upload.digest());
    const auto stores = recorded.find(photo);
    const bool again = line.upload.restores() > 0;  // it comes with the photo
    if (!is_statement(line.upload)) taken.insert(photo);
    if ((!is_statement(line.upload) && !again) || stores == recorded.end()) continue;
    const bool known = taken.contains(photo) || stores->second.contains(batch.store);
    const Result<bool> may =
        known ? true : may_speak_of(batch.store, photo, stores->second.empty());
    if (!may.ok()) return failed(may.status());
    AuditLine a = audit_of(batch.store, line.upload);
    if (*may) {
      audit.push_back(std::move(a));
      continue;
    }
    line.refused = "photo " + to_hex(photo).substr(0, 12) +
                   " is held by other stores and, as far as the Tuner knows, not by " +
                   batch.store + "; say it at the Tuner";
    a.failed = kForbidden;
    a.asked = R"({"refused": )" + std::to_string(++refusals[a.what]) + "}";
    refused.insert_or_assign(a.what, std::move(a));
  }
  for (auto& [what, line] : refused) audit.push_back(std::move(line));
  batch.judged = true;
  if (!ports_.audit || audit.empty()) return keep();
  ports_.lanes.start(kUploadLane, [this, audit = std::move(audit)]() -> Continuation {
    const Status s = ports_.audit->add(audit);
    return [this, s] {
      if (s.ok()) return keep();
      queues_.out()->judged = false;
      failed(s);
    };
  });
}

// Of a photo that no store has uploaded, as far as `nobodys` says.
Result<bool> UploadIngest::may_speak_of(const std::string& store, const Digest& photo,
                                        bool nobodys) const {
  Result<bool> holds = ports_.holders.holds(store, photo);
  if (!holds.ok() || *holds) return holds;
  if (!nobodys) return false;
  const Result<bool> elsewhere = ports_.holders.held_elsewhere(store, photo);
  return elsewhere.ok() ? Result<bool>(!*elsewhere) : elsewhere;
}

AuditLine UploadIngest::audit_of(const std::string& store, const wire::Upload& line) const {
  const std::string photo = "/photos/" + to_hex(*digest_of(line.digest()));
  AuditLine a{.who = "store " + store, .address = ports_.stores.who(store).peer};
  if (line.removed()) {
    a.what = "deletion";
    a.request = "DELETE " + photo;
  } else if (line.restores() > 0) {
    a.what = "restore";
    a.request = "POST /restore/" + to_hex(*digest_of(line.digest()));
    a.before = to_hex(*digest_of(line.digest()));
  } else {
    a.what = "label";
    a.request = "PUT " + photo + "/label";
    a.asked = json_text(Json({{"label", line.truth()}}));
  }
  return a;
}

// In the order in which they came; a database that is away is asked again.
void UploadIngest::keep() {
  const UploadBatch& batch = *queues_.out();
  std::vector<Digest> deleted;
  for (const UploadLine& line : batch.lines) {
    if (line.refused.empty() && line.upload.removed()) {
      deleted.push_back(*digest_of(line.upload.digest()));
    }
  }
  if (const Status s = ports_.deletions.add(deleted); !s.ok()) return failed(s);
  for (const UploadLine& line : batch.lines) {
    if (!line.refused.empty() || line.upload.restores() == 0) continue;
    const Digest photo = *digest_of(line.upload.digest());
    const Status s = ports_.trash.restore({&photo, 1}, line.upload.restores());
    if (!s.ok()) return failed(s);
  }
  std::vector<wire::Upload> lines;
  std::map<uint64_t, PublishedModel> versions;
  for (const UploadLine& line : batch.lines) {
    if (!line.refused.empty() || ports_.deletions.has(*digest_of(line.upload.digest()))) continue;
    lines.push_back(line.upload);
    const uint64_t version = line.upload.version();
    if (const auto model = ports_.versions.find(version)) versions.emplace(version, *model);
  }
  ports_.lanes.start(
      kUploadLane,
      [this, at = StorePlace{batch.store, ports_.stores.record(batch.store).collection},
       lines = std::move(lines), versions = std::move(versions)]() -> Continuation {
        const Status s = ports_.uploads->keep(at, lines, versions);
        return [this, s] { s.ok() ? kept() : failed(s); };
      });
}

void UploadIngest::failed(const Status& status) {
  const std::string& store = queues_.out()->store;
  if (waiting_.insert(store).second) {
    log::warn("labels of uploads of store {} wait: {}", store, status.message());
  }
  queues_.failed(now() + kIngestRetry);
  pump();  // another store's, perhaps
}

void UploadIngest::kept() {
  const UploadBatch batch = std::move(*queues_.out());
  queues_.done();
  waiting_.erase(batch.store);
  wire::ToStore m;
  m.mutable_uploads_kept()->set_sequence(batch.lines.back().sequence);
  for (const UploadLine& line : batch.lines) {
    if (line.refused.empty()) continue;
    wire::RefusedUpload& r = *m.mutable_uploads_kept()->add_refused();
    r.set_sequence(line.sequence);
    r.set_reason(wire::as_text(line.refused));
  }
  if (const auto& refused = m.uploads_kept().refused(); !refused.empty()) {
    log::warn("{} of {} lines of the uploads of store {} are refused; line {}: {}", refused.size(),
              batch.lines.size(), batch.store, refused[0].sequence(), refused[0].reason());
  }
  // A store that was set up anew under this name counts from 1 again.
  if (ports_.stores.link_of(batch.store) == batch.link) {
    ports_.stores.send(batch.store, std::move(m));
  }
  pump();
}

// Where a store says it is, people's photos and a ticket of theirs go: so it is believed of its own
// address, and of what its certificate says.
void UploadIngest::take_space(const std::string& store, const wire::Space& space) {
  StoreRecord& s = ports_.stores.record(store);
  s.free = space.free();
  if (space.damaged() > s.damaged) {
    log::warn("store '{}' has {} photos that its disk has changed: its log names them", store,
              space.damaged());
  }
  s.damaged = space.damaged();
  if (space.has_photos()) {
    s.photos = space.photos();
    ports_.stores.keep(s);
  }
  const bool secure = space.http().starts_with(kHttps);
  std::string http = space.http().substr(secure ? kHttps.size() : 0);
  const LinkOpened who = ports_.stores.who(store);
  const std::string own = host_of(who.peer);
  if (http.starts_with(':')) http = own + http;
  const std::string host = host_of(http);
  const bool here = is_loopback(host) && is_loopback(own);
  const bool certified = std::ranges::any_of(
      who.hosts, [&](const std::string& h) { return h == host || "[" + h + "]" == host; });
  const bool known = http.empty() || host == own || here || certified;
  if (secure && !http.empty()) http.insert(0, kHttps);
  if (!known && s.http_refused != printable(http)) {
    log::warn(
        "store '{}' says that it takes uploads at {}, but it dials from {} and its certificate "
        "names no such host: nobody is sent there. `ndtrain cert init DIR --store {}={}` makes one "
        "that does",
        store, printable(http), own, store, printable(host));
  }
  s.http_refused = known ? "" : printable(http);
  s.http = known ? http : "";
}

const StoreRecord* UploadIngest::place(const std::string& collection) {
  StoreRecord* most = nullptr;
  for (auto& [name, store] : ports_.stores.all()) {
    const bool open = store.here && store.collection == collection && !store.drained &&
                      !store.http.empty() && store.free > 0 &&
                      (!ports_.stores.has_tokens() || store.takes_tickets);
    if (open && (!most || store.free > most->free)) most = &store;
  }
  if (most) most->free -= std::min(most->free, kUploadTakes);
  return most;
}

}  // namespace ndtrain::tuner
