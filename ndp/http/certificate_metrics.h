// What /metrics says of the certificates of a role.
#pragma once

#include <string>

#include "ndp/http/metrics.h"

namespace ndtrain::ndp {

// Of the first certificate in a PEM text, `what` it is for; none for "". `stale`: the files have
// something else by now, which does not do.
void add_certificate(MetricsText& to, const std::string& what, const std::string& certificate,
                     bool stale);

}  // namespace ndtrain::ndp
