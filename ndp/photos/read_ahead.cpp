#include "ndp/photos/read_ahead.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ndtrain::ndp {
namespace {

using std::chrono::nanoseconds;

constexpr double kSmoothing = 1.0 / 8;  // as TCP smooths round trips (RFC 6298)
constexpr double kMemory = 2048;        // photos: more than a part of a scan, which is used at once
constexpr size_t kBehind = 64;  // places behind the furthest one taken: nobody comes back for them

double in_seconds(nanoseconds t) { return std::chrono::duration<double>(t).count(); }

}  // namespace

void ReadAheadPace::fetched(nanoseconds took) {
  fetch_s_ =
      fetch_s_ == 0 ? in_seconds(took) : fetch_s_ + kSmoothing * (in_seconds(took) - fetch_s_);
}

void ReadAheadPace::used(nanoseconds took) {
  use_s_ += in_seconds(took);
  photos_ += 1;
  if (photos_ < kMemory) return;
  use_s_ /= 2;
  photos_ /= 2;
}

int ReadAheadPace::at_once() const {
  if (photos_ == 0 || fetch_s_ == 0) return kFirst;
  const double wanted = std::ceil(2 * fetch_s_ * photos_ / std::max(use_s_, 1e-9));
  return static_cast<int>(std::clamp<double>(wanted, kLeast, kMost));
}

struct PhotoReadAhead::State {
  State(const Items& items, Clock& measured_by)
      : order(items.in_order.begin(), items.in_order.end()), open(items.open), clock(measured_by) {
    for (size_t i = 0; i < order.size(); ++i) {
      place.emplace(order[i], i);
      bytes.push_back(items.bytes(order[i]));
    }
  }

  void start_threads();  // as many as the pace asks for
  void work();
  bool may_begin() const;
  Result<std::string> read(size_t item);
  Result<std::string> read_now(size_t item, std::unique_lock<std::mutex>& lock);
  void forget_those_behind();

  const std::vector<size_t> order;
  const Open open;
  Clock& clock;
  std::unordered_map<size_t, size_t> place;  // of an item; neither is changed any more
  std::vector<int64_t> bytes;                // by place

  std::mutex mutex;  // of what follows
  std::condition_variable changed;
  ReadAheadPace pace;
  std::optional<nanoseconds> used_since;        // when the last photo was taken
  size_t begun = 0, furthest = 0;               // places below these: asked for; taken, or left out
  std::set<size_t> under_way;                   // places
  std::set<size_t> elsewhere;                   // not begun, and read by who takes them
  std::map<size_t, Result<std::string>> there;  // by place
  int64_t ahead_bytes = 0;                      // of those under way and there
  std::optional<Status> away;
  bool ending = false;
  std::vector<std::thread> threads;
};

// A thread must not end by an exception, which would end the program. Under no lock.
Result<std::string> PhotoReadAhead::State::read(size_t item) {
  const nanoseconds begin = clock.monotonic();
  Result<std::string> got = Status(Code::kIo, "not read");
  try {
    got = open(item);
  } catch (const std::exception& e) {
    got = Status(Code::kIo, e.what());
  }
  const nanoseconds took = clock.monotonic() - begin;
  const std::lock_guard lock(mutex);
  if (got.ok()) pace.fetched(took);
  if (got.status().code() == Code::kUnavailable && !away) away = got.status();
  return got;
}

bool PhotoReadAhead::State::may_begin() const {
  const auto at_once = static_cast<size_t>(pace.at_once());
  const size_t ahead = under_way.size() + there.size();
  return under_way.size() < at_once && ahead < std::max(kAhead, 2 * at_once) &&
         (ahead == 0 || ahead_bytes + bytes[begun] <= kBytes);
}

void PhotoReadAhead::State::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] {
      while (elsewhere.erase(begun) > 0) ++begun;
      return ending || away || begun == order.size() || may_begin();
    });
    if (ending || away || begun == order.size()) return;
    const size_t at = begun++;
    under_way.insert(at);
    ahead_bytes += bytes[at];
    lock.unlock();
    Result<std::string> got = read(order[at]);
    lock.lock();
    under_way.erase(at);
    there.emplace(at, std::move(got));
    forget_those_behind();
    changed.notify_all();
  }
}

void PhotoReadAhead::State::forget_those_behind() {
  while (!there.empty() && there.begin()->first + kBehind < furthest) {
    ahead_bytes -= bytes[there.begin()->first];
    there.erase(there.begin());
  }
}

void PhotoReadAhead::State::start_threads() {
  const size_t wanted = std::min<size_t>(static_cast<size_t>(pace.at_once()), order.size());
  while (threads.size() < wanted) threads.emplace_back([this] { work(); });
}

Result<std::string> PhotoReadAhead::State::read_now(size_t item,
                                                    std::unique_lock<std::mutex>& lock) {
  if (away) return *away;
  lock.unlock();
  Result<std::string> got = read(item);
  lock.lock();
  return got;
}

PhotoReadAhead::PhotoReadAhead(const Items& items, Clock& clock)
    : state_(std::make_unique<State>(items, clock)) {
  const std::lock_guard lock(state_->mutex);
  state_->start_threads();
}

PhotoReadAhead::~PhotoReadAhead() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  for (std::thread& t : state_->threads) t.join();
}

Result<std::string> PhotoReadAhead::take(size_t item) {
  State& s = *state_;
  std::unique_lock lock(s.mutex);
  if (s.used_since) s.pace.used(s.clock.monotonic() - *s.used_since);
  Result<std::string> got = [&]() -> Result<std::string> {
    const auto found = s.place.find(item);
    if (found == s.place.end()) return s.read_now(item, lock);
    const size_t at = found->second;
    s.furthest = std::max(s.furthest, at + 1);
    s.forget_those_behind();
    if (at >= s.begun) {
      s.elsewhere.insert(at);
      if (at >= s.begun + kBehind) {
        s.begun = at + 1;
        s.elsewhere.clear();
      }
      s.changed.notify_all();
      return s.read_now(item, lock);
    }
    s.changed.wait(lock, [&] { return s.there.contains(at) || !s.under_way.contains(at); });
    if (!s.there.contains(at)) return s.read_now(item, lock);
    s.ahead_bytes -= s.bytes[at];
    return std::move(s.there.extract(at).mapped());
  }();
  s.used_since = s.clock.monotonic();
  s.start_threads();
  s.changed.notify_all();
  return got;
}

}  // namespace ndtrain::ndp
