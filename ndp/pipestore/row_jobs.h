// The Tuner's jobs at a PipeStore, within one session: the photos are listed while a job's models
// come, then it is opened, and rows are made as they are wanted. Of several jobs, each has at most
// kTasks batches on the lane, so that they take turns. One thread, the service's; photos are read
// on the lane.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/pipestore/model_fetch.h"
#include "ndp/pipestore/row_delivery.h"
#include "ndp/pipestore/row_producer.h"
#include "ndp/wire/model_blobs.h"
#include "ndp/wire/tuner_connection.h"

namespace ndtrain::ndp {

class RowJobs {
 public:
  static constexpr size_t kTasks = 2;    // of a job that make rows, on the lane at once
  static constexpr size_t kHashes = 64;  // photos that are hashed in one task
  static constexpr size_t kMost = 16;    // jobs at once; a Tuner that asks for more is refused
  // Lists of photos that are made at once, those of jobs that are over by now included; a Tuner
  // that asks for more loses its session.
  static constexpr size_t kMostLists = 4 * kMost;
  using Time = TunerConnection::Time;
  // Between two attempts to fetch a model for which there is no room.
  static constexpr Time kRetry = std::chrono::seconds(30);
  // Between two attempts to read photos that are away (kUnavailable); jobs wait for them.
  static constexpr Time kAway = std::chrono::seconds(10);

  struct Ports {
    Clock& clock;
    Lanes& lanes;
    RowProducer& producer;
    const ModelBlobs& blobs;
    ModelFetch& models;
    TunerConnection& tuner;
    std::function<void()> go_on;  // calls advance(), and what else may wait
  };

  explicit RowJobs(Ports ports) : ports_(std::move(ports)) {}

  void begin(const wire::Job& job);
  void wanted(const wire::Wanted& message);
  void acknowledged(const wire::Ack& message);
  void end(const wire::JobEnd& end);
  void session_over() {
    jobs_.clear();
    retry_at_ = photos_at_ = Time::max();
  }

  void advance();  // whatever waits for a model, or for nothing any more
  // Jobs that wait for it are refused; for want of room they wait for that.
  void model_failed(const Status& why);

  void tick();
  // When tick() has something to do.
  Time next() const { return std::min(retry_at_, photos_at_); }

  std::vector<Digest> models() const;  // that jobs need
  size_t size() const { return jobs_.size(); }
  uint64_t rows_made() const { return rows_made_; }
  // So far: of rows that were sent, of photo files that were read for them.
  uint64_t row_bytes() const { return row_bytes_; }
  uint64_t photo_bytes() const { return photo_bytes_; }
  const std::map<std::string, double>& stages() const { return stages_; }  // seconds, so far

 private:
  struct Job {
    wire::Job ask;
    uint64_t serial = 0;                              // tasks of another are stale
    std::shared_ptr<const StoreInventory> inventory;  // once its photos are listed
    bool opening = false;
    std::shared_ptr<JobRows> rows;  // once it is open; tasks hold on to them
    std::unique_ptr<RowDelivery> work;
    std::optional<double> photo_s;            // that one took in the last task
    size_t tasks = 0;                         // on the lane, or waiting for photos
    std::vector<RowDelivery::Batch> waiting;  // for photos
    bool unlisted = false;                    // its list waits for photos
    // Where it asks what photos look like: of the first ones, on the way to the inventory.
    std::vector<std::optional<uint64_t>> hashes;
    bool unhashed = false;                                     // the others wait for photos
    wire::Inventory about;                                     // goes ahead of the inventory
    std::map<uint32_t, std::map<std::string, double>> stages;  // by run
    std::map<uint32_t, std::map<std::string, uint64_t>> made_from;
    std::map<uint32_t, double> joules;  // by run
  };
  struct Opened {
    std::shared_ptr<JobRows> rows;
    wire::Inventory about;  // what the job asks besides photos; in the first message
  };

  bool is_current(uint64_t job, uint64_t serial) const {
    const auto it = jobs_.find(job);
    return it != jobs_.end() && it->second.serial == serial;
  }
  void answer(const Job& job, wire::FromStore message);
  void refuse(uint64_t id, const std::string& reason);
  bool has_models(const Job& job);  // asks for those that are not here

  void list(uint64_t id);
  void listed(uint64_t id, Result<StoreInventory> result);
  void open(uint64_t id);
  // On the lane.
  Result<Opened> open(const wire::Job& ask, std::shared_ptr<const StoreInventory> inventory,
                      const std::string& extractor, const std::string& head);
  void opened(uint64_t id, const Result<Opened>& result,
              const std::optional<ModelFetch::Damage>& damage);
  void hash_more(uint64_t id);
  void hashed(uint64_t id, const Result<std::vector<std::optional<uint64_t>>>& result);
  void tell(uint64_t id);
  void make_more(uint64_t id);
  void make(uint64_t id, RowDelivery::Batch batch);
  void wait_for_photos(uint64_t id, const Status& why);
  void photos_are_there();
  void try_photos_again();
  void made(uint64_t id, const RowDelivery::Batch& batch, const Result<JobRows::Made>& made);
  static void add_cost(Job& job, uint32_t run, const JobRows::Made& made);
  static void report_cost(const Job& job, uint32_t run, wire::RunDone& done);

  const Ports ports_;
  uint64_t serials_ = 0;
  size_t listing_ = 0;            // lists on the lane
  Time retry_at_ = Time::max();   // that there may be room for models; max(): there is
  Time photos_at_ = Time::max();  // they may be back; max(): no job waits for them
  bool away_ = false;             // as was said
  std::map<uint64_t, Job> jobs_;  // of this session
  uint64_t rows_made_ = 0, row_bytes_ = 0, photo_bytes_ = 0;
  std::map<std::string, double> stages_;
};

}  // namespace ndtrain::ndp
