#include "tuner/group/member.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "framework/comm/rendezvous.h"
#include "framework/core/publish.h"
#include "ndp/jobs/model_file.h"
#include "tuner/group/group_plan.h"
#include "tuner/group/group_rows.h"
#include "tuner/group/group_rules.h"

namespace ndtrain::tuner {
using namespace ndp;

std::string with_host_of(const std::string& address, const std::string& other) {
  for (const std::string any : {":", "0.0.0.0:", "[::]:"}) {
    if (!address.starts_with(any) || address.starts_with("unix:")) continue;
    const std::string host =
        other.starts_with("unix:") ? "127.0.0.1" : other.substr(0, other.rfind(':'));
    return host + ":" + address.substr(any.size());
  }
  return address;
}

namespace {

using Leaves = std::function<bool()>;
using Say = std::function<void(const std::string& line)>;

// Until it is over, or an Error where `stop` has ended a wait.
FollowEnd train(const MemberSetting& setting, const TrainingPlace& place,
                const std::stop_token& stop, const Leaves& leaves, const Say& say) {
  auto streams = meet_ranks(setting.net,
                            {.rank = place.rank,
                             .ranks = place.ranks,
                             .generation = static_cast<uint32_t>(place.training),
                             .rendezvous = place.rendezvous,
                             .listen = setting.listen,
                             .relay = setting.relay,
                             .site = setting.site,
                             .patience = kMeeting,
                             .stop = stop},
                            setting.clock)
                     .or_throw();
  auto ranks = group_communicator(place.rank, std::move(streams), setting.silence, stop);
  const GroupRules rules = share_rules(*ranks, {.numerics = group_numerics(setting.devices)});
  const std::string file = join(setting.directory, "head.onnx");
  publish(setting.fs, file, rules.head).or_throw();
  Spool spool(setting.fs, setting.clock, join(setting.directory, "rows"), rules.rows, setting.disk,
              rules.spec.view_rule());
  const Device& device = setting.devices.get(true);
  Model head = load_checked_model(setting.fs, file, setting.check).model;
  const auto plan = plan_group(*ranks, rules, head, device, setting.clock, {});
  StateFiles files = files_of(rules, place.job, setting.fs, join(setting.directory, "unsent"));
  std::unique_ptr<RankedTraining> training;
  if (plan) {
    training =
        training_by_stages(rules, *plan, std::move(head), device, std::move(ranks), setting.clock);
    say(fmt::format("job {}: rank {} of {}, whose training has {} stages", place.job, place.rank,
                    place.ranks, plan->stages.size()));
  } else if (is_slow_link(rules.spec.sync)) {
    const auto on_loss = [&](const RegroupedTraining::Loss& loss) {
      say(fmt::format("job {}: rank {} is lost; {} of {} go on", place.job,
                      fmt::join(loss.lost, ", "), loss.left.size(), place.ranks));
    };
    training = training_over_slow_links(rules, std::move(head), device, std::move(ranks),
                                        {.files = files, .site = setting.site, .on_loss = on_loss});
    say(fmt::format("job {}: rank {} of {}, by {}, which has {} of {} shards", place.job,
                    place.rank, place.ranks, rules.spec.sync, training->own_shards().size(),
                    training->shards()));
  } else {
    training = training_by_rows(rules, std::move(head), device, std::move(ranks), setting.clock);
    say(fmt::format("job {}: rank {} of {}, which has {} of {} shards", place.job, place.rank,
                    place.ranks, training->own_shards().size(), training->shards()));
  }
  MemberRows rows(spool, rules.spec, training->row_types(), [&] { return training->epoch(); });
  const FollowEnd ended =
      follow(*training, rows, [&] { return leaves() || stop.stop_requested(); });
  if (ended == FollowEnd::kOver) files.keep_only({});
  say(fmt::format(
      "job {}: {}, {} epochs, {:.1f} MB of rows received, {:.1f} s of waiting for the others",
      place.job,
      ended == FollowEnd::kOver     ? "trained to its end"
      : ended == FollowEnd::kParted ? "its Tuners meet again, another is here"
                                    : "stopped",
      training->epoch(), static_cast<double>(rows.bytes_received()) / 1e6,
      training->communicator().waited_s()));
  return ended;
}

}  // namespace

FollowEnd take_part(const MemberSetting& setting, const TrainingPlace& place,
                    const std::stop_token& stop, const Leaves& leaves, const Say& say) {
  try {
    return train(setting, place, stop, leaves, say);
  } catch (const Error&) {
    if (!stop.stop_requested()) throw;
    say(fmt::format("job {}: stopped while it waited for the others", place.job));
    return FollowEnd::kStopped;
  }
}

}  // namespace ndtrain::tuner
