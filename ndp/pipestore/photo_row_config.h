// What a PipeStore makes rows of, and how.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "framework/core/hash.h"
#include "framework/core/status.h"
#include "ndp/engine/engine.h"
#include "ndp/jobs/model_check.h"
#include "ndp/pipestore/found_photo.h"
#include "ndp/pipestore/job_labels.h"
#include "ndp/pipestore/shared_models.h"
#include "ndp/pipestore/store_trash.h"
#include "ndp/pipestore/upload_log.h"
#include "ndp/pipestore/upload_priority.h"

namespace ndtrain::ndp {

struct PhotoRowConfig {
  std::string photos;      // the directory
  std::string state = {};  // where uploads/ is; "": nobody uploads
  // What the photos show: "none", nobody says; "folder", the first directory on their path (below
  // train or val, where there are such); or a CSV file,class.
  std::string labels = "none";
  std::string cache;        // where the catalogue and the features are kept
  int64_t cache_bytes = 0;  // of features and crops; 0: a tenth of the volume
  bool compress_crops = false;
  int64_t batch = 32;
  RingLevels* ring = nullptr;  // is told how full the engine's is; null: nobody asks
  // Only a part of the photos: those whose path's hash is `shard` modulo `shards`.
  uint32_t shard = 0, shards = 1;
  // What people said of photos here, if anybody can; it counts more than `labels`.
  const UploadLog* uploads = nullptr;
  const StoreTrash* trash = nullptr;  // photos in it are left out; null: there is none
  // Removes photos that were deleted and are there all the same: no scan had seen the file yet, or
  // somebody put it back. Durable on return.
  std::function<Status(std::span<const Digest>)> forget = {};
  // Photos of the directory that a scan finds at new paths, before it counts them as seen; durable
  // on return. On the thread that scans, which has the catalogue: this must not wait for it.
  // Absent: nobody asks.
  std::function<Status(std::span<const FoundPhoto>)> found = {};
  // Labels that jobs make, before their rows are handed on; on the thread that makes them. Absent:
  // nobody asks.
  std::function<void(JobLabels)> labelled = {};
  // How often photos came here that another store had before, as of the last listing. Absent:
  // stores do not hand photos over, and those that were here do not all go at once.
  std::function<uint64_t()> gained = {};
  // The file at this path has other bytes than it was known by; any thread. Absent: nobody asks.
  std::function<void(const std::string& path)> suspect = {};
  UploadPriority* upload_priority = nullptr;  // to those who upload
  SharedModels* models = nullptr;             // of the process; null: each job loads its own

  PhotoDecoder* decoder = nullptr;  // of all photos; null: this process decodes them
  ModelCheck* check = nullptr;      // of jobs' models; null: they are imported as they are

  EngineOptions engine() const { return {.batch = batch, .levels = ring, .decoder = decoder}; }
  PhotoDecoder& decoding() const { return decoder ? *decoder : decoder_in_process(); }
};

}  // namespace ndtrain::ndp
