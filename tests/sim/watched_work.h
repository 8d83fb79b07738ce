// The Tuner's real fine-tuning, seen from outside and with bugs where they are asked for.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "tests/sim/bugs.h"
#include "tests/sim/watch.h"
#include "tuner/work/default_job_factory.h"

namespace ndtrain::sim {
using namespace ndp;
using namespace tuner;

class WatchedJobFactory final : public JobFactory {
 public:
  // What there is over the Tuner's deaths: what a buggy sink remembers, say.
  struct Memory {
    std::set<uint64_t> received;
    std::unique_ptr<LabelDb> database = nullptr;  // which is not of this life either
  };

  // `life` counts the Tuner's; `labels` is the url of the label database, "": it is in the memory.
  // Keeps references.
  WatchedJobFactory(const JobContext& context, const Versions& versions, const std::string& labels,
                    Watch& watch, Memory& memory, Bug bug, uint64_t life)
      : context_(context),
        versions_(versions),
        has_url_(!labels.empty()),
        works_(context, versions, labels),
        watch_(watch),
        memory_(memory),
        bug_(bug),
        life_(life) {}

  std::unique_ptr<JobWork> make(uint64_t job, const JobSpec& spec, const std::string& directory,
                                Progress& progress) override;
  LabelDb& labels() { return works_.labels(); }

 private:
  std::unique_ptr<JobWork> make_relabelling(uint64_t job, const JobSpec& spec,
                                            const std::string& directory, Progress& progress);

  JobContext context_;
  const Versions& versions_;
  const bool has_url_;
  DefaultJobFactory works_;
  Watch& watch_;
  Memory& memory_;
  Bug bug_;
  uint64_t life_;
};

}  // namespace ndtrain::sim
