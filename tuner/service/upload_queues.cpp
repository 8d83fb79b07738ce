#include "tuner/service/upload_queues.h"

#include <algorithm>

#include "ndp/wire/message_limits.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

// Behind the line `before`, where the line itself does not say its place.
UploadLine read_line(const std::string& bytes, uint64_t before) {
  UploadLine line{.sequence = before + 1};
  if (!line.upload.ParseFromString(bytes)) {
    line.upload.Clear();
    line.refused = "it is no line of a log of uploads";
    return line;
  }
  line.refused = wire::check_message(line.upload).message();
  if (line.refused.empty() && !line.upload.removed() && line.upload.path().empty()) {
    line.refused = "it does not say where the photo is";
  }
  if (line.upload.sequence() <= static_cast<uint64_t>(wire::kLargestNumber)) {
    line.sequence = line.upload.sequence();
  }
  if (!line.refused.empty()) line.upload.Clear();
  return line;
}

}  // namespace

bool UploadQueues::put(const std::string& store, LinkId link, const wire::Uploads& message) {
  size_t bytes = 0;
  for (const std::string& line : message.lines()) bytes += line.size();
  Queue& queue = queues_[store];
  if (queue.bytes + bytes > kWaitingBytes) return false;
  queue.bytes += bytes;
  uint64_t before = queue.waiting.empty() || queue.waiting.back().link != link
                        ? 0
                        : queue.waiting.back().line.sequence;
  for (const std::string& line : message.lines()) {
    queue.waiting.push_back({link, line.size(), read_line(line, before)});
    before = queue.waiting.back().line.sequence;
  }
  return true;
}

UploadBatch UploadQueues::take(const std::string& store, Queue& queue, Time now,
                               const std::function<bool(const wire::Upload&)>& counts) {
  const double since = std::chrono::duration<double>(now - queue.counted).count();
  queue.statements = std::min(kStatements, queue.statements + since * kPerSecond);
  queue.counted = now;
  UploadBatch batch{.store = store, .link = queue.waiting.front().link, .lines = {}};
  while (!queue.waiting.empty() && batch.lines.size() < kAtOnce) {
    Waiting& first = queue.waiting.front();
    if (first.link != batch.link) break;
    const bool statement = first.line.refused.empty() && counts(first.line.upload);
    if (statement && queue.statements < 1) {
      if (batch.lines.empty()) queue.not_before = now + std::chrono::milliseconds(200);
      break;
    }
    queue.statements -= statement;
    queue.bytes -= first.bytes;
    batch.lines.push_back(std::move(first.line));
    queue.waiting.pop_front();
  }
  return batch;
}

UploadBatch* UploadQueues::next(Time now, const std::function<bool(const wire::Upload&)>& counts) {
  if (out_) return nullptr;
  // From the store behind the last one on, around.
  auto it = queues_.upper_bound(last_);
  for (size_t i = 0; i < queues_.size(); ++i, ++it) {
    if (it == queues_.end()) it = queues_.begin();
    Queue& queue = it->second;
    if (now < queue.not_before || (!queue.again && queue.waiting.empty())) continue;
    UploadBatch batch = queue.again ? *std::exchange(queue.again, std::nullopt)
                                    : take(it->first, queue, now, counts);
    if (batch.lines.empty()) continue;
    last_ = it->first;
    out_ = std::move(batch);
    return &*out_;
  }
  return nullptr;
}

void UploadQueues::done() { out_.reset(); }

void UploadQueues::failed(Time until) {
  Queue& queue = queues_.at(out_->store);
  queue.again = std::exchange(out_, std::nullopt);
  queue.not_before = until;
}

UploadQueues::Time UploadQueues::wakes() const {
  Time next = Time::max();
  for (const auto& [store, queue] : queues_) {
    if (!out_ && (queue.again || !queue.waiting.empty())) next = std::min(next, queue.not_before);
  }
  return next;
}

}  // namespace ndtrain::tuner
