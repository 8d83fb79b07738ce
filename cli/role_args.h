// What the verbs of the two roles share.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "cli/args.h"
#include "cli/context.h"
#include "cli/security_args.h"
#include "cli/tuner_stores.h"
#include "ndp/http/guard.h"
#include "ndp/http/http_drain.h"
#include "ndp/sandbox/upload_decoder.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

// The flags of what protects HTTP, and of how it ends.
void declare_loopback(ArgsSpec& args);
std::string loopback_of(const Args& args);  // own or open; throws UsageError
void declare_http_security(ArgsSpec& args);
// --http-drain. Throws UsageError.
std::chrono::milliseconds drain_of(const Args& args);
// What protects HTTP on `address`, which must have TLS where other machines reach it; `own` serves
// where no other certificate is given. Throws Error.
HttpSecurity http_security_of(Context& context, const Args& args, const std::string& address,
                              const LinkSecurity& own);

// --name, or the host's, or `otherwise` where that is no name. Throws UsageError.
std::string name_of_role(const Args& args, const std::string& otherwise);

// The flags of a fine-tuning that decide its result, and what they say.
void declare_training(ArgsSpec& args, const std::string& runs_flag);
// What the Tuner has for a job; asked when the job is to be planned.
struct TunerOffers {
  std::function<int64_t()>
      room;  // bytes that features may take where no --disk says it; 0: not known
  std::function<TunerStores()> stores = {};  // absent: it knows none yet
  // What POST /jobs/plan says of this job; absent: nobody can be asked.
  std::function<Json(const JobSpec& spec)> plan = {};
};
void read_training(Context& context, const Args& args, JobSpec& spec, const TunerOffers& tuner);

// The flag --scrub, a duration or 0; `what` says what is read in it.
void declare_scrub(ArgsSpec& args, const std::string& what);
std::chrono::nanoseconds scrub_of(const Args& args);  // throws UsageError

// The flag --sandbox; `modes` says what uploads and all are.
void declare_sandbox(ArgsSpec& args, const std::string& modes);
SandboxMode sandbox_of(const Args& args);  // throws UsageError

// Of a job that is done: kQuarantined when stores or photos were left out.
int exit_code_of_result(const Json& result);

// The parts of what was said, of a flag that may be said again, with commas between them.
std::vector<std::string> parts_of(const std::vector<std::string>& lists);

// Until SIGINT or SIGTERM.
bool told_to_stop();

}  // namespace ndtrain::cli
