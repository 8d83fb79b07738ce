#include "ndp/s3/read_ahead.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ndtrain::ndp {

struct PhotoReadAhead::State {
  State(std::span<const size_t> in_order, Open open_one)
      : items(in_order.begin(), in_order.end()), open(std::move(open_one)) {
    for (size_t i = 0; i < items.size(); ++i) place.emplace(items[i], i);
  }

  void work();
  Result<std::string> read(size_t item) const;

  const std::vector<size_t> items;
  const Open open;
  std::unordered_map<size_t, size_t> place;  // of an item; not changed any more

  std::mutex mutex;
  std::condition_variable changed;
  size_t begun = 0, taken = 0;  // places below these
  bool ending = false;
  std::map<size_t, Result<std::string>> there;  // by place
  std::vector<std::thread> threads;
};

// A thread must not end by an exception, which would end the program.
Result<std::string> PhotoReadAhead::State::read(size_t item) const {
  try {
    return open(item);
  } catch (const std::exception& e) {
    return Status(Code::kIo, e.what());
  }
}

void PhotoReadAhead::State::work() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ending || begun == items.size() || begun < taken + kAhead; });
    if (ending || begun == items.size()) return;
    const size_t at = begun++;
    lock.unlock();
    Result<std::string> bytes = read(items[at]);
    lock.lock();
    if (at >= taken) there.emplace(at, std::move(bytes));
    changed.notify_all();
  }
}

PhotoReadAhead::PhotoReadAhead(std::span<const size_t> items, Open open)
    : state_(std::make_unique<State>(items, std::move(open))) {
  for (int i = 0; i < kAtOnce; ++i) state_->threads.emplace_back([this] { state_->work(); });
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
  const auto found = s.place.find(item);
  std::unique_lock lock(s.mutex);
  if (found == s.place.end() || found->second < s.taken) {
    lock.unlock();
    return s.open(item);
  }
  const size_t at = found->second;
  s.taken = at;  // those before it were left out
  s.begun = std::max(s.begun, at);
  s.there.erase(s.there.begin(), s.there.lower_bound(at));
  s.changed.notify_all();
  s.changed.wait(lock, [&] { return s.there.contains(at); });
  Result<std::string> bytes = std::move(s.there.extract(at).mapped());
  s.taken = at + 1;
  s.changed.notify_all();
  return bytes;
}

}  // namespace ndtrain::ndp
