#include "tests/sim/growth.h"

#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

#include "framework/core/clock.h"
#include "ndp/wire/role_loop.h"
#include "ndp/wire/state_directory.h"
#include "tests/sim/counting_fs.h"
#include "tests/sim/photoless_store.h"
#include "tests/support/waiting_lanes.h"
#include "tuner/jobs/store_choice.h"
#include "tuner/service/service.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

using std::chrono::nanoseconds;

constexpr uint64_t kTurnsPerLook = 256;      // at the heap
constexpr size_t kListedAtOnce = 1'000'000;  // photos, where no job makes rows

int64_t heap_bytes() {
  const struct mallinfo2 m = mallinfo2();
  return static_cast<int64_t>(m.uordblks + m.hblkhd);
}

// Messages on their way from the Tuner.
class Outbox final : public LinkServer {
 public:
  std::string address() const override { return "here"; }
  void send(LinkId link, wire::ToStore m) override { sent.emplace_back(link, std::move(m)); }
  void close(LinkId) override {}

  std::deque<std::pair<LinkId, wire::ToStore>> sent;
};

// Asks a small row of each photo, and has all it gets.
class AnyRows final : public JobWork, RowSink {
 public:
  explicit AnyRows(uint64_t& delivered) : delivered_(delivered) {}
  RowRequest prepare() override {
    return {.row_bytes = PhotolessStore::kRow, .manifest = {.runs = 1}};
  }
  RowSink& sink() override { return *this; }
  void manifest(const Manifest&, const std::vector<std::string>&) override {}
  bool run(uint32_t) override { return true; }
  JobOutcome finish() override { return {}; }
  Result<std::vector<uint64_t>> open(const Manifest&) override { return std::vector<uint64_t>(); }
  Result<std::vector<RowIngest::BadRow>> keep(std::span<const RowIngest::Rows> rows) override {
    for (const RowIngest::Rows& r : rows) delivered_ += r.rows.size();
    return std::vector<RowIngest::BadRow>();
  }

 private:
  uint64_t& delivered_;
};

class AnyWorks final : public JobFactory {
 public:
  std::unique_ptr<JobWork> make(uint64_t, const JobSpec&, const std::string&, Progress&) override {
    return std::make_unique<AnyRows>(delivered);
  }
  uint64_t delivered = 0;
};

class Crowd {
 public:
  Crowd(Fs& fs, const std::string& directory, const GrowthSetting& setting)
      : fs_(fs),
        state_(StateDirectory::open(fs_, directory, "tuner").or_throw()),
        columns_(directory, setting.on_heap) {
    for (size_t i = 0; i < setting.stores; ++i) stores_.emplace_back(i, setting.photos);
    base_ = heap_bytes();
  }

  GrowthCost connect() {
    return cost_of([this] {
      for (LinkId link = 0; link < stores_.size(); ++link) {
        tell({link, LinkOpened{"a host", ""}});
        tell({link, stores_[link].hello()});
        settle();
      }
    });
  }

  // Each store says a word every heartbeat, at times that are spread over it.
  GrowthCost heartbeats(double seconds) {
    return cost_of([this, seconds] {
      const double beats = seconds / std::chrono::duration<double>(kHeartbeat).count();
      const auto all = static_cast<double>(stores_.size());
      const auto each = nanoseconds(kHeartbeat) / static_cast<int64_t>(stores_.size());
      for (double said = 0; said < beats * all; ++said) {
        clock_.advance(each);
        wire::FromStore ping;
        ping.mutable_ping();
        say(static_cast<LinkId>(said) % stores_.size(), std::move(ping));
        settle();
      }
    });
  }

  void submit() {
    JobSpec spec{.model = to_hex(model_)};
    spec.stores.number = static_cast<uint32_t>(stores_.size());
    service_.submit(spec);
  }
  GrowthCost inventory() {
    return cost_of([this] {
      turn();
      settle([this] { return !fs_.exists(manifest_of(1)); });
    });
  }
  // Of jobs that are cancelled when their manifests are kept, which are removed for want of room.
  GrowthCost inventories_alone(size_t photos) {
    return cost_of([this, photos] {
      const size_t at_once = std::clamp<size_t>(kListedAtOnce / photos, 1, kMostNamed);
      for (size_t begin = 0; begin < stores_.size(); begin += at_once) {
        JobSpec spec{.model = to_hex(model_)};
        const size_t end = std::min(stores_.size(), begin + at_once);
        for (size_t i = begin; i < end; ++i) spec.stores.names.push_back(stores_[i].name());
        const uint64_t job = service_.submit(spec);
        turn();
        settle([&] { return !fs_.exists(manifest_of(job)); });
        service_.cancel(job);
        settle();
        if (fs_.remove(manifest_of(job)).ok()) listed_ += end - begin;
      }
    });
  }
  GrowthCost rows() {
    return cost_of([this] { settle(); });
  }

  GrowthCost leave() {
    return cost_of([this] {
      for (LinkId link = 0; link < stores_.size(); ++link) {
        tell({link, LinkClosed{"it is gone"}});
        settle();
      }
    });
  }

  std::string failure() const {
    if (listed_ == stores_.size()) return "";
    const JobRecord& job = service_.jobs().begin()->second;
    if (job.state == JobState::kDone) return "";
    return job.message.empty() ? "it does not end: " + service_.doing(job.id) : job.message;
  }
  uint64_t delivered() const { return works_.delivered; }

 private:
  template <typename F>
  GrowthCost cost_of(const F& f) {
    cost_ = {};
    const uint64_t files = fs_.files_written, bytes = fs_.bytes_written;
    f();
    look();
    cost_.heap = heap_bytes() - base_;
    cost_.files_written = fs_.files_written - files;
    cost_.bytes_written = fs_.bytes_written - bytes;
    return cost_;
  }

  std::string manifest_of(uint64_t job) const {
    return join(join(state_.file("jobs"), std::to_string(job)), "manifest.cbor");
  }
  void look() {
    cost_.peak_heap = std::max(cost_.peak_heap, heap_bytes() - base_);
    cost_.peak_mapped = std::max(cost_.peak_mapped, columns_.mapped());
  }
  void tell(LinkEvent<wire::FromStore> event) { to_tuner_.push_back(std::move(event)); }
  void say(LinkId link, wire::FromStore message) {
    message.set_term(me_.term);
    ++cost_.messages;
    cost_.bytes += message.ByteSizeLong();
    tell({link, std::move(message)});
  }

  // As the Tuner's loop has it.
  void turn() {
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kEventsOfTurn && !to_tuner_.empty(); ++i) {
      service_.handle(std::move(to_tuner_.front()));
      to_tuner_.pop_front();
    }
    lanes_.run();
    service_.tick();
    (void)service_.next();
    cost_.seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (++turns_ % kTurnsPerLook == 0) look();
  }

  // Stores answer one message after the other, as long as the Tuner keeps up.
  void settle(const std::function<bool()>& goes_on = [] { return true; }) {
    while (goes_on() && (!to_tuner_.empty() || !links_.sent.empty() || !lanes_.tasks.empty())) {
      while (!links_.sent.empty() && to_tuner_.size() < kEventsOfTurn) {
        const auto [link, message] = std::move(links_.sent.front());
        links_.sent.pop_front();
        ++cost_.messages;
        cost_.bytes += message.ByteSizeLong();
        for (wire::FromStore& m : stores_[link].answer(message)) say(link, std::move(m));
      }
      turn();
    }
  }

  CountingFs fs_;
  ManualClock clock_;
  StateDirectory state_;
  Outbox links_;
  support::WaitingLanes lanes_;
  AnyWorks works_;
  ModelStore models_{fs_, state_.file("models")};
  Versions versions_{fs_, state_.file("versions.json")};
  Digest model_ = models_.add("a model").or_throw();
  TunerIdentity me_ = state_.next_term(1).or_throw();
  MappedMemory columns_;
  TunerService service_{{.fs = fs_,
                         .clock = clock_,
                         .state = state_,
                         .links = links_,
                         .lanes = lanes_,
                         .works = works_,
                         .models = models_,
                         .versions = versions_,
                         .memory = &columns_},
                        me_};
  std::vector<PhotolessStore> stores_;
  std::deque<LinkEvent<wire::FromStore>> to_tuner_;
  GrowthCost cost_;
  int64_t base_ = 0;
  size_t listed_ = 0;  // stores that said what they hold to jobs of inventories alone
  uint64_t turns_ = 0;
};

}  // namespace

Growth grow(Fs& fs, const std::string& directory, const GrowthSetting& setting) {
  const auto crowd = std::make_unique<Crowd>(fs, directory, setting);
  Growth g;
  g.connect = crowd->connect();
  g.idle = crowd->heartbeats(setting.idle_s);
  if (setting.inventories_alone) {
    g.inventory = crowd->inventories_alone(setting.photos);
  } else {
    crowd->submit();
    g.inventory = crowd->inventory();
    g.rows = crowd->rows();
  }
  g.after = crowd->heartbeats(setting.idle_s);
  g.leave = crowd->leave();
  g.delivered = crowd->delivered();
  struct rusage used {};
  getrusage(RUSAGE_SELF, &used);
  g.resident = used.ru_maxrss * 1024;
  g.failure = crowd->failure();
  return g;
}

}  // namespace ndtrain::sim
