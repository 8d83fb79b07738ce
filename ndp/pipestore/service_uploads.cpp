// What the Tuner hears of uploads, and of the room for them; what it tells of deletions.
#include <cstdlib>
#include <cstring>

#include "framework/core/json.h"
#include "framework/core/log.h"
#include "framework/core/publish.h"
#include "ndp/pipestore/service.h"

namespace ndtrain {
namespace {

constexpr size_t kMessageBytes = size_t{256} << 10;
constexpr size_t kUploadWindow = size_t{1} << 20;  // bytes unacknowledged
constexpr PipeStoreService::Time kBetweenLooks = std::chrono::seconds(10);

bool differs(uint64_t a, uint64_t b) {
  return std::max(a, b) - std::min(a, b) > std::max(a, b) / 100;
}

}  // namespace

void PipeStoreService::tell_space() {
  if (!setting_.space || now() < space_at_) return;
  space_at_ = now() + kBetweenLooks;
  wire::Space space = setting_.space();
  const bool same = space.http() == space_.http() && space.photos() == space_.photos();
  if (same && !differs(space.free(), space_.free())) return;
  space_ = space;
  wire::FromStore m;
  *m.mutable_space() = std::move(space);
  send(std::move(m));
}

void PipeStoreService::send_uploads() {
  if (!setting_.uploads) return;
  while (upload_bytes_ < std::min<uint64_t>(kUploadWindow, session_.window())) {
    const uint64_t sent = uploads_sent_.empty() ? 0 : uploads_sent_.back().first;
    std::vector<UploadLog::Line> lines = setting_.uploads->after(sent, kMessageBytes);
    if (lines.empty()) return;
    wire::FromStore m;
    wire::Uploads& u = *m.mutable_uploads();
    size_t bytes = 0;
    std::string all;
    for (UploadLog::Line& line : lines) {
      all += line.bytes;
      *u.add_lines() = std::move(line.bytes);
    }
    bytes = all.size();
    u.set_checksum(xxh3(all.data(), all.size()));
    uploads_sent_.emplace_back(lines.back().sequence, bytes);
    upload_bytes_ += bytes;
    send(std::move(m));
  }
}

// On the lane where rows are made: inventories after it are without them.
void PipeStoreService::deletions(const wire::Deletions& m) {
  if (!setting_.forget) return;
  setting_.lanes.start(0, [this, m, link = link_id_]() -> Continuation {
    std::vector<Digest> photos(m.photos().size() / sizeof(Digest));
    std::memcpy(photos.data(), m.photos().data(), photos.size() * sizeof(Digest));
    Status status;
    try {
      status = setting_.forget(photos);
    } catch (const std::exception& e) {
      status = {Code::kIo, e.what()};
    }
    return [this, m, link, status] { deleted(link, m, status); };
  });
}

// What could not be deleted, and what came after it, comes again in the next session.
void PipeStoreService::deleted(LinkId link, const wire::Deletions& m, const Status& status) {
  if (link != link_id_ || !session_.open()) return;
  const Json json = {{"count", m.count()}, {"mark", m.mark()}};
  const std::string path = setting_.state.file("deletions.json");
  const Status kept = status.ok() ? publish(setting_.fs, path, json_text(json) + "\n") : status;
  if (!kept.ok()) {
    log::error("deleted photos are still here: {}", kept.message());
    link_->close();
    return apply(session_.closed(now(), "deleted photos are still here"));
  }
  session_.put_deletions(m.count(), m.mark());
  wire::FromStore done;
  done.mutable_deleted()->set_count(m.count());
  send(std::move(done));
}

void PipeStoreService::uploads_kept(const wire::UploadsKept& kept) {
  if (!setting_.uploads) return;
  for (const wire::RefusedUpload& line : kept.refused()) {
    log::warn("the Tuner does not take line {} of the uploads: {}", line.sequence(), line.reason());
  }
  while (!uploads_sent_.empty() && uploads_sent_.front().first <= kept.sequence()) {
    upload_bytes_ -= uploads_sent_.front().second;
    setting_.uploads->acknowledged(uploads_sent_.front().first);
    uploads_sent_.pop_front();
  }
  send_uploads();
}

}  // namespace ndtrain
