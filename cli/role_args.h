// What the verbs of the two roles share.
#pragma once

#include <functional>
#include <string>

#include "cli/args.h"
#include "cli/context.h"
#include "cli/security_args.h"
#include "ndp/http/guard.h"
#include "tuner/jobs/job_spec.h"

namespace ndtrain::cli {
using namespace ndp;
using namespace tuner;

// The flags --http-cert and --http-key.
void declare_http_security(ArgsSpec& args);
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
  std::function<int64_t()> stores = {};  // that it knows, of a job that is for all
};
void read_training(Context& context, const Args& args, JobSpec& spec, const TunerOffers& tuner);

// Of a job that is done: kQuarantined when stores or photos were left out.
int exit_code_of_result(const Json& result);

// Until SIGINT or SIGTERM.
bool told_to_stop();

}  // namespace ndtrain::cli
