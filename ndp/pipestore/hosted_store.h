// A store in a PipeStore process: one collection of photos, with a state directory, a name and a
// session with the Tuner of its own. What the stores of a process share is given to it. One thread
// owns it; Uploads, SimilarPhotos and add_upload_metrics() are for any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "framework/core/lanes.h"
#include "framework/runtime/devices.h"
#include "ndp/http/metrics.h"
#include "ndp/pipestore/daemon.h"
#include "ndp/pipestore/folder_follower.h"
#include "ndp/pipestore/object_labels.h"
#include "ndp/pipestore/photo_row_producer.h"
#include "ndp/pipestore/photo_scrub.h"
#include "ndp/pipestore/service.h"
#include "ndp/pipestore/shared_models.h"
#include "ndp/pipestore/similar_photos.h"
#include "ndp/pipestore/step_thread.h"

namespace ndtrain::ndp {

class HostedStore {
 public:
  // All outlives it.
  struct Shared {
    Devices& devices;
    Fs& fs;
    Clock& clock;
    SharedModels& models;
    SharedExtractors& extractors;
    UploadPriority& upload_priority;
    PhotoDecoder* decoder;  // see UploadConfig
    ModelCheck* check;      // of models from the Tuner; null: they are imported as they are
    std::function<std::unique_ptr<LinkClient>(LinkId)> dial;
    StoreSession::Time last_retry;      // between dials
    std::function<void()> wake;         // there is something to do; any thread
    std::function<std::string()> http;  // where people reach it; see wire::Space
    // What the Tuner says of who may ask.
    std::function<void(const std::string& json, const std::string& ticket_key)> tokens;
    std::function<Status(const std::set<Digest>& deleted)> forget;  // see UploadConfig
  };

  // Throws Error: the state directory is another's, there is no photo directory.
  HostedStore(const PipeStoreConfig& config, Shared shared);
  ~HostedStore();

  void handle(LinkEvent<wire::ToStore> event) { service_->handle(std::move(event)); }
  void tick();  // after each round of events
  std::chrono::nanoseconds next() const { return service_->next(); }
  void leave(const std::string& reason) { service_->leave(reason); }
  void end_if_revoked(const LinkSecurity& s) { service_->end_if_revoked(s); }
  bool connected() const { return service_->connected(); }

  Uploads& uploads() { return *uploads_; }
  SimilarPhotos& similar() { return *similar_; }
  // `of` is added to the labels of each.
  void add_metrics(MetricsText& to, const MetricLabels& of) const;
  void add_upload_metrics(MetricsText& to, const MetricLabels& of) const;

 private:
  UploadConfig upload_config(const PipeStoreConfig& config);
  PhotoRowConfig row_config(const PipeStoreConfig& config);
  PipeStoreService::Setting setting(const PipeStoreConfig& config);
  Status forget(std::span<const Digest> deleted);
  void follow(const PipeStoreConfig& config);
  wire::Space space(const std::string& directory) const;
  void put_in_force(const std::string& task);

  const Shared shared_;
  const int64_t batch_;
  RadosFs* const rados_;  // null: its photos are elsewhere
  StateDirectory state_;
  StoreTrash trash_;
  std::unique_ptr<UploadLog> log_;
  RingLevels ring_;                              // of the engine that makes rows for jobs
  std::unique_ptr<PhotoScrub> scrub_;            // before what suspects files
  std::unique_ptr<ObjectLabels> object_labels_;  // null: none are written; before what tells it
  std::unique_ptr<PhotoRowProducer> producer_;
  std::unique_ptr<Uploads> uploads_;
  std::unique_ptr<SimilarPhotos> similar_;
  std::unique_ptr<ThreadLanes> lanes_;
  std::unique_ptr<PipeStoreService> service_;
  std::atomic<bool> ending_ = false;
  std::unique_ptr<FolderFollower> follower_;
  std::unique_ptr<FolderThread> folder_;
  std::unique_ptr<StepThread> scrubbing_, labelling_;
};

}  // namespace ndtrain::ndp
