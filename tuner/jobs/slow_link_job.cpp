#include "tuner/jobs/slow_link_job.h"

#include <optional>

#include "framework/core/json.h"
#include "tuner/jobs/job_reader.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::tuner {
using namespace ndp;

namespace {

template <typename T>
const T& value_of(const T& field) {
  return field;
}
template <typename T>
const T& value_of(const std::optional<T>& field) {
  return *field;
}

}  // namespace

void take_slow_link(JobReader& r, SlowLinkSpec& spec) {
  for_each_setting(spec, [&r](const char* key, auto& field, std::string_view /*methods*/) {
    r.take(key, field);
  });
}

void add_slow_link(Json& j, const SlowLinkSpec& spec) {
  for_each_setting(spec, [&j](const char* key, const auto& field, std::string_view /*methods*/) {
    if (is_asked(field)) j[key] = value_of(field);
  });
}

SlowLinkChoice slow_link_of(const JobSpec& job) {
  const SlowLinkTask task{.sync = job.sync,
                          .trainer = job.trainer,
                          .dry_run = job.dry_run,
                          .passes_apart = job.trainer.accumulate == 1,
                          .one_site_waits = true};
  return slow_link_of(job.slow_link, task, SettingNames::keys());
}

void refuse_slow_link_keys(const JobSpec& job) {
  refuse_slow_link_settings(job.slow_link, job.sync, SettingNames::keys());
}

}  // namespace ndtrain::tuner
