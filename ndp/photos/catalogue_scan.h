#pragma once

#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "ndp/photos/catalogue.h"
#include "ndp/photos/catalogue_rows.h"

namespace ndtrain::ndp {

// One scan, from the first page to the verdict on what is gone. Throws Failure.
class CatalogueScan {
 public:
  CatalogueScan(CatalogueRows& rows, PhotoSource& source, ThreadPool& pool,
                const ScanOptions& options)
      : rows_(rows),
        source_(source),
        pool_(pool),
        options_(options),
        places_(options.places.begin(), options.places.end()) {}

  Result<ScanReport> run();

 private:
  // A listed photo on its way into the table.
  struct Candidate {
    std::optional<CatalogueRow> known;
    CatalogueEntry entry;
    bool read = false;  // its bytes must be read
    bool gone = false;  // it went away before they were
  };

  void take(const PhotoPage& page);
  std::vector<Candidate> look_up(const PhotoPage& page);
  Candidate look_up(const PhotoRef& ref);
  void read(std::vector<Candidate>& candidates);
  void read_far(std::vector<Candidate>& candidates);
  // Any thread. Its bytes, or why they cannot be had.
  Result<std::string> read(Candidate& c) const;
  void store(std::span<Candidate> candidates);
  void store(Candidate& c);
  void store_damage(const CatalogueEntry& entry);
  void finish();
  void end_of_all();
  void end_of_places();
  void settle(const CatalogueRow& row);        // a fresh one
  bool settle_fresh(const CatalogueRow& row);  // whether it was moved
  void settle_absent(const CatalogueRow& row);
  bool is_gone(const CatalogueRow& row) const;
  bool is_known(const CatalogueRow& row) const;
  void mark_seen(int64_t id);
  void tell(const PhotoChange& change);

  CatalogueRows& rows_;
  PhotoSource& source_;
  ThreadPool& pool_;
  const ScanOptions& options_;
  ScanReport report_;
  size_t part_photos_ = 32;                       // of the next part
  std::vector<bool> seen_;                        // by row id
  std::unordered_set<std::string> hidden_;        // places that could not be looked at
  const std::unordered_set<std::string> places_;  // that are looked at; empty: all
  std::unordered_set<int64_t> reborn_;  // rows of deleted photos that are back as they were
  std::vector<CatalogueRow> fresh_;     // of a scan of places: what it added
};

}  // namespace ndtrain::ndp
