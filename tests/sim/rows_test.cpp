// Features from stores to spool, both sides' real state machines, over links and a disk that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "framework/core/rng.h"
#include "ndp/wire/numbers.h"
#include "tests/sim/simulated_store.h"
#include "tuner/ingest/row_ingest.h"

namespace ndtrain {
using namespace ndp;
using namespace tuner;

namespace {

using testing::claims;
using ::testing::ElementsAre;
using testing::expect_all_rows;
using Store = testing::SimulatedStore;
using Time = RowIngest::Time;

IngestRules rules() {
  wire::Job job;
  job.set_job(9);
  return {.job = job, .row_bytes = Store::kRow, .manifest = {.seed = 1, .runs = 2}};
}

// Three stores whose sessions break, whose messages wait, and a Tuner whose disk takes its time and
// which starts over with what was durable. Whatever happens, every photo has its row, once.
class Storm {
 public:
  explicit Storm(uint64_t seed) : rng_(seed, "intake"), ingest_(rules()) {
    stores_.push_back({Store("a", claims(0, 80))});
    stores_.push_back({Store("b", claims(50, 130))});
    stores_.push_back({Store("c", claims(0, 150))});
  }

  bool run(int steps) {
    for (int i = 0; i < steps; ++i) {
      const bool calm = i > steps / 2;
      if (calm && ingest_.has_manifest() && complete_.size() == 3) return true;
      Line& line = stores_[rng_.next_bits() % stores_.size()];
      switch (rng_.next_bits() % (calm ? 8 : 10)) {
        case 0:
          if (!line.here) connect(line);
          break;
        case 1:
        case 2:
          write();
          break;
        case 8:
          disconnect(line);
          break;
        case 9:
          if (rng_.next_bits() % 8 == 0 && ingest_.has_manifest()) restart();
          break;
        default:
          pass(line);
      }
    }
    return false;
  }

  void check() const {
    expect_all_rows(ingest_.manifest(), spool_);
    EXPECT_THAT(complete_, ElementsAre(0u, 1u, 2u));
  }

 private:
  struct Line {
    Store store;
    bool here = false;
    std::deque<wire::ToStore> down = {};
    std::deque<wire::FromStore> up = {};
  };

  void connect(Line& line) {
    line.here = true;
    take(ingest_.arrive(now_, line.store.name));
  }
  void disconnect(Line& line) {
    if (!std::exchange(line.here, false)) return;
    line.up.clear();
    line.down.clear();
    take(ingest_.leave(now_, line.store.name));
  }
  void pass(Line& line) {
    if (!line.down.empty() && rng_.next_bits() % 2) {
      for (auto& m : line.store.answer(line.down.front())) line.up.push_back(std::move(m));
      line.down.pop_front();
    } else if (!line.up.empty()) {
      const wire::FromStore m = line.up.front();
      line.up.pop_front();
      const wire::Rows& f = m.rows();
      if (m.has_rows()) {
        chunks_[{line.store.name, f.chunk()}] =
            unpack_numbers(f.numbers(), 1u << 20, 1u << 20).or_throw();
      }
      take(ingest_.message(now_, line.store.name, m));
    }
  }
  // The disk is slow: what is written comes in bursts.
  void write() {
    for (uint64_t n = rng_.next_bits() % 24; n > 18; --n) write_one();
  }
  void write_one() {
    if (writing_.empty()) return;
    const RowIngest::Rows rows = writing_.front();
    writing_.pop_front();
    for (const auto& [number, row] : rows.rows) {
      const auto [it, fresh] = spool_.emplace(number, row);
      EXPECT_EQ(it->second, row);
    }
    take(ingest_.durable(rows.ticket));
  }
  void restart() {
    std::vector<uint64_t> durable;
    for (const auto& [number, row] : spool_) durable.push_back(number);
    ingest_ = RowIngest(rules(), ingest_.manifest(), ingest_.stores(), now_);
    writing_.clear();
    complete_.clear();
    for (Line& line : stores_) {
      line.here = false;
      line.up.clear();
      line.down.clear();
    }
    take(ingest_.begin(durable, {}));
  }
  void take(RowIngest::Actions a) {
    EXPECT_FALSE(a.end_session) << *a.end_session;
    EXPECT_FALSE(a.failed) << *a.failed;
    if (a.manifest_made) return take(ingest_.begin({}, {}));
    for (uint32_t run : a.complete) {
      complete_.push_back(run);
      for (uint64_t n : ingest_.manifest().run(run)) {
        EXPECT_TRUE(spool_.contains(n)) << "run " << run << " is complete without photo " << n;
      }
    }
    for (const auto& [name, m] : a.send) {
      if (!m.has_ack()) continue;
      for (uint64_t n : chunks_.at({name, m.ack().chunk()})) {
        EXPECT_TRUE(spool_.contains(n)) << "photo " << n << " is acknowledged and not durable";
      }
    }
    for (auto& rows : a.keep) writing_.push_back(std::move(rows));
    for (auto& [name, m] : a.send) {
      for (Line& line : stores_) {
        if (line.here && line.store.name == name) line.down.push_back(std::move(m));
      }
    }
    if (ingest_.has_manifest() || ingest_.ready().size() < stores_.size()) return;
    take(ingest_.count_in(ingest_.ready()));
  }

  Rng rng_;
  Time now_{0};
  RowIngest ingest_;
  std::vector<Line> stores_;
  std::deque<RowIngest::Rows> writing_;
  std::map<uint64_t, std::string> spool_;
  std::map<std::pair<std::string, uint64_t>, std::vector<uint64_t>> chunks_;  // numbers
  std::vector<uint32_t> complete_;
};

TEST(Rows, EveryPhotoHasItsRowWhateverBreaks) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Storm storm(seed);
    ASSERT_TRUE(storm.run(12'000)) << "seed " << seed;
    storm.check();
  }
}

}  // namespace
}  // namespace ndtrain
