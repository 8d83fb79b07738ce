// What stores say of photos that people upload to them, and where people may.
#include <algorithm>

#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/wire/digests.h"
#include "tuner/service.h"

namespace ndtrain {
namespace {

constexpr TunerService::Time kRetry = std::chrono::seconds(2);
// What one upload may take, until the store says what is free now.
constexpr uint64_t kUploadTakes = uint64_t{1} << 20;
constexpr size_t kMostLines = 1 << 16;  // that wait, of one store; far more than its window holds
constexpr size_t kAtOnce = 4096;        // lines in one go

constexpr std::string_view kHttps = "https://";

std::string host_of(const std::string& peer) {
  return peer.starts_with("unix:") ? "127.0.0.1" : peer.substr(0, peer.rfind(':'));
}

bool is_loopback(const std::string& host) {
  return host.starts_with("127.") || host.starts_with("localhost") || host.starts_with("[::1]");
}

}  // namespace

void TunerService::take_uploads(const std::string& store, const wire::Uploads& message) {
  if (!setting_.uploads) return;
  std::string all;
  for (const std::string& line : message.lines()) all += line;
  Received received{.store = store, .link = *sessions_.link_of(store), .lines = {}};
  auto waiting = static_cast<size_t>(message.lines_size());
  for (const Received& r : uploads_) waiting += r.store == store ? r.lines.size() : 0;
  bool whole = xxh3(all.data(), all.size()) == message.checksum() && message.lines_size() > 0 &&
               waiting < kMostLines;
  for (const std::string& line : message.lines()) {
    wire::Upload& u = received.lines.emplace_back();
    whole = whole && u.ParseFromString(line) && digest_of(u.digest()) &&
            (u.removed() || !u.path().empty());
  }
  if (!whole) return apply(sessions_.refuse(now(), store, "uploads that are not what was sent"));
  // The one that is under way stays as it is.
  if (uploads_.size() > (uploading_ ? 1 : 0) && uploads_.back().store == store &&
      uploads_.back().link == received.link && uploads_.back().lines.size() < kAtOnce) {
    std::ranges::move(received.lines, std::back_inserter(uploads_.back().lines));
  } else {
    uploads_.push_back(std::move(received));
  }
  pump_uploads();
}

// In the order in which they came; a database that is away is asked again.
void TunerService::pump_uploads() {
  if (uploading_ || uploads_.empty() || stopping_ || now() < upload_retry_) return;
  std::vector<Digest> deleted;
  for (const wire::Upload& line : uploads_.front().lines) {
    if (line.removed()) deleted.push_back(*digest_of(line.digest()));
  }
  if (const Status s = bury(deleted); !s.ok()) return uploads_kept(s);
  uploading_ = true;
  Received received{.store = uploads_.front().store, .link = 0, .lines = {}};
  std::map<uint64_t, PublishedModel> versions;
  for (const wire::Upload& line : uploads_.front().lines) {
    if (deletions_.has(*digest_of(line.digest()))) continue;
    received.lines.push_back(line);
    if (const auto model = setting_.versions.find(line.version()))
      versions.emplace(line.version(), *model);
  }
  setting_.lanes.start(
      kUploadLane,
      [this, r = std::move(received), versions = std::move(versions)]() -> Continuation {
        const Status s = setting_.uploads->keep(r.store, r.lines, versions);
        return [this, s] { uploads_kept(s); };
      });
}

void TunerService::uploads_kept(const Status& status) {
  uploading_ = false;
  if (!status.ok()) {
    if (upload_retry_ == Time(0)) log::warn("labels of uploads wait: {}", status.message());
    upload_retry_ = now() + kRetry;
    return;
  }
  upload_retry_ = Time(0);
  const Received r = std::move(uploads_.front());
  uploads_.pop_front();
  // A store that was set up anew under this name counts from 1 again.
  if (sessions_.link_of(r.store) == r.link) {
    wire::ToStore m;
    m.mutable_uploads_kept()->set_sequence(r.lines.back().sequence());
    send(r.store, std::move(m));
  }
  pump_uploads();
}

void TunerService::take_space(const std::string& store, const wire::Space& space) {
  StoreRecord& s = stores_[store];
  const bool secure = space.http().starts_with(kHttps);
  s.http = space.http().substr(secure ? kHttps.size() : 0);
  const std::string host = host_of(sessions_.peer_of(store));
  if (s.http.starts_with(':')) s.http = host + s.http;
  if (is_loopback(s.http) && !is_loopback(host)) s.http.clear();  // of another machine
  if (secure && !s.http.empty()) s.http.insert(0, kHttps);
  s.free = space.free();
}

std::optional<std::string> TunerService::place_upload() {
  StoreRecord* most = nullptr;
  for (auto& [name, store] : stores_) {
    const bool open = store.here && !store.drained && !store.http.empty() && store.free > 0;
    if (open && (!most || store.free > most->free)) most = &store;
  }
  if (!most) return std::nullopt;
  most->free -= std::min(most->free, kUploadTakes);
  return most->http;
}

}  // namespace ndtrain
