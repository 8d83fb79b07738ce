// A PipeStore as a process: the service with real files, links, threads and HTTP around it; or
// several of them, each of a directory of its own, which share devices, extractors and HTTP.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/runtime/devices.h"
#include "ndp/http/guard.h"
#include "ndp/http/http_drain.h"
#include "ndp/pipestore/uploads.h"
#include "ndp/rados/rados_fs.h"
#include "ndp/sandbox/model_sandbox.h"
#include "ndp/sandbox/upload_decoder.h"
#include "ndp/wire/link_security.h"

namespace ndtrain::ndp {

// What the state directory of a process with several stores is of; each has one below it.
inline constexpr const char* kRoleOfSeveral = "pipestore of several collections";

// The photos of one of several stores in a process. The name can be part of a store's:
// is_store_name().
struct HostedPhotos {
  std::string name;
  std::string directory;
};

struct PipeStoreConfig {
  std::string name;  // unique among the stores of a Tuner
  // To dial: an address, or with commas between them those of a Tuner and of its standbys.
  std::string tuner = "127.0.0.1:25258";
  std::string http = {};                                     // for people; "": none
  std::chrono::milliseconds drain = kHttpDrain;              // for requests under way when it stops
  std::string state;                                         // directory
  std::string photos;                                        // directory
  std::string collection = std::string(kDefaultCollection);  // that these are in, for good
  // Not empty: several stores, each of one of these in place of `photos`. It is called as they are,
  // with @ and `name` behind it, and keeps its state in a directory below `state`, called so too.
  std::vector<HostedPhotos> several = {};
  // Of several: whether all photos are in `collection`; otherwise each is a collection, called as
  // it is. HTTP tells their photos apart by the collection, so where they have one it serves none.
  bool one_collection = false;
  // The Fs that was given, where it reads RADOS, of which stores have what is their host's.
  RadosFs* rados = nullptr;
  bool rados_labels = false;    // labels are written on objects of RADOS (object_labels.h)
  std::string labels = "none";  // see PhotoRowConfig
  int64_t cache_bytes = 0;      // of features and crops, of each store; 0: a tenth of the volume
  bool compress_crops = false;
  int64_t batch = 32;
  uint32_t shard = 0, shards = 1;
  std::string version;  // of the program
  bool watch = true;    // the photo directory, for photos to label; else jobs alone look there
  // Between looks at all of it, in seconds; 0: none but the first. Absent: as its volume asks for.
  std::optional<double> rescan = {};
  std::chrono::nanoseconds scrub{0};  // see PhotoScrub::Setting::period
  // Which photos are decoded in processes of their own, as many as threads decode, and how: by the
  // program that `pool` names, which is this one where it serves decoding (decode_worker.h).
  SandboxMode sandbox = SandboxMode::kOff;
  DecoderPool::Config pool = {};
  ModelSandbox::Config models = {};  // of models from the Tuner, unless `sandbox` is kOff
  UploadConfig uploads = {};         // directory, batch and compress_crops are those above
  LinkSecurity security = {};
  HttpSecurity http_security = {};
  // Read both anew while it serves (SecurityReload); empty: they stay. Throw Error.
  std::function<LinkSecurity()> read_security = {};
  std::function<HttpSecurity(const LinkSecurity& in_force)> read_http_security = {};
};

class PipeStoreDaemon {
 public:
  // Throws Error: the state directory is another's, there is no photo directory.
  PipeStoreDaemon(const PipeStoreConfig& config, Devices& devices, Fs& fs, Clock& clock);
  ~PipeStoreDaemon();

  std::string http_address() const;
  std::vector<std::string> http_needs() const;  // of its routes: see HttpServer

  // Serves until `stop` is true, then says goodbye. Throws Error when the state
  // directory cannot be written any more.
  void run(const std::function<bool()>& stop);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ndtrain::ndp
