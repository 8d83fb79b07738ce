// What several Tuners have to agree on before they train together, and the training that each of
// them then has a part in.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/net.h"
#include "framework/parallel/data_parallel.h"
#include "framework/pipeline/planner/pipeline_plan.h"
#include "framework/pipeline/run/pipeline_training.h"
#include "framework/runtime/devices.h"
#include "framework/sparse/sync/regrouped_training.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {

struct GroupRules {
  JobSpec spec;
  std::string head;                    // the ONNX file of what is trained
  std::vector<std::string> trainable;  // its parameters
  DType compute = DType::kF32;
  Digest rows{};           // names what rows are
  std::string numerics;    // of the Tuner that leads; the others' must be the same
  int64_t least_rows = 0;  // that a step has; only the one that leads knows
};

// What kernels of all that train together are like: see feature_numerics().
std::string group_numerics(Devices& devices);

// Throws Error where the program's device has memory of its own, and the job's exchange is not one
// over slow links, which are staged in memory of the host (host_staged_sync.h).
void check_group_device(Devices& devices, const JobSpec& spec);

// What rank 0 says of these, but for the head and its numerics, and what that was. Untrusted:
// throws Error.
std::string rules_text(const GroupRules& rules);
GroupRules parse_rules(std::string_view text);

// Collective. What rank 0 gives, to all, of which the others give their numerics alone; Error on
// all where these differ. RankLost.
GroupRules share_rules(Communicator& ranks, const GroupRules& rules);

// Of these rules, whose head is in the file `head`, by rows. `say` and `timed` are rank 0's, see
// PlanTuner::Options.
std::unique_ptr<DataParallel> training_by_rows(
    const GroupRules& rules, Model head, const Device& device, std::unique_ptr<Communicator> ranks,
    Clock& clock, std::function<void(const std::string& line)> say = {},
    std::function<void(const ExchangeReport& report)> timed = {});

// What a rank has of its own over slow links.
struct SlowLinkPlace {
  StateFiles files;  // of what it has not sent
  std::string site;  // where it is, see sites_of_ranks()
  RegroupedTraining::OnLoss on_loss = {};
  std::function<void(const std::string& line)> warn = {};  // rank 0's
  std::function<void(const std::string& line)> log = {};   // the same: SlowLinkTraining::Options
};

// The same over slow links, where those that are left go on to another model. Collective. Throws
// Error likewise, and RankLost.
std::unique_ptr<RegroupedTraining> training_over_slow_links(const GroupRules& rules, Model head,
                                                            const Device& device,
                                                            std::unique_ptr<Communicator> ranks,
                                                            SlowLinkPlace place);
// The rank's files there, of the training of one job and no other.
StateFiles files_of(const GroupRules& rules, uint64_t job, Fs& fs, const std::string& directory);

// The same by stages, where a rank that is lost ends it for the others.
std::unique_ptr<PipelineTraining> training_by_stages(
    const GroupRules& rules, const PipelinePlan& plan, Model head, const Device& device,
    std::unique_ptr<Communicator> ranks, Clock& clock,
    std::function<void(const std::string& line)> say = {});
// How one Tuner alone computes the steps: by rows, and where a plan's schedule is synchronous and
// each stage on one Tuner, it trains the same model. No plan: by rows.
TrainerConfig trainer_alone(const GroupRules& rules, const std::optional<PipelinePlan>& plan);

// How long ranks wait for one another to meet.
inline constexpr std::chrono::milliseconds kMeeting{20'000};

// Rank 0 that nobody has come to.
std::unique_ptr<Communicator> nobody_else();

// How they talk: heard of every so often, lost when silent for `silence`. `stop` ends each wait,
// see Communicator::Options.
std::unique_ptr<Communicator> group_communicator(int rank,
                                                 std::vector<std::unique_ptr<Stream>> streams,
                                                 std::chrono::milliseconds silence,
                                                 const std::stop_token& stop = {});

}  // namespace ndtrain::tuner
