// A PipeStore without photos: the real state machine of its work, rows made of digests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ndp/pipestore/row_delivery.h"
#include "tests/tuner/claims.h"
#include "tuner/ingest/manifest.h"

namespace ndtrain::testing {
using namespace ndp;
using namespace tuner;

class SimulatedStore {
 public:
  static constexpr size_t kRow = 8;
  static constexpr uint64_t kWindow = 25 * kRow;
  static constexpr size_t kBatch = 7;

  static std::string row_of(const Digest& d) { return {d.begin(), d.begin() + kRow}; }

  SimulatedStore(std::string store, std::vector<PhotoClaim> photos)
      : name(std::move(store)), photos_(std::move(photos)) {
    std::ranges::sort(photos_, {}, &PhotoClaim::digest);
  }

  // What it sends in answer to one message.
  std::vector<wire::FromStore> answer(const wire::ToStore& m) {
    std::vector<wire::FromStore> out;
    if (m.has_job()) {
      *out.emplace_back().mutable_inventory() = inventory(m.job().job());
      work_ = std::make_unique<RowDelivery>(m.job().job(), photos_.size(), row_, kWindow);
    }
    if (m.has_wanted()) work_->wanted(m.wanted()).or_throw();
    if (m.has_ack()) work_->acknowledged(m.ack());
    while (const auto batch = work_->next(kBatch)) {
      for (wire::FromStore& sent : extract(*batch)) out.push_back(std::move(sent));
      EXPECT_LE(work_->unacknowledged_bytes(), std::max(kWindow, kBatch * row_.of(1)));
    }
    return out;
  }

  void make_rows(RowDelivery::RowSize row) { row_ = row; }  // row_of() and zeros behind it
  void forget(size_t photo) { photos_.erase(photos_.begin() + static_cast<int64_t>(photo)); }
  void spoil(const Digest& d) { bad_.push_back(d); }
  void make_wrong_rows() { wrong_ = true; }
  bool idle() const { return !work_ || work_->idle(); }

  std::string name;

 private:
  wire::Inventory inventory(uint64_t job) const {
    wire::Inventory i;
    i.set_job(job);
    std::map<std::string, uint32_t> names;
    for (const PhotoClaim& p : photos_) {
      i.mutable_digests()->append(p.digest.begin(), p.digest.end());
      i.mutable_sources()->push_back(static_cast<char>(p.source));
      const auto [it, fresh] = names.emplace(p.label, names.size() + 1);
      if (fresh) i.add_names(p.label);
      i.add_labels(it->second);
    }
    i.set_last(true);
    return i;
  }

  std::vector<wire::FromStore> extract(const RowDelivery::Batch& batch) {
    std::vector<std::string> rows;
    std::vector<RowDelivery::BadRow> bad;
    for (const RowDelivery::Photo& p : batch.photos) {
      const Digest& d = photos_.at(p.place).digest;
      if (std::ranges::find(bad_, d) == bad_.end()) {
        rows.push_back(row_of(d));
        rows.back().resize(row_.of(batch.run));
        if (wrong_) std::ranges::reverse(rows.back());
      } else {
        bad.push_back({p.number, "photo.jpg", "cut short"});
      }
    }
    return work_->done(batch, rows, bad);
  }

  std::vector<PhotoClaim> photos_;
  std::vector<Digest> bad_;
  bool wrong_ = false;
  RowDelivery::RowSize row_{kRow};
  std::unique_ptr<RowDelivery> work_;
};

// Every photo of the manifest has its own row, and there is nothing else.
inline void expect_all_rows(const Manifest& m, const std::map<uint64_t, std::string>& spool) {
  ASSERT_EQ(spool.size(), m.size());
  for (const auto& [number, row] : spool) {
    EXPECT_EQ(row, SimulatedStore::row_of(m.entry(number).digest));
  }
}

}  // namespace ndtrain::testing
