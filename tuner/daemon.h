// The Tuner as a process: the service with real files, links, threads and HTTP around it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/fs.h"
#include "framework/runtime/devices.h"
#include "ndp/http/guard.h"
#include "ndp/http/http_drain.h"
#include "ndp/sandbox/model_sandbox.h"
#include "ndp/sandbox/upload_decoder.h"
#include "ndp/wire/link_security.h"
#include "tuner/jobs/job_conflict.h"
#include "tuner/jobs/job_records.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/watch/watch_rule.h"

namespace ndtrain::tuner {
using namespace ndp;

struct TunerConfig {
  std::string listen = "127.0.0.1:25258";  // for PipeStores and members
  // Where members meet this Tuner while they train with it; "": the same address, one port up, or
  // any port where that is of this machine alone.
  std::string ranks_listen = {};
  std::chrono::milliseconds rank_timeout{30'000};  // of a member that is silent in a training
  std::string site = {};                           // where it is, see sites_of_ranks()
  std::string http = "127.0.0.1:8420";             // for people; "": none
  std::chrono::milliseconds drain = kHttpDrain;    // for requests under way when it stops
  std::string state;                               // directory
  std::string shown_state = {};                    // HttpGuard's `shown`
  std::string db;                                  // labels; "": sqlite:STATE/labels.db
  bool keep_features = true;                       // for later jobs,
  int64_t cache_bytes = 0;                         // so many bytes; 0: a tenth of the volume
  // Which photos are decoded in processes of their own, as many as threads decode, and how: files
  // that stores send count as uploads; see PipeStoreConfig.
  SandboxMode sandbox = SandboxMode::kOff;
  DecoderPool::Config pool = {};
  ModelSandbox::Config model_sandbox = {};  // of all models, unless `sandbox` is kOff
  LinkSecurity security = {};
  HttpSecurity http_security = {};
  // Read both anew while it serves (SecurityReload); empty: they stay. Throw Error.
  std::function<LinkSecurity()> read_security = {};
  std::function<HttpSecurity(const LinkSecurity& in_force)> read_http_security = {};
  std::chrono::nanoseconds scrub{0};      // see StateScrub::Setting::period
  size_t jobs_at_once = kMostJobsAtOnce;  // that may run beside each other: 1 to that
  size_t jobs_kept = kKeptJobs;           // of those that are over
  // Fine-tunings and relabellings by themselves; one rule for a task and a collection.
  std::vector<WatchRule> watch = {};
};

class TunerDaemon {
 public:
  // Throws Error: the state directory is another's, an address is taken.
  TunerDaemon(const TunerConfig& config, Devices& devices, Fs& fs, Clock& clock);
  ~TunerDaemon();

  std::string address() const;  // of its links, with the port the system chose
  std::string http_address() const;
  std::vector<std::string> http_needs() const;  // of its routes: see HttpServer
  Digest add_model(const std::string& path);    // throws Error

  // Serves until `stop` is true and the job in progress has reached a place to go on from. Throws
  // Error when the state directory cannot be written any more.
  void run(const std::function<bool()>& stop);

  struct Outcome {
    bool ended = false;   // not: stopped before
    bool done = false;    // not: failed
    std::string message;  // why it failed
    std::string result;   // JSON
    std::string directory;
  };
  // One job and no more: its lines go to `say`. Then serves until the stores have the version it
  // published, a minute at most. `hurry` is asked while the job waits for stores: it then begins
  // without those that are not ready.
  Outcome run_job(const JobSpec& spec, const std::function<bool()>& stop,
                  const std::function<void(const std::string&)>& say,
                  const std::function<bool()>& hurry = {});

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ndtrain::tuner
