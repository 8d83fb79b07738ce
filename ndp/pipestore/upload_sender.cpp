#include "ndp/pipestore/upload_sender.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "framework/core/hash.h"
#include "framework/core/log.h"
#include "ndp/wire/protocol.h"

namespace ndtrain::ndp {
namespace {

constexpr size_t kMessageBytes = size_t{256} << 10;
constexpr size_t kUploadWindow = size_t{1} << 20;  // bytes unacknowledged
constexpr UploadSender::Time kBeforeNextLook = std::chrono::seconds(2);

bool differs(uint64_t a, uint64_t b) {
  return std::max(a, b) - std::min(a, b) > std::max(a, b) / 100;
}

}  // namespace

void UploadSender::tick() {
  send_space();
  send_lines();
}

void UploadSender::session_over() {
  sent_.clear();
  last_sent_ = 0;
  kept_back_ = false;
  bytes_ = 0;
  space_ = {};
  space_at_ = Time(0);
}

void UploadSender::say_all_again() {
  if (!ports_.log) return;
  log::info("the Tuner was restored, or is another: it is told again of all uploads");
  ports_.log->unacknowledge().or_throw();
}

void UploadSender::send_space() {
  const Time now = ports_.clock.monotonic();
  if (!ports_.space || now < space_at_) return;
  space_at_ = now + kBeforeNextLook;
  wire::Space space = ports_.space();
  const bool same = space.http() == space_.http() && space.photos() == space_.photos() &&
                    space.damaged() == space_.damaged() && space.gained() == space_.gained();
  if (same && !differs(space.free(), space_.free())) return;
  space_ = space;
  wire::FromStore m;
  *m.mutable_space() = std::move(space);
  ports_.tuner.send(std::move(m));
}

void UploadSender::send_lines() {
  if (!ports_.log) return;
  while (bytes_ < std::min<uint64_t>(kUploadWindow, ports_.tuner.window())) {
    const uint64_t sent = sent_.empty() ? 0 : sent_.back().first;
    std::vector<UploadLog::Line> lines = ports_.log->after(sent, kMessageBytes);
    if (ports_.tuner.protocol() < kSpeaksOfTasks) keep_back_tasks(lines);
    if (lines.empty()) return;
    wire::FromStore m;
    wire::Uploads& u = *m.mutable_uploads();
    std::string all;
    for (UploadLog::Line& line : lines) {
      all += line.bytes;
      *u.add_lines() = std::move(line.bytes);
    }
    u.set_checksum(xxh3(all.data(), all.size()));
    last_sent_ = std::max(last_sent_, lines.back().sequence);
    sent_.emplace_back(lines.back().sequence, all.size());
    bytes_ += all.size();
    ports_.tuner.send(std::move(m));
  }
}

// An older Tuner would take what is said in another task for the default one's.
void UploadSender::keep_back_tasks(std::vector<UploadLog::Line>& lines) {
  const auto first = std::ranges::find(lines, true, &UploadLog::Line::other_task);
  if (first == lines.end()) return;
  if (!kept_back_) {
    log::warn(
        "uploads wait from line {} on: this Tuner is of an older program, and knows no tasks "
        "besides the default one; update it",
        first->sequence);
  }
  kept_back_ = true;
  lines.erase(first, lines.end());
}

void UploadSender::kept(const wire::UploadsKept& kept) {
  if (!ports_.log) return;
  if (kept.sequence() > last_sent_) {
    return ports_.tuner.refuse(fmt::format(
        "it has kept the uploads up to line {}, of which {} is the last that was sent to it",
        kept.sequence(), last_sent_));
  }
  for (const wire::RefusedUpload& line : kept.refused()) {
    log::warn("the Tuner does not take line {} of the uploads: {}", line.sequence(), line.reason());
  }
  while (!sent_.empty() && sent_.front().first <= kept.sequence()) {
    bytes_ -= sent_.front().second;
    ports_.log->acknowledged(sent_.front().first);
    sent_.pop_front();
  }
  send_lines();
}

}  // namespace ndtrain::ndp
