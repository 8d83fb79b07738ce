#include "ndp/http/certificate_metrics.h"

#include "framework/tls/pem.h"

namespace ndtrain::ndp {

void add_certificate(MetricsText& to, const std::string& what, const std::string& certificate,
                     bool stale) {
  const auto found = pem::certificates_in(certificate);
  if (found.empty()) return;
  const MetricLabels labels = {{"certificate", what}};
  to.gauge("ndtrain_certificate_expires_seconds", "When the certificate ends, in Unix seconds",
           labels, static_cast<double>(pem::seconds_of(*X509_get0_notAfter(found[0].get()))));
  to.gauge("ndtrain_certificate_stale",
           "Whether its files have something else by now, which does not do: see the log", labels,
           stale);
}

}  // namespace ndtrain::ndp
