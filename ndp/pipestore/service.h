// A PipeStore: its session with the Tuner, the models it is sent, the jobs it makes rows for, the
// version it has in force. A state machine over injected files, clock, links and lanes, so that a
// simulator can drive it; one thread owns it, and each of its parts. This class only says which
// part is meant:
//
//   TunerConnection    the link and the session over it
//   ModelFetch         model files, on their way here
//   RowJobs            what jobs ask of the photos
//   ModelDeployment    the version in force
//   UploadSender       what people upload here
//   DeletionFollower   photos that people deleted
//   PhotoExchange      files of photos, from and for other stores
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/lanes.h"
#include "ndp/deltas/delta.h"
#include "ndp/pipestore/deletion_follower.h"
#include "ndp/pipestore/model_deployment.h"
#include "ndp/pipestore/model_fetch.h"
#include "ndp/pipestore/photo_exchange.h"
#include "ndp/pipestore/row_jobs.h"
#include "ndp/pipestore/row_producer.h"
#include "ndp/pipestore/store_lanes.h"
#include "ndp/pipestore/trash_follower.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/pipestore/upload_sender.h"
#include "ndp/wire/model_blobs.h"
#include "ndp/wire/state_directory.h"
#include "ndp/wire/tuner_connection.h"

namespace ndtrain::ndp {

class PipeStoreService final : TunerEvents {
 public:
  using Time = TunerConnection::Time;
  static constexpr size_t kLanes = kStoreLanes;

  struct Setting {
    Fs& fs;
    Clock& clock;
    StateDirectory& state;
    Lanes& lanes;
    RowProducer& producer;
    std::function<std::unique_ptr<LinkClient>(LinkId)> dial;
    Time last_retry = StoreSession::kLastRetry;
    // Of photos that people upload, where they may.
    UploadLog* uploads = nullptr;
    std::function<wire::Space()> space = {};
    std::function<void(const std::string& task)> in_force_changed = {};
    DeltaApplier apply = apply_delta;
    // Photos that were deleted elsewhere; durable on return. On a lane.
    std::function<Status(std::span<const Digest>)> forget = {};
    // The Tuner's list, and the key of its tickets, for this store's HTTP.
    std::function<void(const std::string& json, const std::string& ticket_key)> tokens = {};
    StoreTrash* trash = nullptr;  // what it holds is not shown; null: the trash is not followed
    std::function<void(bool back)> trash_changed = {};  // as TrashFollower says it
    PhotoFiles files = {};  // between stores; without: none are given or put right
  };

  // `hello`: name, incarnation, program version and numerics. `seed` spreads retries. Throws Error.
  PipeStoreService(const Setting& setting, wire::Hello hello, uint64_t seed);

  void handle(LinkEvent<wire::ToStore> event) { tuner_.handle(std::move(event)); }
  void tick();
  Time next() const;  // when tick() has something to do
  void leave(const std::string& reason) { tuner_.leave(reason); }  // says so to the Tuner
  void end_if_revoked(const LinkSecurity& security) { tuner_.end_if_revoked(security); }

  bool connected() const { return tuner_.open(); }
  const VersionsInForce& in_force() const { return deployment_.in_force(); }
  std::string model_path(const Digest& model) const { return blobs_.path(model); }
  size_t jobs() const { return jobs_.size(); }
  uint64_t rows_made() const { return jobs_.rows_made(); }
  uint64_t row_bytes() const { return jobs_.row_bytes(); }      // sent, so far
  uint64_t photo_bytes() const { return jobs_.photo_bytes(); }  // read for rows, so far
  uint64_t model_bytes() const { return models_.bytes(); }      // received, so far
  const std::map<std::string, double>& stages() const { return jobs_.stages(); }  // seconds, so far

 private:
  void message(const wire::ToStore& message) override;
  void session_over() override;
  void answer(const wire::Probe& probe);
  void take_tokens(const wire::Tokens& tokens);
  void model_failed(const Status& why);
  void go_on();  // whatever waits for a model, or for nothing any more

  const Setting setting_;
  TunerConnection tuner_;
  ModelBlobs blobs_;
  ModelFetch models_;
  RowJobs jobs_;
  ModelDeployment deployment_;
  UploadSender uploads_;
  DeletionFollower deletions_;
  TrashFollower trash_;
  PhotoExchange exchange_{{setting_.clock, setting_.lanes, tuner_, setting_.files}};
};

}  // namespace ndtrain::ndp
