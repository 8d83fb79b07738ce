// What the verbs of the two roles share.
#pragma once

#include <functional>
#include <string>

#include "cli/args.h"
#include "cli/context.h"
#include "ndp/http/guard.h"
#include "ndp/wire/link_security.h"
#include "tuner/job_spec.h"

namespace ndtrain::cli {

// The flags --ca, --cert, --key and --insecure.
void declare_security(ArgsSpec& args);
// The certificates they name; `address` is where this process listens or dials. Throws Error.
LinkSecurity security_of(Context& context, const Args& args, LinkRole role,
                         const std::string& address);

// The flags --http-cert and --http-key.
void declare_http_security(ArgsSpec& args);
// What protects HTTP on `address`, which must have TLS where other machines reach it; `own` serves
// where no other certificate is given. Throws Error.
HttpSecurity http_security_of(Context& context, const Args& args, const std::string& address,
                              const LinkSecurity& own);

// The flags of a fine-tuning that decide its result, and what they say.
void declare_training(ArgsSpec& args, const std::string& runs_flag);
// `room`: bytes that features may take on the Tuner where no --disk says it; 0: not known. Asked
// when the job is to be planned.
void read_training(Context& context, const Args& args, JobSpec& spec,
                   const std::function<int64_t()>& room);

// Until SIGINT or SIGTERM.
bool told_to_stop();

}  // namespace ndtrain::cli
