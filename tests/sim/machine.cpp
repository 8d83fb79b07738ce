#include "tests/sim/machine.h"

#include <cxxabi.h>

#include <cstdlib>
#include <typeindex>
#include <typeinfo>
#include <unordered_map>
#include <utility>

#include "framework/core/hash.h"
#include "framework/testing/fsync_throws.h"

namespace ndtrain::sim {
namespace {

constexpr int64_t kRoom = int64_t{1} << 40;

// "UploadIngest::keep": the function whose lambda it is.
std::string starter_of(const std::type_info& task) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(task.name(), nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? text.get() : task.name();
  name.resize(std::min(name.find('('), name.size()));
  const size_t type = name.rfind("::", name.rfind("::") - 1);  // what comes before it
  return type == name.npos ? name : name.substr(type + 2);
}

const std::string& starter_of(const Task& task) {
  static std::unordered_map<std::type_index, std::string> known;
  const std::type_info& type = task.target_type();
  const auto [name, is_new] = known.try_emplace(type);
  if (is_new) name->second = starter_of(type);
  return name->second;
}

}  // namespace

void SlowLanes::start(size_t lane, Task task) {
  lanes_.at(lane).push_back(std::move(task));
  if (lanes_[lane].size() == 1) begin(lane);
}

void SlowLanes::begin(size_t lane) {
  turn_(a_while(lane), [this, lane] {
    const Task task = std::move(lanes_[lane].front());
    const std::string& name = starter_of(task);
    syncs_.ran.insert(name);
    const int64_t before = disk_.syncs();
    Continuation after;
    try {
      after = task();  // what it throws ends the process
    } catch (const FsyncFailed&) {
      syncs_.failed.insert(name);
      throw;
    }
    if (disk_.syncs() > before) syncs_.synced.insert(name);
    lanes_[lane].pop_front();
    if (!lanes_[lane].empty()) begin(lane);
    if (!after) return;
    ended_[lane].push_back(std::move(after));
    turn_(a_while(lane), [this, lane] {
      const Continuation oldest = std::move(ended_[lane].front());
      ended_[lane].pop_front();
      oldest();
    });
  });
}

Machine::Machine(Timeline& timeline, std::string name, uint64_t seed)
    : timeline_(timeline), clock_(timeline), rng_(seed, name), name_(std::move(name)) {}

void Machine::make_lanes(size_t lanes) {
  lanes_ = std::make_unique<SlowLanes>(
      lanes, rng_, disk_, lane_syncs_,
      [this](Time delay, std::function<void()> f) { later(delay, std::move(f)); });
}

void Machine::boot() {
  if (up_ || gone_) return;
  up_ = true;
  ++life_;
  alarm_at_ = Time::min();
  turn([this] { start(); });
}

void Machine::turn(const std::function<void()>& f) {
  if (!up_) return;
  if (asleep_) return missed_.push_back(f);
  std::string failure;
  bool fsync = false;
  const FsyncThrows throws;
  try {
    f();
    if (alive()) after_turn();
  } catch (const FsyncFailed&) {
    fsync = true;
  } catch (const std::exception& e) {
    failure = e.what();
  }
  const Time back = seconds(0.5 + 4 * rng_.next_uniform());
  if (!alive()) return over(Death::kPowerCut, back_after_);
  if (stopping_) return over(Death::kKill, *stopping_);
  if (fsync) {
    ++fsync_deaths_;
    return over(Death::kFsync, back);
  }
  if (failure.empty()) return;
  if (!full_ || !may_die_when_full()) failures_.push_back(name_ + " died: " + failure);
  over(Death::kKill, back);  // and is started again
}

void Machine::later(Time delay, std::function<void()> f) {
  const uint64_t serial = ++serial_;
  put_off_[serial] = std::move(f);
  timeline_.after(delay, [this, serial] {
    if (const auto mine = put_off_.extract(serial)) turn(mine.mapped());
  });
}

void Machine::alarm(Time at) {
  const Time now = clock_.monotonic();
  if (at > now + std::chrono::hours(1)) return;
  at = std::max(at, now + seconds(0.001));
  if (alarm_at_ > now && alarm_at_ <= at) return;
  alarm_at_ = at;
  later(at - now, [] {});
}

void Machine::sleep(Time duration, bool clock_goes_on) {
  asleep_ = true;
  timeline_.after(duration, [this, duration, clock_goes_on, life = life_] {
    if (!asleep_ || life != life_) return;
    if (!clock_goes_on) clock_.stand_still(duration);
    wake();
  });
}

// It looks at its clock before what has come meanwhile, or after.
void Machine::wake() {
  asleep_ = false;
  alarm_at_ = Time::min();
  std::deque<std::function<void()>> missed = std::exchange(missed_, {});
  const auto look = [] {};
  missed.insert(rng_.next_below(2) ? missed.begin() : missed.end(), look);
  for (const uint64_t life = life_; !missed.empty() && life == life_; missed.pop_front()) {
    turn(missed.front());
  }
}

void Machine::die(Death how, Time back_after) {
  if (up_) over(how, back_after);
}

void Machine::die_within(int64_t disk_calls, Time back_after) {
  back_after_ = back_after;
  disk_.die_in_call(disk_calls);
}

void Machine::stop_for(Time back_after) { stopping_ = back_after; }

// Dead before anything is taken apart, so that nothing is written or said on the way.
void Machine::over(Death how, Time back_after) {
  disk_.die_in_call(1);
  (void)disk_.make_directories("/").ok();
  up_ = asleep_ = false;
  missed_.clear();
  stopping_.reset();
  lanes_.reset();
  put_off_.clear();
  end();
  if (how == Death::kKill) disk_.crash(MemoryFs::Survives::kAll);
  if (how != Death::kKill) disk_.crash(rng_);
  if (how == Death::kPowerCut) clock_.power_up();
  if (!gone_) timeline_.after(back_after, [this] { boot(); });
}

void Machine::lose() {
  gone_ = true;
  if (up_) over(Death::kPowerCut, Time(0));
}

uint64_t Machine::disk_digest() {
  uint64_t digest = 0;
  const auto add = [&](const std::string& s) { digest = xxh3(s.data(), s.size(), digest); };
  const std::function<void(const std::string&)> walk = [&](const std::string& directory) {
    for (const std::string& name : disk_.list(directory).or_throw()) {
      if (name.find(".ndt-tmp-") != std::string::npos) continue;  // has a number of this process
      const std::string path = join(directory, name);
      add(path);
      if (disk_.info(path).or_throw().is_directory) walk(path);
    }
  };
  walk("/");
  return digest;
}

void Machine::fill_disk(int64_t slack) {
  const int64_t used = kRoom - disk_.space("/").or_throw().free;
  disk_.set_capacity(used + slack);
  full_ = was_full_ = true;
}

void Machine::free_disk() {
  disk_.set_capacity(kRoom);
  full_ = false;
}

}  // namespace ndtrain::sim
