// Jobs with fewer stores than the Tuner knows, with late ones and with drained ones: who takes part
// follows from what was said and from who was there, everybody else is named, and no photo of those
// that came is missing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "framework/core/log.h"
#include "tests/sim/store_machine.h"
#include "tests/sim/tuner_machine.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

namespace {

using Names = std::set<std::string>;

constexpr Time kTooLong = std::chrono::hours(2);
constexpr const char* kOtherNumerics = "b";  // computes in another way than the others

// How a store is when the job is submitted.
enum class Stand { kHere, kLate, kTooLate, kDrained };

struct DrawnJob {
  explicit DrawnJob(uint64_t seed) : rng(seed, "stores of a job") {
    for (Stand& s : stands) s = static_cast<Stand>(rng.next_below(4));
    stands[rng.next_below(Collection::kStores)] = Stand::kHere;
    const uint64_t kind = rng.next_below(3);
    if (kind == 1) spec.stores = 1 + static_cast<uint32_t>(rng.next_below(Collection::kStores));
    for (size_t s = 0; kind == 2 && s < Collection::kStores; ++s) {
      const bool last = s + 1 == Collection::kStores && spec.stores.names.empty();
      if (last || rng.next_below(2)) spec.stores.names.push_back(Collection::name_of(s));
    }
    spec.deterministic = rng.next_below(4) == 0;
    // Who is there when a Tuner comes back decides whom a number takes.
    tuner_dies = kind != 1 && rng.next_below(3) == 0;
    spec.seed = 7;
    spec.runs = 2;
    spec.trainer = {.epochs = 1, .batch = 32, .schedule = {.lr = 0.05}, .seed = 7};
    spec.head = "linear";
    spec.memory = 1 << 20;
    spec.disk = 1 << 28;
  }

  Names meant() const {
    Names all;
    for (size_t s = 0; s < Collection::kStores; ++s) {
      if (spec.stores.includes(Collection::name_of(s))) all.insert(Collection::name_of(s));
    }
    return all;
  }
  // Those meant that are there in time.
  Names in_time() const {
    Names names = meant();
    for (size_t s = 0; s < Collection::kStores; ++s) {
      const bool comes = stands[s] == Stand::kHere || stands[s] == Stand::kLate;
      if (!comes) names.erase(Collection::name_of(s));
    }
    return names;
  }

  Rng rng;
  std::array<Stand, Collection::kStores> stands{};
  JobSpec spec;
  bool tuner_dies = false;
};

class JobSite {
 public:
  explicit JobSite(uint64_t seed)
      : plan_(seed),
        collection_(seed % Collection::kKinds),
        network_(timeline_, seed, watch_, Bug::kNone) {
    tuner_ = std::make_unique<TunerMachine>(timeline_, seed, network_, watch_, Bug::kNone);
    Network::Ends ends;
    ends.tuner = tuner_.get();
    for (size_t s = 0; s < Collection::kStores; ++s) {
      stores_.push_back(
          std::make_unique<StoreMachine>(timeline_, seed, network_, collection_, s, Bug::kNone));
      ends.stores[s] = stores_[s].get();
    }
    ends.to_tuner = [this](LinkEvent<wire::FromStore> e) { tuner_->handle(std::move(e)); };
    ends.to_store = [this](size_t s, LinkEvent<wire::ToStore> e) {
      stores_[s]->handle(std::move(e));
    };
    network_.connect(std::move(ends));
  }

  void run() {
    tuner_->boot();
    for (auto& store : stores_) store->boot();
    until([&] { return here() == Collection::kStores; });
    size_t away = 0;
    for (size_t s = 0; s < Collection::kStores; ++s) {
      if (plan_.stands[s] == Stand::kDrained) {
        tuner_->turn([&] { tuner_->service().drain(Collection::name_of(s), true); });
      } else if (plan_.stands[s] != Stand::kHere) {
        stores_[s]->die(Machine::Death::kKill, kTooLong / 2);
        ++away;
      }
    }
    until([&] { return here() == Collection::kStores - away; });
    plan_.spec.model = to_hex(tuner_->model());
    tuner_->turn([&] { tuner_->service().submit(plan_.spec); });
    for (size_t s = 0; s < Collection::kStores; ++s) {
      if (plan_.stands[s] != Stand::kLate) continue;
      timeline_.after(seconds(8 + 8 * plan_.rng.next_uniform()), [this, s] { stores_[s]->boot(); });
    }
    if (plan_.tuner_dies) {
      timeline_.after(seconds(1 + 9 * plan_.rng.next_uniform()),
                      [this] { tuner_->die(Machine::Death::kKill, seconds(1)); });
    }
    until([&] { return tuner_->up() && !tuner_->service().job(1).open(); });
    check();
  }

  bool waited() const { return waited_; }
  bool done() const { return tuner_->service().job(1).state == JobState::kDone; }

 private:
  void until(const std::function<bool()>& over) {
    while (!over() && timeline_.now() < kTooLong && timeline_.step()) {
      waited_ = waited_ || (tuner_->up() && tuner_->service().waits_for(1));
    }
    ASSERT_LT(timeline_.now(), kTooLong) << "it hangs";
  }
  size_t here() const {
    if (!tuner_->up()) return 0;
    size_t n = 0;
    for (const StoreRecord& s : tuner_->service().stores()) n += s.here;
    return n;
  }

  void check() {
    const JobRecord& job = tuner_->service().job(1);
    const Names in_time = plan_.in_time();
    Names without = plan_.meant();
    const bool number = plan_.spec.stores.number > 0;
    const size_t most = number ? plan_.spec.stores.number : Collection::kStores;
    const size_t takes = std::min(most, in_time.size());
    if (in_time.empty()) FAIL() << "a job without stores ended: " << job.message;
    if (plan_.spec.deterministic && takes < without.size()) {
      EXPECT_EQ(job.state, JobState::kFailed);
      EXPECT_NE(job.message.find("without "), std::string::npos) << job.message;
      return;
    }
    if (plan_.spec.deterministic && takes > 1 && in_time.contains(kOtherNumerics)) {
      EXPECT_EQ(job.state, JobState::kFailed);
      EXPECT_NE(job.message.find("numerics"), std::string::npos) << job.message;
      return;
    }
    ASSERT_EQ(job.state, JobState::kDone) << job.message;
    const auto kept = JobFiles(tuner_->disk(), "state/jobs/1").load_manifest().or_throw();
    const Names took(kept->stores.begin(), kept->stores.end());
    EXPECT_EQ(took.size(), takes);
    for (const std::string& name : took) {
      EXPECT_TRUE(in_time.contains(name)) << name;
      without.erase(name);
    }
    check_photos(*kept, took);
    Names named;
    const nlohmann::json result = nlohmann::json::parse(job.result);
    for (const nlohmann::json& s : result.value("left_out_stores", nlohmann::json::array())) {
      named.insert(s.at("store").get<std::string>());
      const auto store = static_cast<size_t>(s.at("store").get<std::string>()[0] - 'a');
      EXPECT_EQ(s.at("photos"), collection_.of(store).size());
    }
    EXPECT_EQ(named, without);
  }

  // Every photo of the stores that came, with its row where one of them can read it.
  void check_photos(const SavedManifest& kept, const Names& took) {
    std::set<Digest> all, readable, manifest;
    for (size_t s = 0; s < Collection::kStores; ++s) {
      if (!took.contains(Collection::name_of(s))) continue;
      for (const StorePhoto& p : collection_.of(s)) {
        all.insert(p.digest);
        if (!Collection::bad(s, p.digest)) readable.insert(p.digest);
      }
    }
    for (uint64_t n = 0; n < kept.manifest.size(); ++n) {
      manifest.insert(kept.manifest.entry(n).digest);
    }
    EXPECT_EQ(manifest, all);
    EXPECT_EQ(watch_.spool.size(), readable.size());
    for (const Digest& photo : readable) EXPECT_TRUE(watch_.spool.contains(photo));
    const nlohmann::json result = nlohmann::json::parse(tuner_->service().job(1).result);
    EXPECT_EQ(result.value("left_out", size_t{0}), all.size() - readable.size());
  }

  DrawnJob plan_;
  Collection collection_;
  Timeline timeline_;
  Watch watch_;
  Network network_;
  std::unique_ptr<TunerMachine> tuner_;
  std::vector<std::unique_ptr<StoreMachine>> stores_;
  bool waited_ = false;
};

TEST(JobStores, TakeEveryPhotoOfThoseThatComeAndNameTheOthersWhoeverIsLateOrDrained) {
  log::set_level(log::Level::kOff);
  size_t waited = 0, done = 0;
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const DrawnJob plan(seed);
    if (plan.in_time().empty()) continue;  // such a job waits for ever, and says so
    JobSite site(seed);
    site.run();
    waited += site.waited();
    done += site.done();
    ASSERT_FALSE(HasFailure()) << "seed " << seed << ", stores " << plan.spec.stores.text();
  }
  fmt::print("{} jobs waited for stores, {} were done\n", waited, done);
  EXPECT_GT(waited, 30U);
  EXPECT_GT(done, 80U);
}

}  // namespace
}  // namespace ndtrain::sim
