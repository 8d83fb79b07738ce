// How the rows of one job come in (features, labels, crops, files: one for each photo): the
// inventories of the stores that the caller counts in make the manifest, every photo is asked of
// one store that holds it, rows are acknowledged when they are durable, and what a lost store
// was assigned is asked of others. A pure state machine: the caller sends, writes and trains as it
// is told. One thread. docs/wire.md describes the messages.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ndp/wire/message_limits.h"
#include "ndp/wire/wire.pb.h"
#include "tuner/ingest/feature_audit.h"
#include "tuner/ingest/manifest.h"
#include "tuner/ingest/row_assignment.h"
#include "tuner/ingest/row_check.h"
#include "tuner/ingest/unreadable_photo.h"

namespace ndtrain::tuner {
using namespace ndp;

struct IngestRules {
  wire::Job job = {};    // what every store is asked
  size_t row_bytes = 0;  // 0: rows differ in size
  size_t views = 1;      // rows of runs from 1 on are so many times as large
  ManifestRules manifest = {};
  std::chrono::nanoseconds lost_after = std::chrono::minutes(10);  // that a store is away
  bool allow_missing = false;  // go on without what only lost stores have
  // Of a row, and of all rows of the job's sample; a row that is refused is asked of another store.
  RowCheck check = {}, check_sample = {};
  FeatureAudit::What audit = {};           // of features; its views are those above
  size_t most_photos = wire::kMostPhotos;  // of one store
  size_t portion =
      4096;  // a store is asked for so many photos at first, and again when fewer are out
};

class RowIngest {
 public:
  using Time = std::chrono::nanoseconds;
  // What counts of the time between two ticks, at most, for stores that are away: while the Tuner
  // itself was suspended, nobody could come.
  static constexpr Time kStep = std::chrono::seconds(10);
  // Of one store, without right rows between them; then it is lost for this job.
  static constexpr int kBadChecksums = 3;
  // What a store is asked for at a time: twice as much as before where that took it less than
  // kShort, half where more than kLong; within these bounds.
  static constexpr Time kShort = std::chrono::seconds(1), kLong = std::chrono::seconds(20);
  static constexpr size_t kLeastPortion = 512, kMostPortion = 65536;
  // Of what others were asked for, at a time: photos, and about so many bytes of rows.
  static constexpr size_t kSecond = 256, kSecondBytes = size_t{8} << 20;
  static constexpr uint64_t kNamedRefusals = 10;  // rows of one store that people are told of
  // For what else a store is asked for to be compared, when nothing else lacks.
  static constexpr Time kAuditPatience = std::chrono::seconds(60);

  // Rows that the caller makes durable; then it says durable(ticket).
  struct Rows {
    uint64_t ticket = 0;
    uint32_t run = 0;
    std::vector<std::pair<uint64_t, std::string_view>> rows;  // manifest number, row
    std::shared_ptr<const wire::Rows> message;                // holds their bytes
    std::string store;                                        // that made them
  };
  // What a store says it has, once it is counted in.
  struct Inventory {
    std::string store;
    SharedClaims photos = std::make_shared<const PhotoClaims>();
    uint64_t bytes = 0;         // of their files
    std::string sample = {};    // rows of the job's sample
    double bf16_gain = 0;       // times as fast as in f32; 0: it was not asked
    std::string numerics = {};  // that compute its rows; whoever counts it in says so
  };
  // A row that is of no use after all.
  struct BadRow {
    uint64_t number = 0;
    std::string reason;
  };
  struct WrongRows {
    std::optional<std::string> store;  // that made them, where it is known
    Digest photo{};                    // of which they were
    std::string why;
  };
  struct Actions {
    std::vector<std::pair<std::string, wire::ToStore>> send;  // to stores, by name
    bool manifest_made = false;                               // keep it, before anything is sent
    std::vector<Inventory> inventories;                       // of stores that came
    std::vector<Rows> keep;                                   // after the inventories
    std::vector<uint32_t> complete;                           // runs that can be trained on, rising
    std::vector<std::string> notes;                           // for people
    std::optional<std::string> end_session;  // of the store that was spoken of: why
    std::optional<std::string> failed;       // the job is over
    std::optional<WrongRows> wrong;          // of a job that is over: none of its rows counts
  };

  explicit RowIngest(IngestRules rules);
  // Goes on with a job: its manifest and the stores it counts in.
  RowIngest(IngestRules rules, Manifest manifest, std::vector<std::string> stores, Time now);

  // The manifest is kept; what is lacking is asked for from now on. `durable`: photos whose rows
  // are there; `absent`: those that runs were closed without, before a restart.
  Actions begin(std::span<const uint64_t> durable, std::span<const uint64_t> absent);

  // The stores that have said what they hold, before there is a manifest; and the manifest of what
  // these of them hold. Any other comes too late for this job.
  std::vector<std::string> ready() const;
  size_t listing() const { return listing_.size(); }  // are here, and have not
  Actions count_in(std::span<const std::string> stores);

  Actions arrive(Time now, const std::string& store);
  Actions leave(Time now, const std::string& store);
  Actions message(Time now, const std::string& store, wire::FromStore message);
  Actions durable(uint64_t ticket, std::span<const BadRow> bad = {});
  Actions tick(Time now);
  Time next() const;  // when tick() has something to do; Time::max() for never

  bool has_manifest() const { return manifest_ != nullptr; }
  const Manifest& manifest() const { return *manifest_; }
  const RowAssignment& assignment() const { return *assignment_; }
  const std::vector<std::string>& stores() const { return numbered_; }  // as in the manifest
  // Photos of a run without a row: nobody could read them, or who could is lost.
  std::vector<uint64_t> absent(uint32_t run) const;
  // Files of the stores that are no whole photos, and so are in no inventory.
  uint64_t unreadable() const;
  // Photos of inventories that cannot be read all the same, by number; those that a job before a
  // restart was told of are left out.
  std::vector<UnreadablePhoto> unreadable_photos() const;

 private:
  struct Store {
    std::optional<uint32_t> number;  // in the manifest
    uint64_t session = 0;            // counts its sessions; 0: none yet
    bool here = false, ready = false;
    uint64_t photo_bytes = 0, unreadable = 0;
    std::vector<UnreadablePhoto> unreadable_files;                          // the first ones
    std::shared_ptr<PhotoClaims> claims = std::make_shared<PhotoClaims>();  // whole when `ready`
    std::string sample;                                                     // rows of the job's
    double bf16_gain = 0;
    std::vector<bool> asked;         // and not answered: by place in `claims`, in this session
    size_t portion = 0;              // that it is asked for
    std::optional<Time> portion_at;  // when it was asked last
    std::map<uint32_t, uint64_t> received;  // numbers by run, in this session
    std::string pieces;                     // of a row that has not come whole yet,
    uint64_t piece_of = 0;                  // of this number
    int bad_checksums = 0;                  // since its last right rows
    uint64_t refused = 0;                   // rows
    bool lost = false;                      // for this job
    Time away{0}, counted{0};               // for how long, as of when
  };
  struct Pending {
    std::string store;
    uint64_t session;
    uint32_t run;
    uint64_t chunk;
    std::vector<uint64_t> numbers;
  };

  void inventory(Time now, Store& store, const wire::Inventory& message, Actions& a);
  std::vector<uint64_t> held_now(const Store& store) const;
  void name_conflicts(Actions& a) const;
  void adapt_portion(Store& store) const;
  size_t second_of(const Store& store) const;
  bool ask(const std::string& name, Store& store, bool own, Actions& a);
  std::optional<size_t> place_of(const Store& store, uint64_t number) const;  // in its claims
  bool want(const std::string& name, Store& store, uint32_t run,
            const std::vector<uint64_t>& photos, Actions& a);
  void audit_row(const Store& store, uint64_t number, std::string_view row);
  bool audited(Actions& a);
  void end_audit(Actions& a);
  void tell_finding(bool last, Actions& a);
  void ask_all(Actions& a);
  void ask_changed(Actions& a);
  void ask_these(std::vector<std::string> stores, Actions& a);
  void rows(Store& store, const std::string& name, wire::Rows f, Actions& a);
  size_t pieced_row(const wire::Rows& f) const;
  bool take_piece(Store& store, const std::string& name, uint64_t number, wire::Rows& f,
                  Actions& a) const;
  std::optional<std::vector<size_t>> lengths(const wire::Rows& f, size_t rows) const;
  bool refuse_row(const std::string& name, Store& store, uint64_t number, std::string_view row,
                  Actions& a);
  size_t row_bytes(uint32_t run) const {  // 0: rows differ in size
    return run == 0 ? rules_.row_bytes : rules_.row_bytes * rules_.views;
  }
  void cannot_read(const Store& store, const std::string& name, const wire::Unreadable& photo,
                   Actions& a);
  void run_done(const Store& store, const wire::RunDone& done, Actions& a);
  void lose(const std::string& name, Store& store, const std::string& why, Actions& a);
  void report_complete(Actions& a);

  IngestRules rules_;
  std::map<std::string, Store> stores_;
  std::vector<std::string> numbered_;  // of the manifest, in its order
  std::set<std::string> listing_;      // that are here and have not said what they hold
  std::set<std::string> away_;  // of the manifest's stores those that are neither here nor lost
  std::unique_ptr<Manifest> manifest_;
  std::unique_ptr<RowAssignment> assignment_;
  std::unique_ptr<FeatureAudit> audit_;  // null: there is none
  std::optional<Time> audit_since_;      // that all else waits for it
  std::map<uint64_t, Pending> pending_;
  std::vector<bool> keeping_;  // by number: whether one of these has it
  Time now_{0};                // of the last call that said it
  struct Place {
    std::string store, path;
  };
  std::map<uint64_t, Place> unreadable_at_;  // by number: who said so last
  uint64_t tickets_ = 0;
  std::vector<bool> reported_;  // runs
  bool begun_ = false, over_ = false;
  std::set<std::string> late_;  // that came when there was a manifest without them
};

}  // namespace ndtrain::tuner
