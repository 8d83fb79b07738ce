// A PipeStore: its session with the Tuner, the models it is sent, the jobs it makes rows for, the
// version it has in force. A state machine over injected files, clock, links and lanes, so that a
// simulator can drive it; one thread owns it.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/deltas/delta.h"
#include "ndp/pipestore/model_fetch.h"
#include "ndp/pipestore/row_maker.h"
#include "ndp/pipestore/row_work.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/wire/grpc_link.h"
#include "ndp/wire/model_shelf.h"
#include "ndp/wire/state_directory.h"
#include "ndp/wire/store_session.h"

namespace ndtrain {

// What runs on photos that are uploaded, say.
struct VersionInForce {
  uint64_t version = 0;  // 0: none
  std::optional<Digest> extractor, head;
};

class PipeStoreService {
 public:
  using Time = StoreSession::Time;
  static constexpr size_t kLanes = 1;
  static constexpr size_t kBatch = 256;  // photos of one task, at most
  static constexpr size_t kTasks = 2;    // that make rows, on the lane at once
  // Between two attempts to put a version in force.
  static constexpr Time kRetry = std::chrono::seconds(30);

  struct Setting {
    Fs& fs;
    Clock& clock;
    StateDirectory& state;
    Lanes& lanes;
    RowMaker& maker;
    std::function<std::unique_ptr<LinkClient>(LinkId)> dial;
    // Of photos that people upload, where they may.
    UploadLog* uploads = nullptr;
    std::function<wire::Space()> space = {};
    std::function<void()> in_force_changed = {};
    DeltaApplier apply = apply_delta;
    // Photos that were deleted elsewhere; durable on return. On a lane.
    std::function<Status(std::span<const Digest>)> forget = {};
    // The Tuner's list, and the key of its tickets, for this store's HTTP.
    std::function<void(const std::string& json, const std::string& ticket_key)> tokens = {};
  };

  // `hello`: name, incarnation, program version and numerics. `seed` spreads retries. Throws Error.
  PipeStoreService(const Setting& setting, wire::Hello hello, uint64_t seed);

  void handle(LinkEvent<wire::ToStore> event);
  void tick();
  Time next() const {
    return session_.open() ? std::min(session_.next(), retry_at_) : session_.next();
  }
  void leave(const std::string& reason);  // says so to the Tuner, and closes

  bool connected() const { return session_.open(); }
  const VersionInForce& in_force() const { return in_force_; }
  std::string model_path(const Digest& model) const { return shelf_.path(model); }
  size_t jobs() const { return jobs_.size(); }
  uint64_t rows_made() const { return rows_made_; }
  const std::map<std::string, double>& stages() const { return stages_; }  // seconds, so far

 private:
  struct Job {
    wire::Job ask;
    uint64_t serial = 0;                              // tasks of another are stale
    std::shared_ptr<const StoreInventory> inventory;  // once its photos are listed
    bool opening = false;
    std::unique_ptr<RowWork> work;
    size_t tasks = 0;                                          // on the lane
    std::map<uint32_t, std::map<std::string, double>> stages;  // by run
    std::map<uint32_t, std::map<std::string, uint64_t>> made_from;
    std::map<uint32_t, double> joules;  // by run
  };
  struct Opened {
    RowWork::RowSize row;
    wire::Inventory about;  // what the job asks besides photos; in the first message
  };
  // A model whose bytes on the shelf are not its own any more.
  struct DamagedModel {
    Digest model{};
    std::string what;
  };

  Time now() const { return setting_.clock.monotonic(); }
  void apply(const StoreSession::Actions& actions);
  void deliver(const wire::ToStore& message);
  void send(wire::FromStore message);
  void answer(const Job& job, wire::FromStore message);
  void refuse(uint64_t id, const std::string& reason);
  void job_ended(const wire::JobEnd& end);

  bool is_current(uint64_t job, uint64_t serial) const {
    const auto it = jobs_.find(job);
    return it != jobs_.end() && it->second.serial == serial;
  }
  void advance();  // whatever waits for a model, or for nothing any more
  std::vector<Digest> models_of(const wire::Job& job) const;
  static std::vector<Digest> models_of(const VersionInForce& version);
  void model_failed(const std::string& reason);
  std::optional<DamagedModel> damage_in(std::span<const Digest> models) const;  // any thread
  void fetch_again(const DamagedModel& damage);

  // The photos are listed while the models come; then the job is opened.
  void list(uint64_t id);
  void listed(uint64_t id, Result<StoreInventory> result);
  void open(uint64_t id);
  void opened(uint64_t id, const Result<Opened>& result, const std::optional<DamagedModel>& damage);
  Result<Opened> open(const wire::Job& ask, const std::string& extractor,
                      const std::string& head);  // on the lane
  void send_inventory(const Job& job, wire::Inventory about);
  void pump(uint64_t id);
  void made(uint64_t id, const RowWork::Batch& batch, const Result<RowMaker::Made>& made);
  void check_coming();
  void swap_in();
  void sweep_models(const VersionInForce& before);

  void tell_space();
  void send_uploads();
  void uploads_kept(const wire::UploadsKept& kept);
  void deletions(const wire::Deletions& message);
  void deleted(LinkId link, const wire::Deletions& message, const Status& status);

  Setting setting_;
  ModelShelf shelf_;
  VersionInForce in_force_;
  StoreSession session_;
  std::unique_ptr<LinkClient> link_;
  LinkId link_id_ = 0;
  uint64_t serials_ = 0;
  std::map<uint64_t, Job> jobs_;  // of this session
  uint64_t opened_ = 0;           // the job that the maker has open, or lists the photos of
  uint64_t listed_ = 0;           // the serial of the last that it was asked to list them for
  ModelFetch models_;
  std::optional<VersionInForce> coming_;
  bool checking_ = false;        // its files, on the lane
  int damaged_ = 0;              // models that had to be fetched again, one after the other
  Time retry_at_ = Time::max();  // when it could not be kept
  uint64_t rows_made_ = 0;
  std::map<std::string, double> stages_;

  // Of this session.
  std::deque<std::pair<uint64_t, size_t>> uploads_sent_;  // last line and bytes of each message
  size_t upload_bytes_ = 0;                               // of these
  wire::Space space_;                                     // as the Tuner knows it
  Time space_at_{0};                                      // when to look again
};

}  // namespace ndtrain
