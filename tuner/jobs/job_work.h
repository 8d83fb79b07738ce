// What a job of one kind does with the rows that come in. The service calls prepare, manifest, run
// 0 (validation) to the last run, finish, in this order, on a lane of its own; after a restart of
// the Tuner all of them again, so each finds out what is done already.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ndp/jobs/progress.h"
#include "tuner/ingest/row_ingest.h"
#include "tuner/ingest/row_sink.h"
#include "tuner/jobs/job_spec.h"
#include "tuner/models/versions.h"

namespace ndtrain::tuner {
using namespace ndp;

struct JobOutcome {
  std::string result = "{}";            // JSON, for people
  std::optional<PublishedModel> model;  // to publish; its version is not known yet
  // Promotion by rule: it is put in force if this version is (0: none); nullopt: it waits.
  std::optional<uint64_t> instead_of = {};
  std::string figures = {};  // what the rule compared, for people
  std::string why = {};      // and what it says
  bool again = false;  // there is more to the job: its work is made anew, and asks for other rows
};

// What a job asks of the stores; the rest of IngestRules is the spec's.
struct RowRequest {
  wire::Job ask;
  size_t row_bytes = 0;  // of a photo, or of one view of it; 0: rows differ in size
  size_t views = 1;      // of each photo of runs from 1 on
  ManifestRules manifest;
  // The outputs of the extractor that stores run, for a batch of 1; {}: they run none.
  std::vector<TensorType> features = {};
  RowCheck check = {};  // of every row
  // The Tuner has the photos itself: these, and nothing is asked of stores.
  std::optional<std::vector<PhotoClaim>> local = {};
  // Where its manifest and the like are kept, below the job's directory.
  std::string records = {};
};

class JobWork {
 public:
  virtual ~JobWork() = default;

  virtual RowRequest prepare() = 0;  // throws SinkUnavailable, too
  virtual RowSink& sink() = 0;       // after prepare
  virtual void manifest(const Manifest& manifest, const std::vector<std::string>& stores) = 0;
  // All rows of a run are in the sink, but those of photos that nobody could deliver. False:
  // interrupted; called again after a restart.
  virtual bool run(uint32_t run) = 0;
  virtual JobOutcome finish() = 0;
  // The job is done for good: what it kept for going on may go. What others may want of it is left
  // to them until `stop`.
  virtual void discard(const std::function<bool()>& /*stop*/) {}
};

// Makes the work of a job in its directory.
class JobFactory {
 public:
  virtual ~JobFactory() = default;
  // Throws Error; SinkUnavailable: again later.
  virtual std::unique_ptr<JobWork> make(uint64_t job, const JobSpec& spec,
                                        const std::string& directory, Progress& progress) = 0;
};

}  // namespace ndtrain::tuner
