#include "ndp/sandbox/worker_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>

namespace ndtrain::ndp {
namespace {

constexpr int64_t kLongestPoll = 1 << 30;  // ms

static_assert(std::is_trivially_copyable_v<WorkerRecord>);

// Whether there is something to read, or an end, before the deadline.
bool await(int socket, WorkerChannel::Time deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd wanted{.fd = socket, .events = POLLIN, .revents = 0};
    const int n = poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left.count(), kLongestPoll)));
    if (n > 0) return true;
    if (n < 0 && errno != EINTR) return false;
  }
}

}  // namespace

bool WorkerChannel::send(const WorkerRecord& record) {
  ssize_t n = 0;
  do {
    n = ::send(socket_, &record, sizeof record, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n == sizeof record;
}

std::optional<WorkerRecord> WorkerChannel::receive(std::optional<Time> deadline) {
  if (deadline && !await(socket_, *deadline)) return std::nullopt;
  WorkerRecord record;
  ssize_t n = 0;
  do {
    n = read(socket_, &record, sizeof record);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof record) return std::nullopt;
  return record;
}

bool WorkerChannel::send_all(WorkerRecord record, std::span<const std::byte> bytes,
                             std::optional<Time> deadline) {
  record.total = bytes.size();
  while (true) {
    const auto part = bytes.first(std::min(bytes.size(), kWindowBytes));
    bytes = bytes.subspan(part.size());
    if (!part.empty()) std::memcpy(window_, part.data(), part.size());
    record.part = static_cast<uint32_t>(part.size());
    if (!send(record)) return false;
    if (bytes.empty()) return true;
    const std::optional<WorkerRecord> more = receive(deadline);
    if (!more || more->kind != WorkerRecord::kMore) return false;
    record.kind = WorkerRecord::kPart;
  }
}

bool WorkerChannel::receive_all(const WorkerRecord& first, std::span<std::byte> to,
                                std::optional<Time> deadline) {
  WorkerRecord record = first;
  while (true) {
    if (record.part > kWindowBytes || record.part > to.size()) return false;
    if (record.part == 0 && !to.empty()) return false;
    if (record.part > 0) std::memcpy(to.data(), window_, record.part);
    to = to.subspan(record.part);
    if (to.empty()) return true;
    if (!send({.kind = WorkerRecord::kMore})) return false;
    const std::optional<WorkerRecord> next = receive(deadline);
    if (!next || next->kind != WorkerRecord::kPart) return false;
    record = *next;
  }
}

}  // namespace ndtrain::ndp
