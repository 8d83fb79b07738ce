// What the Tuner hears of uploads, and of the room for them.
#include <cstdlib>

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
  if (space.http() == space_.http() && !differs(space.free(), space_.free())) return;
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

void PipeStoreService::uploads_kept(uint64_t sequence) {
  if (!setting_.uploads) return;
  while (!uploads_sent_.empty() && uploads_sent_.front().first <= sequence) {
    upload_bytes_ -= uploads_sent_.front().second;
    setting_.uploads->acknowledged(uploads_sent_.front().first);
    uploads_sent_.pop_front();
  }
  send_uploads();
}

}  // namespace ndtrain
